"""Reductions are those of NumPy, however the reduced axes lie in memory."""

import numpy as np
import pytest

from pipeflow import fn

# The rows that the kernels read are: folded, of a pixel, of a few neighbours, of many that no fold divides, and whole.
SHAPES = [(32, 24, 3), (7, 5, 3), (6, 5, 4), (3, 2, 37), (5, 1, 40), (1, 9, 17)]
AXES = [(0, 1, 2), (0, 1), (1, 2), (0,), (1,), (2,)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "uint64", "float32", "float64"])
def test_extremes_and_sums_of_any_axes(shape, dtype):
    """A first call, a repeated one and NumPy find the same."""
    data = np.random.default_rng(1).integers(-100, 100, shape).astype(dtype)
    for axes in AXES:
        for name in ("max", "min", "sum"):
            expected = getattr(data, name)(axes)
            for _ in range(4):
                found = getattr(fn.reductions, name)(data, axes=axes)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_extreme_of_no_number_is_none(shape, place, dtype):
    """NaN wins, as the first and as the last element."""
    data = np.random.default_rng(1).normal(size=shape).astype(dtype)
    data.reshape(-1)[place] = np.nan
    for axes in AXES:
        for name in ("max", "min"):
            expected = getattr(data, name)(axes)
            assert np.isnan(expected).sum() == 1
            for _ in range(4):
                np.testing.assert_array_equal(getattr(fn.reductions, name)(data, axes=axes), expected)
