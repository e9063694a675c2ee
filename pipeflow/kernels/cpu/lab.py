"""The colour space Lab of bytes, in whole numbers as OpenCV computes it: results are equal to the byte. `simd/lab.py` has the
sums.

Linear light has 11 bits, cube roots and the sums of light 15, and what is computed back from Lab 14.
"""

from functools import cache

import numpy as np

BASE = 1 << 14
ROOTS, SHADES = 3072, 4096  # entries of the tables


@cache
def tables() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Linear light by value; cube roots by linear light; luma and its root, as two halves of a number, by lightness; and
    values by linear light.
    """
    value = np.arange(256) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    light = np.arange(ROOTS) / (255 * 8)
    # the nearest float32 of each root decides on which side of a half it is
    roots = np.where(light < 216 / 24389, light * 841 / 108 + 16 / 116, np.cbrt(light)).astype(np.float32)
    place = np.arange(256)
    root = (place * 100 / 255 + 16) / 116 * BASE
    low = place <= 20
    luma = np.where(low, place * 100 / 255 * 27 / 24389 * BASE, root**3 / BASE**2)
    root = np.where(low, BASE * (16 / 116 + place * 5 / (3 * 17 * 29)), root)
    shade = np.arange(SHADES) / SHADES
    shades = np.where(shade <= 0.0031308, 12.92 * shade, 1.055 * shade ** (1 / 2.4) - 0.055)
    return (
        np.rint(linear * 255 * 8).astype(np.uint32),
        np.rint(roots * np.float32(1 << 15)).astype(np.uint32),
        (np.rint(luma).astype(np.uint32) | np.rint(root).astype(np.uint32) << np.uint32(16)),
        np.append(np.rint(255 * shades), [0, 0, 0]).astype(np.uint8),  # four bytes are read at once
    )
