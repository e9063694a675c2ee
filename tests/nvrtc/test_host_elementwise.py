"""Casts, arithmetic and mathematical functions on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_cpu, on_host

from pipeflow import fn
from pipeflow.declare import registry
from pipeflow.types import NUMBERS, in_order

TYPES = in_order(NUMBERS)
INTEGERS = [dtype for dtype in TYPES if dtype.kind in "ui"]
FLOATS = [dtype for dtype in TYPES if dtype.kind == "f"]
PAIRS = [(a, b) for a in TYPES for b in TYPES]
FEW = [np.uint8, np.float16, np.float64, np.int64]
# one size below eight elements, one of eights and a rest, one of more than one block
SIZES = [(1, 3), (5, 4), (0, 4), (1, 1), (2741, 3)]


def numbers(dtype, shape, seed=0, low=-120, high=120):
    """Random numbers of a type, among them its limits where there is room."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "f":
        return rng.uniform(low, high, shape).astype(dtype)
    values = np.asarray(rng.integers(max(low, 0) if dtype.kind == "u" else low, high, shape)).astype(dtype)
    if values.size > 4:
        limits = np.iinfo(dtype)
        values.ravel()[:4] = [limits.max, limits.min, limits.max - 1, limits.max // 2]
    return values


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_cast(source, target):
    """Every type to every type, rounded half away from zero and limited to the range."""
    assert_same(lambda: fn.cast([numbers(source, shape) for shape in SIZES], dtype=target))


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", [np.uint8, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_cast_of_halves_and_of_what_does_not_fit(source, target):
    """Exact halves of both signs, infinities, and numbers beyond the range."""
    values = np.concatenate(
        [np.arange(-300, 300) + 0.5, [np.inf, -np.inf, 6e4, -6e4, 1025, 1027], np.linspace(-3, 3, 100)]
    )
    if source.itemsize > 2:
        values = np.concatenate([values, [1e20, -1e20, 2.0**31, 2.0**63, 2.0**64, -(2.0**63), 4294967040.0]])
    assert_same(lambda: fn.cast([values.astype(source)], dtype=target))


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_cast_keeps_large_integers_exact(source, target):
    """No way through a floating type; what does not fit becomes the limit."""
    rng = np.random.default_rng(3)
    values = rng.integers(0, 256, (100, source.itemsize), np.uint8).view(source)
    assert_same(lambda: fn.cast([values], dtype=target))


def test_cast_like():
    """The type of the second input, whatever its shape."""
    assert_same(lambda: fn.cast_like([numbers(np.dtype(np.float32), (70, 3))], [np.zeros(2, np.int8)]))


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=str)
@pytest.mark.parametrize("name", ["mul", "max", "eq", "lt"])
def test_operands_of_all_types(name, left, right):
    """Every pair of types meets in the type that the CPU says; two truth values have no maximum on either device."""

    def call():
        return registry[f"math.{name}"]([numbers(left, (70,))], [numbers(right, (70,), 1)])

    if name == "max" and left.kind == right.kind == "b":
        for device in (on_cpu, on_host):
            with pytest.raises(RuntimeError, match="`max` cannot be booleans"):
                device(call_of(call))
    else:
        assert_same(call)


LIGHT = ["add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype.kind != "b"], ids=str)
@pytest.mark.parametrize("name", [*LIGHT, "div"])
def test_arithmetic_and_comparison(name, dtype):
    """Exactly, wrapping around where integers do."""
    left, right = [numbers(dtype, shape) for shape in SIZES], [numbers(dtype, shape, 1, 1) for shape in SIZES]
    assert_same(lambda: registry[f"math.{name}"](left, right))


@pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(bool)], ids=str)
@pytest.mark.parametrize("name", ["bitand", "bitor", "bitxor", "mul", "ge"])
def test_bits(name, dtype):
    """Bitwise operators of integers and BOOL."""
    assert_same(lambda: registry[f"math.{name}"]([numbers(dtype, (77,))], [numbers(dtype, (77,), 1)]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["shl", "shr"])
def test_shifts(name, dtype):
    """Also by as many bits as the type has, and more."""
    values = numbers(dtype, (80,))
    assert_same(lambda: registry[f"math.{name}"]([values], [np.arange(80).astype(dtype)]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["fdiv", "mod", "pow"])
def test_integer_division_and_powers(name, dtype):
    """Truncated towards zero; powers wrap around and negative ones are 0; the smallest number by -1 as well."""
    left = numbers(dtype, (300,))
    right = numbers(dtype, (300,), 1, -7, 9)
    right[right == 0] = 3
    if dtype.kind == "i":
        right[1] = -1
    assert_same(lambda: registry[f"math.{name}"]([left], [right]))


def test_integer_division_by_zero_gives_0():
    """The CPU refuses it; a kernel cannot."""

    zeros = np.zeros(3, np.int32)
    for name in ("fdiv", "mod"):
        (found,), _ = on_host(call_of(lambda name=name: registry[f"math.{name}"]([np.ones(3, np.int32)], [zeros])))
        np.testing.assert_array_equal(found[0], zeros)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["abs", "plus", "minus", "bitnot", "fabs", "floor", "ceil"])
def test_unary(name, dtype):
    """Exactly, in every type that the operator takes."""
    if (name in ("abs", "minus", "floor", "ceil", "fabs") and dtype.kind == "b") or (
        name == "bitnot" and dtype.kind == "f"
    ):
        with pytest.raises(RuntimeError):
            registry[f"math.{name}"]([numbers(dtype, (3,))])
        return
    assert_same(lambda: registry[f"math.{name}"]([numbers(dtype, shape) for shape in SIZES]))


DOMAINS = {
    "sqrt": (0, 50), "rsqrt": (1, 50), "cbrt": (-50, 50), "exp": (-8, 8), "log": (1, 90), "log2": (1, 90), "log10": (1, 90),
    "sin": (-9, 9), "cos": (-9, 9), "tan": (-1, 1), "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9), "sinh": (-5, 5),
    "cosh": (-5, 5), "tanh": (-5, 5), "asinh": (-9, 9), "acosh": (1, 90), "atanh": (-0.9, 0.9),
}  # fmt: skip
TOLERANCE = {2: 2e-3, 4: 5e-6, 8: 1e-13}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", DOMAINS)
def test_functions(name, dtype):
    """To a few units in the last place."""
    low, high = DOMAINS[name]
    values = [numbers(dtype, shape, 2, low, high) for shape in SIZES]
    tolerance = TOLERANCE[dtype.itemsize]
    assert_same(lambda: registry[f"math.{name}"](values), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@pytest.mark.parametrize("name", ["sqrt", "exp", "atan"])
def test_functions_of_integers(name, dtype):
    """They give FLOAT."""
    values = (np.arange(90) % 9).astype(dtype)
    assert_same(lambda: registry[f"math.{name}"]([values]), rtol=2e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["fdiv", "mod", "pow", "fpow", "atan2"])
def test_binary_functions_of_floats(name, dtype):
    """Division and remainder exactly, powers and angles to a few units in the last place."""
    left, right = numbers(dtype, (90,), 0, 1, 9), numbers(dtype, (90,), 1, -3, 4)
    tolerance = 0.0 if name in ("fdiv", "mod") else TOLERANCE[dtype.itemsize]
    assert_same(lambda: registry[f"math.{name}"]([left], [right]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtypes", [(a, b) for a in FEW for b in FEW])
def test_clamp(dtypes):
    """Three operands, the limits single numbers or arrays."""
    values, other = numbers(np.dtype(dtypes[0]), (5, 30)), np.dtype(dtypes[1])
    low, high = np.array(3, other), numbers(other, (30,), 4, 40, 90)
    assert_same(lambda: registry["math.clamp"]([values], [low], [high]))


SHAPES = [
    ((4, 5, 3), (3,)), ((3,), (4, 5, 3)), ((4, 5, 3), ()), ((), (4, 5, 3)), ((4, 5, 3), (5, 1)), ((4, 5, 3), (4, 1, 1)),
    ((4, 5, 3), (4, 1, 3)), ((4, 1, 3), (1, 5, 1)), ((2, 1, 3, 1, 5), (4, 1, 6, 1)), ((1, 1), (1,)), ((7, 1), (1, 9)),
    ((0, 3), (3,)), ((1, 0), (5, 1)), ((2, 3, 4, 5), (3, 1, 5)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtypes", [(np.float32, np.float32), (np.uint8, np.float32), (np.int16, np.uint64)])
def test_broadcasting(shapes, dtypes):
    """NumPy's rules, each sample with its own shapes."""
    left = [numbers(np.dtype(dtypes[0]), shape) for shape in (shapes[0], [1] * len(shapes[0]))]
    right = [numbers(np.dtype(dtypes[1]), shapes[1], seed) for seed in (1, 2)]
    assert_same(lambda: registry["math.sub"](left, right))
    assert_same(lambda: registry["math.gt"](left, right))


def test_nan_wins_in_minimum_and_maximum():
    """As in NumPy, whichever side it is on; a comparison with it is false."""
    left, right = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 1], np.float32)
    for name in ("min", "max", "lt", "ne", "eq"):
        assert_same(lambda name=name: registry[f"math.{name}"]([left], [right]))


def test_what_was_planned_for_equal_shapes_is_planned_once(monkeypatch):
    """Items of the same shapes share shapes, arguments and plans; each has its own memory and results."""
    op = registry["reductions.mean"]
    asked = []
    infer = op.infer_hook
    monkeypatch.setattr(op, "infer_hook", lambda specs, args: asked.append(specs) or infer(specs, args))
    call = call_of(
        lambda: fn.reductions.mean([numbers(np.dtype(np.uint8), (5, 6 + n % 2), n) for n in range(8)], axes=0)
    )
    asked.clear()
    (found,), _ = on_host(call)
    assert len(asked) == 2
    for array, values in zip(call.inputs[0], found, strict=True):
        np.testing.assert_allclose(values, array.mean(0), rtol=1e-6)


ARITHMETIC = ["add", "sub", "mul", "min", "max", "div"]


def kernels_of(name, left, right):
    """The kernels of an operator; its results are compared with those of the CPU."""
    launches: list[str] = []
    assert_same(lambda: registry[f"math.{name}"](left, right))
    on_host(call_of(lambda: registry[f"math.{name}"](left, right)), launches)
    return {launch.partition("<")[0] for launch in launches}


@pytest.mark.parametrize("dtypes", [(a, b) for a in (np.uint8, np.float32) for b in (np.uint8, np.float32)], ids=str)
@pytest.mark.parametrize("name", [*ARITHMETIC, "eq", "ne", "lt", "le", "gt", "ge"])
def test_bytes_and_floats(name, dtypes):
    """A kernel of their own: whole arrays of several rounds and of a rest, single numbers, and one for each channel."""
    left_type, right_type = np.dtype(dtypes[0]), np.dtype(dtypes[1])
    images = [numbers(left_type, shape) for shape in [(70, 91, 3), (1, 4, 3), (64, 64, 3)]]
    others = [numbers(right_type, x.shape, 1, 1) for x in images]
    known = {"arithmetic.cu:arithmetic_values"}
    if name in ("eq", "ne", "lt", "le", "gt", "ge") and dtypes == (np.float32, np.uint8):
        known = {"pointwise.cu:arithmetic"}
    assert kernels_of(name, images, others) == known
    channels, single = (
        [numbers(right_type, (3,), 2, 1) for _ in images],
        [numbers(right_type, (), 3, 1) for _ in images],
    )
    assert kernels_of(name, images, channels) == known
    assert kernels_of(name, images, [x[None, None] for x in channels]) == known
    assert kernels_of(name, images, single) == known
    if right_type == left_type:
        assert kernels_of(name, single, images) == known
        assert kernels_of(name, channels, images) == known


def test_other_forms_of_bytes_and_floats():
    """Rows, two operands that both grow, one value a pixel, vectors and NaN."""
    image = numbers(np.dtype(np.float32), (6, 5, 3))
    general = {"pointwise.cu:arithmetic"}
    assert kernels_of("add", [image], [image[:1].copy()]) == general
    assert kernels_of("add", [image[:, :1].copy()], [image[:1].copy()]) == general
    assert kernels_of("add", [image], [image[:, :, :1].copy()]) == general
    assert kernels_of("add", [image[0, 0]], [image[0, 0]]) == {"arithmetic.cu:arithmetic_values"}
    nan = [np.array([np.nan, 1, 2] * 5000, np.float32)]
    assert kernels_of("min", nan, [np.array(1, np.float32)]) == {"arithmetic.cu:arithmetic_values"}
