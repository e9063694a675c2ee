"""Separable filters with mirrored borders (the border pixel is not repeated), computed in float32 and rounded once."""

import math
from functools import lru_cache

import numpy as np

from pipeflow.kernels.cpu.byte_tables import Filling
from pipeflow.kernels.cpu.casting import as_type, cast
from pipeflow.kernels.cpu.jit import kernel, machine_code, plain
from pipeflow.kernels.cpu.simd.sums import tap_row, weighted_rows

FAST = {np.dtype(np.uint8), np.dtype(np.float32)}


@kernel
def reflected(index, size):
    """The index after mirroring at the first and last element of an axis."""
    if size == 1:
        return 0
    while index < 0 or index >= size:
        index = -index if index < 0 else 2 * (size - 1) - index
    return index


@kernel
def mirror_ends(line, pixel, beside):
    """Fills the margins of a row of `beside` pixels at both ends by mirroring it."""
    width = line.size // pixel - 2 * beside
    for x in range(beside):
        before, after = beside + reflected(x - beside, width), beside + reflected(width + x, width)
        for c in range(pixel):
            line[x * pixel + c] = line[before * pixel + c]
            line[(beside + width + x) * pixel + c] = line[after * pixel + c]


@kernel
def filter_rows(source, pixel, heights, widths, out):
    """Correlates rows (H, W * pixel) with one window for each axis."""
    height, size = source.shape
    above, beside = heights.size // 2, widths.size // 2
    flat, target = source.reshape(source.size), out.reshape(out.size)
    line, places = np.empty(size + 2 * beside * pixel, np.float32), np.empty(heights.size, np.int64)
    for i in range(height):
        for k in range(heights.size):
            places[k] = reflected(i + k - above, height) * size
        tap_row(flat, 0, places, heights, heights.size, line, beside * pixel, size)
        mirror_ends(line, pixel, beside)
        weighted_rows(line, 0, pixel, widths, 0, widths.size, target, i * size, size)


def filter_separable(source: np.ndarray, windows: list[np.ndarray], out: np.ndarray) -> np.ndarray:
    """Filters the leading axes of an array with an odd float32 window for each axis; the axes after them are channels."""
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


def filtering(shape: tuple[int, ...], dtype: np.dtype, windows: list[np.ndarray]) -> Filling | None:
    """`filter_separable` along two axes of images (H, W, C) of this shape and type; None for other types."""
    if dtype not in FAST or len(windows) != 2:
        return None
    rows, like = (shape[0], shape[1] * shape[2]), np.empty((1, 1), dtype)
    numbers = shape[2], *windows
    compute = machine_code(filter_rows, like, *numbers, like)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(source.ravel().reshape(rows), *numbers, out.reshape(rows))
        return out

    return run


@lru_cache(maxsize=256)
def gaussian_window(size: int, sigma: float) -> np.ndarray:
    """Samples of a Gaussian, normalised to a sum of one. The array is kept for later calls: do not write to it."""
    distance = np.arange(size) - size // 2
    window = np.exp(-(distance**2) / (2 * sigma * sigma))
    return (window / window.sum()).astype(np.float32)
