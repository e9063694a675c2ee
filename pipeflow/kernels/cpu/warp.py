"""Affine warps: every output pixel comes from a position of the input.

The centre of a pixel is at index + 0.5. Pixels outside the image have the fill value, which is also interpolated, or with
`clamped` the value of the border pixel.
"""

from functools import lru_cache

import numpy as np

from pipeflow.kernels.cpu.blending import blend_pixels
from pipeflow.kernels.cpu.byte_tables import Filling
from pipeflow.kernels.cpu.casting import as_type, cast, convert
from pipeflow.kernels.cpu.displacement import fill_pixels
from pipeflow.kernels.cpu.jit import kernel, machine_code, plain
from pipeflow.kernels.cpu.moving import row_of_places, take_inner_pixels, take_pixels
from pipeflow.kernels.cpu.simd.bytes import has_tables
from pipeflow.kernels.cpu.simd.places import (
    GROUP,
    OUTSIDE,
    all_inside,
    border_places,
    four_places,
    inner_places,
    nearest_places,
)
from pipeflow.kernels.cpu.simd.sums import weighted_rows

FAST = {np.dtype(np.uint8), np.dtype(np.float32)}


@kernel
def border_pixel(source, p, q, u, v, fill, clamped, line, at):
    """Blends four neighbours of which some may be outside the image."""
    height, width, channels = source.shape
    one = np.float32(1)
    for k in range(channels):
        total = np.float32(0)
        for dy in range(2):
            for dx in range(2):
                xx, yy = p + dx, q + dy
                if clamped:
                    xx, yy = min(max(xx, 0), width - 1), min(max(yy, 0), height - 1)
                inside = xx >= 0 and yy >= 0 and xx < width and yy < height
                value = np.float32(source[yy, xx, k]) if inside else np.float32(fill[k])
                total += (u if dx else one - u) * (v if dy else one - v) * value
        line[at + k] = total


@kernel
def warp_linear(source, matrix, fill, clamped, places, out):
    """Bilinear warp: source (H, W, C), out (h, w, C); the matrix maps (x, y) of an output pixel to the input.

    First all places of a row are computed, several at a time, then its pixels.
    """
    height, width, channels = source.shape
    flat, target = source.reshape(source.size), out.reshape(out.size)
    columns = out.shape[1]
    stride, size = width * channels, columns * channels
    a, d = np.float32(matrix[0, 0]), np.float32(matrix[1, 0])
    half, two = np.float32(0.5), np.float32(-2)
    line = np.empty(size + 16, np.float32)
    unit = np.ones(1, np.float32)
    last_x, last_y = np.float32(width + 1), np.float32(height + 1)
    right = width - 1 - (4 * ((channels + 3) // 4) + channels - 1) // channels
    xs, ys = np.empty(columns, np.float32), np.empty(columns, np.float32)
    us, vs = np.empty(columns, np.float32), np.empty(columns, np.float32)
    for i in range(out.shape[0]):
        x0 = np.float32(matrix[0, 1] * (i + 0.5) + matrix[0, 2])
        y0 = np.float32(matrix[1, 1] * (i + 0.5) + matrix[1, 2])
        for j in range(columns):
            # Far outside, where the conversion to an integer would overflow, every pixel is fill or border.
            xs[j] = min(max(a * (np.float32(np.int32(j)) + half) + x0 - half, two), last_x)
        for j in range(columns):
            ys[j] = min(max(d * (np.float32(np.int32(j)) + half) + y0 - half, two), last_y)
        rest = four_places(xs, ys, width, height, right, channels, places, us, vs, columns)
        blend_pixels(flat, places, us, vs, channels, stride, line)
        if rest:
            j = 0
            while j < columns:
                begin = j
                while j < columns and places[j] == OUTSIDE and not clamped:
                    j += 1
                if j > begin:
                    fill_pixels(fill, begin, j, line)
                    continue
                while j + GROUP <= columns and all_inside(places, j):
                    j += GROUP
                if j < columns and places[j] < 0:
                    p, q = np.int64(np.floor(xs[j])), np.int64(np.floor(ys[j]))
                    border_pixel(source, p, q, us[j], vs[j], fill, clamped, line, j * channels)
                j += 1
        weighted_rows(line, 0, 0, unit, 0, 1, target, i * size, size)


# The least number of pixels in the image, one after another, that are taken without a check of each. With AVX-512 a check takes
# less time than the ends of the rows, which are taken by themselves.
SPAN = 1 << 40 if has_tables() else 64


@kernel
def inner_span(factor, start, extent, low, high):
    """The part from ``low`` to ``high`` of a row whose positions factor * (j + 0.5) + start are surely from 0 to an extent."""
    if abs(factor) < 1e-6:  # else the roundings of a position are far less than its distance from the end
        return (low, high) if 1 <= start < extent - 1 else (low, low)
    one, other = -start / factor, (extent - start) / factor
    return max(low, min(one, other) + 1), min(high, max(one, other) - 2)


@kernel
def warp_nearest(source, matrix, fill, clamped, places, out):
    """Nearest neighbour: elements are copied. First all positions of a row are computed, several at a time, then its pixels.

    Positions grow or fall along a row. So if two pixels are in the image, all between them are.
    """
    height, width, channels = source.shape
    columns = out.shape[1]
    flat, target = source.reshape(source.size), out.reshape(out.size)
    a, b = matrix[0, 0], matrix[1, 0]
    filled = np.empty(columns * channels, target.dtype)
    for k in range(filled.size):
        filled[k] = fill[k % channels]
    for i in range(out.shape[0]):
        c = matrix[0, 1] * (i + 0.5) + matrix[0, 2]
        d = matrix[1, 1] * (i + 0.5) + matrix[1, 2]
        at = i * columns * channels
        if clamped:
            border_places(a, c, b, d, width, height, places, 0, columns)
            take_pixels(flat, places, channels, fill, target, at)
            continue
        low = high = 0.0
        if columns > SPAN:
            low, high = inner_span(a, c, width, 0.0, columns - 1.0)
            low, high = inner_span(b, d, height, low, high)
        if high - low >= SPAN:  # False if a position is no number
            first, last = np.int64(low), np.int64(high)
            begin, end = max(first - 3, 0), min(last + 4, columns)  # the others are surely outside
            nearest_places(a, c, b, d, width, height, places, begin, first + 1)
            nearest_places(a, c, b, d, width, height, places, last, end)
            one, other = np.int64(places[first]), np.int64(places[last])
            corner = max(one % width, other % width) == width - 1 and max(one, other) >= (height - 1) * width
            if one >= 0 and other >= 0 and not corner:
                inner_places(a, c, b, d, width, height, places, first + 1, last)
                for k in range(begin * channels):
                    target[at + k] = filled[k]
                take_pixels(flat, places[begin:first], channels, fill, target, at + begin * channels)
                take_inner_pixels(flat, places, channels, first, last, target, at)
                take_pixels(flat, places[last:end], channels, fill, target, at + last * channels)
                for k in range(end * channels, columns * channels):
                    target[at + k] = filled[k]
                continue
        nearest_places(a, c, b, d, width, height, places, 0, columns)
        take_pixels(flat, places, channels, fill, target, at)


@kernel
def warp_volume(source, matrix, fill, clamped, nearest, out):
    """Warps volumes (D, H, W, C); the matrix maps (x, y, z)."""
    depth, height, width, channels = source.shape
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(out.shape[2]):
                place = np.empty(3)
                for axis in range(3):
                    place[axis] = (
                        matrix[axis, 0] * (k + 0.5)
                        + matrix[axis, 1] * (j + 0.5)
                        + matrix[axis, 2] * (i + 0.5)
                        + matrix[axis, 3]
                    )
                if not nearest:
                    place -= 0.5
                x = min(max(place[0], -2.0), width + 1.0)
                y = min(max(place[1], -2.0), height + 1.0)
                z = min(max(place[2], -2.0), depth + 1.0)
                p, q, r = np.int64(np.floor(x)), np.int64(np.floor(y)), np.int64(np.floor(z))
                u, v, w = x - p, y - q, z - r
                reach = 1 if nearest else 2
                for c in range(channels):
                    total = 0.0
                    for dz in range(reach):
                        for dy in range(reach):
                            for dx in range(reach):
                                xx, yy, zz = p + dx, q + dy, r + dz
                                if clamped:
                                    xx = min(max(xx, 0), width - 1)
                                    yy = min(max(yy, 0), height - 1)
                                    zz = min(max(zz, 0), depth - 1)
                                value = np.float64(fill[c])
                                if xx >= 0 and yy >= 0 and zz >= 0 and xx < width and yy < height and zz < depth:
                                    value = np.float64(source[zz, yy, xx, c])
                                weight = 1.0
                                if not nearest:
                                    weight = (u if dx else 1 - u) * (v if dy else 1 - v) * (w if dz else 1 - w)
                                total += weight * value
                    out[i, j, k, c] = convert(np.float32(total), out)


@lru_cache(maxsize=64)
def fill_of(fill: float, channels: int, dtype: np.dtype) -> np.ndarray:
    """The fill value of each channel in a type."""
    return as_type(np.full(channels, fill, np.float64), dtype)


def warp(source: np.ndarray, matrix: np.ndarray, fill: float | None, nearest: bool, out: np.ndarray) -> np.ndarray:
    """Warps an image (H, W, C) or volume (D, H, W, C) by the matrix that maps output to input coordinates."""
    channels = source.shape[-1]
    matrix = np.ascontiguousarray(matrix, np.float64)
    if nearest and source.dtype == out.dtype and source.ndim == 3:
        exact = fill_of(fill or 0.0, channels, source.dtype)
        raw = np.dtype(np.uint16) if source.dtype == np.float16 else source.dtype
        places = row_of_places(source, out.shape[1])
        warp_nearest(plain(source.view(raw)), matrix, exact.view(raw), fill is None, places, out.view(raw))
        return out
    image = source if source.dtype in FAST else as_type(source, np.dtype(np.float32))
    # The nearest pixels of an image are copied, not rounded: a result of bytes is rounded afterwards.
    copied = nearest and source.ndim == 3 and out.dtype == np.uint8
    target = out if out.dtype in FAST and not copied else np.empty(out.shape, np.float32)
    values = fill_of(fill or 0.0, channels, np.dtype(np.float32))
    if source.ndim == 3:
        places = row_of_places(source, out.shape[1])
        (warp_nearest if nearest else warp_linear)(plain(image), matrix, values, fill is None, places, target)
    else:
        warp_volume(plain(image), matrix, values, fill is None, nearest, target)
    return out if target is out else cast(target, out)


def warping(
    shape: tuple[int, ...], dtype: np.dtype, matrix: np.ndarray, fill: float | None, nearest: bool, columns: int
) -> Filling | None:
    """`warp` by a matrix of 2 x 3 for images (H, W, C) of this shape, to results of this type; None for other types."""
    if dtype not in FAST or len(shape) != 3:
        return None
    like, clamped = np.empty((1, 1, 1), dtype), fill is None
    numbers = np.ascontiguousarray(matrix, np.float64)
    values = fill_of(fill or 0.0, shape[2], dtype if nearest else np.dtype(np.float32))
    kind = row_of_places(np.broadcast_to(like, shape), 0).dtype
    compute = machine_code(
        warp_nearest if nearest else warp_linear, like, numbers, values, clamped, np.empty(0, kind), like
    )

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        image = source if source.flags.c_contiguous else np.ascontiguousarray(source)
        compute(image, numbers, values, clamped, np.empty(columns, kind), out)
        return out

    return run
