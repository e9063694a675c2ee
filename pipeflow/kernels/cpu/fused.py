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
from pipeflow.kernels.cpu.simd.moves import expect_writes
from pipeflow.kernels.cpu.simd.pixels import normalize_row, split_row


@kernel(fastmath=False)
def resample_to_planes(source, y, x, mean, scale, shift, rounding, out, height, width):
    """Resamples interleaved three-channel rows (H, W * 3) to three normalised planes."""
    low, high = extent(x[0], x[1])
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
