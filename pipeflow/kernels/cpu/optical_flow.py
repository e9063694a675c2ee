"""The movement of pixels from frame to frame, by OpenCV's dense inverse search."""

import cv2
import numpy as np

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
    tall, wide = out.shape[1:3]
    for number in range(1, len(clip)):
        after = grey(clip[number])
        start = known if temporal else None
        if hints is not None:
            start = cv2.resize(np.ascontiguousarray(hints[number - 1], np.float32), (width, height))
        known = search.calc(before, after, None if start is None else start.copy())
        padded = cv2.copyMakeBorder(known, 0, tall * grid - height, 0, wide * grid - width, cv2.BORDER_REPLICATE)
        out[number - 1] = padded.reshape(tall, grid, wide, grid, 2).mean((1, 3))
        before = after
    return out
