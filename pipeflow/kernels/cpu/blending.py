"""Rows of blends of four pixels each, at known places."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.sums import bilinear_pixel, bilinear_rgb_pixel


@kernel
def blend_pixels(flat, places, us, vs, channels, stride, line):
    """A row of blends of four pixels each, where a place, the first element of the upper left one, is not negative.

    Blends of four channels overhang a pixel of fewer: the line has room, and the next pixel repairs the rest. The
    caller fills in the places that are left out.
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
