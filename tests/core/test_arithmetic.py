"""Arithmetic of DataNodes: values, promotion, broadcasting, constants, indexing, and mistakes."""

import itertools
import operator

import numpy as np
import pytest

from pipeflow import fn, math, newaxis, pipeline_def, types

NUMBERS = [
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
]


def evaluate(function, *arrays, **arguments):
    """The first sample of ``function(nodes of the arrays)``."""

    def define():
        return function(*[fn.external_source(lambda array=array: [array]) for array in map(np.asarray, arrays)])

    pipe = pipeline_def(define, batch_size=1, num_threads=1, **arguments)()
    return pipe.run()[0].at(0)


def expected_type(left, right):
    """The documented promotion, written out as rules of its own."""
    left, right = np.dtype(left), np.dtype(right)
    floats = [dtype for dtype in (left, right) if dtype.kind == "f"]
    if floats:
        return max(floats, key=lambda dtype: dtype.itemsize)
    if left.kind == right.kind:
        return max(left, right, key=lambda dtype: dtype.itemsize)
    signed, unsigned = (left, right) if left.kind == "i" else (right, left)
    return signed if signed.itemsize > unsigned.itemsize else np.dtype(f"int{min(64, 16 * unsigned.itemsize)}")


@pytest.mark.parametrize(("left", "right"), list(itertools.product(NUMBERS, NUMBERS)))
def test_promotion_of_every_pair(left, right):
    """The result has the promoted type and, where it fits, the exact value."""
    result = evaluate(operator.add, np.array([1, 2], left), np.array([3, 4], right))
    assert result.dtype == expected_type(left, right)
    assert result.tolist() == [4, 6]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_python_numbers_are_int32_and_float(dtype):
    """A Python int counts as INT32, a float as FLOAT, a bool as BOOL."""
    array = np.array([1], dtype)
    assert evaluate(lambda x: x + 2, array).dtype == expected_type(dtype, np.int32)
    assert evaluate(lambda x: 2 + x, array).dtype == expected_type(dtype, np.int32)
    assert evaluate(lambda x: x * 2.5, array).dtype == expected_type(dtype, np.float32)
    assert evaluate(lambda x: x + True, array).dtype == dtype


@pytest.mark.parametrize(
    ("function", "arrays", "expected", "dtype"),
    [
        (lambda a, b: a - b, ([1], [3]), [254], np.uint8),
        (lambda a: -a, ([1],), [255], np.uint8),
        (lambda a: ~a, ([1],), [254], np.uint8),
        (lambda a, b: a / b, ([7], [2]), [3.5], np.float32),
        (lambda a, b: a // b, ([7], [2]), [3], np.uint8),
        (lambda a, b: a % b, ([7], [4]), [3], np.uint8),
        (lambda a: a**2, ([20],), [400], np.int32),
        (lambda a: 2**a, ([20],), [1 << 20], np.int32),
        (lambda a: a << 9, ([1],), [512], np.int32),
        (lambda a, b: a << b, ([1], [9]), [0], np.uint8),
        (lambda a: 1024 >> a, ([3],), [128], np.int32),
        (lambda a, b: a & b, ([6], [3]), [2], np.uint8),
        (lambda a, b: a | b, ([6], [3]), [7], np.uint8),
        (lambda a, b: a ^ b, ([6], [3]), [5], np.uint8),
        (lambda a: +a, ([6],), [6], np.uint8),
        (lambda a: abs(a), ([6],), [6], np.uint8),
        (lambda a: 10 - a, ([6],), [4], np.int32),
        (lambda a: 1.5 // a, ([1],), [1.5], np.float32),
        (lambda a: 7 % a, ([4],), [3], np.int32),
        (lambda a: 1 / a, ([4],), [0.25], np.float32),
        (lambda a: 6 & a, ([3],), [2], np.int32),
        (lambda a: 6 | a, ([3],), [7], np.int32),
        (lambda a: 6 ^ a, ([3],), [5], np.int32),
        (lambda a, b: a == b, ([1], [1]), [True], np.bool_),
        (lambda a: a != 1.0, ([1],), [False], np.bool_),
        (lambda a, b: a < b, ([1], [2]), [True], np.bool_),
        (lambda a: a <= 0, ([1],), [False], np.bool_),
        (lambda a: a > 0, ([1],), [True], np.bool_),
        (lambda a: a >= 2, ([1],), [False], np.bool_),
        (lambda a: math.sqrt(a), ([4],), [2.0], np.float32),
        (lambda a: math.floor(a), ([4],), [4.0], np.float32),
        (lambda a, b: math.min(a, b), ([4], [3]), [3], np.uint8),
        (lambda a, b: math.max(a, b), ([4], [3]), [4], np.uint8),
        (lambda a: math.clamp(a, 2, 3), ([9],), [3], np.int32),
        (lambda a: math.pow(a, 3), ([2],), [8], np.int32),
        (lambda a: math.fpow(a, 3), ([2],), [8.0], np.float32),
        (lambda a: math.fabs(a), ([2],), [2.0], np.float32),
    ],
)
def test_values_on_uint8(function, arrays, expected, dtype):
    """Every operator on small unsigned numbers."""
    result = evaluate(function, *[np.array(array, np.uint8) for array in arrays])
    assert result.dtype == dtype
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        (operator.floordiv, [-7, 7, -6], [2, -2, 2], [-3, -3, -3]),  # truncated towards zero
        (operator.mod, [-7, 7, 7], [3, -3, 3], [-1, 1, 1]),  # the sign of the left side
        (operator.pow, [2, 3, 0], [-1, 2, -1], [0, 9, 0]),  # a negative power of an integer is 0
        (operator.rshift, [-4, 5, 8], [1, 1, 2], [-2, 2, 2]),
    ],
)
def test_signed_integers_follow_c(function, left, right, expected):
    """Division and remainder as in C."""
    assert evaluate(function, np.array(left, np.int32), np.array(right, np.int32)).tolist() == expected


def test_floats_divide_and_take_remainders():
    """``//`` of floats divides, ``%`` is C's fmod."""
    left, right = np.array([-7, 7.5], np.float32), np.array([2, -2], np.float32)
    assert evaluate(operator.floordiv, left, right).tolist() == [-3.5, -3.75]
    assert evaluate(operator.mod, left, right).tolist() == [-1.0, 1.5]


FUNCTIONS = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "exp": np.exp, "log": np.log, "log2": np.log2,
    "log10": np.log10, "floor": np.floor, "ceil": np.ceil, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "abs": np.abs, "fabs": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_mathematical_functions(name, dtype):
    """Each function equals NumPy's in the same type."""
    data = np.array([0.25, 0.5, 1.5], dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](data.astype(np.float64))
    result = evaluate(getattr(math, name), data)
    assert result.dtype == dtype
    tolerance = {np.float16: 2e-3, np.float32: 1e-6, np.float64: 1e-14}[dtype]
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance)


def test_broadcasting():
    """Shapes meet as in NumPy, scalars included."""
    left, right = np.arange(6).reshape(2, 3), np.array([10, 20, 30])
    np.testing.assert_array_equal(evaluate(operator.add, left, right), left + right)
    np.testing.assert_array_equal(evaluate(operator.add, left[:, None], np.int64(5)), left[:, None] + 5)
    with pytest.raises(RuntimeError, match="Can't broadcast shapes: 2x3, 4"):
        evaluate(operator.add, left, np.arange(4))


@pytest.mark.parametrize(
    ("function", "arrays", "error", "text"),
    [
        (operator.floordiv, ([1], [0]), ValueError, "Integer division by zero"),
        (operator.mod, ([1], [0]), ValueError, "Integer division by zero"),
        (operator.and_, ([1.5], [2.5]), RuntimeError, "integral type"),
        (lambda a: a << 1.0, ([1],), RuntimeError, "integral type"),
        (operator.add, ([True], [False]), RuntimeError, "Inputs to arithmetic operator `[+]` cannot be booleans"),
        (math.max, ([True], [False]), RuntimeError, "Inputs to arithmetic operator `max` cannot be booleans"),
        (operator.neg, ([True],), RuntimeError, "Input to arithmetic operator `-` cannot be a boolean"),
        (math.log10, ([True],), RuntimeError, "Input to arithmetic operator `log10` cannot be a boolean"),
    ],
)
def test_impossible_arithmetic(function, arrays, error, text):
    """DALI's errors, of its types."""
    with pytest.raises(error, match=text):
        evaluate(function, *map(np.array, arrays))


def test_shifts_of_booleans():
    """They are shifts of 0 and 1."""
    left, right = np.array([True, False, True, True]), np.array([True, True, False, True])
    assert evaluate(operator.lshift, left, right).tolist() == [True, False, True, True]
    assert evaluate(operator.rshift, left, right).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("layouts", "expected"),
    [
        (("HWC", "HWC"), "HWC"),
        (("HWC", "C"), "HWC"),
        (("WC", "HWC"), "HWC"),
        (("", "HWC"), "HWC"),
        (("HWC", "CHW"), None),
        (("HWC", "H"), None),
        (("HW", "HWC"), None),
    ],
)
def test_layouts_of_operands(layouts, expected):
    """The longer one is kept; the other has to be its end."""

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        arrays = [np.ones((1, *[2] * len(letters or "HWC"))) for letters in layouts]
        left, right = [fn.external_source([array], layout=letters) for array, letters in zip(arrays, layouts)]
        return left + right

    if expected is None:
        first, second = layouts
        with pytest.raises(RuntimeError, match=f"Layouts of subexpressions 0 and 1 .* {first!r} and {second!r}"):
            define().run()
    else:
        assert define().run()[0].layout() == expected


@pytest.mark.parametrize("other", ["text", None, ["text"], object()])
def test_strange_operands(other):
    """What is no number is refused when the graph is built."""
    with pytest.raises(TypeError, match="Argument to arithmetic operation not supported"):
        evaluate(lambda x: x + other, [1])


def test_constants():
    """Arrays, typed numbers and constant nodes take part in arithmetic."""
    assert evaluate(lambda x: x + np.array([1, 2]), np.array([1, 1], np.uint8)).tolist() == [2, 3]
    assert evaluate(lambda x: np.array([1, 2]) + x, np.array([1, 1], np.uint8)).tolist() == [2, 3]
    assert evaluate(lambda x: x + types.Constant(1, types.UINT8), np.array([1], np.uint8)).dtype == np.uint8
    assert evaluate(lambda x: x * types.Constant([1.5, 2.5]), np.array([2, 2], np.uint8)).tolist() == [3, 5]
    with pytest.raises(TypeError):
        types.Constant(1) + types.Constant(2)


def test_columns_and_samples_meet():
    """A number per sample combines with images of any shape."""

    @pipeline_def(batch_size=3, num_threads=1)
    def define():
        index = fn.external_source(lambda: [np.full((2, 2), i, np.float32) for i in range(3)])
        scale = fn.random.uniform(range=(1, 2))
        return index * scale, scale, (scale + 1) * 2

    images, scale, twice = define().run()
    np.testing.assert_allclose(images.as_array()[:, 0, 0], scale.as_array() * np.arange(3))
    np.testing.assert_allclose(twice.as_array(), (scale.as_array() + 1) * 2)


DATA = np.arange(24).reshape(2, 3, 4)


def test_true_and_false_are_indices_of_numbers():
    """A bool is 1 or 0 as an index and as a bound of a slice, and an array of one integer is that integer."""
    data = np.arange(24).reshape(2, 3, 4)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def definition():
        x = fn.external_source(lambda: data[None], batch=True, layout="HWC")
        return x[True], x[:, False], x[np.True_ :], x[np.array(1), True]

    outputs = definition().run()
    for output, expected in zip(outputs, (data[1], data[:, 0], data[1:], data[1, 1])):
        np.testing.assert_array_equal(output.at(0), expected)
    assert [output.layout() for output in outputs] == ["WC", "HC", "HWC", "C"]


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        (1, 2),
        (1, 2, 3),
        (slice(None), 1),
        slice(1, None),
        slice(None, -1),
        (slice(None), slice(None, None, -1)),
        (slice(None), slice(None), slice(3, 0, -2)),
        (Ellipsis, 0),
        (0, Ellipsis),
        (Ellipsis, slice(1, 3)),
        (slice(0, 0),),
        None,
        (slice(None), None),
        (0, None, 1),
        Ellipsis,
        (-2, slice(-2, None), -3),
        (slice(5, 9),),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_indexing_like_numpy(index, known):
    """Integers, slices with any step, newaxis and Ellipsis give what NumPy gives."""

    def define():
        arguments = {"ndim": 3} if known else {}
        return fn.external_source(lambda: [DATA], **arguments)[index]

    if (index == (Ellipsis, 0) and not known) or (index == (Ellipsis, slice(1, 3)) and not known):
        with pytest.raises(NotImplementedError, match="number of axes"):
            pipeline_def(define, batch_size=1, num_threads=1)()
        return
    result = pipeline_def(define, batch_size=1, num_threads=1)().run()[0].at(0)
    np.testing.assert_array_equal(result, DATA[index])


def test_new_axes_behind_an_ellipsis_take_no_axis_of_the_data():
    """The Ellipsis stands for as many axes as without them."""
    for index in ((Ellipsis, None), (0, Ellipsis, None, 1), (Ellipsis, None, 1, None)):
        define = lambda index=index: fn.external_source(lambda: [DATA], ndim=3)[index]
        result = pipeline_def(define, batch_size=1, num_threads=1)().run()[0].at(0)
        np.testing.assert_array_equal(result, DATA[index])


def test_indexing_by_nodes():
    """Indices and bounds may differ from sample to sample."""

    @pipeline_def(batch_size=3, num_threads=1)
    def define():
        data = fn.external_source(lambda: [np.arange(10)] * 3)
        index = fn.external_source(lambda: np.array([1, 2, 3]))
        return data[index], data[index : index + 2], data[:index], data[types.Constant(7) :]

    one, pair, head, tail = define().run()
    assert tail.at(0).tolist() == [7, 8, 9]
    assert one.as_array().tolist() == [1, 2, 3]
    assert pair.as_array().tolist() == [[1, 2], [2, 3], [3, 4]]
    assert [sample.tolist() for sample in head.samples()] == [[0], [0, 1], [0, 1, 2]]


def test_indexing_keeps_the_layout():
    """The layout loses the indexed axes and gains the named new ones."""

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        data = fn.external_source(lambda: [np.zeros((4, 5, 3))], layout="HWC")
        return data[0], data[:, 1], data[..., 0], data[newaxis("F")], data[:, newaxis]

    assert [batch.layout() for batch in define().run()] == ["WC", "HC", "HW", "FHWC", ""]


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (5, IndexError, "Index 5 is out of bounds for axis 0 of extent 2"),
        ((0, 0, 0, 0), IndexError, "too many indices: the data has 3 axes and 4 are indexed"),
        ("a", TypeError, "an index must be an integer"),
        (1.5, TypeError, "an index must be an integer"),
        (slice(None, None, 0), ValueError, "step of a slice must not be 0"),
        ((Ellipsis, Ellipsis), IndexError, "only one Ellipsis"),
    ],
)
def test_impossible_indices(index, error, text):
    """Mistakes name the axis and its extent; out of range is an error DALI's RuntimeError catches as well."""
    with pytest.raises(error, match=text) as caught:
        evaluate(lambda x: x[index], DATA)
    if index == 5:
        assert isinstance(caught.value, RuntimeError)


def test_shape_and_properties():
    """shape(), property() and source_info() are batches of their own."""

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        data = fn.external_source(lambda: [np.zeros((2, 3)), np.zeros((4, 5))], layout="HW")
        return data.shape(), data.shape(dtype=types.INT32), data.property("layout"), data.source_info()

    shape, narrow, layout, info = define().run()
    assert shape.as_array().tolist() == [[2, 3], [4, 5]]
    assert (shape.dtype, narrow.dtype) == (types.INT64, types.INT32)
    assert bytes(layout.at(0)) == b"HW"
    assert info.shape() == [(0,), (0,)]


def test_properties_on_the_gpu_need_data_there():
    """The device of the call counts, which is not that of the data here."""
    for of in (lambda x: x.property("layout", device="gpu"), lambda x: x.shape(device="gpu")):
        define = lambda of=of: of(fn.external_source(lambda: [DATA]))
        with pytest.raises(ValueError, match="GPU operator cannot read input 0, which is on the CPU"):
            pipeline_def(define, batch_size=1, num_threads=1, device_id=0)()


def test_unknown_property():
    """Only known properties can be asked for."""
    with pytest.raises(RuntimeError, match="unsupported property key: colour"):
        evaluate(lambda x: x.property("colour"), [1])


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (bool, "conditional execution is off"),
        (iter, "cannot be iterated over"),
        (len, "has no length"),
        (lambda x: 1 in x, "cannot look into"),
        (np.asarray, "not an array"),
        (lambda x: np.sin(x), "DataNode|ufunc"),
    ],
)
def test_what_a_node_is_not(use, text):
    """A node has no truth value, length, elements or array: each attempt says why."""
    with pytest.raises(TypeError, match=text):
        evaluate(lambda x: use(x) and x, [1])


def test_eager_functions():
    """The functions of pipeflow.math work on arrays too."""
    assert math.sqrt(np.array([4.0, 9.0])).tolist() == [2, 3]
    assert math.clamp(np.array([1, 5]), 2, 3).tolist() == [2, 3]


@pytest.mark.parametrize("name", ["FF", "", 3])
def test_the_name_of_a_new_axis_is_one_letter(name):
    """Or there is none, as in an index without a call."""
    with pytest.raises(ValueError, match="the name of an axis is one letter"):
        newaxis(name)
    assert newaxis().name is None
    assert newaxis("F").name == "F"
