"""Masks of COCO's annotations as images of bool, made from run lengths (plain or as text) and polygons."""

import numpy as np

_FINER = 5  # outlines are computed on a grid of fifths of a pixel


def decoded_counts(text: str) -> list[int] | None:
    """The run lengths in a text; None if it is damaged.

    A character has five bits of a number, the low bits first; its sixth bit is 1 if more characters follow. From the fourth
    number on, the text has the difference to the number two places before.
    """
    counts: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64 or shift > 30:
            return None
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
        value = shift = 0
    return None if shift else counts


def runs(counts: np.ndarray, height: int, width: int) -> np.ndarray:
    """The mask from run lengths along the columns; the first run is of pixels outside the mask."""
    inside = np.arange(len(counts)) % 2 == 1
    return np.repeat(inside, counts).reshape(width, height).T


def filled(polygon: np.ndarray, height: int, width: int) -> np.ndarray:
    """The pixels of a polygon: in each column, those after an odd and before an even crossing of the outline."""
    corners = (polygon.astype(np.float64) * _FINER + 0.5).astype(np.int64)  # rounded towards zero
    limit = _FINER * (max(height, width) + 1)
    mask = np.zeros(height * width + 1, np.int64)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        x, y = _line(start, end, limit)
        moved = np.flatnonzero(np.diff(x))
        column = (np.minimum(x[moved], x[moved + 1]) + 0.5) / _FINER - 0.5
        row = (np.minimum(y[moved], y[moved + 1]) + 0.5) / _FINER - 0.5
        kept = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
        first = np.ceil(np.clip(row[kept], 0, height)).astype(np.int64)
        np.add.at(mask, column[kept].astype(np.int64) * height + first, 1)
    return (np.cumsum(mask[:-1]) % 2 == 1).reshape(width, height).T


def _line(start: np.ndarray, end: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The points of the grid along a side of the outline: one for each step along its longer axis, from the lower end."""
    (dx, dy) = np.abs(end - start)
    longer = 0 if dx >= dy else 1
    low, high = (start, end) if start[longer] <= end[longer] else (end, start)
    length = int(max(dx, dy))
    if length == 0:
        return start[:1], start[1:]
    # Points beyond the image cross no column of it, or only at its border: they need not be computed one by one.
    first = max(0, -limit - int(low[longer])) if longer == 0 else 0
    last = min(length, limit - int(low[longer])) if longer == 0 else length
    steps = np.arange(first, max(first, last) + 1)
    along = low[longer] + steps
    across = (low[1 - longer] + (high[1 - longer] - low[1 - longer]) / length * steps + 0.5).astype(np.int64)
    return (along, across) if longer == 0 else (across, along)
