"""HCOMPRESS: a transform of squares of four pixels, level by level, whose numbers are stored bit plane by bit plane.

At each level a square of four sums becomes their sum and three differences, and the sums are the picture of the next level. The
numbers of a quarter of the result (sums, and the three kinds of differences) are stored from the highest bit plane down. A plane
is a tree: four bits say which quarters of it have a bit that is set, then the same for each of these quarters, and so on. At the
end come the signs of all numbers that are not zero.

The bytes may come from an attacker: every read is compared with the end of the data before.
"""

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.bit_reading import bits_at
from pipeflow.kernels.cpu.jit import kernel

HEADER = 25  # bytes: two of a mark, three numbers of four bytes, the total of eight, and the planes of three kinds of numbers
MARK = 0xDD99
MOST_PLANES = 60
PADDING = 16  # zero bytes after the data
IN_TREE = 15  # before a plane: it is a tree; 0: its bits are stored as they are
# Codes of three to six bits for the sixteen groups of four bits: place 2 ** length + code has the group, or -1.
_GROUPS = {
    3: {0: 1, 1: 2, 2: 4, 3: 8},
    4: {8: 3, 9: 5, 10: 10, 11: 12, 12: 15},
    5: {26: 6, 27: 7, 28: 9, 29: 11, 30: 13},
    6: {62: 0, 63: 14},
}
_CODES = np.full(128, -1, np.int64)
for _length, _codes in _GROUPS.items():
    for _code, _group in _codes.items():
        _CODES[(1 << _length) + _code] = _group


@kernel
def _group_at(data, position, end, codes):
    """Four bits by their code, and the position after it; the position is -1 if there is none."""
    for length in range(3, 7):
        if position + length > end:
            break
        group = codes[(1 << length) + bits_at(data, position, length)]
        if group >= 0:
            return group, position + length
    return np.int64(0), np.int64(-1)


@kernel
def _halved(extent, times):
    """How many squares of 2 ** times cover an extent."""
    return (extent + (1 << times) - 1) >> times


@kernel
def _levels(height, width):
    """How often both extents are halved until they are 1."""
    levels = 0
    while (1 << levels) < max(height, width):
        levels += 1
    return levels


@kernel
def _read_quarter(data, position, end, codes, out, top, left, height, width, planes, marks):
    """Reads the bit planes of a quarter of the numbers; returns the position after them, -1 for damaged data.

    ``marks`` is memory for the groups of a level, one for each square of two by two.
    """
    levels = _levels(height, width)
    for plane in range(planes - 1, -1, -1):
        if position + 4 > end:
            return np.int64(-1)
        form = bits_at(data, position, 4)
        position += 4
        rows, columns = _halved(height, 1), _halved(width, 1)
        if form == 0:
            if position + 4 * rows * columns > end:
                return np.int64(-1)
            for place in range(rows * columns):
                marks[place] = bits_at(data, position, 4)
                position += 4
        elif form == IN_TREE:
            marks[0], position = _group_at(data, position, end, codes)
            if position < 0:
                return position
            above = 1  # groups in a row of the level above
            for level in range(1, levels):
                rows, columns = _halved(height, levels - level), _halved(width, levels - level)
                # From the end: the groups of the level above, which are in the same memory, are read before they are replaced.
                for row in range(rows - 1, -1, -1):
                    for column in range(columns - 1, -1, -1):
                        group = marks[(row >> 1) * above + (column >> 1)]
                        bit = group >> (3 - 2 * (row & 1) - (column & 1)) & 1
                        marks[marks.size // 2 + row * columns + column] = bit
                for place in range(rows * columns - 1, -1, -1):
                    found = marks[marks.size // 2 + place]
                    if found:
                        found, position = _group_at(data, position, end, codes)
                        if position < 0:
                            return position
                    marks[place] = found
                above = columns
        else:
            return np.int64(-1)
        columns = _halved(width, 1)
        for row in range(height):
            for column in range(width):
                group = marks[(row >> 1) * columns + (column >> 1)]
                bit = group >> (3 - 2 * (row & 1) - (column & 1)) & 1
                out[top + row, left + column] |= bit << plane
    return position


@kernel
def _read_signs(data, position, end, out):
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            if out[row, column]:
                if position >= end:
                    return False
                if bits_at(data, position, 1):
                    out[row, column] = -out[row, column]
                position += 1
    return True


@kernel
def _rounded(number, unit):
    """A multiple of a power of two; halves go away from zero."""
    half = unit >> 1
    return (number + (half if number >= 0 else max(half - 1, 0))) & -unit


@kernel
def _in_turn(line, first, second):
    """Puts the numbers of the second half of a line between those of the first half."""
    half = (line.size + 1) >> 1
    for place in range(line.size):
        (first if place < half else second)[place if place < half else place - half] = line[place]
    for place in range(line.size):
        line[place] = second[place >> 1] if place & 1 else first[place >> 1]


@kernel
def _restore(out, first, second):
    """The pixels: from the last level to the first, each sum and its three differences become four sums."""
    height, width = out.shape
    levels = _levels(height, width)
    if levels == 0:
        return
    unit = np.int64(1) << levels
    out[0, 0] = _rounded(out[0, 0], unit << 1)
    for level in range(levels - 1, -1, -1):
        rows, columns = _halved(height, level), _halved(width, level)
        for row in range(rows):
            _in_turn(out[row, :columns], first, second)
        for column in range(columns):
            _in_turn(out[:rows, column], first, second)
        half, shift = unit >> 1, 2 if level == 0 else 1
        for row in range(0, rows, 2):
            for column in range(0, columns, 2):
                below, beside = row + 1 < rows, column + 1 < columns
                total = out[row, column]
                vertical = _rounded(out[row + 1, column], unit) if below else np.int64(0)
                horizontal = _rounded(out[row, column + 1], unit) if beside else np.int64(0)
                crossed = _rounded(out[row + 1, column + 1], half) if below and beside else np.int64(0)
                # The lowest bits of a sum and of its differences are equal, so they are stored only once.
                lowest = crossed & half
                vertical -= lowest if vertical >= 0 else -lowest
                horizontal -= lowest if horizontal >= 0 else -lowest
                second_bit = (crossed ^ vertical ^ horizontal) & unit
                if total >= 0:
                    total += lowest - second_bit
                else:
                    total += second_bit if lowest == 0 else lowest - second_bit
                out[row, column] = (total - vertical - horizontal + crossed) >> shift
                if beside:
                    out[row, column + 1] = (total - vertical + horizontal - crossed) >> shift
                if below:
                    out[row + 1, column] = (total + vertical - horizontal - crossed) >> shift
                if below and beside:
                    out[row + 1, column + 1] = (total + vertical + horizontal + crossed) >> shift
        unit = half


@kernel
def _decode(data, end, codes, planes, scale, total, out):
    """Writes the pixels; False for damaged data."""
    height, width = out.shape
    upper, before = _halved(height, 1), _halved(width, 1)
    marks = np.empty(2 * (_halved(upper, 1) + 1) * (_halved(before, 1) + 1) + 2, np.int64)
    position = np.int64(0)
    for quarter in range(4):
        top, left = (quarter >> 1) * upper, (quarter & 1) * before
        rows, columns = (height - upper if top else upper), (width - before if left else before)
        if (quarter >> 1 and not top) or (quarter & 1 and not left):
            rows = columns = 0
        count = planes[(quarter >> 1) + (quarter & 1)]
        position = _read_quarter(data, position, end, codes, out, top, left, rows, columns, count, marks)
        if position < 0:
            return False
    if position + 4 > end or bits_at(data, position, 4):
        return False
    position = (position + 4 + 7) & ~7
    if not _read_signs(data, position, end, out):
        return False
    out[0, 0] = total
    if scale > 1:
        for row in range(height):
            for column in range(width):
                out[row, column] *= scale
    longest = max(height, width)
    _restore(out, np.empty(longest, np.int64), np.empty(longest, np.int64))
    return True


def decode(data: NDArray[np.uint8], count: int) -> "NDArray[np.int64] | None":
    """The values of a tile; None for damaged data, or data for another number of values."""
    start = data[:HEADER].tobytes()
    height, width, scale = (int.from_bytes(start[place : place + 4], "big", signed=True) for place in (2, 6, 10))
    planes = np.array([*start[22:25]], np.int64)
    if len(start) < HEADER or int.from_bytes(start[:2], "big") != MARK or height < 1 or width < 1 or scale < 0:
        return None
    if height * width != count or planes.max() > MOST_PLANES:
        return None
    padded = np.zeros(data.size - HEADER + PADDING, np.uint8)
    padded[: data.size - HEADER] = data[HEADER:]
    out = np.zeros((height, width), np.int64)
    total = np.int64(int.from_bytes(start[14:22], "big", signed=True))
    good = _decode(padded, np.int64(8 * (data.size - HEADER)), _CODES, planes, np.int64(scale), total, out)
    return out.reshape(-1) if good else None
