"""Filters with a kernel of any numbers along the two or three spatial axes, with any border mode.

Sums are float32, rounded once.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pipeflow.kernels.cpu.simd.sums import mean_row, slide_row, tap_row

from .casting import as_type, cast
from .displacement import CONSTANT, border_index
from .jit import Filling, kernel, machine_code, plain

READ = {np.dtype(t) for t in (np.uint8, np.int8, np.uint16, np.int16, np.float32)}
WRITTEN = {np.dtype(np.uint8), np.dtype(np.float32)}
FEW = 16  # with at most this number of taps, a product of two windows is not faster


@kernel
def fill_margins(source, before, border, fill, out):
    """Fills the border around planes (D, H, W, pixel) in the middle of the output, `before` elements from its start."""
    depth, height, width, pixel = source.shape
    for d in range(out.shape[0]):
        plane = border_index(d - before[0], depth, border)
        for i in range(out.shape[1]):
            line = border_index(i - before[1], height, border)
            inside = before[0] <= d < before[0] + depth and before[1] <= i < before[1] + height
            if plane < 0 or line < 0:
                out[d, i] = fill
                continue
            row, target = source[plane, line], out[d, i]
            if not inside:
                target[before[2] : before[2] + width] = row
            for margin in range(out.shape[2] - width):
                x = margin if margin < before[2] else margin + width
                column = border_index(x - before[2], width, border)
                for k in range(pixel):
                    target[x, k] = fill if column < 0 else row[column, k]


def framed(source: np.ndarray, before: np.ndarray, shape: tuple[int, ...], border: int, fill: np.generic) -> np.ndarray:
    """The planes with margins, in an array of this shape."""
    out = np.empty((*shape, source.shape[3]), source.dtype)
    out[tuple(slice(begin, begin + extent) for begin, extent in zip(before, source.shape))] = source
    fill_margins(source, before, border, fill, out)
    return out


@kernel
def correlate_rows(source, places, weights, out):
    """Computes every row of the output from taps at these places of the input with margins."""
    flat, target = source.reshape(source.size), out.reshape(out.size)
    pixel, size = source.shape[3], out.shape[2] * out.shape[3]
    for d in range(out.shape[0]):
        for i in range(out.shape[1]):
            start = (d * source.shape[1] + i) * source.shape[2] * pixel
            tap_row(flat, start, places, weights, weights.size, target, (d * out.shape[1] + i) * size, size)


@kernel
def float_row(source, i, before, border, fill, line):
    """Row i of an image (H, W, pixel) with margins, as floats; `before` is the number of rows and columns before its first
    pixel.
    """
    height, width, pixel = source.shape
    row = border_index(i - before[0], height, border)
    if row < 0:
        line[:] = fill
        return
    values = source[row].reshape(width * pixel)
    inside = line[before[1] * pixel : (before[1] + width) * pixel]
    for k in range(values.size):
        inside[k] = np.float32(values[k])
    for margin in range(line.size // pixel - width):
        x = margin if margin < before[1] else margin + width
        column = border_index(x - before[1], width, border)
        for k in range(pixel):
            line[x * pixel + k] = fill if column < 0 else inside[column * pixel + k]


@kernel
def correlate_numbers(source, before, border, fill, tall, wide, lines, columns, weights, out):
    """Like correlate_rows, for integers without margins: the rows of a window are converted once, and kept as floats."""
    height, size = out.shape[0], out.shape[1] * out.shape[2]
    stride = size + (wide - 1) * source.shape[2]
    kept, target = np.empty(tall * stride, np.float32), out.reshape(out.size)
    places = np.empty(weights.size, np.int64)
    for i in range(height + tall - 1):
        begin = i % tall * stride
        float_row(source, i, before, border, fill, kept[begin : begin + stride])
        first = i - tall + 1
        if first >= 0:
            for k in range(weights.size):
                places[k] = (first + lines[k]) % tall * stride + columns[k] * source.shape[2]
            tap_row(kept, 0, places, weights, weights.size, target, first * size, size)


@kernel
def correlate_windows(source, tall_places, tall, wide_places, wide, out):
    """The same for a kernel that is a product of two windows: for each row, first along the columns, then along the row."""
    flat, target = source.reshape(source.size), out.reshape(out.size)
    stride, size = source.shape[2] * source.shape[3], out.shape[2] * out.shape[3]
    line = np.empty(stride, np.float32)
    for d in range(out.shape[0]):
        for i in range(out.shape[1]):
            start = (d * source.shape[1] + i) * stride
            tap_row(flat, start, tall_places, tall, tall.size, line, 0, stride)
            tap_row(line, 0, wide_places, wide, wide.size, target, (d * out.shape[1] + i) * size, size)


@kernel
def window_row(source, i, before, border, tall, wide, line, target, at):
    """Row i of an image (H, W, pixel) after a window along the columns and then one along the row; it has no fill value.

    `line` has room for a row with margins; the result begins at place `at` of the target.
    """
    height, width, pixel = source.shape
    flat, size, inside = source.reshape(source.size), width * pixel, before[1] * pixel
    places = np.empty(max(tall.size, wide.size), np.int64)
    for k in range(tall.size):
        places[k] = border_index(i + k - before[0], height, border) * size
    tap_row(flat, 0, places, tall, tall.size, line, inside, size)
    for margin in range(wide.size - 1):
        x = margin if margin < before[1] else margin + width
        column = border_index(x - before[1], width, border)
        for k in range(pixel):
            line[x * pixel + k] = line[inside + column * pixel + k]
    for k in range(wide.size):
        places[k] = k * pixel
    tap_row(line, 0, places, wide, wide.size, target, at, size)


@kernel
def correlate_lines(source, before, border, tall, wide, out):
    """`window_row` for every row of an image."""
    height, width, pixel = source.shape
    line, target = np.empty((width + wide.size - 1) * pixel, np.float32), out.reshape(out.size)
    for i in range(height):
        window_row(source, i, before, border, tall, wide, line, target, i * width * pixel)


@kernel
def box_rows(source, size, anchor, border, factor, shift, out):
    """Means of windows of bytes (H, W, pixel), rounded to the nearest byte.

    The sums are exact. The sums of columns are kept from row to row: one row is added, one is subtracted.
    """
    height, width, pixel = source.shape
    tall, wide = size
    flat, lines, target = source.reshape(source.size), source.reshape(height, width * pixel), out.reshape(out.size)
    total, before = lines.shape[1], anchor[1] * pixel
    framed = np.zeros(total + (wide - 1) * pixel, np.uint16)
    below = framed[before : before + total]
    half, factor, shift = np.uint16(tall * wide // 2), np.uint16(factor), np.uint16(shift)
    for i in range(-anchor[0], tall - anchor[0]):
        entering = lines[border_index(i, height, border)]
        for x in range(total):
            below[x] += entering[x]
    for i in range(height):
        if i:
            enters = border_index(i + tall - 1 - anchor[0], height, border)
            leaves = border_index(i - 1 - anchor[0], height, border)
            slide_row(flat, enters * total, leaves * total, framed, before, total)
        for margin in range(wide - 1):
            x = margin if margin < anchor[1] else margin + width
            column = border_index(x - anchor[1], width, border)
            for c in range(pixel):
                framed[x * pixel + c] = below[column * pixel + c]
        mean_row(framed, pixel, wide, half, factor, shift, target, i * total, total)


@lru_cache(maxsize=64)
def division(count: int) -> tuple[int, int] | None:
    """A factor and a shift: n * factor >> 16 >> shift is the mean of `count` bytes, if n is their sum plus half the count.

    All numbers have 16 bits. None if the count has no such factor, or is even: then a mean may be halfway between two bytes.
    """
    sums = np.arange(255 * count + 1) + count // 2
    if count % 2 == 0 or sums[-1] >= 1 << 16:
        return None
    for shift in range(8):
        factor = (1 << 16 + shift) // count + 1
        if factor < 1 << 16 and bool((sums * factor >> 16 + shift == sums // count).all()):
            return factor, shift
    return None


def windows_of(values: bytes, height: int, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Two windows whose product is the kernel; None if there are none or if they would save nothing."""
    matrix = np.frombuffer(values, np.float32).reshape(height, width)
    if matrix.size <= FEW:
        return None
    left, sizes, right = np.linalg.svd(matrix.astype(np.float64))
    if sizes[0] == 0 or (len(sizes) > 1 and sizes[1] > 1e-6 * sizes[0]):
        return None
    scale = math.sqrt(sizes[0])
    return (left[:, 0] * scale).astype(np.float32), (right[0] * scale).astype(np.float32)


class Form(NamedTuple):
    """A kernel in the forms that the loops use."""

    mean: tuple[int, int] | None  # factor and shift of ``division``, if all taps are equal and sum up to 1
    windows: tuple[np.ndarray, np.ndarray] | None  # the result of ``windows_of``
    places: tuple[np.ndarray, ...]  # places of the taps that are not 0
    weights: np.ndarray


@lru_cache(maxsize=64)
def form_of(values: bytes, sizes: tuple[int, int, int]) -> Form:
    """The Form of a kernel of float32 numbers."""
    taps = np.frombuffer(values, np.float32).reshape(sizes)
    flat = sizes[0] == 1
    mean = division(taps.size) if flat and (taps == np.float32(1 / taps.size)).all() else None
    places = tuple(map(np.ascontiguousarray, np.nonzero(taps)))
    return Form(mean, windows_of(values, *sizes[1:]) if flat else None, places, np.ascontiguousarray(taps[places]))


def _framed_correlation(
    image: np.ndarray,
    taps: np.ndarray,
    anchor: tuple[int, ...],
    border: int,
    fill: float,
    valid: bool,
    form: Form,
    out: np.ndarray,
) -> None:
    """Correlates a copy with margins: for volumes, floats, and kernels that are products of two windows."""
    before = np.zeros(3, np.int64) if valid else np.array(anchor, np.int64)
    shape = tuple(extent + size - 1 for extent, size in zip(out.shape[:3], taps.shape))
    if shape != image.shape[:3]:
        value = as_type(np.full(1, fill, np.float64), image.dtype)[0]
        image = framed(image, before, shape, border, value)
    pixel, stride = image.shape[3], image.shape[2] * image.shape[3]
    if form.windows is not None:
        tall, wide = form.windows
        rows, columns = np.arange(len(tall)) * stride, np.arange(len(wide)) * pixel
        correlate_windows(image, rows, tall, columns, wide, out)
    else:
        z, y, x = form.places
        correlate_rows(image, (z * image.shape[1] + y) * stride + x * pixel, form.weights, out)


def correlate(
    source: np.ndarray,
    taps: np.ndarray,
    anchor: tuple[int, ...],
    border: int,
    fill: float,
    valid: bool,
    out: np.ndarray,
    away: bool = False,
) -> np.ndarray:
    """An image (H, W, pixel) or volume (D, H, W, pixel), correlated with a kernel of two or three axes.

    Integers are rounded half to even or, with `away`, half away from zero.
    """
    if source.ndim == 3:
        source, out_planes = source[None], out[None]
        taps, anchor = taps[None], (0, *anchor)
    else:
        out_planes = out
    image = plain(source if source.dtype in READ else as_type(source, np.dtype(np.float32)))
    taps = np.ascontiguousarray(taps, np.float32)
    form = form_of(taps.tobytes(), taps.shape)
    flat = len(taps) == 1
    if image.dtype == out.dtype == np.uint8 and form.mean is not None and border and not valid:
        for plane, result in zip(image, out_planes, strict=True):
            box_rows(plane, taps.shape[1:], anchor[1:], border, *form.mean, result)
        return out
    direct = out.dtype in WRITTEN and not (away and out.dtype.kind != "f")
    target = out_planes if direct else np.empty(out_planes.shape, np.float32)
    if flat and form.windows is None and image.dtype != np.float32:
        before = (0, 0) if valid else (anchor[1], anchor[2])
        value = np.float32(as_type(np.full(1, fill, np.float64), image.dtype)[0])
        _, lines, columns = form.places
        for plane, result in zip(image, target, strict=True):
            correlate_numbers(plane, before, border, value, *taps.shape[1:], lines, columns, form.weights, result)
    elif flat and form.windows is not None and border and not valid:
        for plane, result in zip(image, target, strict=True):
            correlate_lines(plane, (anchor[1], anchor[2]), border, *form.windows, result)
    else:
        _framed_correlation(image, taps, anchor, border, fill, valid, form, target)
    if target is not out_planes:
        cast(np.rint(target) if out.dtype.kind in "iu" and not away else target, out_planes)
    return out


Correlation = Callable[[np.ndarray, tuple[int, int]], Filling]


def correlating(source: np.ndarray, border: int, target: np.ndarray) -> Correlation | None:
    """`correlate` for many images (H, W, pixel) like these, with mirrored or other borders and without a fill value.

    The function gets the taps and the anchor, and returns a function of an image and the output. None if the types need other
    steps.
    """
    if source.dtype not in READ or target.dtype not in WRITTEN or border == CONSTANT:
        return None
    bytes_only = source.dtype == target.dtype == np.uint8
    codes: dict[Any, Any] = {}

    def code(one: Any, *arguments: Any) -> Any:
        found = codes.get(one)
        if found is None:
            found = codes[one] = machine_code(one, source, *arguments, target)
        return found

    def with_taps(taps: np.ndarray, anchor: tuple[int, int]) -> Filling:
        tall, wide = taps.shape
        if taps.dtype != np.float32:
            taps = taps.astype(np.float32)
        form = form_of(taps.tobytes(), (1, tall, wide))
        numbers: Any
        if bytes_only and form.mean is not None:
            one, numbers = box_rows, ((tall, wide), anchor, border, *form.mean)
        elif form.windows is not None:
            one, numbers = correlate_lines, (anchor, border, *form.windows)
        elif source.dtype != np.float32:
            one, numbers = (
                correlate_numbers,
                (anchor, border, NOTHING, tall, wide, form.places[1], form.places[2], form.weights),
            )
        else:
            return lambda image, out: correlate(image, taps, anchor, border, 0.0, False, out)
        compute = code(one, *numbers)

        def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
            compute(image if image.flags.c_contiguous else np.ascontiguousarray(image), *numbers, out)
            return out

        return run

    return with_taps


NOTHING = np.float32(0)
