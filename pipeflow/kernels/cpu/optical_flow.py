"""The movement of pixels from frame to frame, by OpenCV's dense inverse search."""

import cv2
import numpy as np

from pipeflow.kernels.cpu.jit import kernel

QUALITIES = (cv2.DISOPTICAL_FLOW_PRESET_MEDIUM, cv2.DISOPTICAL_FLOW_PRESET_FAST, cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)


def grey(frame: np.ndarray) -> np.ndarray:
    """A frame (H, W, C) as one plane."""
    plane = np.ascontiguousarray(frame)
    return plane[..., 0].copy() if frame.shape[2] == 1 else cv2.cvtColor(plane, cv2.COLOR_RGB2GRAY)


def flows(
    clip: np.ndarray, quality: int, grid: int, hints: np.ndarray | None, temporal: bool, out: np.ndarray
) -> np.ndarray:
    """The movement (x, y) in pixels from each frame to the next: the mean over each square with a side of `grid` pixels."""
    search = cv2.DISOpticalFlow_create(QUALITIES[quality])  # type: ignore[attr-defined]
    before, known = grey(clip[0]), None
    height, width = before.shape
    for number in range(1, len(clip)):
        after = grey(clip[number])
        start = known if temporal else None
        if hints is not None:
            start = cv2.resize(np.ascontiguousarray(hints[number - 1], np.float32), (width, height))
        known = search.calc(before, after, None if start is None else start.copy())
        means_of_squares(known, grid, out[number - 1])
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
