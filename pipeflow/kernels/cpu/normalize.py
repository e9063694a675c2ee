"""Crops, mirrors and normalises in one pass: (x - mean) * scale + shift, then the output type.

As in DALI, the mean is subtracted before the product, so that float32 results are equal to DALI's.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.byte_tables import Filling
from pipeflow.kernels.cpu.casting import as_type, cast
from pipeflow.kernels.cpu.everyday import NORMALIZED
from pipeflow.kernels.cpu.jit import BYTES, NUMBER, RAW, kernel, machine_code, plain
from pipeflow.kernels.cpu.simd.bytes import at_once, mirror_pixels
from pipeflow.kernels.cpu.simd.pixels import normalize_row, split_row

FAST_IN = {np.dtype(np.uint8), np.dtype(np.float32)}


@kernel(fastmath=False)
def to_planes(source, offset, stride, mean, scale, shift, mirror, out, plane, height, width):
    """Writes a window of an interleaved three-channel image as three normalised planes."""
    for i in range(height):
        split_row(
            source, offset + i * stride, mean, scale, np.float32(shift), False, mirror, out, i * width, plane, width
        )


@kernel(fastmath=False)
def mirror_row(source, pixel, out):
    """Copies the pixels of one row from last to first."""
    if pixel == 3:
        for x in range(source.size // 3):
            a, b = np.uint64(3 * x), np.uint64(source.size - 3 - 3 * x)
            out[a] = source[b]
            out[a + np.uint64(1)] = source[b + np.uint64(1)]
            out[a + np.uint64(2)] = source[b + np.uint64(2)]
    elif pixel == 1:
        for x in range(source.size):
            out[x] = source[source.size - 1 - x]
    else:
        for x in range(source.size // pixel):
            for c in range(pixel):
                out[x * pixel + c] = source[source.size - (x + 1) * pixel + c]


@kernel(fastmath=False)
def mirror_rows(source, pixel, upside_down, sideways, out):
    """Copies rows (H, W * pixel) from bottom to top, from right to left, or both."""
    height = source.shape[0]
    for i in range(height):
        row = source[height - 1 - i if upside_down else i]
        if sideways:
            mirror_row(row, pixel, out[i])
        else:
            out[i, :] = row


@kernel(fastmath=False)
def to_rows(source, offset, stride, pixel, mean, scale, shift, mirror, out, height, width):
    """Normalises a window of rows; mean and scale have a number for every element of a row."""
    size = width * pixel
    turned = np.empty(size, source.dtype)
    for i in range(height):
        begin = offset + i * stride
        if mirror:
            mirror_row(source[begin : begin + size], pixel, turned)
            normalize_row(turned, 0, mean, scale, np.float32(shift), False, out, i * size, size)
        else:
            normalize_row(source, begin, mean, scale, np.float32(shift), False, out, i * size, size)


@kernel(fastmath=False)
def mirror_rgb_rows(source, size, upside_down, order, out):
    """Copies rows of pixels of three bytes from right to left, and if requested, the last row first."""
    for begin in range(0, source.size, max(size, 1)):
        row = source.size - size - begin if upside_down else begin
        mirror_pixels(source, row, out, begin, order, size // 3, -size if upside_down else size)


# The order of the bytes of a group of mirrored pixels; the first byte belongs to the pixel before the group.
MIRRORED = np.array([1 + 3 * pixel + k for pixel in range(at_once() - 1, -1, -1) for k in range(3)] + [0], np.int8)


def mirror_image(source: np.ndarray, pixel: int, upside_down: bool, sideways: bool, out: np.ndarray) -> np.ndarray:
    """Mirrors rows (H, W * pixel) of any element type."""
    if source.dtype == np.uint8 and pixel == 3 and sideways:
        mirror_rgb_rows(plain(source).reshape(-1), source.shape[1], upside_down, MIRRORED, out.reshape(-1))
        return out
    raw = RAW[source.dtype.itemsize]
    mirror_rows(plain(source).view(raw), pixel, upside_down, sideways, out.view(raw))
    return out


def mirroring(size: int, upside_down: bool) -> Filling:
    """A function that mirrors rows of pixels of three bytes, with this number of bytes, from left to right."""
    mirror = machine_code(mirror_rgb_rows, BYTES, NUMBER, upside_down, MIRRORED, BYTES)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        mirror(source.ravel(), size, upside_down, MIRRORED, out.ravel())
        return out

    return run


def bits(array: np.ndarray) -> np.ndarray:
    """The flat array as the kernels store it: half precision as its bits."""
    flat = array.reshape(-1)
    return flat.view(np.uint16) if flat.dtype == np.float16 else flat


@lru_cache(maxsize=64)
def tiled(values: bytes, width: int) -> np.ndarray:
    """float32 numbers, given as their bytes, repeated along a row. They are cached: usually all samples have the same numbers."""
    return np.tile(np.frombuffer(values, np.float32), width)


def planes_of_window(
    source: np.dtype, place: tuple[int, int], extents: tuple[int, ...], numbers: tuple[Any, ...], out: np.dtype
) -> Filling:
    """`normalize_window` for many images of three interleaved channels with these extents, into planes. ``place``: top and left;
    ``numbers``: mirror, mean, scale and shift.
    """
    mirror, mean, scale, shift = numbers
    offset, stride = (place[0] * extents[1] + place[1]) * 3, extents[1] * 3
    kind = bits(np.empty(0, out))
    compute = machine_code(
        to_planes, np.empty(0, source), NUMBER, NUMBER, mean, scale, shift, mirror, kind, NUMBER, NUMBER, NUMBER
    )

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        _, height, width = out.shape
        target = out.ravel() if kind.dtype == out.dtype else bits(out)
        compute(image.ravel(), offset, stride, mean, scale, shift, mirror, target, height * width, height, width)
        return out

    return run


def normalize_window(
    source: np.ndarray,
    channel_first: bool,
    top: int,
    left: int,
    mirror: bool,
    mean: np.ndarray,
    scale: np.ndarray,
    shift: float,
    out: np.ndarray,
    out_channel_first: bool,
) -> np.ndarray:
    """Mirrors and normalises the window at (top, left) of an image; it has `out`'s size and is inside the image.

    `mean` and `scale` are float32, one for each channel. If `out` has more channels than the image, these are not written.
    """
    if channel_first:
        channels, image_height, image_width = source.shape
    else:
        image_height, image_width, channels = source.shape
    height, width = out.shape[1:] if out_channel_first else out.shape[:2]
    exact = out.shape[0 if out_channel_first else 2] == channels
    if source.dtype in FAST_IN and out.dtype in NORMALIZED and out.flags.c_contiguous:
        flat, target = plain(source).reshape(-1), bits(out)
        if not channel_first and out_channel_first and channels == 3:
            offset, stride = (top * image_width + left) * 3, image_width * 3
            to_planes(flat, offset, stride, mean, scale, shift, mirror, target, height * width, height, width)
            return out
        if channel_first and out_channel_first:
            for c in range(channels):
                offset = (c * image_height + top) * image_width + left
                row_mean, row_scale = tiled(mean[c].tobytes(), width), tiled(scale[c].tobytes(), width)
                part = target[c * height * width :]
                to_rows(flat, offset, image_width, 1, row_mean, row_scale, shift, mirror, part, height, width)
            return out
        if not channel_first and exact and (channels == 1 or not out_channel_first):
            offset, stride = (top * image_width + left) * channels, image_width * channels
            row_mean, row_scale = tiled(mean.tobytes(), width), tiled(scale.tobytes(), width)
            to_rows(flat, offset, stride, channels, row_mean, row_scale, shift, mirror, target, height, width)
            return out
    image = source.transpose(1, 2, 0) if channel_first else source
    window = image[top : top + height, left : left + width]
    if mirror:
        window = window[:, ::-1]
    values = (as_type(np.ascontiguousarray(window), np.dtype(np.float32)) - mean) * scale
    if shift:
        values += np.float32(shift)
    result = values.transpose(2, 0, 1) if out_channel_first else values
    target_view = out[:channels] if out_channel_first else out[:, :, :channels]
    if exact and out.flags.c_contiguous:
        cast(np.ascontiguousarray(result), out)
    else:
        target_view[...] = as_type(np.ascontiguousarray(result), out.dtype)
    return out
