"""Masks of COCO's annotations: run lengths, plain or as text, and polygons, as images of bool."""

import numpy as np

_FINER = 5  # outlines are walked on a grid of fifths of a pixel


def decoded_counts(text: str) -> list[int] | None:
    """The run lengths in a text; None if it is damaged.

    A number is written five bits in a character, from the low ones, the sixth bit saying that more follow; from the
    fourth number on it is the difference to the number two before.
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
    """The mask of run lengths that go down the columns, the first of pixels outside."""
    inside = np.arange(len(counts)) % 2 == 1
    return np.repeat(inside, counts).reshape(width, height).T


def filled(polygon: np.ndarray, height: int, width: int) -> np.ndarray:
    """The pixels of a polygon: in each column those between an odd and an even crossing of the outline."""
    corners = (polygon.astype(np.float64) * _FINER + 0.5).astype(np.int64)  # towards zero
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
    """The points of the grid along a side, one for each step of its longer direction, from the lower end on that axis."""
    (dx, dy) = np.abs(end - start)
    longer = 0 if dx >= dy else 1
    low, high = (start, end) if start[longer] <= end[longer] else (end, start)
    length = int(max(dx, dy))
    if length == 0:
        return start[:1], start[1:]
    # Points beyond the image cross no column of it, or cross at its border: they need not be walked one by one.
    first = max(0, -limit - int(low[longer])) if longer == 0 else 0
    last = min(length, limit - int(low[longer])) if longer == 0 else length
    steps = np.arange(first, max(first, last) + 1)
    along = low[longer] + steps
    across = (low[1 - longer] + (high[1 - longer] - low[1 - longer]) / length * steps + 0.5).astype(np.int64)
    return (along, across) if longer == 0 else (across, along)
