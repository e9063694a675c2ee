"""Grey values spread over their range: for the whole image, or tile by tile as OpenCV does it."""

import cv2
import numpy as np

from .jit import kernel, plain


@kernel
def equalize_channels(source, out):
    """Pixels (n, channels) of bytes; every channel is spread by its own cumulative counts."""
    pixels, channels = source.shape
    counts = np.zeros((channels, 256), np.int64)
    table = np.empty((channels, 256), np.uint8)
    for i in range(pixels):
        for k in range(channels):
            counts[k, source[i, k]] += 1
    for k in range(channels):
        first = 0
        while first < 255 and counts[k, first] == 0:
            first += 1
        rest = pixels - counts[k, first]
        factor = np.float32(255) / np.float32(rest) if rest else np.float32(0)
        below = 0
        for value in range(256):
            if value > first:
                below += counts[k, value]
            table[k, value] = np.uint8(np.rint(np.float32(below) * factor)) if rest else np.uint8(value)
    for i in range(pixels):
        for k in range(channels):
            out[i, k] = table[k, source[i, k]]


def equalize(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Bytes whose last axis is that of the channels."""
    if source.size:
        channels = source.shape[-1]
        equalize_channels(plain(source).reshape(-1, channels), out.reshape(-1, channels))
    return out


def clahe(source: np.ndarray, tiles: tuple[int, int], limit: float, luma_only: bool, out: np.ndarray) -> np.ndarray:
    """An image (H, W, C) of bytes; of three channels only the lightness, in the space Lab, or each by itself."""
    spreading = cv2.createCLAHE(limit, tiles)
    channels = source.shape[-1]
    image = np.ascontiguousarray(source)
    if channels == 3 and luma_only:
        lab = cv2.cvtColor(image, cv2.COLOR_RGB2Lab)
        lab[..., 0] = spreading.apply(np.ascontiguousarray(lab[..., 0]))
        out[...] = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)
        return out
    for channel in range(channels):
        out[..., channel] = spreading.apply(np.ascontiguousarray(image[..., channel]))
    return out
