"""Grey values spread over their range: for the whole image, or tile by tile as OpenCV does it."""

import cv2
import numpy as np

from .jit import kernel, plain


@kernel
def count_values(source, channels, counts):
    """How often each channel of interleaved bytes has each value.

    Three channels are counted two pixels at a time: neighbours have the same value more often than not, and a count that
    waits for the one before takes several times as long.
    """
    if channels == 3:
        second = np.zeros((3, 256), np.uint32)
        whole = source.size // 6 * 6
        for i in range(0, whole, 6):
            counts[0, source[i]] += np.uint32(1)
            counts[1, source[i + 1]] += np.uint32(1)
            counts[2, source[i + 2]] += np.uint32(1)
            second[0, source[i + 3]] += np.uint32(1)
            second[1, source[i + 4]] += np.uint32(1)
            second[2, source[i + 5]] += np.uint32(1)
        for i in range(whole, source.size):
            counts[i - whole, source[i]] += np.uint32(1)
        counts += second
        return
    if channels == 1:
        parts = np.zeros((3, 256), np.uint32)
        whole = source.size // 4 * 4
        for i in range(0, whole, 4):
            counts[0, source[i]] += np.uint32(1)
            parts[0, source[i + 1]] += np.uint32(1)
            parts[1, source[i + 2]] += np.uint32(1)
            parts[2, source[i + 3]] += np.uint32(1)
        for i in range(whole, source.size):
            counts[0, source[i]] += np.uint32(1)
        for k in range(3):
            counts[0] += parts[k]
        return
    for i in range(0, source.size, channels):
        for k in range(channels):
            counts[k, source[i + k]] += np.uint32(1)


@kernel
def replace_values(source, tables, out):
    """Every value of interleaved bytes by that of its channel's table."""
    channels = tables.shape[0]
    if channels == 3:
        for i in range(0, source.size, 3):
            out[i] = tables[0, source[i]]
            out[i + 1] = tables[1, source[i + 1]]
            out[i + 2] = tables[2, source[i + 2]]
        return
    for i in range(0, source.size, channels):
        for k in range(channels):
            out[i + k] = tables[k, source[i + k]]


@kernel
def even_tables(counts, pixels, tables):
    """The tables that spread each channel by its own cumulative counts."""
    for k in range(counts.shape[0]):
        first = 0
        while first < 255 and counts[k, first] == 0:
            first += 1
        rest = pixels - np.int64(counts[k, first])
        factor = np.float32(255) / np.float32(rest) if rest else np.float32(0)
        below = np.int64(0)
        for value in range(256):
            if value > first:
                below += np.int64(counts[k, value])
            tables[k, value] = np.uint8(np.rint(np.float32(below) * factor)) if rest else np.uint8(value)


def equalize(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Bytes whose last axis is that of the channels."""
    if source.size:
        channels = source.shape[-1]
        flat = plain(source).reshape(-1)
        counts, tables = np.zeros((channels, 256), np.uint32), np.empty((channels, 256), np.uint8)
        count_values(flat, channels, counts)
        even_tables(counts, source.size // channels, tables)
        replace_values(flat, tables, out.reshape(-1))
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
