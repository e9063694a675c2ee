"""The movement of pixels from frame to frame, by OpenCV's dense inverse search."""

from collections.abc import Callable
from functools import lru_cache
from math import log2
from typing import Any

import cv2
import numpy as np

from pipeflow.kernels.cpu.jit import kernel

QUALITIES = (cv2.DISOPTICAL_FLOW_PRESET_MEDIUM, cv2.DISOPTICAL_FLOW_PRESET_FAST, cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
FINEST = (1, 2, 2)  # the finest scales of the qualities: at scale 1 an image has half its extents, at scale 2 a quarter
PATCH = 8  # the side in pixels of what the search compares, in all qualities


@lru_cache(maxsize=64)
def smallest_that_holds_a_patch(quality: int, height: int, width: int) -> int | None:
    """The only scale of a small wide image; None for an image whose scales OpenCV chooses well.

    For small images it chooses them by the width alone. In a wide one the smallest can then be lower than a patch, and OpenCV
    reads outside of its memory.
    """
    small, large = min(height, width), max(height, width)
    scale = min(int(log2(large / (4 * PATCH)) + 0.5), int(log2(small // PATCH)))
    by_width = max(int(log2(width / (2.5 * PATCH))), 0)
    return scale if scale < FINEST[quality] and height >> by_width < PATCH else None


def flows(
    clip: np.ndarray,
    quality: int,
    grid: int,
    hints: np.ndarray | None,
    temporal: bool,
    out: np.ndarray,
    means: Callable[[np.ndarray, int, np.ndarray], Any] | None = None,
) -> np.ndarray:
    """The movement (x, y) in pixels from each frame to the next: the mean over each square with a side of `grid` pixels.

    ``means`` is the code of `means_of_squares`, if it is there.
    """
    _, height, width, channels = clip.shape
    # a new object: one that is used again returns other movements after images of another size, or after hints
    search = cv2.DISOpticalFlow_create(QUALITIES[quality])  # type: ignore[attr-defined]
    scale = smallest_that_holds_a_patch(quality, height, width)
    if scale is not None:
        search.setFinestScale(scale)
    calc, means = search.calc, means or means_of_squares
    before, known, apart = None, None, not clip.flags.c_contiguous
    for number, frame in enumerate(clip):
        if apart:
            frame = np.ascontiguousarray(frame)
        after = frame[..., 0] if channels == 1 else cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
        if number:
            start = known.copy() if temporal and known is not None else None
            if hints is not None:
                start = cv2.resize(np.ascontiguousarray(hints[number - 1], np.float32), (width, height))
            known = calc(before, after, start)
            means(known, grid, out[number - 1])
        before = after
    return out


@kernel(fastmath=False)
def means_of_squares(moves, grid, out):
    """The mean over each square with a side of `grid` pixels; over the edge, the last pixels are repeated. NumPy's mean over two
    of five axes takes ten times as long.
    """
    bottom, right = moves.shape[0] - 1, moves.shape[1] - 1
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            for axis in range(2):
                total = np.float32(0)
                for row in range(i * grid, (i + 1) * grid):
                    for column in range(j * grid, (j + 1) * grid):
                        total += moves[min(row, bottom), min(column, right), axis]
                out[i, j, axis] = total / np.float32(grid * grid)
