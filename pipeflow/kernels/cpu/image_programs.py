"""Resizes, crops and normalises in compiled programs: the geometry of `operators.sampling` for one sample.

A resize maps a region of an image, in whole pixels, to a grid of pixels, of which a window is kept. The memory may contain only
a part of the image, from `origin` on: the part that `source_window` returns is enough.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from pipeflow.kernels.cpu import jit
from pipeflow.kernels.cpu.fused import resample_to_planes, resample_to_rows
from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.kernel_calls import own_kernels
from pipeflow.kernels.cpu.normalize import to_planes, to_rows
from pipeflow.kernels.cpu.random_windows import NO_WINDOW, place_of
from pipeflow.kernels.cpu.resample import CUBIC, EDGE, LANCZOS3, NEAREST, pick_pixels, resample, resample_plane, taps

# How the extents of a resize are computed from the wanted ones: each by itself, by the scale of the only given one, or by the
# largest or the smallest scale.
EACH, RATIO, NOT_SMALLER, NOT_LARGER = range(4)
BEYOND = 65_536.0


@kernel(fastmath=False)
def exact_extents(height, width, tall, wide, mode):
    """The extents of the result before rounding; 0 for a wanted extent that is not given."""
    if mode == EACH:
        return (tall if tall > 0 else np.float64(height)), (wide if wide > 0 else np.float64(width))
    if mode == RATIO:
        scale = tall / height if tall > 0 else wide / width
        return (tall if tall > 0 else height * scale), (wide if wide > 0 else width * scale)
    if tall > 0 and wide > 0:
        down, across = tall / height, wide / width
        scale = max(down, across) if mode == NOT_SMALLER else min(down, across)
    else:
        scale = tall / height if tall > 0 else wide / width
    return height * scale, width * scale


@kernel(fastmath=False, inline="always")
def whole(exact):
    """The nearest positive number of pixels, halves rounded up."""
    return max(np.int64(1), np.int64(math.floor(exact + 0.5)))


@kernel(fastmath=False, inline="always")
def used_region(begin, extent, exact, subpixel):
    """The part of an axis that is resized."""
    low, high, full = np.float64(begin), np.float64(begin + extent), whole(exact)
    if subpixel and full != exact:
        centre, half = (low + high) / 2, (high - low) / 2 * full / exact
        low, high = centre - half, centre + half
    return low, high


@kernel(fastmath=False)
def window_of(height, width, tall, wide, mode, subpixel, crop_height, crop_width, y, x, rounds):
    """(top, left, height, width) of a crop of a resized region; a height of 0 for a case that only `operators.sampling`
    computes.
    """
    if not (0 <= y <= 1 and 0 <= x <= 1 and tall >= 0 and wide >= 0 and (mode == EACH or tall + wide > 0)):
        return NO_WINDOW
    exact_y, exact_x = exact_extents(height, width, tall, wide, mode)
    full_y, full_x = whole(exact_y), whole(exact_x)
    rows, columns = (crop_height if crop_height > 0 else full_y), (crop_width if crop_width > 0 else full_x)
    top, left = place_of(full_y, rows, y, rounds), place_of(full_x, columns, x, rounds)
    if top < 0 or left < 0 or top + rows > full_y or left + columns > full_x:
        return NO_WINDOW
    if used_region(0, height, exact_y, subpixel)[0] < -BEYOND or used_region(0, width, exact_x, subpixel)[0] < -BEYOND:
        return NO_WINDOW
    return top, left, rows, columns


@kernel(fastmath=False, inline="always")
def needed_pixels(size, begin, extent, exact, subpixel, first, count, smaller, larger, antialias):
    """The first pixel and the number of pixels of an axis that include all pixels that the taps read, and a few more."""
    low, high = used_region(begin, extent, exact, subpixel)
    full = whole(exact)
    kind = smaller if full < abs(high - low) else larger
    if kind == NEAREST:  # its sum in float32 has an error without a simple bound, so all pixels are taken
        return np.int64(0), size
    scale = (high - low) / full
    radius = scale if antialias and scale > 1 else 1.0
    radius *= 3.0 if kind == LANCZOS3 else 2.0 if kind == CUBIC else 1.0
    radius += EDGE
    most = min(np.int64(math.ceil(2 * radius)) + 2, size)
    lowest = np.int64(math.floor(low + (first + 0.5) * scale - 0.5 - radius)) - 1
    highest = np.int64(math.ceil(low + (first + count - 0.5) * scale - 0.5 + radius)) + 2
    lowest = min(max(lowest, 0), size - most)
    highest = min(max(highest, lowest + most), size)
    return lowest, highest - lowest


@kernel(fastmath=False)
def source_window(
    height,
    width,
    begin_y,
    begin_x,
    used_height,
    used_width,
    tall,
    wide,
    mode,
    subpixel,
    smaller,
    larger,
    antialias,
    top,
    left,
    rows,
    columns,
):
    """(top, left, height, width) of a part of an image that is enough for a window of the result."""
    exact_y, exact_x = exact_extents(used_height, used_width, tall, wide, mode)
    y, long = needed_pixels(height, begin_y, used_height, exact_y, subpixel, top, rows, smaller, larger, antialias)
    x, broad = needed_pixels(width, begin_x, used_width, exact_x, subpixel, left, columns, smaller, larger, antialias)
    return y, x, long, broad


# The numbers of an axis in `geometry`, all of them float64: the extent of the image, the region that is resized, the extent of
# the grid, the window of the grid, the filter, and the first pixel in memory.
AXIS = 10
SIZE, LOW, HIGH, FULL, FIRST, COUNT, KIND, ANTIALIAS, ORIGIN, MIRROR = range(AXIS)


@kernel(fastmath=False, inline="always")
def describe_axis(
    size, begin, extent, exact, subpixel, smaller, larger, antialias, first, count, origin, mirror, geometry
):
    low, high = used_region(begin, extent, exact, subpixel)
    full = whole(exact)
    geometry[SIZE], geometry[LOW], geometry[HIGH], geometry[FULL] = size, low, high, full
    geometry[FIRST], geometry[COUNT], geometry[ORIGIN] = first, count, origin
    geometry[KIND] = smaller if full < abs(high - low) else larger
    geometry[ANTIALIAS], geometry[MIRROR] = antialias, mirror


@kernel(fastmath=False)
def describe(
    origin_y,
    origin_x,
    height,
    width,
    begin_y,
    begin_x,
    used_height,
    used_width,
    tall,
    wide,
    mode,
    subpixel,
    smaller,
    larger,
    antialias,
    top,
    left,
    rows,
    columns,
    mirror,
    geometry,
):
    """Writes the numbers of a resize for the kernels below. `smaller` and `larger` are the filters for axes that become smaller
    or larger.
    """
    exact_y, exact_x = exact_extents(used_height, used_width, tall, wide, mode)
    describe_axis(
        height,
        begin_y,
        used_height,
        exact_y,
        subpixel,
        smaller,
        larger,
        antialias,
        top,
        rows,
        origin_y,
        False,
        geometry,
    )
    describe_axis(
        width,
        begin_x,
        used_width,
        exact_x,
        subpixel,
        smaller,
        larger,
        antialias,
        left,
        columns,
        origin_x,
        mirror,
        geometry[AXIS:],
    )


@kernel(fastmath=False)
def table_of(geometry, axis):
    """The taps of an axis, counted from the first pixel in memory."""
    part = geometry[AXIS * axis :]
    low, high, antialias = part[LOW], part[HIGH], part[ANTIALIAS] != 0
    size, full, first, count = np.int64(part[SIZE]), np.int64(part[FULL]), np.int64(part[FIRST]), np.int64(part[COUNT])
    starts, weights = taps(size, low, high, full, first, count, np.int64(part[KIND]), antialias)
    starts -= np.int64(part[ORIGIN])
    if part[MIRROR] != 0:
        return starts[::-1].copy(), weights[::-1].copy()
    return starts, weights


@kernel(fastmath=False)
def resize_to_planes(source, geometry, mean, scale, shift, rounding, out):
    """Resizes an image of bytes (H, W, 3), and writes a window of it as normalised planes (3, h, w)."""
    rows = source.reshape(source.shape[0], source.shape[1] * 3)
    y, x = table_of(geometry, 0), table_of(geometry, 1)
    resample_to_planes(rows, y, x, mean, scale, shift, rounding, out.reshape(out.size), out.shape[1], out.shape[2])


@kernel(fastmath=False)
def repeated(values, count):
    """The numbers of the channels, repeated for every element of a row."""
    row = np.empty((count, values.size), np.float32)
    row[:] = values
    return row.reshape(row.size)


@kernel(fastmath=False)
def resize_to_rows(source, geometry, mean, scale, shift, rounding, out):
    """The same to interleaved rows (h, w, 3)."""
    rows = source.reshape(source.shape[0], source.shape[1] * 3)
    y, x = table_of(geometry, 0), table_of(geometry, 1)
    means, scales = repeated(mean, out.shape[1]), repeated(scale, out.shape[1])
    resample_to_rows(rows, y, x, means, scales, shift, rounding, out.reshape(out.size), out.shape[0], out.shape[1])


@kernel(fastmath=False)
def resize_image(source, geometry, out):
    """Resizes an image, and writes a window of it in interleaved rows of any number of channels."""
    channels = out.shape[2]
    y, x = table_of(geometry, 0), table_of(geometry, 1)
    if y[1].shape[1] == 1 and x[1].shape[1] == 1:
        pick_pixels(source, y[0], x[0], out)
        return
    rows = source.reshape(source.shape[0], source.shape[1] * channels)
    if channels == 1:
        resample_plane(rows, y, x, out.reshape(out.shape[0], out.shape[1]))
    else:
        resample(rows, channels, y, x, out.reshape(out.shape[0], out.shape[1] * channels))


@kernel(fastmath=False)
def crop_to_planes(source, top, left, mirror, mean, scale, shift, out):
    """Writes a window of an image of bytes (H, W, 3) as normalised planes."""
    height, width, begin = out.shape[1], out.shape[2], (top * source.shape[1] + left) * 3
    flat, target = source.reshape(source.size), out.reshape(out.size)
    to_planes(flat, begin, source.shape[1] * 3, mean, scale, shift, mirror, target, height * width, height, width)


@kernel(fastmath=False)
def crop_to_rows(source, top, left, mirror, mean, scale, shift, out):
    """The same to interleaved rows (h, w, 3)."""
    height, width, begin = out.shape[0], out.shape[1], (top * source.shape[1] + left) * 3
    means, scales = repeated(mean, width), repeated(scale, width)
    flat, target = source.reshape(source.size), out.reshape(out.size)
    to_rows(flat, begin, source.shape[1] * 3, 3, means, scales, shift, mirror, target, height, width)


# ----------------------------------------------------------------------------------------------------
# which kernels are needed

NORMALIZING = {True: (resize_to_planes, resize_to_rows), False: (crop_to_planes, crop_to_rows)}  # for planes, for rows


def raw_type(dtype: np.dtype) -> np.dtype:
    """The type in which kernels store numbers: half precision is stored as its bits."""
    return np.dtype(np.uint16) if dtype == np.float16 else dtype


Wanted = tuple[jit.dispatcher.Dispatcher, tuple[Any, ...]]


@cache
def geometry_kernels() -> list[Wanted]:
    """The kernels that every program of images needs, with the types of their arguments."""
    size, resize = types_of(1, 1), types_of(1.0, 1.0, 1, True)
    numbers = (*types_of(*[1] * 6), *resize, *types_of(1, 1, True, *[1] * 4))
    return [
        (window_of, (*size, *resize, *types_of(1, 1, 0.5, 0.5, True))),
        (source_window, numbers),
        (describe, (*size, *numbers, *types_of(1, np.zeros(1)))),
        *own_kernels(files=False),
    ]


def normalizing_kernel(resizes: bool, planes: bool, dtype: np.dtype) -> Wanted:
    """The kernel that normalises images of bytes, after a resize or alone."""
    image, three, out = np.zeros((1, 1, 3), np.uint8), np.zeros(3, np.float32), np.zeros((1, 1, 1), raw_type(dtype))
    before = types_of(np.zeros(1)) if resizes else types_of(1, 1, 1)
    numbers = types_of(three, three, 0.0, *([True] if resizes else []))
    return NORMALIZING[resizes][0 if planes else 1], (*types_of(image), *before, *numbers, *types_of(out))


def resizing_kernel(dtype: np.dtype) -> Wanted:
    """The kernel that resizes images of bytes."""
    return resize_image, types_of(np.zeros((1, 1, 3), np.uint8), np.zeros(1), np.zeros((1, 1, 3), dtype))


def load(*kernels: Wanted) -> None:
    """Reads kernels from the disk, or compiles them; also the kernels that every program of images needs."""
    for compiled, signature in (*geometry_kernels(), *kernels):
        compiled.compile(signature)
