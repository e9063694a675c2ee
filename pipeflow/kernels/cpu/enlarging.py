"""Resamples images that do not become much smaller: 16 neighbouring numbers of the result at a time.

All their inputs are in two vectors, from which one instruction takes those of a tap. The sums, and their order, are those of
`resample`.
"""

import numpy as np

from pipeflow.kernels.cpu.everyday import Taps
from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.instructions import LANES
from pipeflow.kernels.cpu.simd.near import can_choose, near_sums
from pipeflow.kernels.cpu.simd.sums import weighted_rows

ROWS = 4
sums_of_2, sums_of_4 = near_sums(ROWS, 2), near_sums(ROWS, 4)


def fits(source: np.ndarray, y: Taps, x: Taps, out: np.ndarray) -> bool:
    """True for images of bytes that become larger, or a little smaller, on a processor that can do this."""
    count = x[1].shape[1]
    shrinking = source.shape[1] / max(out.shape[1], 1)
    taps = (LANES / source.shape[2] + 1) * shrinking + count + 1  # pixels that a vector of the result reads, at most
    return (
        out.dtype == source.dtype == np.uint8
        and count in (2, 4)
        and taps * source.shape[2] <= 2 * LANES
        and out.shape[1] * source.shape[2] >= LANES
        and can_choose()
    )


@kernel(fastmath=False)
def blocks_of(x, pixel, begins, places, weights):
    """The tables of `near_sums` for the taps of a row; False if a block reads more than two vectors."""
    starts, factors = x
    total, count = starts.size * pixel, factors.shape[1]
    for b in range(begins.shape[0]):
        first = min(b * LANES, total - LANES)
        low = starts[first // pixel]
        for j in range(first, first + LANES):
            low = min(low, starts[j // pixel])
        begins[b, 0], begins[b, 1] = low * pixel, first
        for j in range(LANES):
            o = (first + j) // pixel
            for k in range(count):
                place = (starts[o] - low + k) * pixel + (first + j) % pixel
                if place >= 2 * LANES:
                    return False
                places[b, k, j] = place
                weights[b, k, j] = factors[o, k]
    return True


@kernel(fastmath=False)
def resample_near(source, pixel, y, x, out):
    """Resamples rows (H, W * pixel) to rows (h, w * pixel); False, and no result, if a block reads more than two vectors."""
    count, width, taps, size = x[1].shape[1], out.shape[1], y[1].shape[1], source.shape[1]
    blocks = (width + LANES - 1) // LANES
    begins = np.empty((blocks, 2), np.int64)
    places, weights = np.empty((blocks, count, LANES), np.int32), np.empty((blocks, count, LANES), np.float32)
    if not blocks_of(x, pixel, begins, places, weights):
        return False
    stride = (size // LANES + 3) * LANES  # the second vector of the last block may begin after the row
    tall = np.zeros(ROWS * stride + LANES, np.float32)
    begin = -tall.ctypes.data % (4 * LANES) // 4  # where a line of the cache begins
    flat, target, heights = source.reshape(source.size), out.reshape(out.size), y[1].reshape(y[1].size)
    where, order, factors = begins.reshape(begins.size), places.reshape(places.size), weights.reshape(weights.size)
    for near in range(0, out.shape[0], ROWS):
        first = min(near, max(out.shape[0] - ROWS, 0))  # the last rows are computed again if they are fewer
        for r in range(min(ROWS, out.shape[0])):
            row = y[0][first + r] * size
            weighted_rows(flat, row, size, heights, (first + r) * taps, taps, tall, begin + r * stride, size)
        if out.shape[0] < ROWS:
            few = np.empty((ROWS, width), np.uint8)
            rows = few.reshape(few.size)
            if count == 2:
                sums_of_2(tall, begin, stride, where, order, factors, blocks, rows, 0, width)
            else:
                sums_of_4(tall, begin, stride, where, order, factors, blocks, rows, 0, width)
            out[:] = few[: out.shape[0]]
        elif count == 2:
            sums_of_2(tall, begin, stride, where, order, factors, blocks, target, first * width, width)
        else:
            sums_of_4(tall, begin, stride, where, order, factors, blocks, target, first * width, width)
    return True
