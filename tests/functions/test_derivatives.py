"""fn.gradients through operators: arithmetic, functions, casts, indexing and branches, against finite differences."""

import numpy as np
import pytest

from pipeflow import fn, math, newaxis, pipeline_def, types
from pipeflow.declare import registry

BATCH = 4
STEP = 1e-6


def points(low=0.2, high=0.9):
    """Samples of three numbers, two inputs."""
    rng = np.random.default_rng(3)
    return [[rng.uniform(low, high, 3) for _ in range(BATCH)] for _ in range(2)]


def derivatives(function, left, right, **options):
    """The derivatives by both inputs that a pipeline computes, sample by sample."""

    @pipeline_def(batch_size=len(left), num_threads=2, **options)
    def definition():
        x, y = fn.external_source(lambda: left), fn.external_source(lambda: right)
        return tuple(fn.gradients(function(x, y), [x, y]))

    return [[np.array(sample) for sample in out.samples()] for out in definition().run()]


def differences(function, left, right):
    """The same by moving every number a little, computed without a pipeline."""
    found = []
    for which in (0, 1):
        rows = []
        for pair in zip(left, right):
            row = np.zeros_like(pair[which])
            for place in np.ndindex(row.shape):
                ends = []
                for sign in (1, -1):
                    moved = [np.array(x) for x in pair]
                    moved[which][place] += sign * STEP
                    ends.append(np.sum(np.asarray(function(*moved), np.float64)))
                row[place] = (ends[0] - ends[1]) / (2 * STEP)
            rows.append(row)
        found.append(rows)
    return found


def agree(function, left, right, plain=None, **options):
    """Compares both, all samples of both inputs."""
    for mine, expected in zip(
        derivatives(function, left, right, **options), differences(plain or function, left, right)
    ):
        for one, other in zip(mine, expected):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


ONE = ["abs", "fabs", "sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos"]
ONE += ["atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil"]
TWO = ["min", "max", "pow", "fpow", "atan2"]


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name):
    """Each by its declared derivative."""
    function, shift = getattr(math, name), 1.1 if name == "acosh" else 0.0
    agree(lambda x, y: function(x + shift) * y, *points())


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name):
    """By either of them."""
    agree(getattr(math, name), *points())


def test_a_clamp_passes_derivatives_to_what_it_gives():
    """To the value inside, to the limits outside."""
    agree(lambda x, y: math.clamp(x, y, y + 0.2), *points())
    agree(lambda x, y: math.clamp(y, 0.4, x), *points())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y - 2 * x * y, lambda x, y: x / y + 3 / x, lambda x, y: -x * +y + abs(y), lambda x, y: x**2 + y**x,
        lambda x, y: x % 0.3 + y, lambda x, y: 2**x * y, lambda x, y: x * x * x + y * x, lambda x, y: (x - y) ** 3,
    ],
)  # fmt: skip
def test_arithmetic_with_numbers_of_python(function):
    """Constants have no derivative and are part of that of the others; a node read twice gets the sum."""
    agree(function, *points())


def test_floats_are_divided_by_the_operator_of_whole_numbers():
    """As in C; so has its derivative to be."""
    agree(lambda x, y: x // y, *points(), lambda x, y: x / y)


def test_operands_that_are_repeated():
    """The derivative of a broadcast operand is the sum over what it was repeated along."""
    rng = np.random.default_rng(1)
    left = [rng.normal(size=(2, 1, 3)) for _ in range(2)]
    agree(lambda x, y: x * y + x, left, [rng.normal(size=(4, 1)) for _ in range(2)])
    agree(lambda x, y: x * y, left, [rng.normal(size=()) for _ in range(2)])


def test_indices_and_shapes():
    """Numbers, ranges with steps, new axes, per-sample indices, reshape; what is not read has a derivative of 0."""
    rng = np.random.default_rng(2)
    left, right = ([rng.normal(size=(4, 5)) for _ in range(3)] for _ in range(2))
    agree(lambda x, y: x[1] * y[-1] + x[0], left, right)
    agree(lambda x, y: x[::2, 1:-1] * y[1:3, 3:0:-1], left, right)
    agree(
        lambda x, y: fn.reshape(x, shape=[20]) * fn.reshape(y, shape=[20]) + 1,
        left, right, lambda x, y: x.reshape(20) * y.reshape(20) + 1,
    )  # fmt: skip
    agree(
        lambda x, y: fn.squeeze(x[newaxis], axes=[0]) * fn.expand_dims(y, axes=0)[0],
        left, right, lambda x, y: x * y,
    )  # fmt: skip


def test_casts_between_types_with_fractions():
    """A derivative has the type of its x, whatever lies between."""
    left, _ = points()

    @pipeline_def(batch_size=BATCH, num_threads=1)
    def definition():
        x = fn.external_source(lambda: left)
        narrow = fn.cast(x, dtype=types.FLOAT)
        return tuple(fn.gradients(fn.cast(narrow * 3, dtype=types.FLOAT64), [x, narrow]))

    wide, narrow = definition().run()
    assert (wide.dtype, narrow.dtype) == (types.FLOAT64, types.FLOAT)
    assert np.array(wide.as_array()).tolist() == np.full((BATCH, 3), 3.0).tolist()


@pytest.mark.parametrize("polarity", [False, True])
def test_branches_that_depend_on_x(polarity):
    """Each sample goes back through its own branch; the predicate has no derivative, also where it reads an x."""
    rng = np.random.default_rng(4)
    left, right = ([np.array(value) for value in rng.uniform(0.5, 3, 8)] for _ in range(2))

    def branched(x, y):
        if x > y:
            z = x * x * y
        elif polarity:
            z = y
        else:
            z = math.sin(x) + y
        return z * x

    def plain(x, y):
        return (x * x * y if x > y else y if polarity else np.sin(x) + y) * x

    agree(branched, left, right, plain, enable_conditionals=True)


def test_nested_branches_and_values_of_outer_ones():
    """A node made before the branches is read in several of them: its derivative is the sum of those of its samples."""
    rng = np.random.default_rng(5)
    left, right = ([np.array(value) for value in rng.uniform(0.5, 3, 12)] for _ in range(2))

    def branched(x, y):
        outer = x * y
        z = outer
        if x > 1.5:
            if y > 1.5:
                z = outer * x
            else:
                z = outer + y * y
            z = z * 2.0
        return z + outer

    def plain(x, y):
        outer = x * y
        return ((outer * x if y > 1.5 else outer + y * y) * 2 if x > 1.5 else outer) + outer

    agree(branched, left, right, plain, enable_conditionals=True)


def test_a_derivative_inside_a_branch():
    """It is there for the samples of the branch."""
    left = [np.array(float(value)) for value in range(4)]

    @pipeline_def(batch_size=4, num_threads=1, enable_conditionals=True)
    def definition():
        x = fn.external_source(lambda: left, dtype=types.FLOAT64, ndim=0)
        if x > 1:
            (found,) = fn.gradients(x * x, [x])
        else:
            found = x * 0
        return found

    assert [x.tolist() for x in map(np.array, definition().run()[0].samples())] == [0, 0, 4, 6]


def test_derivatives_by_results_and_of_several():
    """An x may be a result, and ys are summed; several calls of fn.gradients share their functions."""
    left, right = points()

    @pipeline_def(batch_size=BATCH, num_threads=1)
    def definition():
        x, y = fn.external_source(lambda: left), fn.external_source(lambda: right)
        middle = x * y
        end = middle * middle
        return *fn.gradients([end, middle], [middle, x]), *fn.gradients(end, y)

    by_middle, by_x, by_y = [np.array(out.as_array()) for out in definition().run()]
    x, y = np.array(left), np.array(right)
    np.testing.assert_allclose(by_middle, 2 * x * y + 1)
    np.testing.assert_allclose(by_x, (2 * x * y + 1) * y)
    np.testing.assert_allclose(by_y, 2 * x * y * x)


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (lambda x: fn.flip(x), ValueError, r"fn\.flip .* has no derivative; fn\.py_function, arithmetic, casts"),
        (lambda x: fn.cast(x > 0, dtype=types.FLOAT), ValueError, "no y depends on x 0|does not depend on any x"),
        (lambda x: fn.cast(fn.cast(x, dtype=types.INT32), dtype=types.FLOAT), TypeError, r"int32, and gradients need"),
        (lambda x: fn.gradients(x * x, [x])[0], ValueError, "second derivative"),
    ],
)
def test_what_has_no_derivative_is_named(function, kind, text):
    """When the pipeline is built where that is known, else with the first sample; with the user's lines."""

    @pipeline_def(batch_size=1, num_threads=1)
    def definition():
        x = fn.external_source(lambda: [np.float32([[[1, 2]]])], layout="HWC")
        return fn.gradients(function(x), [x])[0]

    with pytest.raises(kind, match=text) as caught:
        definition().run()
    assert "test_derivatives.py" in "\n".join(caught.value.__notes__)


def test_every_function_of_mathematics_has_a_derivative_or_is_known_to_have_none():
    """A new one is declared in operators/derivatives.py."""
    stepwise = {"bitand", "bitor", "bitxor", "bitnot", "shl", "shr"}
    none = [name for name, op in registry.items() if name.startswith("math.") and op.flows is None]
    assert {name.removeprefix("math.") for name in none} == stepwise


@pytest.mark.adapters
def test_functions_and_operators_in_one_chain():
    """Through an operator, a function of torch and an operator again."""
    torch = pytest.importorskip("torch")

    def function(x, y):
        return fn.py_function(lambda a: torch.sin(a) * a, [x * y + 1], np.float64) / y

    agree(function, *points(), lambda x, y: np.sin(x * y + 1) * (x * y + 1) / y)
