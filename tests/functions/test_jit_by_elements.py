"""Functions that compute each element by itself are compiled for one axis: the bits are NumPy's, and other functions are not."""

import inspect
import itertools

import numpy as np
import pytest

from pipeflow.kernels import cpu

WEIGHTS = np.array([0.25, 0.5, 2.0], np.float32)
HALF, LIMIT = np.float32(0.5), 100


def affine(x):
    return (x / np.float32(255) - HALF) * 2 + x * x


def chosen(x):
    return np.where(x > LIMIT, x * np.float32(0.1), np.float32(0))


def chosen_number(x):
    return np.where(x > LIMIT, 0, x)


def chosen_arrays(x):
    return np.where((x > 20) & (x < LIMIT), x + 1, x - 1)


def chosen_types(x):
    return np.where(x > LIMIT, x.astype(np.float32), x)


def masked(x):
    result = x.copy()
    result[x > LIMIT] = 0
    bright = (result > 50) | (result < 3)
    result[bright] = 7
    result[~bright] = 9
    return result


def own_mask(x):
    mask = x > LIMIT
    mask[mask] = False
    return mask


def in_place(x):
    result = x.copy()
    result += 1
    result *= 2
    return result


def clipped(x):
    return np.clip(x.astype(np.float32) * np.float32(1.5), 0, 255).astype(np.uint8)


def compared(x):
    return x >= 17


def itself(x):
    return x


def a_number(x):
    return 3.0


BY_ELEMENTS = [
    affine, chosen, chosen_number, chosen_arrays, chosen_types, masked, own_mask, in_place, clipped, compared, itself, a_number,
]  # fmt: skip


def indexed(x):
    return x[0] + 1


def first_changed(x):
    result = x.copy()
    result[0] = 5
    return result


def weighted(x):
    return x * WEIGHTS


def summed(x):
    return x.astype(np.int64).sum()


def places(x):
    return np.where(x > LIMIT)[0]


def extents(x):
    return x * x.shape[0]


def turned(x):
    return x.transpose() + 1


def repeated(x):
    for _ in range(3):
        x = x + 1
    return x


OTHERS = [indexed, first_changed, weighted, summed, places, extents, turned, repeated]
SHAPES = [(5, 7, 3), (1, 1, 3), (0, 4, 3), (3, 3), (2, 3, 4, 3)]


def inputs(dtype, shape):
    rng = np.random.default_rng(len(shape))
    return (rng.random(shape) * 255).astype(dtype)


def same(one, two):
    one, two = np.asarray(one), np.asarray(two)
    assert (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())


@pytest.fixture
def flattened(monkeypatch):
    """The functions that were found to work by elements."""
    found, decide = [], cpu.exact_functions.works_by_elements

    def watched(blocks, arguments):
        result = decide(blocks, arguments)
        found.append(result)
        return result

    monkeypatch.setattr(cpu.exact_functions, "works_by_elements", watched)
    return found


@pytest.mark.parametrize(
    ("function", "dtype"),
    [*itertools.product(BY_ELEMENTS, [np.uint8, np.float32]), *zip(OTHERS, itertools.cycle([np.uint8, np.float32]))],
)
def test_the_bits_are_those_of_numpy(function, dtype, flattened):
    """For all shapes, also without elements; a copy of the function is compiled, so that no earlier code is used."""
    copied = type(function)(function.__code__, globals(), function.__name__)
    compiled = cpu.exact_functions.compiled(copied, True)
    for shape in SHAPES if function not in (weighted,) else SHAPES[:3]:
        x = inputs(dtype, shape)
        x.flags.writeable = False
        if not (shape[0] == 0 and function in (indexed, first_changed)):
            same(compiled(x), function(x))
    assert {*flattened} == {function in BY_ELEMENTS}


def test_special_numbers_keep_their_bits():
    """NaN with a payload, infinities and negative zero are chosen as they are."""
    bits = np.array([0x7FC12345, 0xFFC00001, 0x7F800000, 0x80000000, 0x00000001, 0x42F00000], np.uint32)
    x = bits.view(np.float32).reshape(2, 3)

    def choose(x):
        return np.where(x > 1, x, x)

    def mask(x):
        result = x.copy()
        result[x > 100] = 1
        return result

    for function in (choose, mask):
        same(cpu.exact_functions.compiled(function, True)(x), function(x))


def test_masks_of_another_shape_are_refused():
    """The compiled code raises; the plain function then says what is wrong."""

    def other_mask(x):
        result = x.copy()
        result[x[1:] > 3] = 0
        return result

    with pytest.raises(IndexError, match="another shape"):
        cpu.exact_functions.compiled(other_mask, True)(inputs(np.uint8, (4, 3)))


def test_arrays_of_different_shapes_are_chosen_as_by_numpy():
    """A condition that is wider or narrower than its choices."""

    def choose(x):
        return np.where(x[:1] > 3, x, x[:, :1])

    x = inputs(np.uint8, (4, 3))
    same(cpu.exact_functions.compiled(choose, True)(x), choose(x))


def test_all_examples_are_listed():
    """Each function of this file is in one of the two lists."""
    of_one_array = {
        value
        for value in globals().values()
        if inspect.isfunction(value)
        and value.__module__ == __name__
        and [*inspect.signature(value).parameters] == ["x"]
    }
    assert of_one_array == {*BY_ELEMENTS, *OTHERS}
