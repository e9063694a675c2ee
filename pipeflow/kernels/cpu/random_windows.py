"""The window of a crop and a random window, for compiled programs, with the steps and roundings of `operators.windows`."""

import math

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.noise import GOLDEN, mixed

U = np.uint64
_LOW = U(0xFFFFFFFF)
_UNIT = 1.0 / (1 << 53)


@kernel(fastmath=False)
def _bits(key, index):
    """The random bits number `index` of a key."""
    return mixed(key ^ mixed(U(index + 1) * GOLDEN))


@kernel(fastmath=False, inline="always")
def _unit(key, index):
    return np.float64(_bits(key, index) >> U(11)) * _UNIT


@kernel(fastmath=False, inline="always")
def integer(key, index, below):
    """The integer number `index` of a key, from 0 and below a number: the upper half of a product of 128 bits."""
    bits, below = _bits(key, index), U(below)
    upper, lower = bits >> U(32), bits & _LOW
    middle = upper * (below & _LOW) + (lower * (below & _LOW) >> U(32))
    other = lower * (below >> U(32)) + (middle & _LOW)
    return np.int64(upper * (below >> U(32)) + (middle >> U(32)) + (other >> U(32)))


@kernel(fastmath=False, inline="always")
def _half_up(value):
    return np.int64(math.floor(value + 0.5))


@kernel(fastmath=False)
def random_window(key, height, width, least_area, most_area, least_ratio, most_ratio, low, high, attempts):
    """(top, left, height, width); `low` and `high` are the logarithms of the bounds of the ratio, and `key` is an int64."""
    key = U(key)
    for attempt in range(attempts):
        target = height * width * (least_area + (most_area - least_area) * _unit(key, 4 * attempt))
        aspect = math.exp(low + (high - low) * _unit(key, 4 * attempt + 1))
        wide, tall = _half_up(math.sqrt(target * aspect)), _half_up(math.sqrt(target / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            top = integer(key, 4 * attempt + 2, height - tall + 1)
            return top, integer(key, 4 * attempt + 3, width - wide + 1), tall, wide
    aspect = min(max(width / height, least_ratio), most_ratio)
    wide = min(width, max(1, _half_up(height * aspect)))
    tall = min(height, max(1, _half_up(width / aspect)))
    scale = math.sqrt(min(1.0, most_area * height * width / (wide * tall)))
    wide, tall = max(1, np.int64(wide * scale)), max(1, np.int64(tall * scale))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


@kernel(fastmath=False)
def windows(keys, extents, least_area, most_area, least_ratio, most_ratio, low, high, attempts, starts, sizes):
    """The random windows of several samples: `extents`, `starts` and `sizes` have a row of height and width for each."""
    for i in range(keys.size):
        top, left, tall, wide = random_window(
            keys[i], extents[i, 0], extents[i, 1], least_area, most_area, least_ratio, most_ratio, low, high, attempts
        )
        starts[i, 0], starts[i, 1] = top, left
        sizes[i, 0], sizes[i, 1] = tall, wide


@kernel(fastmath=False)
def window_in(shape, key, least_area, most_area, least_ratio, most_ratio, low, high, attempts, start, size):
    """`windows` for one sample, whose first two extents are in `shape`; False if it has no pixels."""
    height, width = np.int64(shape[0]), np.int64(shape[1])
    if height <= 0 or width <= 0:
        return False
    start[0], start[1], size[0], size[1] = random_window(
        key, height, width, least_area, most_area, least_ratio, most_ratio, low, high, attempts
    )
    return True


def loaded() -> bool:
    """True if the kernel for several samples is in memory."""
    return bool(windows.overloads)


def load() -> None:
    """Reads the kernel for several samples from the disk, or compiles it."""
    pairs = np.empty((0, 2), np.int32)
    windows(np.empty(0, np.uint64), pairs.astype(np.int64), 0.1, 1.0, 1.0, 1.0, 0.0, 0.0, 1, pairs, pairs)


NO_WINDOW = 0, 0, 0, 0


@kernel(fastmath=False)
def place_of(extent, size, position, rounds):
    """The place in an extent where a window begins."""
    exact = position * (extent - size)
    if not rounds:
        return np.int64(exact)
    return np.int64(math.floor(exact + 0.5) if exact >= 0 else math.ceil(exact - 0.5))


@kernel(fastmath=False)
def crop_window(height, width, rows, columns, y, x, rounds):
    """(top, left, height, width) of a crop; 0 rows or columns mean all of them. The height is 0 if the crop leaves the image."""
    rows, columns = (rows if rows > 0 else height), (columns if columns > 0 else width)
    top, left = place_of(height, rows, y, rounds), place_of(width, columns, x, rounds)
    if not (0 <= y <= 1 and 0 <= x <= 1) or rows > height or columns > width:
        return NO_WINDOW
    return top, left, rows, columns
