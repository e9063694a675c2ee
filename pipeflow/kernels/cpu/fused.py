"""Resize, crop, mirror, normalise and convert in one pass over the image.

The steps are those of the separate kernels, in the same order and with the same roundings, but the 8-bit image between them is
never written. Four output rows at a time stay in the first cache. Batches are larger than the caches: the lines of the next rows
are fetched during the work on these, which takes a sixth less time on a processor of Intel.
"""

import numpy as np

from pipeflow.kernels.cpu.casting import as_type
from pipeflow.kernels.cpu.jit import kernel, plain
from pipeflow.kernels.cpu.normalize import bits, tiled
from pipeflow.kernels.cpu.resample import BAND, ROWS, Taps, extent, four_rows
from pipeflow.kernels.cpu.simd.columns import FAR, NEAR, can_pick, picked_sums, plane_sums
from pipeflow.kernels.cpu.simd.moves import expect_writes
from pipeflow.kernels.cpu.simd.pixels import normalize_row, split_row

sum_near, sum_far = picked_sums(NEAR), picked_sums(FAR)


@kernel(fastmath=False)
def in_groups(x, low):
    """The taps of a row in groups of `BAND` outputs; the last group ends with the row.

    Returns the first pixel of each group, counted from `low`, the place of each output from there, the weights by taps, and the
    most pixels that a group reads.
    """
    starts, weights = x
    width, count = weights.shape
    groups = (width + BAND - 1) // BAND
    begins = np.empty(groups, np.int64)
    places = np.empty(groups * BAND, np.int32)
    turned = np.empty(groups * count * BAND, np.float32)
    reach = 0
    for g in range(groups):
        first = min(g * BAND, width - BAND)
        begin = min(starts[first], starts[first + BAND - 1])  # the starts of neighbours rise or fall
        reach = max(reach, max(starts[first], starts[first + BAND - 1]) - begin + count)
        begins[g] = begin - low
        for i in range(BAND):
            places[g * BAND + i] = starts[first + i] - begin
        for k in range(count):
            for i in range(BAND):
                turned[(g * count + k) * BAND + i] = weights[first + i, k]
    return begins, places, turned, reach


@kernel(fastmath=False)
def pick_to_planes(source, y, x, low, high, groups, mean, scale, shift, rounding, out, height, width):
    """`resample_to_planes` for processors that pick numbers from registers."""
    begins, places, turned, reach = groups
    count, taps, pitch = x[1].shape[1], y[1].shape[1], high - low + FAR
    flat, heights = source.reshape(source.size), y[1].reshape(y[1].size)
    tall = np.empty(3 * ROWS * pitch, np.float32)
    plane = height * width
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        for o in range(first, last):
            offset, target = y[0][o] * source.shape[1] + 3 * low, 3 * (o - first) * pitch
            plane_sums(flat, offset, source.shape[1], heights, o * taps, taps, tall, target, pitch, high - low)
        for o in range(last, min(last + ROWS, height)):
            for c in range(3):
                expect_writes(out, c * plane + o * width, width)
        if reach <= NEAR:
            sum_near(
                tall,
                pitch,
                begins,
                places,
                turned,
                count,
                last - first,
                mean,
                scale,
                np.float32(shift),
                rounding,
                out,
                first * width,
                width,
                plane,
            )
        else:
            sum_far(
                tall,
                pitch,
                begins,
                places,
                turned,
                count,
                last - first,
                mean,
                scale,
                np.float32(shift),
                rounding,
                out,
                first * width,
                width,
                plane,
            )


@kernel(fastmath=False)
def resample_to_planes(source, y, x, mean, scale, shift, rounding, out, height, width):
    """Resamples interleaved three-channel rows (H, W * 3) to three normalised planes."""
    low, high = extent(x[0], x[1])
    if can_pick() and width >= BAND:
        groups = in_groups(x, low)
        if groups[3] <= FAR:
            pick_to_planes(source, y, x, low, high, groups, mean, scale, shift, rounding, out, height, width)
            return
    tall = np.zeros((ROWS, source.shape[1] + BAND), np.float32)
    wide = np.empty((ROWS, width * 3 + BAND), np.float32)
    flat = wide.reshape(wide.size)
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        four_rows(source, 3, first, last, y, x, low * 3, high * 3, tall, wide)
        for r in range(last - first):
            if last + r < height:
                for c in range(3):
                    expect_writes(out, (c * height + last + r) * width, width)
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
    """The same for a result of interleaved rows; mean and scale have a number for every element of a row."""
    low, high = extent(x[0], x[1])
    tall = np.zeros((ROWS, source.shape[1] + BAND), np.float32)
    wide = np.empty((ROWS, width * 3 + BAND), np.float32)
    flat = wide.reshape(wide.size)
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        four_rows(source, 3, first, last, y, x, low * 3, high * 3, tall, wide)
        for r in range(last - first):
            if last + r < height:
                expect_writes(out, (last + r) * width * 3, width * 3)
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
    """Resamples a three-channel image (H, W, 3) with both tap tables into `out`, (3, h, w) or (h, w, 3), and normalises it.

    For a mirrored image the horizontal table is reversed. `rounding` is True if the separate resize would return bytes.
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
