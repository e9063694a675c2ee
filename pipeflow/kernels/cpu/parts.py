"""Cuts, margins, mirrors and rectangles in compiled programs, with the steps and roundings of `operators.windows` and `erase`.

Data has three axes: axes that nothing changes are joined with their neighbours, the last ones to one element of `item` bytes.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.kernels.cpu import jit
from pipeflow.kernels.cpu.jit import BYTES, NUMBER, Filling, kernel, types_of
from pipeflow.kernels.cpu.later import Wanted
from pipeflow.kernels.cpu.normalize import MIRRORED, mirror_rgb_rows, mirror_row
from pipeflow.kernels.cpu.simd.moves import LONG, copy_long_row, copy_one_of_rows, copy_row, fill_bytes

ERROR, PAD, TRIM = range(3)  # what happens to a window that leaves the data
WHOLE, END, SIZE = range(3)  # the meaning of the second number of a slice
NO_PART = 0, 0, 0, -1  # a case that only the body knows


@kernel(fastmath=False, inline="always")
def half_up(value):
    """The nearest integer, halves rounded away from zero."""
    return np.int64(math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5))


@kernel(fastmath=False)
def part_of(anchor, size, extent, policy):
    """A window of an axis: begin and extent of its part of the data, the place of this part in the window, and its extent."""
    if anchor >= 0 and anchor + size <= extent:
        return anchor, size, 0, size
    if policy == ERROR:
        return NO_PART
    low = min(max(anchor, 0), extent)
    kept = max(min(anchor + size, extent) - low, 0)
    if policy == TRIM:
        return low, kept, 0, kept
    return low, kept, low - anchor, size


@kernel(fastmath=False)
def cropped_axis(extent, size, position, rounds, policy):
    """`part_of` for a crop; a size of 0 is the whole extent."""
    if not 0 <= position <= 1 or not -1e9 < size < 1e9:
        return NO_PART
    whole = np.int64(size)
    if whole <= 0:
        whole = extent
    exact = position * (extent - whole)
    return part_of(half_up(exact) if rounds else np.int64(exact), whole, extent, policy)


@kernel(fastmath=False)
def share_of(share, extent):
    """A share of an extent, in single precision as in DALI."""
    return np.float64(np.float32(share) * np.float32(extent))


@kernel(fastmath=False)
def sliced_axis(extent, start, of_extent, end, kind, end_of_extent, policy):
    """`part_of` for a slice. Its numbers are shares of the extent if `of_extent`; two shares are added in double precision."""
    if not (abs(start) < 1e9 and abs(end) < 1e9):
        return NO_PART
    first, last = (share_of(start, extent) if of_extent else start), (share_of(end, extent) if end_of_extent else end)
    if kind == WHOLE:
        last = np.float64(extent)
    elif kind == SIZE and of_extent and end_of_extent:
        last = (np.float64(np.float32(start)) + np.float64(np.float32(end))) * extent
    elif kind == SIZE:
        last = first + last
    anchor = half_up(first)
    size = half_up(last) - anchor
    return part_of(anchor, size, extent, policy) if size >= 0 else NO_PART


@kernel
def move_part(source, item, rows, columns, low, kept, place, full, fill, out):
    """Moves a part of data to a place of the result and fills the other bytes. `rows` and `columns` are extents of the data;
    the others have three numbers, one for each axis.
    """
    size, width = kept[2] * item, full[2] * item
    before = place[2] * item
    for i in range(full[0]):
        outside = i < place[0] or i >= place[0] + kept[0]
        begin = i * full[1] * width
        if outside or kept[1] == 0 or size == 0:
            fill_bytes(out, begin, full[1] * width, fill)
            continue
        fill_bytes(out, begin, place[1] * width, fill)
        at = begin + place[1] * width
        line = ((low[0] + i - place[0]) * rows + low[1]) * columns + low[2]
        if size == width and kept[2] == columns:
            copy_row(source, line * item, kept[1] * width, out, at)
        else:
            for j in range(kept[1]):
                fill_bytes(out, at + j * width, before, fill)
                if size < LONG:
                    copy_row(source, (line + j * columns) * item, size, out, at + j * width + before)
                else:
                    row, step = (line + j * columns) * item, columns * item
                    copy_one_of_rows(source, row, size, out, at + j * width + before, step)
                fill_bytes(out, at + j * width + before + size, width - before - size, fill)
        end = at + kept[1] * width
        fill_bytes(out, end, begin + full[1] * width - end, fill)


@kernel
def place_part(
    source, item, rows, columns, low0, low1, low2, kept0, kept1, kept2, at0, at1, at2, full0, full1, full2, fill, out
):
    """`move_part` with numbers one by one."""
    low, kept, place, full = (low0, low1, low2), (kept0, kept1, kept2), (at0, at1, at2), (full0, full1, full2)
    move_part(source, item, rows, columns, low, kept, place, full, fill, out)


@kernel
def paste_parts(source, columns, item, parts, row, out):
    """Fills every row of a canvas with `row`, and puts parts of an image of so many columns on it: each has its first row and
    column, its extents, and its place on the canvas. A pixel has `item` bytes.
    """
    width, filled = row.size, min(row.size, out.size)
    copy_row(row, 0, filled, out, 0)
    while filled < out.size:
        more = min(filled, out.size - filled)
        copy_row(out, 0, more, out, filled)
        filled += more  # twice as many rows as before: a row of its own for each took four times as long
    for number in range(parts.shape[0]):
        size, step = parts[number, 3] * item, columns * item
        begin = parts[number, 0] * step + parts[number, 1] * item
        at = parts[number, 4] * width + parts[number, 5] * item
        for line in range(parts[number, 2]):
            if size < LONG:
                copy_row(source, begin + line * step, size, out, at + line * width)
            else:
                copy_one_of_rows(source, begin + line * step, size, out, at + line * width, step)


PASTED = BYTES, NUMBER, NUMBER, np.empty((0, 6), np.int64), BYTES, BYTES


def pasting(paste: Any, row: np.ndarray, parts: Sequence[Sequence[int]], columns: int) -> Filling:
    """The code of `paste_parts` for many images of so many columns; ``row`` has the type of the images."""
    table, pixel = np.array(parts, np.int64).reshape(-1, 6), np.dtype(np.uint8)
    flat, item = row.ravel().view(pixel), row.itemsize * row.shape[1]

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        paste(image.ravel().view(pixel), columns, item, table, flat, out.ravel().view(pixel))
        return out

    def of_bytes(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        paste(image.ravel(), columns, item, table, flat, out.ravel())
        return out

    return of_bytes if row.dtype == pixel else run


@kernel
def copy_rows(source, begin, size, rows, upside_down, out):
    """Copies rows of `size` bytes from a place on to the same place, if requested from last to first."""
    if not upside_down:
        copy_long_row(source, begin, rows * size, out, begin)
        return
    for row in range(rows):
        last, at = begin + (rows - 1 - row) * size, begin + row * size
        if size < LONG:
            copy_row(source, last, size, out, at)
        else:
            copy_one_of_rows(source, last, size, out, at, -size)


@kernel
def mirror_rgb(source, rows, size, upside_down, sideways, order, out):
    """Mirrors images with this number of rows, of pixels of three bytes; `size` is the number of bytes of a row."""
    step = rows * size
    for begin in range(0, source.size, step):
        if sideways:
            mirror_rgb_rows(source[begin : begin + step], size, upside_down, order, out[begin : begin + step])
        else:
            copy_rows(source, begin, size, rows, upside_down, out)


@kernel
def mirror(source, rows, size, pixel, upside_down, sideways, out):
    """Mirrors images of any elements; a row has `size` elements and a pixel some of them."""
    step = rows * size
    for begin in range(0, source.size, step):
        if not sideways:
            item = source.itemsize
            copy_rows(source.view(np.uint8), begin * item, size * item, rows, upside_down, out.view(np.uint8))
            continue
        for first in range(begin, begin + step, size):
            row = 2 * begin + step - size - first if upside_down else first
            mirror_row(source[row : row + size], pixel, out[first : first + size])


@kernel
def take_frames(source, size, order, out):
    """Copies the frames of `size` bytes with these numbers, one after another."""
    for place in range(order.size):
        copy_long_row(source, order[place] * size, size, out, place * size)


@kernel(fastmath=False)
def rectangle_axis(extent, anchor, size, anchor_of_extent, size_of_extent, centred):
    """Begin and end of a rectangle along an axis, in single precision as in DALI."""
    low = np.float32(anchor) * np.float32(extent if anchor_of_extent else 1)
    length = np.float32(size) * np.float32(extent if size_of_extent else 1)
    low -= length / np.float32(2) if centred else np.float32(0)
    begin, end = np.floor(low), np.floor(low + length)
    first, last = (
        min(max(np.float64(begin), 0.0), np.float64(extent)),
        min(max(np.float64(end), 0.0), np.float64(extent)),
    )
    return np.int64(first), np.int64(last)


@kernel(fastmath=False)
def erase_rectangles(source, first, second, third, numbers, shares, fill, out):
    """Copies data of three axes of elements of `fill.size` bytes, and writes `fill` into rectangles.

    A rectangle has for each axis: its begin and its extent, NaN for the whole axis. `shares` says if the begin and the extent are
    shares of the extent, and if the begin is the middle.
    """
    copy_long_row(source, 0, source.size, out, 0)
    item = fill.size
    whole = (first, second, third)
    extents = np.empty((3, 2), np.int64)
    for region in range(numbers.shape[0]):
        for axis in range(3):
            anchor, size = numbers[region, axis, 0], numbers[region, axis, 1]
            extents[axis, 0], extents[axis, 1] = 0, whole[axis]
            if size == size:
                extents[axis, 0], extents[axis, 1] = rectangle_axis(
                    whole[axis], anchor, size, shares[0] != 0, shares[1] != 0, shares[2] != 0
                )
        count = (extents[2, 1] - extents[2, 0]) * item
        first = -1  # the place of the first row, of which the others are copies
        for i in range(extents[0, 0], extents[0, 1]):
            for j in range(extents[1, 0], extents[1, 1]):
                begin = ((i * second + j) * third + extents[2, 0]) * item
                if item == 1:
                    fill_bytes(out, begin, max(count, 0), fill[0])
                elif first < 0:
                    first = begin
                    for k in range(0, count, item):
                        for byte in range(item):
                            out[begin + k + byte] = fill[byte]
                elif count > 0:
                    copy_row(out, first, count, out, begin)


# ----------------------------------------------------------------------------------------------------
# which kernels are needed


def moving() -> list[Wanted]:
    """The kernels of cuts and margins."""
    axis = types_of(1, 0.5, True, 1), types_of(1, 0.0, True, 0.0, 1, True, 1)
    return [
        (cropped_axis, (axis[0][0], axis[0][1], *axis[0][1:])),
        (sliced_axis, axis[1]),
        (place_part, types_of(BYTES, *[NUMBER] * 15, np.uint8(0), BYTES)),
    ]


def mirroring(dtype: np.dtype) -> list[Wanted]:
    """The kernels that mirror elements of a type; bytes are also pixels of three."""
    flat = np.empty(0, jit.RAW[dtype.itemsize])
    general = mirror, types_of(flat, *[NUMBER] * 5, flat)
    rgb = mirror_rgb, types_of(BYTES, *[NUMBER] * 4, MIRRORED, BYTES)
    return [general, rgb] if dtype == np.uint8 else [general]


def framing() -> list[Wanted]:
    """The kernel that takes frames."""
    return [(take_frames, types_of(BYTES, NUMBER, np.empty(0, np.int64), BYTES))]


def erasing() -> list[Wanted]:
    """The kernel of rectangles."""
    return [(erase_rectangles, types_of(BYTES, 1, 1, 1, np.zeros((1, 1, 2)), np.zeros(3, np.int64), BYTES, BYTES))]
