"""Functions with jit="auto" that compute with single numbers of arrays: small integers wrap around as in NumPy."""

import itertools
import warnings

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from pipeflow.kernels.cpu import exact_functions
from pipeflow.kernels.cpu.python_numbers import NotExact

TYPES = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.float32]
WHOLE = TYPES[:-1]


def negative(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = 100 - x[i]
    return out


def sums(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        out[i] = x[i] + x[i - 1]
    return out


def nested(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        out[i] = (x[i] + x[i - 1]) * 3 - x[i] * x[i - 1]
    return out


def in_place(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(x.shape[0]):
        value = x[i]
        value += x[0]
        value *= 2
        out[i] = value
    return out


def means(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        out[i] = (x[i] + x[i - 1]) / 2
    return out


def halves(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(x.shape[0]):
        out[i] = x[i] / np.float32(3) + x[i] * np.float32(0.1)
    return out


def blended(x):
    out = np.zeros(x.shape, np.float32)
    for i in range(1, x.shape[0]):
        out[i] = x[i] * np.float32(0.3) + x[i - 1] * np.float32(0.7) - x[i]
    return out


def signs(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(x.shape[0]):
        out[i] = -x[i]
    return out


def number(x):
    return x[0] + x[1]


def spread(x):
    return x.max() - x.min()


def helped(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        out[i] = _difference(x[i], x[i - 1])
    return out


def _difference(one, other):
    return one - other


def quotients(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        if x[i - 1] != 0:
            out[i] = x[i] // x[i - 1] + x[i] % x[i - 1]
    return out


def bits(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        out[i] = ((x[i] & x[i - 1]) | 3) ^ ~x[i]
    return out


def looked_up(x):
    table = np.arange(70000)
    out = np.zeros(x.shape, np.int64)
    for i in range(x.shape[0]):
        out[i] = table[x[i] & 63]
    return out


def conditions(x):
    out = np.zeros(x.shape, np.float64)
    for i in range(1, x.shape[0]):
        if x[i] - x[i - 1] > 10:
            out[i] = x[i] * (x[i] > 5)
    return out


FUNCTIONS = [negative, sums, nested, in_place, means, halves, blended, signs, number, spread, helped, conditions]
OF_INTEGERS = [quotients, bits, looked_up]


def samples(dtype):
    """Usual numbers, and then the ends of the range."""
    rng = np.random.default_rng(0)
    if dtype is np.float32:
        yield rng.normal(0, 100, 50).astype(dtype)
        yield np.array([0, -0.0, 1e38, -1e38, 3e-45, np.inf, 1], dtype)
        return
    limits = np.iinfo(dtype)
    yield rng.integers(1, 60, 50).astype(dtype)
    yield rng.integers(limits.min, limits.max, 200, dtype, endpoint=True)
    yield np.array([limits.min, limits.max, -1 if limits.min else 3, limits.min, 1, 0, limits.max, limits.max], dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        *itertools.product(FUNCTIONS, TYPES),
        *itertools.product(OF_INTEGERS, [dtype for dtype in TYPES if dtype is not np.float32]),
    ],
)
def test_single_numbers_have_the_types_of_numpy(function, dtype):
    """Compiled code gives the same bits, or raises an exception: then the plain function runs."""
    made, equal = exact_functions.compiled(function, True), 0
    for x in samples(dtype):
        wanted = function(x)
        try:
            found = made(x)
        except (OverflowError, ZeroDivisionError):
            continue
        equal += 1
        signature = made.overloads[(numba.typeof(x),)].signature
        if not isinstance(wanted, np.ndarray):
            assert str(signature.return_type) == wanted.dtype.name
            found = wanted.dtype.type(found)
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()
    assert equal


def counted(x):
    total = 0
    for i in range(x.shape[0]):
        total += x[i]
    return total


def started(x):
    total = x[0]
    for i in range(x.shape[0]):
        total = total + 1 if x[i] > 3 else 7
    return total + x[0]


def smaller(x):
    return min(x[0], 5) + x[1]


def shifted(x):
    return x[0] << x[1]


@pytest.mark.parametrize("function", [counted, started, smaller, shifted])
def test_numbers_whose_type_depends_on_the_path_are_refused(function):
    """A sum that begins with Python's 0 is a uint8 from the first number on, and stays 0 if there is none."""
    x = np.array([200, 100, 7], np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = function(x)
    try:
        found = exact_functions.compiled(function, True)(x)
    except (NotExact, OverflowError):
        return
    assert found == wanted


# Python's numbers from tuples, dictionaries, helpers and loops.


def _added(a, b):
    return a + b


def _two():
    return 2


def _with_two(x):
    return x[0], 2


def _with_index(x, i):
    return x[0] + i


def _same(a):
    return a


def of_a_tuple(x):
    out = np.zeros(3)
    t = (x[0], x[1], 2)
    out[0] = t[0] + t[1]
    out[1] = t[0] + t[2]
    return out


def carried(x):
    out = np.zeros(3)
    acc = x[0]
    for i in range(3):
        acc += 1
        acc -= x[i]
        out[i] = acc * 1.5
    return out


def unpacked(x):
    out = np.zeros(3)
    t = (x[0], 2)
    a, b = t
    out[0] = a + x[1]
    out[1] = b + x[2]
    out[2] = a * b
    return out


def turned(x):
    out = np.zeros(3)
    acc = -x[0]
    for i in range(3):
        acc = -acc
        out[i] = acc
    return out


def named(x):
    out = np.zeros(3)
    d = {"a": x[0], "b": 3}
    out[0] = d["a"] + x[1]
    out[1] = d["b"] + x[2]
    return out


def with_argument(x):
    return np.array([_added(x[0], 2)])


def with_helper(x):
    return np.array([x[0] + _two()])


def with_helpers_tuple(x):
    _, b = _with_two(x)
    return np.array([x[1] + b])


def of_two_tuples(x):
    t = (x[0], 2) if x[1] > 1 else (x[1], 3)
    return np.array([x[1] + t[1]])


def of_a_place(x):
    out = np.zeros(3)
    y = x.astype(np.int64)
    t = (y[0], 2)
    for i in range(2):
        out[i] = t[i] + x[1]
    return out


def with_place(x):
    out = np.zeros(3)
    for i in range(3):
        out[i] = _with_index(x, i)
    return out


def given_back(x):
    return np.array([x[1] + _same(2)])


def weighted(x):
    w = 2 if x[0] > 1 else 0.5
    return np.array([x[1] * w])


def in_branches(x):
    a = x[0]
    if x[1] > 1:
        a = a + 1
    if x[2] > 1:
        a = a + a
    return np.array([a])


TRAPS = [
    of_a_tuple,
    carried,
    unpacked,
    turned,
    named,
    with_argument,
    with_helper,
    with_helpers_tuple,
    of_two_tuples,
    of_a_place,
    with_place,
    given_back,
    weighted,
    in_branches,
]
RARE = {
    np.uint8: [0, 1, 5, 128, 255],
    np.int16: [-32768, -1, 3, 32767],
    np.float32: [0.0, 1e30, -3.3, np.float32(1 / 3)],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", RARE)
@pytest.mark.parametrize("function", TRAPS)
def test_python_numbers_that_only_the_code_shows(function, dtype):
    """NumPy takes the type of the other number; compiled code sees a number of 64 bits. It does the same, or is refused."""
    made = exact_functions.compiled(function, True)
    for numbers in itertools.product(RARE[dtype], repeat=3):
        x = np.array(numbers, dtype)
        wanted = function(x)
        try:
            found = made(x)
        except (TypingError, OverflowError):
            continue
        assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes())
