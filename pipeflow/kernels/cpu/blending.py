"""Blends four pixels for each pixel of a row, at known places."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.sums import bilinear_pixel, bilinear_rgb_pixel


@kernel
def blend_pixels(flat, places, us, vs, channels, stride, line):
    """Blends four pixels for each pixel of a row. A place is the first element of the upper left one; negative ones are skipped.

    Four channels are written at once. If a pixel has fewer, the next pixel overwrites the others, and the line has room for the
    last. The caller fills in the places that are skipped.
    """
    if channels == 3:
        for j in range(places.size):
            if places[j] >= 0:
                bilinear_rgb_pixel(flat, np.int64(places[j]), stride, us[j], vs[j], line, j * 3)
        return
    for j in range(places.size):
        if places[j] >= 0:
            for k in range(0, channels, 4):
                bilinear_pixel(flat, np.int64(places[j]) + k, channels, stride, us[j], vs[j], line, j * channels + k)
