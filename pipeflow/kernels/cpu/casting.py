"""Converts numbers as DALI does: rounds half away from zero, saturates, and every number except zero is true."""

from collections.abc import Sequence

import numpy as np
from numba import types
from numba.extending import overload

from pipeflow.kernels.cpu.jit import Filling, kernel, over_elements, plain
from pipeflow.kernels.cpu.simd.elements import from_half, to_half


def convert(value, array):
    """The number as the element type of the array (inside kernels)."""
    raise NotImplementedError("convert is for compiled code; use cast")


@overload(convert, inline="always")
def _convert(value, array):
    target = array.dtype
    if isinstance(target, types.Boolean):
        return lambda value, array: value != 0
    if isinstance(target, types.Float):
        kind = np.float32 if target.bitwidth == 32 else np.float64
        return lambda value, array: kind(value)
    number = getattr(np, str(target))
    low, high = int(np.iinfo(number).min), int(np.iinfo(number).max)
    if isinstance(value, types.Boolean):
        return lambda value, array: number(value)
    if isinstance(value, types.Integer):
        # Compared in the source's own type: int64 and uint64 bounds would be compared in float64.
        source = getattr(np, str(value))
        least, most = max(low, int(np.iinfo(source).min)), min(high, int(np.iinfo(source).max))
        least_value, most_value = source(least), source(most)

        def integer(value, array):
            return number(min(max(value, least_value), most_value))

        return integer
    if target.bitwidth <= 16:
        narrow = np.float32 if value.bitwidth == 32 else np.float64
        half, bottom, top = narrow(0.5), narrow(low), narrow(high)
        if low == 0:
            # Below zero everything saturates, so half up and half away are the same.
            return lambda value, array: number(np.int32(min(max(value + half, bottom), top)))

        def signed(value, array):
            return number(np.int32(min(max(value + np.copysign(half, value), bottom), top)))

        return signed
    bottom64, top64 = np.float64(low), np.float64(high)
    ceiling = number(high)
    floor_value = number(low)

    def wide(value, array):
        # float64 does not have the largest 64-bit integers: compare first, and convert only numbers that fit.
        exact = np.float64(value)
        rounded = np.trunc(exact + np.copysign(np.float64(0.49999999999999994), exact))
        if rounded >= top64:
            return ceiling
        if rounded <= bottom64:
            return floor_value
        return number(rounded)

    return wide


@kernel
def cast_flat(source, out):
    for i in range(source.size):
        out[i] = convert(source[i], out)


@kernel
def to_half_flat(source, out):
    for i in range(source.size):
        out[i] = to_half(np.float32(source[i]))


@kernel
def from_half_flat(source, out):
    for i in range(source.size):
        out[i] = from_half(source[i])


def cast(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Converts every element; `out` has the shape of the source and is C-contiguous."""
    if source.dtype == out.dtype:
        out[...] = source
        return out
    flat, target = plain(source).reshape(-1), out.reshape(-1)
    if source.dtype == np.float16:
        wide = target if out.dtype == np.float32 else np.empty(flat.size, np.float32)
        from_half_flat(flat.view(np.uint16), wide)
        if wide is not target:
            cast_flat(wide, target)
    elif out.dtype == np.float16:
        to_half_flat(flat, target.view(np.uint16))
    else:
        cast_flat(flat, target)
    return out


def casting(source: np.dtype, target: np.dtype) -> Filling:
    """`cast` between two types, for many calls; the second argument is the result."""
    if source == target:
        return _copy
    if np.float16 in (source, target):
        return cast
    return over_elements(cast_flat, source, (), target)


def _copy(values: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.copyto(out, values)
    return out


def as_fill(values: float | Sequence[float], dtype: np.dtype) -> np.ndarray:
    """Fill values in the type of the data: the fraction is cut off, and numbers are limited to the range of the type."""
    if dtype.kind == "c":
        return np.atleast_1d(np.asarray(values, dtype))
    numbers = np.atleast_1d(np.asarray(values, np.float64))
    return as_type(np.trunc(numbers) if dtype.kind in "iu" else numbers, dtype)


def as_type(source: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
    """The array in another element type; the array itself if the type is the same."""
    if source.dtype == dtype:
        return source
    return cast(source, np.empty(source.shape, dtype))
