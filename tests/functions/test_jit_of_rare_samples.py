"""jit="auto" with samples that are unlike the first ones: the bits are those of the plain function, or compiled code raises.

Compiled code is compared for the first samples only. What it does with numbers that come later must be known before.
"""

import math

import numpy as np
import pytest

from pipeflow.kernels import cpu
from pipeflow.operators.functions import compiling

pytestmark = pytest.mark.usefixtures("own_trials")
trials = cpu.tried_functions
NAN, INF = np.nan, np.inf


def hashed(x):
    result = 7
    for number in x:
        result = result * 1000003 + int(number)
    return np.array([result % 65521])


def power_of_two(x):
    return np.array([(1 << int(x[0])) % 1009])


def floor(x):
    return np.array([math.floor(x[0]), math.ceil(x[0])])


def root(x):
    return math.sqrt(x[0])


def between(x):
    return np.clip(x, x[0], x[1])


def signs(x):
    return np.sign(x)


def mean(x):
    return x.mean()


def drawn(x, rng):
    return np.array([rng.integers(0, int(x[0])), rng.uniform(0, x[0])])


def drawn_below(x, rng):
    return x[rng.integers(3) :]


def selected(x):
    return x[x > 1]


def halved(x):
    out = x.copy()
    out[out > 1] = out[out > 1] * 0.5
    return out


def shifted_onto_itself(x):
    out = x.copy()
    out[int(x[0]) :] += out[: len(x) - int(x[0])]
    return out


def standard(x):
    return (x - x.mean()) / (x.std() + 1e-6)


def spread(x):
    return (x - x.min()) / (x.max() - x.min() + 1)


def positive(x):
    return np.maximum(x, 0) - np.minimum(0, x)


def checked(x):
    if x[0] > 100:
        raise ValueError(f"too large: {x[0]}")
    if x.size > 100:
        raise AssertionError(f"too many: {x.shape}")
    return x * 2


def by_settings(x):
    settings = {"gain": 1.5, "places": 4}
    return x[: settings["places"]] * settings["gain"]


def numbered(x):
    out = x.copy()
    for place, (low, high) in enumerate(zip((0.1, 0.2), (1.0, 2.0))):
        out[place] = (out[place] - low) * high + place
    return out


def absolute(x):
    return abs(x) + np.round(x)


def turned(x):
    return np.flip(x, 0)


COMMON = [np.array([3.0, 7.5, 2.25, 4.0]), np.array([1.0, 9.5, 0.5])]
RARE = [
    *([500.0, 1.0], [1e30, 1.0], [-2.5, 1.0], [NAN, 2.0], [1.0, NAN], [INF, -INF, 0.0], [-0.0, 0.0, -1.0]),
    *([0.0, 0.0], [-0.0] * 9, [], [2.0], [64.0, 3.0], [63.0, 3.0], [1.0] * 150),
]
FUNCTIONS = [
    *(
        hashed,
        power_of_two,
        floor,
        root,
        between,
        signs,
        mean,
        drawn,
        drawn_below,
        selected,
        halved,
        shifted_onto_itself,
    ),
    *(standard, spread, positive, checked, by_settings, numbered, absolute, turned),
]
FAST = {hashed, floor, between, drawn, halved, standard, positive, checked}


def outcome(call, function, x, number):
    """What a call returns or raises."""
    wanted = "rng" in function.__code__.co_varnames[: function.__code__.co_argcount]
    try:
        result = np.asarray(call(x.copy(), **({"rng": np.random.default_rng(number)} if wanted else {})))
    except Exception as error:
        return type(error), str(error)
    return result.dtype, result.shape, result.tolist() if result.dtype.hasobject else result.tobytes()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "function",
    [pytest.param(each, id=each.__name__, marks=() if each in FAST else pytest.mark.slow) for each in FUNCTIONS],
)
def test_rare_samples_have_the_plain_results(function):
    """Each is the first one after compiled code has taken over; an error is the one of the plain function."""
    made = compiling.version_of(function, "auto")
    for number in range(trials.CHECKED + 2):
        x = COMMON[number % 2]
        assert outcome(made, function, x, number) == outcome(function, function, x, number)
        if not number:
            trials.wait_for_trials()
    (trial,) = made._trials.values()
    assert trial.report.state == "compiled" or function is hashed, trial.report.reason
    call, report = trial.call, trial.report
    for number, values in enumerate(RARE):
        if function is drawn and not (values and values[0] < 2**40):
            continue
        trial.call, trial.report = call, report  # an earlier exception ended the trial
        x = np.array(values)
        assert outcome(made, function, x, number) == outcome(function, function, x, number)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_have_the_order_of_numpy(dtype):
    """For all lengths at which it changes."""
    functions = [cpu.exact_functions.compiled(each, True) for each in (mean, standard)]
    for count in (*range(1, 20), 127, 128, 129, 136, 137, 255, 256, 257, 1000, 8193, 100_003):
        x = (np.random.default_rng(count).standard_normal(count) * 100).astype(dtype)
        for compiled in functions:
            one, two = compiled(x), compiled.py_func(x)
            assert dtype(one) == two if isinstance(one, float) else one.tobytes() == two.tobytes()


def zero_or_half(x):
    return 0 if x[0] > 100 else float(x[0]) * 0.5


def zero_or_number(x):
    number = x[0]
    if number < 0:
        number = 0
    return number


def whole_or_half(x):
    factor = 2 if x.shape[0] > 100 else 0.5
    return x * factor


def total(x):
    result = 0
    for number in x:
        result += float(number)
    return result


def largest(x):
    result = 0.0
    for number in x:
        if number > result:
            result = number
    return result


def written_to_a_view(x):
    out = x.copy()
    flat = out[:, :2].ravel()
    flat[0] = 7
    return out


def of_a_list(x):
    found = []
    for number in x:
        if number > 3:
            found.append(int(number))  # noqa: PERF401
    return np.array(found)


def by_text(x):
    return x * 2 if f"{x[0]}" == "1.0" else x


def divided(x):
    return x // -1


def summed(x):
    return sum(x)


BYTES, WHOLE, FLOATS = np.ones(3, np.uint8), np.ones(3, np.int32), np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (zero_or_half, BYTES, "returns numbers of several types"),
        (zero_or_number, FLOATS, "returns numbers of several types"),
        (whole_or_half, BYTES, "several types"),
        (total, FLOATS, "returns numbers of several types"),
        (largest, FLOATS, "several types"),
        (written_to_a_view, np.ones((3, 3)), "a copy or a view"),
        (of_a_list, FLOATS, "a list that may be empty"),
        (by_text, FLOATS, "a text of a number"),
        (divided, WHOLE, "divided by -1"),
        (summed, BYTES, "sum may round"),
    ],
)
def test_functions_that_differ_on_a_rare_path_are_not_compiled(function, x, reason):
    """The first samples would not show it."""
    with pytest.raises(cpu.exact_functions.NotExact, match=reason):
        cpu.exact_functions.compiled(function, True)(x)


def factor_of_floats(x):
    factor = 1
    if x[0] > 0.5:
        factor = 0.5
    return x * factor


def counted(x):
    count = 0
    for number in x:
        if number > 0:
            count += 1
    return np.array([count, len(x)])


@pytest.mark.parametrize("function", [factor_of_floats, counted])
def test_paths_that_give_the_same_types_are_compiled(function):
    """An integer and a float as factors of an array of floats."""
    compiled = cpu.exact_functions.compiled(function, True)
    for x in (FLOATS, FLOATS * np.float32(0.25)):
        one, two = compiled(x), function(x)
        assert (one.dtype, one.tobytes()) == (two.dtype, two.tobytes())


@pytest.mark.parametrize(
    ("function", "other"),
    [
        (lambda x: int(x[0]) + int(x[1]), -1),
        (lambda x: int(x[0]) - int(x[1]), 1),
        (lambda x: int(x[0]) * int(x[1]), -1),
        (lambda x: int(x[0]) << int(x[1]), 1),
    ],
)
def test_integers_of_more_than_64_bits_raise(function, other):
    """The caller then runs the plain function."""
    compiled = cpu.exact_functions.compiled(function, True)
    assert compiled(np.array([5, 3])) == function(np.array([5, 3]))
    with pytest.raises(OverflowError, match="64 bits"):
        compiled(np.array([-(2**63), other]))


def test_a_number_with_another_type_is_a_difference(monkeypatch):
    """A compiled int64 could have values that the plain uint8 cannot have."""
    with pytest.raises(TypeError, match="int64 instead of uint8"):
        trials._check_numbers(trials.numba.types.int64, np.uint8)
    trials._check_numbers(trials.numba.types.float32, float)


def counted_down(x, steps=3):
    if steps == 0:
        return x
    return counted_down(x + 1, steps - 1)


def by_a_helper(x):
    return counted_down(x)


def test_code_that_calls_itself_is_not_kept_on_disk():
    """Numba crashes when it runs such code after it has loaded it."""
    is_recursive = cpu.user_functions._is_recursive
    assert is_recursive(counted_down, ())
    assert is_recursive(by_a_helper, ())
    assert not is_recursive(standard, ())


def test_with_a_tolerance_sums_have_the_order_of_numba():
    """It has sums of arrays that are not contiguous, and limits of floats and integers."""
    compiled = cpu.exact_functions.compiled(lambda x: np.maximum(x, np.float32(3))[:, 0].mean(), False)
    x = np.arange(12, dtype=np.int16).reshape(4, 3)
    assert compiled(x) == pytest.approx(np.maximum(x, np.float32(3))[:, 0].mean())
