"""Resize, crop, mirror, normalise and convert in one pass over the image.

The steps are those of the separate kernels, in the same order and with the same roundings: only the 8-bit
image between them is never written. Four output rows at a time stay in the first cache.
"""

import math

import numpy as np

from pipeflow.kernels.cpu import jit
from pipeflow.kernels.cpu.casting import as_type
from pipeflow.kernels.cpu.jit import kernel, plain, types_of
from pipeflow.kernels.cpu.kernel_calls import own_kernels
from pipeflow.kernels.cpu.normalize import bits, tiled
from pipeflow.kernels.cpu.resample import BAND, ROWS, Taps, extent, four_rows, taps
from pipeflow.kernels.cpu.simd.pixels import normalize_row, split_row


@kernel(fastmath=False)
def resample_to_planes(source, y, x, mean, scale, shift, rounding, out, height, width):
    """Interleaved three-channel rows (H, W * 3), resampled, to three normalised planes."""
    low, high = extent(x[0], x[1])
    tall = np.zeros((ROWS, source.shape[1] + BAND), np.float32)
    wide = np.empty((ROWS, width * 3 + BAND), np.float32)
    flat = wide.reshape(wide.size)
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        four_rows(source, 3, first, last, y, x, low * 3, high * 3, tall, wide)
        for r in range(last - first):
            split_row(
                flat,
                r * wide.shape[1],
                mean,
                scale,
                np.float32(shift),
                rounding,
                False,
                out,
                (first + r) * width,
                height * width,
                width,
            )


@kernel(fastmath=False)
def resample_to_rows(source, y, x, mean, scale, shift, rounding, out, height, width):
    """The same to interleaved rows; mean and scale are given for every element of a row."""
    low, high = extent(x[0], x[1])
    tall = np.zeros((ROWS, source.shape[1] + BAND), np.float32)
    wide = np.empty((ROWS, width * 3 + BAND), np.float32)
    flat = wide.reshape(wide.size)
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        four_rows(source, 3, first, last, y, x, low * 3, high * 3, tall, wide)
        for r in range(last - first):
            normalize_row(
                flat,
                r * wide.shape[1],
                mean,
                scale,
                np.float32(shift),
                rounding,
                out,
                (first + r) * width * 3,
                width * 3,
            )


def resample_normalize(
    source: np.ndarray,
    y: Taps,
    x: Taps,
    mean: np.ndarray,
    scale: np.ndarray,
    shift: float,
    rounding: bool,
    out: np.ndarray,
    channel_first: bool,
) -> np.ndarray:
    """One three-channel image (H, W, 3) through both tap tables into `out`, (3, h, w) or (h, w, 3).

    A mirrored image has its horizontal table reversed. `rounding` says that the separate resize would have
    made bytes.
    """
    height, width = out.shape[1:] if channel_first else out.shape[:2]
    if source.dtype not in (np.uint8, np.float32):
        source = as_type(source, np.dtype(np.float32))
    rows = plain(source).reshape(source.shape[0], source.shape[1] * 3)
    if channel_first:
        resample_to_planes(rows, y, x, mean, scale, shift, rounding, bits(out), height, width)
    else:
        rows_of = tiled(mean.tobytes(), width), tiled(scale.tobytes(), width)
        resample_to_rows(rows, y, x, *rows_of, shift, rounding, bits(out), height, width)
    return out


# ----------------------------------------------------------------------------------------------------
# for compiled programs: the geometry of `operators.sampling`, computed for one sample without the interpreter

# How the extents of a resize follow from the wanted ones: each by itself, by the scale of the given one, or by the largest
# or the smallest scale.
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
def used_region(extent, exact, subpixel):
    """The part of an axis that is resized."""
    low, high, full = 0.0, np.float64(extent), whole(exact)
    if subpixel and full != exact:
        centre, half = (low + high) / 2, (high - low) / 2 * full / exact
        low, high = centre - half, centre + half
    return low, high


@kernel(fastmath=False)
def place_of(extent, size, position, rounds):
    """Where a window begins in an extent."""
    exact = position * (extent - size)
    if not rounds:
        return np.int64(exact)
    return np.int64(math.floor(exact + 0.5) if exact >= 0 else math.ceil(exact - 0.5))


@kernel(fastmath=False)
def window_of(height, width, tall, wide, mode, subpixel, crop_height, crop_width, y, x, rounds):
    """(top, left, height, width) of a crop of a resized image; a height of 0 if the case is one for `operators.sampling`."""
    exact_y, exact_x = exact_extents(height, width, tall, wide, mode)
    full_y, full_x = whole(exact_y), whole(exact_x)
    rows, columns = (crop_height if crop_height > 0 else full_y), (crop_width if crop_width > 0 else full_x)
    top, left = place_of(full_y, rows, y, rounds), place_of(full_x, columns, x, rounds)
    if top < 0 or left < 0 or top + rows > full_y or left + columns > full_x:
        return 0, 0, 0, 0
    if used_region(height, exact_y, subpixel)[0] < -BEYOND or used_region(width, exact_x, subpixel)[0] < -BEYOND:
        return 0, 0, 0, 0
    return top, left, rows, columns


@kernel(fastmath=False)
def axis_table(extent, exact, subpixel, first, count, smaller, larger, antialias):
    """The taps of one axis."""
    low, high = used_region(extent, exact, subpixel)
    full = whole(exact)
    return taps(extent, low, high, full, first, count, smaller if full < abs(high - low) else larger, antialias)


@kernel(fastmath=False)
def resize_to_planes(
    source,
    height,
    width,
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
    mean,
    scale,
    shift,
    rounding,
    out,
):
    """A window of a resized image to normalised planes. `smaller` and `larger` are the filters for axes that become so."""
    exact_y, exact_x = exact_extents(height, width, tall, wide, mode)
    y = axis_table(height, exact_y, subpixel, top, rows, smaller, larger, antialias)
    x = axis_table(width, exact_x, subpixel, left, columns, smaller, larger, antialias)
    if mirror:
        x = x[0][::-1].copy(), x[1][::-1].copy()
    resample_to_planes(source, y, x, mean, scale, shift, rounding, out, rows, columns)


def _program_kernels() -> list[tuple[jit.dispatcher.Dispatcher, tuple]]:
    """The kernels of programs for images of bytes, with the types of their arguments."""
    image, three, out = np.zeros((1, 3), np.uint8), np.zeros(3, np.float32), np.zeros(3, np.float32)
    numbers = types_of(1, 1, 1.0, 1.0, 1, True)
    return [
        (window_of, (*numbers, *types_of(1, 1, 0.5, 0.5, True))),
        (
            resize_to_planes,
            (*types_of(image), *numbers, *types_of(1, 1, True, 1, 1, 1, 1, 1, three, three, 0.0, True, out)),
        ),
        *own_kernels(),
    ]


def kept() -> bool:
    """True if no program of kernel calls has to wait for a compiler."""
    return all(jit.kept(*one) for one in _program_kernels())


def load() -> None:
    """Reads the kernels of programs from the disk, or compiles them."""
    for compiled, signature in _program_kernels():
        compiled.compile(signature)
