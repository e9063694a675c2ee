"""Separable resampling, for resize and related operators.

The centre of a pixel is at its index plus one half. Each output pixel is a weighted sum of input pixels along every axis
(`taps`, computed in float64); rows are blended first (`blend`), then columns, in float32; the result is rounded once, at the
end. Pixels outside the image are its border pixels; pixels outside a region of interest are those of the image.
"""

import math
from collections.abc import Sequence

import numpy as np
from numba import types
from numba.extending import overload

from pipeflow.kernels.cpu import enlarging
from pipeflow.kernels.cpu.casting import as_type, cast
from pipeflow.kernels.cpu.everyday import CUBIC, GAUSSIAN, LANCZOS3, NEAREST, Taps
from pipeflow.kernels.cpu.jit import RAW, Filling, kernel, machine_code, plain
from pipeflow.kernels.cpu.simd.instructions import LANES as BAND
from pipeflow.kernels.cpu.simd.moves import copy_four_bytes
from pipeflow.kernels.cpu.simd.sums import band_taps, pixel_taps, weighted_rows
from pipeflow.kernels.cpu.upright import resample_by_eights

EDGE = 1e-6  # the Gaussian is not 0 where it is cut off: a pixel exactly there must contribute, also after rounding
ROWS = 4  # output rows of one horizontal pass: four accumulators share one broadcast weight
LANES = 4  # channels in one register
taps_of_2, taps_of_3, taps_of_4, taps_of_5, taps_of_6 = (pixel_taps(ROWS, LANES, n) for n in range(2, 7))
taps_of_many = pixel_taps(ROWS, LANES)


@kernel(fastmath=False)
def filter_weight(kind, x):
    """The filter at distance x from its centre, in units of its own scale."""
    x = abs(x)
    if kind == CUBIC:
        if x < 1:
            return (1.5 * x - 2.5) * x * x + 1
        return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0
    if kind == LANCZOS3:
        if x < 1e-8:
            return 1.0
        angle = math.pi * x
        return 3 * math.sin(angle) * math.sin(angle / 3) / (angle * angle) if x < 3 else 0.0
    if kind == GAUSSIAN:
        return math.exp(-4 * x * x) if x < 1 + EDGE else 0.0
    return max(0.0, 1 - x)


@kernel(fastmath=False)
def taps(size, low, high, full, first, count, kind, antialias):
    """First input pixel and weights of outputs `first` to `first + count` of a grid of `full`.

    The grid covers [low, high) of an axis of `size` pixels; if high is below low, it is mirrored. Weights of pixels beyond the
    border are added to the border pixel's. Every output has the same number of taps, so that the processor can predict the
    loops.
    """
    scale = (high - low) / full
    if kind == NEAREST:
        # DALI adds up the steps in float32. If a place is at the edge of two pixels, the rounding of the sum decides.
        step, place = np.float32(scale), np.float32(low + (first + 0.5) * scale)
        nearest = np.empty(count, np.int64)
        for i in range(count):
            nearest[i] = min(max(math.floor(place), 0), size - 1)
            place += step
        return nearest, np.ones((count, 1), np.float32)
    widen = abs(scale) if antialias and abs(scale) > 1 else 1.0
    edge = EDGE if kind == GAUSSIAN else 0.0
    radius = widen * (3.0 if kind == LANCZOS3 else 2.0 if kind == CUBIC else 1.0)
    starts = np.empty(count, np.int64)
    width = 1
    for i in range(count):
        centre = low + (first + i + 0.5) * scale - 0.5
        begin, end = math.floor(centre - radius - edge) + 1, math.ceil(centre + radius + edge)
        width = max(width, min(end, size) - max(begin, 0))
    width = min(width, size)
    weights = np.zeros((count, width), np.float32)
    exact = np.empty(width, np.float64)
    for i in range(count):
        centre = low + (first + i + 0.5) * scale - 0.5
        begin, end = math.floor(centre - radius - edge) + 1, math.ceil(centre + radius + edge)
        start = min(max(begin, 0), size - width)
        starts[i] = start
        total = 0.0
        if begin >= 0 and end <= size:
            for p in range(begin, end):
                weight = filter_weight(kind, (p - centre) / widen)
                exact[p - start] = 0.0 + weight
                total += weight
            for k in range(begin - start, end - start):
                weights[i, k] = exact[k] / total
            continue
        exact[:] = 0
        for p in range(begin, end):
            weight = filter_weight(kind, (p - centre) / widen)
            exact[min(max(p, 0), size - 1) - start] += weight
            total += weight
        for k in range(width):
            weights[i, k] = exact[k] / total
    return starts, weights


@kernel(fastmath=False)
def bands(starts, weights):
    """The weights of bands of `BAND` neighbouring outputs, each as one dense block: first input, number of taps, weights."""
    number = (starts.size + BAND - 1) // BAND
    begin = np.empty(number, np.int64)
    taps = np.empty(number, np.int64)
    widest = 1
    for b in range(number):
        low, high = starts[b * BAND], 0
        for o in range(b * BAND, min((b + 1) * BAND, starts.size)):
            low = min(low, starts[o])
            high = max(high, starts[o] + weights.shape[1])
        begin[b] = low
        taps[b] = high - low
        widest = max(widest, high - low)
    dense = np.zeros((number, widest, BAND), np.float32)
    for o in range(starts.size):
        b = o // BAND
        for k in range(weights.shape[1]):
            dense[b, starts[o] - begin[b] + k, o - b * BAND] = weights[o, k]
    return begin, taps, dense


@kernel(fastmath=False)
def four_rows(source, pixel, first, last, y, x, low, high, tall, wide):
    """Computes the output rows first to last (at most `ROWS`) in `wide`, as float32 and interleaved.

    Only elements low to high of the source's rows are read.
    """
    y_starts, y_weights = y
    x_starts, x_weights = x
    count, columns = x_weights.shape[1], x_starts.size
    stride, tall_stride, wide_stride = source.shape[1], tall.shape[1], wide.shape[1]
    flat, heights, widths = (
        source.reshape(source.size),
        y_weights.reshape(y_weights.size),
        x_weights.reshape(x_weights.size),
    )
    t, w = tall.reshape(tall.size), wide.reshape(wide.size)
    tall_count = y_weights.shape[1]
    for r in range(last - first):
        o = first + r
        weighted_rows(
            flat,
            y_starts[o] * stride + low,
            stride,
            heights,
            o * tall_count,
            tall_count,
            t,
            r * tall_stride + low,
            high - low,
        )
    # Four lanes are more than the channels of some pixels: the next pixel, which is written later, overwrites the others.
    if count == 2 and pixel <= LANES:
        for o in range(columns):
            taps_of_2(t, x_starts[o] * pixel, tall_stride, pixel, widths, o * count, count, w, o * pixel, wide_stride)
    elif count == 3 and pixel <= LANES:
        for o in range(columns):
            taps_of_3(t, x_starts[o] * pixel, tall_stride, pixel, widths, o * count, count, w, o * pixel, wide_stride)
    elif count == 4 and pixel <= LANES:
        for o in range(columns):
            taps_of_4(t, x_starts[o] * pixel, tall_stride, pixel, widths, o * count, count, w, o * pixel, wide_stride)
    elif count == 5 and pixel <= LANES:
        for o in range(columns):
            taps_of_5(t, x_starts[o] * pixel, tall_stride, pixel, widths, o * count, count, w, o * pixel, wide_stride)
    elif count == 6 and pixel <= LANES:
        for o in range(columns):
            taps_of_6(t, x_starts[o] * pixel, tall_stride, pixel, widths, o * count, count, w, o * pixel, wide_stride)
    else:
        for o in range(columns):
            for c in range(0, pixel, LANES):
                a, b = x_starts[o] * pixel + c, o * pixel + c
                taps_of_many(t, a, tall_stride, pixel, widths, o * count, count, w, b, wide_stride)


@kernel(fastmath=False)
def extent(starts, weights):
    """The start and the end of the input pixels that the outputs read."""
    low, high = starts[0], starts[0]
    for i in range(starts.size):
        low = min(low, starts[i])
        high = max(high, starts[i])
    return low, high + weights.shape[1]


@kernel(fastmath=False)
def resample(source, pixel, y, x, out):
    """Resamples an image of rows (H, W * pixel) to rows (h, w * pixel) with the taps of both axes."""
    if resample_by_eights(source, pixel, y, x, out):
        return
    low, high = extent(x[0], x[1])
    # Four lanes go beyond the last pixel; the zeros there do not change the pixels that are kept.
    tall = np.zeros((ROWS, source.shape[1] + BAND), np.float32)
    wide = np.empty((ROWS, out.shape[1] + BAND), np.float32)
    values, target, unit = wide.reshape(wide.size), out.reshape(out.size), np.ones(1, np.float32)
    for first in range(0, out.shape[0], ROWS):
        last = min(first + ROWS, out.shape[0])
        four_rows(source, pixel, first, last, y, x, low * pixel, high * pixel, tall, wide)
        for r in range(last - first):
            weighted_rows(values, r * wide.shape[1], 0, unit, 0, 1, target, (first + r) * out.shape[1], out.shape[1])


@kernel(fastmath=False)
def resample_plane(source, y, x, out):
    """Resamples one channel (H, W) to (h, w) with the taps of both axes."""
    low, high = extent(x[0], x[1])
    begin, taps, dense = bands(x[0], x[1])
    block = dense.shape[1] * BAND
    weights, flat = dense.reshape(dense.size), source.reshape(source.size)
    heights, count = y[1].reshape(y[1].size), y[1].shape[1]
    tall = np.zeros(source.shape[1] + BAND, np.float32)
    wide, unit, target = np.empty(out.shape[1] + BAND, np.float32), np.ones(1, np.float32), out.reshape(out.size)
    for i in range(out.shape[0]):
        start = y[0][i] * source.shape[1] + low
        weighted_rows(flat, start, source.shape[1], heights, i * count, count, tall, low, high - low)
        for b in range(begin.size):
            band_taps(tall, begin[b], weights, b * block, taps[b], wide, b * BAND)
        weighted_rows(wide, 0, 0, unit, 0, 1, target, i * out.shape[1], out.shape[1])


@kernel(fastmath=False)
def resample_slices(source, z, out):
    """Resamples only the outermost axis: slices (D, elements) to slices (d, elements), float32."""
    starts, weights = z
    flat, target, heights = source.reshape(source.size), out.reshape(out.size), weights.reshape(weights.size)
    size, count = source.shape[1], weights.shape[1]
    for i in range(out.shape[0]):
        weighted_rows(flat, starts[i] * size, size, heights, i * count, count, target, i * size, size)


@kernel(fastmath=False)
def pick_rgb_bytes(source, width, rows, columns, out):
    """Nearest neighbour for pixels of three bytes: four bytes are copied, except if that would leave the memory."""
    last = columns.size - 1
    flat, target = source.reshape(source.size), out.reshape(out.size)
    for i in range(rows.size):
        begin, place = rows[i] * width * 3, i * columns.size * 3
        for j in range(columns.size):
            p = columns[j]
            if j < last and p < width - 1:
                copy_four_bytes(flat, begin + p * 3, target, place + j * 3)
            else:
                for c in range(3):
                    target[place + j * 3 + c] = flat[begin + p * 3 + c]


@kernel(fastmath=False)
def pick(source, rows, columns, out):
    """Nearest neighbour: pixels (H, W, C) at the given rows and columns, elements of any kind."""
    pixel = source.shape[2]
    for i in range(rows.size):
        line, target = source[rows[i]], out[i]
        if pixel == 3:
            for j in range(columns.size):
                p = np.uint64(columns[j])
                target[j, 0] = line[p, 0]
                target[j, 1] = line[p, 1]
                target[j, 2] = line[p, 2]
        elif pixel == 1:
            for j in range(columns.size):
                target[j, 0] = line[np.uint64(columns[j]), 0]
        else:
            for j in range(columns.size):
                p = np.uint64(columns[j])
                for c in range(pixel):
                    target[j, c] = line[p, c]


def pick_pixels(source, rows, columns, out):
    """`pick` for the same elements, or for others to which they are converted without a loss (inside kernels)."""
    raise NotImplementedError("pick_pixels is for compiled code")


@overload(pick_pixels)
def _pick_pixels(source, rows, columns, out):
    def of_bytes(source, rows, columns, out):
        if source.shape[2] == 3:
            pick_rgb_bytes(source, source.shape[1], rows, columns, out)
        else:
            pick(source, rows, columns, out)

    def of_others(source, rows, columns, out):
        pick(source, rows, columns, out)

    return of_bytes if source.dtype == types.uint8 and out.dtype == types.uint8 else of_others


def axis_taps(
    size: int,
    low: float,
    high: float,
    full: int,
    kind: int,
    antialias: bool,
    first: int = 0,
    count: int = -1,
    mirror: bool = False,
) -> Taps:
    """Taps of one axis, in the order of the outputs; `first` and `count` choose a window of the output
    grid."""
    table = taps(size, float(low), float(high), full, first, full if count < 0 else count, kind, antialias)
    if mirror:
        return table[0][::-1].copy(), table[1][::-1].copy()
    return table


def resample_image(source: np.ndarray, y: Taps, x: Taps, out: np.ndarray) -> None:
    """Resamples an image (H, W, C) to (h, w, C) in any element types."""
    pixel = source.shape[2]
    if source.dtype == out.dtype and y[1].shape[1] == 1 and x[1].shape[1] == 1:
        raw = RAW[source.dtype.itemsize]
        if pixel == 3 and raw is np.uint8:
            pick_rgb_bytes(plain(source).view(raw), source.shape[1], y[0], x[0], out.view(raw))
            return
        pick(plain(source).view(raw), y[0], x[0], out.view(raw))
        return
    if (source.dtype, out.dtype) not in TUNED:
        wide = np.empty(out.shape, np.float32)
        resample_image(as_type(source, np.dtype(np.float32)), y, x, wide)
        cast(wide, out)
        return
    height, width = source.shape[:2]
    if enlarging.fits(source, y, x, out) and enlarging.resample_near(
        plain(source).reshape(height, width * pixel), pixel, y, x, out.reshape(len(out), -1)
    ):
        return
    if pixel == 1:
        resample_plane(plain(source).reshape(height, width), y, x, out.reshape(out.shape[:2]))
        return
    resample(plain(source).reshape(height, width * pixel), pixel, y, x, out.reshape(out.shape[0], out.shape[1] * pixel))


def resampling(
    given: tuple[int, ...], wanted: tuple[int, ...], dtype: np.dtype, to: np.dtype, tables: Sequence[Taps]
) -> Filling | None:
    """`resample_any` of images (H, W, C) of one shape, for many calls; None if it takes other steps."""
    if len(tables) != 2 or len(given) != 3 or (dtype, to) not in TUNED or 0 in (*given, *wanted):
        return None
    (y, x), (height, width, pixel) = tables, given
    nearest = dtype == to and y[1].shape[1] == x[1].shape[1] == 1
    if nearest or enlarging.fits(np.empty(given, dtype), y, x, np.empty(wanted, to)):
        return None
    rows, result = (height, width * pixel), (wanted[0], wanted[1] * pixel)
    like, target = np.empty((1, 1), dtype), np.empty((1, 1), to)
    if pixel == 1:
        plane = machine_code(resample_plane, like, y, x, target)

        def run_plane(image: np.ndarray, out: np.ndarray) -> np.ndarray:
            plane(image.ravel().reshape(rows), y, x, out.reshape(result))
            return out

        return run_plane
    compute = machine_code(resample, like, pixel, y, x, target)

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(image.ravel().reshape(rows), pixel, y, x, out.reshape(result))
        return out

    return run


TUNED = {
    (np.dtype(a), np.dtype(b)) for a, b in ((np.uint8, np.uint8), (np.uint8, np.float32), (np.float32, np.float32))
}


def resample_any(source: np.ndarray, first_axis: int, tables: list[Taps], out: np.ndarray) -> np.ndarray:
    """Resamples two or three neighbouring axes from `first_axis` on, for every index of the axes before them; the axes after
    them are channels.
    """
    spatial = len(tables)
    outer = math.prod(source.shape[:first_axis])
    pixel = math.prod(source.shape[first_axis + spatial :])
    given = source.shape[first_axis : first_axis + spatial]
    wanted = out.shape[first_axis : first_axis + spatial]
    flat = plain(source).reshape(outer, *given, pixel)
    target = out.reshape(outer, *wanted, pixel)
    if not (source.size and out.size):
        raise ValueError(f"cannot resample an image of shape {source.shape} to {out.shape}: it has no pixels")
    for image, result in zip(flat, target, strict=True):
        if spatial == 2:
            resample_image(image, tables[0], tables[1], result)
            continue
        deep = np.empty((wanted[0], *given[1:], pixel), np.float32)
        resample_slices(
            as_type(image, np.dtype(np.float32)).reshape(given[0], -1), tables[0], deep.reshape(wanted[0], -1)
        )
        for slice_in, slice_out in zip(deep, result, strict=True):
            resample_image(slice_in, tables[1], tables[2], slice_out)
    return out
