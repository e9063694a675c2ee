"""Resamples images of pixels of three bytes that become larger or a little smaller, eight rows of the result at a time.

The sums, and their order, are those of `resample`.
"""

import numpy as np
from numba import types
from numba.extending import overload

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.eights import BLOCK, blend_upright, store_upright, sum_upright, upright
from pipeflow.kernels.cpu.simd.elements import packs_octets

ROWS = 8
COLUMNS = 32  # of the source that are read at once
FEW, MANY = 8, 16  # rows of the source that eight rows of the result read
SHRUNK = 2  # times the width: beyond it, the columns that are read take more time than what is saved in the result
STRIP = 64  # pixels of the result between two steps: their sums stay in the nearest cache
columns_of_few, columns_of_many = upright(FEW), upright(MANY)


@kernel(fastmath=False)
def read_by(starts, first, number, count):
    """The inputs that some neighbouring outputs read: the first, and the one after the last."""
    one, other = starts[first], starts[first + number - 1]
    return min(one, other), max(one, other) + count


@kernel(fastmath=False)
def resample_upright(source, y, x, out):
    """Resamples rows (H, W * 3) to rows (h, w * 3); False, and no result, if they are too small or shrink too much."""
    (y_starts, y_weights), (x_starts, x_weights) = y, x
    height, columns, width = out.shape[0], x_starts.size, source.shape[1]
    taps, count = y_weights.shape[1], x_weights.shape[1]
    if height < ROWS or columns * 3 < BLOCK or width < COLUMNS or width > SHRUNK * out.shape[1]:
        return False
    for first in range(0, height, ROWS):
        low, high = read_by(y_starts, min(first, height - ROWS), ROWS, taps)
        if high - low > MANY:
            return False
    strip, widest = min(STRIP, columns), COLUMNS
    for part in range(0, columns, strip):
        left, right = read_by(x_starts, min(part, columns - strip), strip, count)
        widest = max(widest, (right - left) * 3)
    flat, target, factors = source.reshape(source.size), out.reshape(out.size), x_weights.reshape(x_weights.size)
    places, turned = np.empty(MANY, np.int64), np.empty(widest * MANY + MANY, np.uint8)
    tall, wide = np.empty(widest * ROWS, np.float32), np.empty(strip * 3 * ROWS, np.float32)
    orders, heights = np.full(taps * ROWS * 4, 255, np.uint8), np.empty(taps * ROWS, np.float32)
    for near in range(0, height, ROWS):
        first = min(near, height - ROWS)  # the last rows are computed again if they are fewer
        low, high = read_by(y_starts, first, ROWS, taps)
        for k in range(taps):
            for r in range(ROWS):
                orders[(k * ROWS + r) * 4] = y_starts[first + r] + k - low
                heights[k * ROWS + r] = y_weights[first + r, k]
        rows = FEW if high - low <= FEW else MANY
        for part in range(0, columns, strip):
            begin = min(part, columns - strip)
            left, right = read_by(x_starts, begin, strip, count)
            size = max((right - left) * 3, COLUMNS)
            left = min(left * 3, width - size)
            for r in range(rows):
                places[r] = min(low + r, high - 1) * width + left
            if rows == FEW:
                columns_of_few(flat, places, turned, size)
            else:
                columns_of_many(flat, places, turned, size)
            blend_upright(turned, rows, orders, heights, taps, tall, size)
            sum_upright(tall, left, x_starts, begin, factors, count, wide, strip)
            store_upright(wide, target, first * out.shape[1] + begin * 3, out.shape[1], strip * 3)
    return True


def resample_by_eights(source, pixel, y, x, out):
    """`resample_upright` if it is for these types, channels and processors (inside kernels)."""
    raise NotImplementedError("resample_by_eights is for compiled code")


@overload(resample_by_eights)
def _resample_by_eights(source, pixel, y, x, out):
    if source.dtype == out.dtype == types.uint8 and packs_octets():
        return lambda source, pixel, y, x, out: pixel == 3 and resample_upright(source, y, x, out)
    return lambda source, pixel, y, x, out: False
