"""Separable filters with mirrored borders (the border pixel is not repeated), float32 inside, one rounding
at the end."""

import math
from functools import lru_cache

import numpy as np

from pipeflow.kernels.cpu.casting import as_type, cast
from pipeflow.kernels.cpu.jit import kernel, plain
from pipeflow.kernels.cpu.simd.sums import weighted_rows

FAST = {np.dtype(np.uint8), np.dtype(np.float32)}


@kernel
def reflected(index, size):
    """The index inside an axis that mirrors at its first and last element."""
    if size == 1:
        return 0
    while index < 0 or index >= size:
        index = -index if index < 0 else 2 * (size - 1) - index
    return index


@kernel
def padded(source, pixel, above, beside):
    """Rows (H, W * pixel) with a mirrored margin all round."""
    height, size = source.shape
    width = size // pixel
    out = np.empty((height + 2 * above, (width + 2 * beside) * pixel), source.dtype)
    for i in range(out.shape[0]):
        line, target = source[reflected(i - above, height)], out[i]
        target[beside * pixel : beside * pixel + size] = line
        for x in range(beside):
            before, after = reflected(x - beside, width), reflected(width + x, width)
            for c in range(pixel):
                target[x * pixel + c] = line[before * pixel + c]
                target[(beside + width + x) * pixel + c] = line[after * pixel + c]
    return out


@kernel
def filter_rows(source, pixel, heights, widths, out):
    """Correlates rows (H, W * pixel) with one window an axis."""
    framed = padded(source, pixel, heights.size // 2, widths.size // 2)
    flat, target = framed.reshape(framed.size), out.reshape(out.size)
    stride, size = framed.shape[1], out.shape[1]
    tall = np.empty(stride, np.float32)
    for i in range(out.shape[0]):
        weighted_rows(flat, i * stride, stride, heights, 0, heights.size, tall, 0, stride)
        weighted_rows(tall, 0, pixel, widths, 0, widths.size, target, i * size, size)


def filter_separable(source: np.ndarray, windows: list[np.ndarray], out: np.ndarray) -> np.ndarray:
    """Filters the leading axes of an array, one odd float32 window an axis; the axes after them are
    channels."""
    axes = len(windows)
    pixel = math.prod(source.shape[axes:])
    image = source if source.dtype in FAST else as_type(source, np.dtype(np.float32))
    target = out if out.dtype in FAST else np.empty(out.shape, np.float32)
    if axes == 1:
        filter_rows(plain(image).reshape(1, -1), pixel, np.ones(1, np.float32), windows[0], target.reshape(1, -1))
    elif axes == 2:
        height = image.shape[0]
        filter_rows(plain(image).reshape(height, -1), pixel, *windows, target.reshape(height, -1))
    else:
        depth = image.shape[0]
        deep = np.empty(image.shape, np.float32)
        none = np.ones(1, np.float32)
        filter_rows(plain(image).reshape(depth, -1), image[0].size, windows[0], none, deep.reshape(depth, -1))
        for plane, result in zip(deep, target, strict=True):
            filter_separable(plane, windows[1:], result)
    return out if target is out else cast(target, out)


@lru_cache(maxsize=256)
def gaussian_window(size: int, sigma: float) -> np.ndarray:
    """Samples of a Gaussian, normalised to a sum of one. The array is kept for later calls: do not write to it."""
    distance = np.arange(size) - size // 2
    window = np.exp(-(distance**2) / (2 * sigma * sigma))
    return (window / window.sum()).astype(np.float32)
