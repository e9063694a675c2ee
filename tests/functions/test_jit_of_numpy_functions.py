"""jit="auto": functions that NumPy's own code computes, reductions along axes and random numbers give the bits of NumPy."""

import itertools
import math

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.kernels import cpu
from pipeflow.operators.functions import compiling

pytestmark = pytest.mark.usefixtures("own_trials")
trials = cpu.tried_functions
RNG = np.random.default_rng(8)
SHAPES = {
    1: [(1,), (7,), (300,), (9000,)],
    2: [(1, 1), (3, 200), (200, 3), (1, 50), (40, 170)],
    3: [(2, 3, 4), (1, 60, 3), (40, 50, 3), (3, 1, 200)],
}


def same(left, right):
    """Compiled code returns Python's numbers, which get the type of those of the plain function."""
    if isinstance(right, tuple):
        for one, other in zip(left, right, strict=True):
            same(one, other)
        return
    left = type(right)(left) if isinstance(right, np.generic) else left
    left, right = np.asarray(left), np.asarray(right)
    assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def numbers(shape, dtype, scale=60):
    found = RNG.standard_normal(shape) * scale
    return found.astype(dtype) if np.dtype(dtype).kind != "u" else np.abs(found).astype(dtype)


def compiled(source):
    """A function of x with this source, and its compiled version."""
    namespace = {"np": np, "math": math}
    exec(f"def function(x): return {source}", namespace)
    function = namespace["function"]
    return function, cpu.exact_functions.compiled(function, True)


def axes_of(ndim):
    return [*range(ndim), *itertools.combinations(range(ndim), 2)]


REDUCTIONS = [
    (name, ndim, axis)
    for ndim in SHAPES
    for axis in axes_of(ndim)
    for name in ("sum", "mean", "std", "var", "max", "min", "any", "all", "argmax", "argmin")
    if not (name.startswith("arg") and isinstance(axis, tuple))
    and not (name in ("max", "min", "any", "all") and (ndim, axis) == (3, (0, 2)))  # these need axes next to each other
]
FAST_REDUCTIONS = [("mean", 3, (0, 1)), ("argmax", 2, 1), ("std", 2, 0)]


@pytest.mark.parametrize(
    ("name", "ndim", "axis"),
    [pytest.param(*case, marks=() if case in FAST_REDUCTIONS else pytest.mark.slow) for case in REDUCTIONS],
)
def test_reductions_along_axes(name, ndim, axis):
    """Sums of floats are added in NumPy's order: in pairs along the last axis, row by row along others."""
    keeps = ", keepdims=True" if (len(name) + ndim) % 2 and not name.startswith("arg") else ""
    function, made = compiled(f"x.{name}(axis={axis}{keeps})")
    for shape, dtype in itertools.product(SHAPES[ndim], (np.float32, np.uint8)):
        x = numbers(shape, dtype)
        same(made(x), function(x))


@pytest.mark.parametrize("source", ["x.sum(axis=0)", "x.mean(axis=1)", "x.max(axis=1)", "x.std(axis=0)"])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_reduction_that_gives_no_number_is_left_to_numpy(source):
    """The bits of a NaN depend on NumPy's loops."""
    _, made = compiled(source)
    x = numbers((5, 9), np.float32)
    x[2, 3] = np.nan
    with pytest.raises(ValueError, match="number"):
        made(x)


ELEMENTWISE = [
    *(
        f"np.{name}(x)"
        for name in ("exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tanh", "arctan", "cbrt")
    ),
    *(
        "x ** 3",
        "x ** 0.45",
        "x ** 0.5",
        "np.power(x, 1.7)",
        "np.arctan2(x, x + 1)",
        "np.hypot(x, x)",
        "10 ** (x / 20)",
    ),
    *("x * math.exp(-0.3)", "x * math.cos(0.2) ** 1.5", "np.exp(x[0])", "np.exp(0.5) * x", "np.log(len(x)) * x"),
    "np.clip(np.exp(-x), 0.1, 0.9)",
]


@pytest.mark.parametrize(
    "source", [pytest.param(one, marks=() if "exp" in one else pytest.mark.slow) for one in ELEMENTWISE]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_elements(source):
    """Of any number of elements, also of infinities, NaN and zeros with a sign."""
    function, made = compiled(source)
    for count, dtype in itertools.product((1, 2, 5, 16, 17, 33, 1000), (np.float32, np.float64)):
        x = np.abs(numbers(count, dtype, 3)) + dtype(0.01)
        if source not in ("10 ** (x / 20)",):
            x[::7] *= np.resize(np.array([1, -1, 0, -0.0, np.inf, np.nan], dtype), len(x[::7]))
        same(made(x), function(x))


@pytest.mark.parametrize("source", ["np.log(x)", "np.sin(x)"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16])
def test_functions_of_integers(source, dtype):
    """NumPy computes them with float64, those of 16 bits with float32."""
    function, made = compiled(source)
    x = np.arange(1, 40).astype(dtype)
    same(made(x), function(x))


def test_arrays_with_gaps_are_not_compiled():
    """NumPy computes some of them with other loops."""
    _, made = compiled("np.exp(x[::2])")
    with pytest.raises(Exception, match=r"exp\(array\(float32, 1d, A\)"):
        made(np.ones(9, np.float32))


def power_by_chance(x, rng):
    return x ** rng.uniform(0.5, 2.0)


def noise(x, rng):
    return x + rng.normal(0, 0.1, x.shape)


def one_normal(x, rng):
    return x * (1 + rng.normal(scale=0.2)) + rng.standard_normal()


def short_noise(x, rng):
    return x + rng.standard_normal(x.shape, dtype=np.float32)


def mixing_weights(x, rng):
    return x * rng.beta(0.2, 0.2) + rng.exponential(2.0) * rng.laplace() + rng.lognormal(0.1, 0.2)


def in_another_order(x, rng):
    return x[rng.permutation(len(x))], rng.permutation(x)


def some_of_a_shuffled_list(x, rng):
    places = np.arange(len(x))
    rng.shuffle(places)
    return x[places[:3]]


def rows_in_another_order(x, rng):
    y = x.reshape(-1, 1) * np.ones((1, 3), np.float32)
    rng.shuffle(y)
    return y


def a_choice(x, rng):
    return x * rng.choice([0.5, 1.0, 2.0]), rng.choice(x), rng.choice(x, 4), rng.choice(7)


def different_places(x, rng):
    return rng.choice(len(x), size=min(5, len(x)), replace=False), rng.choice(x, 2, replace=False)


def of_many(x, rng):
    return rng.choice(20000, 700, replace=False), rng.choice(20000, 30, replace=False)


DRAWN = [
    *(power_by_chance, noise, one_normal, short_noise, mixing_weights, in_another_order, some_of_a_shuffled_list),
    *(rows_in_another_order, a_choice, different_places, of_many),
]


@pytest.mark.parametrize("function", DRAWN)
def test_numbers_of_the_generator(function):
    """Compiled code draws the same numbers, and leaves the generator in the same state."""
    made = cpu.exact_functions.compiled(function, True)
    for seed in range(300):
        x = np.abs(numbers(2 + seed % 40, np.float32)) + np.float32(1)
        one, two = (np.random.Generator(np.random.SFC64(seed)) for _ in range(2))
        found, wanted = made(x, one), function(x, two)
        same(found, wanted)
        assert str(one.bit_generator.state) == str(two.bit_generator.state)


@pytest.mark.parametrize("function", [noise, mixing_weights, in_another_order, different_places])
@pytest.mark.parametrize("threads", [1, 2])
def test_numbers_of_the_generator_in_a_pipeline(function, threads):
    """Compiled code that is called from the chain of a pipeline draws them too."""
    samples = [numbers(20 + part, np.float32) for part in range(8)]
    count = 1 if function in (noise, mixing_weights) else 2

    def results(jit):
        def definition():
            data = fn.external_source(lambda: samples)
            made = fn.python_function(data, function=function, num_outputs=count, jit=jit)
            return made if count == 1 else tuple(made)

        pipe = pipeline_def(batch_size=8, num_threads=threads, device_id=None, seed=2)(definition)()
        pipe.build()
        found = []
        for batch in range(14):
            found += [np.asarray(output.at(place)).tobytes() for output in pipe.run() for place in range(8)]
            if not batch:
                trials.wait_for_trials()
        return found

    assert results("auto") == results(False)
    assert compiling.trials_of(function, "auto")[0][0] == "compiled"


CLIPPED = ["np.clip(x, 0, 1)", "x.clip(-1, 1)", "x.clip(x[0], x[0] + 3)", "np.clip(x, None, 1)"]


@pytest.mark.parametrize(
    ("source", "dtype"), [*itertools.product(CLIPPED, [np.float32, np.int16]), ("np.clip(x, -0.5, 2)", np.float32)]
)
def test_clip(source, dtype):
    """Zeros keep their signs, and NaN stays."""
    function, made = compiled(source)
    x = numbers((6, 5, 3), dtype, 2)
    if dtype is np.float32:
        x[1, 1] = [-0.0, 0.0, np.nan]
    x = x.ravel() if "x[0]" in source else x
    same(made(x), function(x))


def softmax(x):
    z = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def standardized(x):
    return (x - x.mean(axis=(0, 1))) / (x.std(axis=(0, 1)) + 1e-6)


def mu_law(x):
    y = np.sign(x) * np.log1p(255.0 * np.abs(x)) / np.log1p(255.0)
    return (y * 127).astype(np.int8)


def centres_and_sizes(x):
    left, top, right, bottom = x[:, 0], x[:, 1], x[:, 2], x[:, 3]
    return np.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], axis=1)


def between_marks(x):
    return np.concatenate(([1], x[:, 0].astype(np.int64), [2]))


def box_of_a_mask(x):
    mask = x > 50
    rows, columns = np.any(mask, axis=1), np.any(mask, axis=0)
    if not rows.any():
        return np.zeros(4, np.int64)
    y, z = np.flatnonzero(rows), np.flatnonzero(columns)
    return np.array([z[0], y[0], z[-1], y[-1]])


@pytest.mark.parametrize(
    "function",
    [
        *[softmax, mu_law, centres_and_sizes, between_marks, box_of_a_mask],
        pytest.param(standardized, marks=pytest.mark.slow),
    ],
)
def test_functions_as_people_write_them(function):
    made = compiling.version_of(function, "auto")
    for number in range(trials.CHECKED + 10):
        x = numbers((30, 1 + number % 7, 3) if function is standardized else (number % 9 + 1, 5), np.float32)
        x = np.tanh(x) if function is mu_law else x
        same(made(x), function(x))
        if not number:
            trials.wait_for_trials()
    assert [report.state for report in made.reports()] == ["compiled"], made.reports()[0].reason


def test_an_array_with_gaps_is_computed_by_numpy():
    """It adds numbers in another order than those of a contiguous array."""

    def total(x):
        return x.sum()

    made = compiling.version_of(total, "auto")
    for number in range(trials.CHECKED + 10):
        x = numbers((50, 30), np.float32)
        for each in (x, x[::2], x.T):
            same(made(each), total(each))
        if not number:
            trials.wait_for_trials()


CLASSES = {0: 0, 7: 1, 11: 2}
SETTINGS = {"low": 10, "gain": 1.5, "mode": "bright", "mean": (0.5, 0.25, 0.5)}
WEIGHTS = [0.299, 0.587, 0.114]


def renamed_classes(x):
    out = np.full(x.shape, 255, np.uint8)
    for old, new in CLASSES.items():
        out[x == old] = new
    return out


def looked_up(x):
    out = np.zeros(len(CLASSES), np.int64)
    for place in range(x.shape[0]):
        number = int(x[place, 0])
        if number in CLASSES:
            out[CLASSES[number]] += 1
    return out


def by_settings(x):
    if SETTINGS["mode"] == "bright":
        return np.clip(x * SETTINGS["gain"], SETTINGS["low"], 200) - np.array(SETTINGS["mean"])
    return x.astype(np.float64)


def weighed(x):
    total = np.zeros(x.shape[0])
    for place, weight in enumerate(WEIGHTS):
        total += x[:, place] * weight
    return total


@pytest.mark.parametrize("function", [renamed_classes, looked_up, by_settings, weighed])
def test_lists_and_dictionaries_from_outside(function):
    """They are constants of the compiled code, as long as their items stay the same."""
    made = compiling.version_of(function, "auto")
    for number in range(trials.CHECKED + 10):
        x = (RNG.random((1 + number % 8, 3)) * 14).astype(np.uint8)
        same(made(x), function(x))
        if not number:
            trials.wait_for_trials()
    assert [report.state for report in made.reports()] == ["compiled"], made.reports()[0].reason
    for outside, key, value in ((CLASSES, 7, 4), (SETTINGS, "gain", 2), (WEIGHTS, 1, 3.0)):
        before = outside[key]
        try:
            outside[key] = value
            same(made(x), function(x))
        finally:
            outside[key] = before


def checked(x):
    if x.ndim != 2:
        raise ValueError(f"two axes, not {x.shape} of {x.dtype}")
    return x * 2


def fallback(x):
    try:
        return x[4] + x[0]
    except IndexError:
        return x[0] * 3


def with_a_cause(x):
    try:
        part = x.astype(np.float32) / x.shape[0]
    except ValueError as error:
        raise RuntimeError(f"{x.shape}") from error
    finally:
        scale = np.float32(2)
    return part * scale


def divided(x):
    return x.astype(np.int32) // (x.shape[0] - 2)


@pytest.mark.parametrize("function", [checked, fallback, with_a_cause, divided])
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_exceptions_in_functions(function):
    """Compiled code has no handlers: the plain function computes a sample for which it raises."""
    made = compiling.version_of(function, "auto")
    rare = (1, 2, 3, 0)
    for number in range(trials.CHECKED + 20):
        x = numbers((rare[number // 20 % 4] if number % 20 == 19 else 6, 3), np.uint8)
        if len(x) or function is not fallback:
            same(made(x), function(x))
        if not number:
            trials.wait_for_trials()
    assert [report.state for report in made.reports()] == ["compiled"], made.reports()[0].reason


@pytest.mark.parametrize(
    "source",
    [
        "x[1:, 2:] + x[:-1, :-2]",
        "x[:, ::-1] * np.float32(0.5) - x[:, 1:2]",
        "x[..., ::-1] > x",
        pytest.param("x[::2, :, 1:] * x[0, 0, 1:]", marks=pytest.mark.slow),
        pytest.param("x.transpose(1, 0, 2)[1:] / np.float32(3)", marks=pytest.mark.slow),
    ],
)
def test_parts_of_images(source):
    """Operations on arrays with gaps between their elements."""
    function, made = compiled(source)
    for shape in ((1, 3, 3), (7, 6, 3), (2, 9, 4)):
        x = numbers(shape, np.float32)
        same(np.ascontiguousarray(made(x)), np.ascontiguousarray(function(x)))


def blurred(x):
    wide = np.pad(x.astype(np.uint16), ((1, 1), (1, 1), (0, 0)), mode="edge")
    total = np.zeros(x.shape, np.uint16)
    for row in range(3):
        for column in range(3):
            total += wide[row : row + x.shape[0], column : column + x.shape[1]]
    return (total // 9).astype(np.uint8)


def test_a_blur_of_slices():
    made = cpu.exact_functions.compiled(blurred, True)
    for shape in ((1, 1, 3), (8, 5, 3), (30, 40, 1)):
        x = numbers(shape, np.uint8)
        same(made(x), blurred(x))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_copies_of_parts_without_elements(dtype):
    """A copy of no pixels of three colours wrote to memory in front of it."""
    function, made = compiled("x[:, 2:, :3].copy()")
    for shape in ((4, 2, 5), (4, 3, 5), (0, 3, 5), (1, 2, 4)):
        x = numbers(shape, dtype)
        same(made(x), function(x))
