"""Effects on pixels: channels and parts in another order, sharpening by a blurred image."""

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pipeflow.kernels.cpu.byte_tables import Filling
from pipeflow.kernels.cpu.color_draws import sorted_numbers
from pipeflow.kernels.cpu.correlation import window_row
from pipeflow.kernels.cpu.displacement import REFLECT_101
from pipeflow.kernels.cpu.jit import BYTES, kernel, machine_code, plain
from pipeflow.kernels.cpu.moving import PIXELS, flattening
from pipeflow.kernels.cpu.noise import unit
from pipeflow.kernels.cpu.simd.bytes import pixels_of_order, reorder_pixels
from pipeflow.kernels.cpu.simd.moves import copy_row


@kernel
def order_channels(source, order, out):
    """Puts the channels of interleaved values into another order."""
    channels = order.size
    for i in range(0, source.size, channels):
        for k in range(channels):
            out[i + k] = source[i + order[k]]


@kernel
def order_pixels(source, order, fill, out):
    reorder_pixels(source, order, fill, out, source.size // 3)


def pixels_of_bytes(source: np.ndarray, order: Sequence[int], fill: int, out: np.ndarray) -> np.ndarray:
    """Puts the channels of pixels of three bytes into another order; a negative number is replaced by the fill value."""
    order_pixels(plain(source).reshape(-1), *group_of(tuple(order), fill), out.reshape(-1))
    return out


@kernel
def shuffle_bytes(source, key, groups, fill, out):
    """Puts the channels of pixels of three bytes into the order that a key draws."""
    order = np.empty(3, np.int64)
    sorted_numbers(key, 3, 0, order)
    reorder_pixels(source, groups[9 * order[0] + 3 * order[1] + order[2]], fill, out, source.size // 3)


@kernel
def drop_bytes(source, key, count, groups, fill, out):
    """Fills as many channels of pixels of three bytes as a key draws."""
    order, kept = np.empty(3, np.int64), 7
    sorted_numbers(key, 3, 0, order)
    for k in range(count):
        kept -= 1 << order[k]
    reorder_pixels(source, groups[kept], fill, out, source.size // 3)


def shuffling() -> Callable[..., np.ndarray]:
    """A function that puts the channels of pixels of three bytes into the order that a key draws."""
    groups = np.stack([group_of((i, j, k), 0)[0] for i in range(3) for j in range(3) for k in range(3)])
    fill = np.zeros(groups.shape[1], np.uint8)
    compute = machine_code(shuffle_bytes, BYTES, np.uint64(0), groups, fill, BYTES)

    def run(source: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(source.ravel(), key, groups, fill, out.ravel())
        return out

    return run


def dropping(count: int, value: int) -> Callable[..., np.ndarray]:
    """A function that fills some channels of pixels of three bytes, drawn by a key, with a value."""
    rows = [[k if kept >> k & 1 else -1 for k in range(3)] for kept in range(8)]
    groups = np.stack([group_of(tuple(row), 0)[0] for row in rows])
    fill = np.full(groups.shape[1], value, np.uint8)
    compute = machine_code(drop_bytes, BYTES, np.uint64(0), count, groups, fill, BYTES)

    def run(source: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(source.ravel(), key, count, groups, fill, out.ravel())
        return out

    return run


@lru_cache(maxsize=64)
def group_of(order: tuple[int, ...], fill: int) -> tuple[np.ndarray, np.ndarray]:
    """For each byte of a group, the place it is taken from, and the value that is filled in."""
    places = [3 * pixel + place if place >= 0 else -1 for pixel in range(pixels_of_order()) for place in order]
    values = [0 if place >= 0 else fill for _ in range(pixels_of_order()) for place in order]
    return np.array([*places, -1], np.int8), np.array([*values, 0], np.uint8)


def in_order(source: np.ndarray, order: Sequence[int], out: np.ndarray) -> np.ndarray:
    """Puts the channels, which are the last axis, into another order; for any type."""
    if source.dtype == np.uint8 and len(order) == 3:
        return pixels_of_bytes(source, order, 0, out)
    raw = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[source.dtype.itemsize]
    order_channels(plain(source).reshape(-1).view(raw), np.array(order, np.int64), out.reshape(-1).view(raw))
    return out


def filled(source: np.ndarray, channels: Sequence[int], value: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Fills some channels, which are the last axis, with a value of the image's type."""
    if source.dtype == np.uint8 and source.shape[-1] == 3:
        return pixels_of_bytes(source, [-1 if k in channels else k for k in range(3)], int(value), out)
    out[...] = source
    for channel in channels:
        out[..., channel] = value
    return out


class Parts(NamedTuple):
    """The parts of a grid. Parts of equal size are a group: ``members`` lists the parts by group, ``ends`` the end of each."""

    places: np.ndarray  # of each part: first row, end of the rows, first column, end of the columns
    members: np.ndarray
    ends: np.ndarray


@lru_cache(maxsize=256)
def parts_of(height: int, width: int, rows: int, columns: int) -> Parts:
    """The parts of an image that is divided as evenly as possible."""
    lines, places = (np.arange(n + 1) * extent // n for n, extent in ((rows, height), (columns, width)))
    found = [
        (top, bottom, left, right)
        for top, bottom in itertools.pairwise(lines.tolist())
        for left, right in itertools.pairwise(places.tolist())
    ]
    groups: dict[tuple[int, int], list[int]] = {}
    for number, (top, bottom, left, right) in enumerate(found):
        groups.setdefault((bottom - top, right - left), []).append(number)
    members = np.array([number for group in groups.values() for number in group], np.int64)
    return Parts(np.array(found, np.int64), members, np.cumsum([len(group) for group in groups.values()]))


@kernel
def sources_of(key, members, ends, sources):
    """For each part, the part that a key puts in its place; only parts of a group change places."""
    begin = 0
    for end in ends:
        numbers = np.empty(end - begin)
        for i in range(numbers.size):
            numbers[i] = unit(key, np.uint64(begin + i))
        order = np.argsort(numbers)
        for i in range(order.size):
            sources[members[begin + i]] = members[begin + order[i]]
        begin = end


@kernel
def move_parts(source, key, places, members, ends, row, pixel, out):
    """Puts the parts of images, rows of some bytes, into the order that a key draws. There may be several frames."""
    sources = np.empty(members.size, np.int64)
    sources_of(key, members, ends, sources)
    frame = places[-1, 1] * row
    for begin in range(0, source.size, frame):
        for part in range(sources.size):
            top, bottom, left, right = places[part]
            first, column = places[sources[part], 0], places[sources[part], 2]
            for i in range(bottom - top):
                at, to = begin + (first + i) * row + column * pixel, begin + (top + i) * row + left * pixel
                copy_row(source, at, (right - left) * pixel, out, to)


def moved_parts(source: np.ndarray, grid: tuple[int, int], key: int, out: np.ndarray) -> np.ndarray:
    """Puts the parts of images (..., H, W, C) into the order that a key draws."""
    if source.size:
        *_, height, width, channels = source.shape
        pixel = channels * source.itemsize
        numbers = parts_of(height, width, *grid)
        flat, target = plain(source).reshape(-1).view(np.uint8), out.reshape(-1).view(np.uint8)
        move_parts(flat, np.uint64(key), *numbers, width * pixel, pixel, target)
    return out


def moving_parts(shape: tuple[int, ...], itemsize: int, grid: tuple[int, int]) -> Callable[..., np.ndarray]:
    """`moved_parts` for images of a shape."""
    *_, height, width, channels = shape
    numbers, pixel, flat = parts_of(height, width, *grid), channels * itemsize, flattening(itemsize)
    row = width * pixel
    compute = machine_code(move_parts, BYTES, np.uint64(0), *numbers, row, pixel, BYTES)

    def run(source: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(flat(source), key, *numbers, row, pixel, flat(out))
        return out

    return run


@kernel
def unsharp_row(values, blurred, amount, threshold, target):
    """Increases the differences from a blurred row that are larger than a threshold."""
    for i in range(values.size):
        value = np.float32(values[i])
        difference = value - blurred[i]
        sharp = value + amount * difference
        kept = sharp if abs(difference) > threshold else value
        target[i] = np.uint8(np.int32(min(max(kept, np.float32(0)), np.float32(255)) + np.float32(0.5)))


@kernel
def unsharp_bytes(source, window, amount, threshold, border, out):
    """The unsharp mask of bytes (H, W, C): each row is blurred along both axes, and then sharpened."""
    height, size, before = source.shape[0], source.shape[1] * source.shape[2], window.size // 2
    lines, target = source.reshape(height, size), out.reshape(height, size)
    line, blurred = np.empty(size + 2 * before * source.shape[2], np.float32), np.empty(size, np.float32)
    for i in range(height):
        window_row(source, i, (before, before), border, window, window, line, blurred, 0)
        unsharp_row(lines[i], blurred, amount, threshold, target[i])


def unsharp(source: np.ndarray, window: np.ndarray, amount: float, threshold: float, out: np.ndarray) -> np.ndarray:
    """Computes the unsharp mask of bytes (H, W, C) by a window that blurs along both axes; borders are mirrored."""
    unsharp_bytes(plain(source), window, np.float32(amount), np.float32(threshold), REFLECT_101, out)
    return out


def unsharpening(window: np.ndarray, amount: float, threshold: float) -> Filling:
    """`unsharp` with this window."""
    numbers = window, np.float32(amount), np.float32(threshold), REFLECT_101
    compute = machine_code(unsharp_bytes, PIXELS, *numbers, PIXELS)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(source if source.flags.c_contiguous else np.ascontiguousarray(source), *numbers, out)
        return out

    return run
