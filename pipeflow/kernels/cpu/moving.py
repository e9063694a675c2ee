"""Moves elements without computing: transposes arrays, and takes pixels from any places."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from pipeflow.kernels.cpu.byte_tables import VALUES, filled_by_table, translated
from pipeflow.kernels.cpu.jit import BYTES, NUMBER, RAW, Filling, kernel, machine_code, plain
from pipeflow.kernels.cpu.simd.moves import (
    GROUP,
    LINE,
    LONG,
    SIDE,
    block_columns,
    copy_group,
    copy_inner_group,
    copy_memory,
    copy_one_of_rows,
    copy_row,
    fill_bytes,
    fill_line,
    transpose_block,
)


def row_of_places(image: np.ndarray, columns: int) -> np.ndarray:
    """Memory for the place of each pixel of a row. Places have four bytes if possible: processors convert several of these at
    once.
    """
    return np.empty(columns, np.int32 if image.size < 2**31 else np.int64)


@kernel
def take_elements(flat, places, channels, fill, target, at):
    """take_pixels for any elements."""
    for j in range(places.size):
        p = np.int64(places[j])
        if p >= 0:
            for k in range(channels):
                target[at + j * channels + k] = flat[p * channels + k]
        else:
            for k in range(channels):
                target[at + j * channels + k] = fill[k]


@kernel
def take_few_rgb_bytes(flat, places, first, last, fill, target, at):
    """take_pixels for some pixels of three bytes, one after another."""
    for j in range(first, last):
        p, begin = np.int64(places[j]), at + j * 3
        for k in range(3):
            target[begin + k] = flat[p * 3 + k] if p >= 0 else fill[k]


@kernel
def take_rgb_bytes(flat, places, fill, target, at):
    """take_pixels for pixels of three bytes. A group is copied at once if all its places are in the image, without the last
    pixel, or all are outside.
    """
    end, j = flat.size // 3 - 1, 0
    while j + GROUP < places.size:
        if not copy_group(flat, places, j, end, fill, target, at + j * 3):
            take_few_rgb_bytes(flat, places, j, j + GROUP, fill, target, at)
        j += GROUP
    take_few_rgb_bytes(flat, places, j, places.size, fill, target, at)


@kernel
def take_inner_rgb_bytes(flat, places, first, last, target, at):
    """take_inner_pixels for pixels of three bytes. A group overwrites the byte after it."""
    while first + GROUP <= last:
        copy_inner_group(flat, places, first, target, at + first * 3)
        first += GROUP
    for j in range(first, last):
        for k in range(3):
            target[at + j * 3 + k] = flat[np.int64(places[j]) * 3 + k]


def take_inner_pixels(flat, places, channels, first, last, target, at):
    """Takes some pixels of a row from these places, which are in the image and not its last pixel (inside kernels). Another pixel
    follows on the row, which is taken later.
    """
    raise NotImplementedError("take_inner_pixels is for compiled code")


@overload(take_inner_pixels)
def _take_inner_pixels(flat, places, channels, first, last, target, at):
    def of_bytes(flat, places, channels, first, last, target, at):
        if channels == 3:
            take_inner_rgb_bytes(flat, places, first, last, target, at)
        else:
            take_elements(flat, places[first:last], channels, target, target, at + first * channels)

    def of_others(flat, places, channels, first, last, target, at):
        take_elements(flat, places[first:last], channels, target, target, at + first * channels)

    return of_bytes if flat.dtype == types.uint8 and target.dtype == types.uint8 else of_others


def take_pixels(flat, places, channels, fill, target, at):
    """Takes a row of pixels from these places of an image, or the fill value if a place is negative (inside kernels)."""
    raise NotImplementedError("take_pixels is for compiled code")


@overload(take_pixels)
def _take_pixels(flat, places, channels, fill, target, at):
    def of_bytes(flat, places, channels, fill, target, at):
        if channels == 3:
            take_rgb_bytes(flat, places, fill, target, at)
        else:
            take_elements(flat, places, channels, fill, target, at)

    def of_others(flat, places, channels, fill, target, at):
        take_elements(flat, places, channels, fill, target, at)

    return of_bytes if flat.dtype == types.uint8 and target.dtype == types.uint8 else of_others


@kernel
def gather_columns(source, out):
    """Transposes rows (n, k) of few elements to k rows: reads in order, writes k streams."""
    n, k = source.shape
    if k == 3:
        first, second, third = out[0], out[1], out[2]
        for i in range(n):
            first[i] = source[i, 0]
            second[i] = source[i, 1]
            third[i] = source[i, 2]
        return
    for c in range(k):
        row = out[c]
        for i in range(n):
            row[i] = source[i, c]


@kernel
def scatter_rows(source, out):
    """Transposes few rows (k, n) to rows of k elements."""
    k, n = source.shape
    if k == 3:
        first, second, third = source[0], source[1], source[2]
        for i in range(n):
            out[i, 0] = first[i]
            out[i, 1] = second[i]
            out[i, 2] = third[i]
        return
    for i in range(n):
        for c in range(k):
            out[i, c] = source[c, i]


TILE = 384  # pixels along the rows of the output whose sources stay in the first cache
BLOCK, BEYOND = block_columns(), 2  # pixels of a row of a block; pixels after it that are overwritten


@kernel
def turn_pixels(flat, target, place, down, begin, count):
    """Moves a few pixels of a row of the output, one after another."""
    for j in range(count):
        at, by = np.uint64((begin + j) * 3), np.uint64((place + j * down) * 3)
        for k in range(np.uint64(3)):
            target[at + k] = flat[by + k]


@kernel
def turn_rgb_bytes(source, first, down, across, out):
    """Moves pixels of three bytes into other rows: pixel (i, j) is taken from `first + i * across + j * down`, counted in pixels.

    `across` is 1 or -1. Blocks of four rows are moved. Each overwrites pixels to its right, which the next block writes again.
    """
    rows, columns = out.shape[0], out.shape[1]
    flat, target = source.reshape(source.size), out.reshape(out.size)
    last, inner = source.size - 16, columns - BEYOND
    for left in range(0, columns, TILE):
        right = left + TILE if left + TILE < inner else columns
        for top in range(0, rows, SIDE):
            j = left
            if top + SIDE <= rows:
                # the lowest source column of the block: that of its last row if `across` is -1
                near = first + (top if across > 0 else -(top + SIDE - 1))
                line, step = (top, columns) if across > 0 else (top + SIDE - 1, -columns)
                while j < min(right, inner) and inner >= BLOCK:
                    place = min(j, inner - BLOCK)  # the last block of a row moves pixels again
                    begin = 3 * (near + place * down)
                    end = begin + 3 * (BLOCK - 1) * down
                    if begin > last or end > last:
                        break
                    transpose_block(flat, begin, 3 * down, target, 3 * (line * columns + place), 3 * step)
                    j = place + BLOCK
            for i in range(top, min(top + SIDE, rows)):
                turn_pixels(flat, target, first + i * across + j * down, down, i * columns + j, right - j)
        if right == columns:
            break


def turning(first: int, down: int, across: int) -> Filling:
    """`turn_rgb_bytes` with these places, for many calls."""
    turn = machine_code(turn_rgb_bytes, PIXELS, NUMBER, NUMBER, NUMBER, PIXELS)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        turn(source if source.flags.c_contiguous else np.ascontiguousarray(source), first, down, across, out)
        return out

    return run


PIXELS = np.empty((1, 1, 3), np.uint8)


@kernel
def turn_image(stored, swapped, upside_down, sideways, out):
    """Turns a stored image into `out`, as `jpeg_headers.read_size` describes it."""
    rows, columns, channels = out.shape
    across, down = (
        (1, stored.shape[1]) if swapped else (stored.shape[1], 1)
    )  # distances in pixels from one row or column to the next
    first = (rows - 1) * across * upside_down + (columns - 1) * down * sideways
    across, down = (-across if upside_down else across), (-down if sideways else down)
    if swapped and channels == 3:
        turn_rgb_bytes(stored, first, down, across, out)
        return
    source, target = stored.reshape(stored.size), out.reshape(out.size)
    many = np.uint64(channels)
    for i in range(rows):
        to = np.uint64(i * columns) * many
        for j in range(columns):
            begin = np.uint64(first + i * across + j * down) * many
            for c in range(many):
                target[to + c] = source[begin + c]
            to += many


def turn(image: np.ndarray, times: int, out: np.ndarray) -> np.ndarray:
    """An image (H, W) or (H, W, C) turned counter-clockwise by one quarter or three."""
    height, width = image.shape[:2]
    if image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and out.flags.c_contiguous and image.size:
        first, across = (width - 1, -1) if times == 1 else ((height - 1) * width, 1)
        turn_rgb_bytes(plain(image), first, width if times == 1 else -width, across, out)
        return out
    out[...] = np.rot90(image, times)
    return out


def transpose(data: np.ndarray, order: Sequence[int], out: np.ndarray) -> np.ndarray:
    """The array with its axes in another order; moving one short axis to the other end has kernels of its own."""
    few = 8
    first, last = list(order[:1]), list(order[-1:])
    identity = list(range(data.ndim))
    if data.ndim > 1 and data.size and out.flags.c_contiguous:
        if first == identity[-1:] and list(order[1:]) == identity[:-1] and data.shape[-1] <= few:
            raw, k = RAW[data.dtype.itemsize], data.shape[-1]
            gather_columns(plain(data).view(raw).reshape(-1, k), out.view(raw).reshape(k, -1))
            return out
        if last == identity[:1] and list(order[:-1]) == identity[1:] and data.shape[0] <= few:
            raw, k = RAW[data.dtype.itemsize], data.shape[0]
            rest = math.prod(data.shape[1:])
            scatter_rows(plain(data).view(raw).reshape(k, rest), out.view(raw).reshape(rest, k))
            return out
        if data.dtype == np.uint8 and list(order) == [1, 0, 2] and data.shape[2] == 3:
            turn_rgb_bytes(plain(data), 0, data.shape[1], 1, out)
            return out
    out[...] = data.transpose(list(order))
    return out


@kernel
def look_up_flat(data, table, out):
    last = np.uint64(table.size - 1)
    for i in range(data.size):
        # A negative number becomes a huge unsigned one; the last entry is the default.
        out[i] = table[min(np.uint64(data[i]), last)]


@kernel
def look_up_bytes(data, table, out):
    """Looks up eight numbers at a time; unsigned counters need no check."""
    place, whole, step = np.uint64(0), np.uint64(data.size // 8 * 8), np.uint64(8)
    while place < whole:
        for part in range(8):
            at = place + np.uint64(part)
            out[at] = table[np.uint64(data[at])]
        place += step
    for i in range(data.size // 8 * 8, data.size):
        out[i] = table[np.uint64(data[i])]


def look_up(data: np.ndarray, table: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The table's entry of each number; its last one for numbers beyond it."""
    raw = RAW[out.dtype.itemsize]
    within = data.dtype == np.uint8 and table.size > 256
    if within and table.dtype == np.uint8:
        return translated(data, table[:256], out)
    (look_up_bytes if within else look_up_flat)(plain(data).reshape(-1), table.view(raw), out.view(raw).reshape(-1))
    return out


def separating(shape: Sequence[int], dtype: np.dtype) -> Filling:
    """Moves the channels of images (H, W, few channels) to the front, for many calls."""
    raw, channels, flat = RAW[dtype.itemsize], shape[2], flattening_to(dtype)
    like = np.empty((1, 1), raw)
    compute = machine_code(gather_columns, like, like)

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(flat(data).reshape(-1, channels), flat(out).reshape(channels, -1))
        return out

    return run


def looking_up(dtype: np.dtype, table: np.ndarray) -> Filling:
    """`look_up` in one table, for many calls."""
    if dtype == table.dtype == np.uint8:
        whole = np.empty(256, np.uint8)
        look_up(VALUES, table, whole)
        return filled_by_table(whole)
    raw, flat = RAW[table.dtype.itemsize], flattening_to(table.dtype)
    within, values = dtype == np.uint8 and table.size > 256, table.view(raw)
    compute = machine_code(look_up_bytes if within else look_up_flat, np.empty(0, dtype), values, values)

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(data.ravel(), values, flat(out))
        return out

    return run


def flattening_to(dtype: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    """A function that returns the elements of an array in order, as whole numbers without a sign."""
    raw = RAW[dtype.itemsize]
    return np.ndarray.ravel if dtype == raw else lambda array: array.ravel().view(raw)


def flattening(itemsize: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function that returns the bytes of an array in order."""
    return np.ndarray.ravel if itemsize == 1 else lambda array: array.ravel().view(np.uint8)


@kernel
def last_row_first(source, size, out):
    """Copies rows of some bytes from last to first."""
    if size < LONG:
        for begin in range(0, source.size, size):
            copy_row(source, source.size - size - begin, size, out, begin)
    else:
        for begin in range(0, source.size, size):
            copy_one_of_rows(source, source.size - size - begin, size, out, begin, -size)


def upside_down(size: int, itemsize: int) -> Filling:
    """A function that copies rows of this number of bytes from last to first."""
    copy, flat = machine_code(last_row_first, BYTES, NUMBER, BYTES), flattening(itemsize)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        copy(flat(source), size, flat(out))
        return out

    return run


@kernel
def cut_pixels(source, top, left, step, out):
    """Copies a window of pixels of bytes, with the rows from `top` on in steps of 1 or -1.

    The source may have any distances between its elements.
    """
    rows, columns, channels = out.shape
    size, stride = columns * channels, step * source.strides[0]
    if source.strides[1] != channels or source.strides[2] != 1:
        for i in range(rows):
            for j in range(columns):
                for k in range(channels):
                    out[i, j, k] = source[top + i * step, left + j, k]
        return
    target, first = out.reshape(out.size), top * source.strides[0] + left * channels
    for i in range(rows):
        if size < LONG:
            copy_row(source, first + i * stride, size, target, i * size)
        else:
            copy_one_of_rows(source, first + i * stride, size, target, i * size, stride)


def cutting_out(top: int, left: int, step: int = 1) -> Filling:
    """A function that copies a window of the output's shape out of images (H, W, C) of bytes, with all their channels."""
    cut = machine_code(cut_pixels, STRIDED, NUMBER, NUMBER, NUMBER, PIXELS)

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        cut(image, top, left, step, out)
        return out

    return run


STRIDED = np.empty((2, 2, 6), np.uint8)[..., ::2]


@kernel
def frame_rows(source, first, stride, size, rows, fill, out, before, width):
    """Copies rows of some bytes, `stride` apart, into rows of `width` bytes from place `before` on, and fills the other bytes."""
    fill_bytes(out, 0, before, fill)
    at, margin = before, width - size
    for i in range(rows):
        if size < LONG:
            copy_row(source, first + i * stride, size, out, at)
        else:
            copy_one_of_rows(source, first + i * stride, size, out, at, stride)
        end = at + size
        if i == rows - 1:
            fill_bytes(out, end, out.size - end, fill)
        elif margin <= LINE and end + LINE <= out.size:
            fill_line(out, end, fill)  # the bytes after the margin are those of the next row, which is copied later
        else:
            fill_bytes(out, end, margin, fill)
        at += width


@kernel
def frame_columns(numbers, height, width, inner, fill, out):
    """Copies arrays into an array each of `height` rows and `width` columns, and fills the rest of these. A row of `numbers` has
    the address of an array and its extents; an element of a row has `inner` bytes.
    """
    width *= inner
    for i in range(len(numbers)):
        rows, size = numbers[i, 1], numbers[i, 2] * inner
        at, end = i * height * width, (i + 1) * height * width
        if rows == 0:
            fill_bytes(out, at, end - at, fill)
        for k in range(rows):
            copy_memory(numbers[i, 0] + k * size, size, out, at)
            fill_bytes(out, at + size, (width if k < rows - 1 else end - at) - size, fill)
            at += width


def framed(
    data: np.ndarray, low: Sequence[int], extents: Sequence[int], place: Sequence[int], byte: int, out: np.ndarray
) -> np.ndarray:
    """Copies a part of the data, from `low` on, to a place of the output, and fills all other bytes with one value.

    Both have two axes, and perhaps others that are copied whole.
    """
    numbers, places = frame_numbers(data.shape, data.itemsize, low, extents, place, byte, out.shape)
    frame_rows(plain(data).reshape(-1).view(np.uint8), *numbers, out.reshape(-1).view(np.uint8), *places)
    return out


def frame_numbers(
    shape: Sequence[int],
    itemsize: int,
    low: Sequence[int],
    extents: Sequence[int],
    place: Sequence[int],
    byte: int,
    target: Sequence[int],
) -> tuple[tuple[Any, ...], tuple[int, int]]:
    """The arguments of `frame_rows` before and after the output, for data and an output of these shapes."""
    inner = math.prod(shape[2:]) * itemsize
    stride, width = shape[1] * inner, target[1] * inner
    first, before = low[0] * stride + low[1] * inner, place[0] * width + place[1] * inner
    return (first, stride, extents[1] * inner, extents[0], np.uint8(byte)), (before, width)


def framing(
    shape: Sequence[int],
    itemsize: int,
    low: Sequence[int],
    extents: Sequence[int],
    place: Sequence[int],
    byte: int,
    target: Sequence[int],
) -> Filling:
    """`framed` for data and outputs of these shapes."""
    numbers, places = frame_numbers(shape, itemsize, low, extents, place, byte, target)
    copy, flat = machine_code(frame_rows, BYTES, *numbers, BYTES, *places), flattening(itemsize)

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        copy(flat(data), *numbers, flat(out), *places)
        return out

    return run


@kernel
def put_columns(source, begin, out):
    """Rows (n, k) into columns begin to begin + k of rows of `out`."""
    k = source.shape[1]
    first = np.uint64(begin)
    if k == 3:
        for i in range(source.shape[0]):
            out[i, first] = source[i, 0]
            out[i, first + np.uint64(1)] = source[i, 1]
            out[i, first + np.uint64(2)] = source[i, 2]
    elif k == 1:
        for i in range(source.shape[0]):
            out[i, first] = source[i, 0]
    else:
        for i in range(source.shape[0]):
            for c in range(k):
                out[i, first + np.uint64(c)] = source[i, c]


def interleave(inputs: Sequence[np.ndarray], out: np.ndarray) -> np.ndarray:
    """Joins the inputs along a short last axis."""
    raw = RAW[out.dtype.itemsize]
    target = out.view(raw).reshape(-1, out.shape[-1])
    begin = 0
    for x in inputs:
        put_columns(plain(x).view(raw).reshape(len(target), x.shape[-1]), begin, target)
        begin += x.shape[-1]
    return out
