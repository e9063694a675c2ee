"""Weather: strokes of rain, and snow on dark pixels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.byte_tables import Filling
from pipeflow.kernels.cpu.casting import convert
from pipeflow.kernels.cpu.jit import BYTES, kernel, machine_code, plain
from pipeflow.kernels.cpu.noise import unit

LIGHTNESSES = 511  # the number of sums of two bytes


@kernel
def rain_drops(key, count, length, width, lean, color, opacity, out):
    """Mixes strokes into the image one after another, from random positions downwards."""
    height, across, channels = out.shape
    for drop in range(count):
        top = unit(key, np.uint64(2 * drop)) * (height + length) - length
        left = unit(key, np.uint64(2 * drop + 1)) * (across + abs(lean) * length) - max(lean, 0.0) * length
        first = int(np.floor(top))
        for y in range(max(first, 0), min(first + length, height)):
            begin = int(np.floor(left + lean * (y - first)))
            for x in range(max(begin, 0), min(begin + width, across)):
                for c in range(channels):
                    value = np.float32(out[y, x, c])
                    out[y, x, c] = convert(value + opacity * (color[c] - value), out)


def rain(
    source: np.ndarray,
    key: int,
    strokes: tuple[int, int, int, float],
    color: np.ndarray,
    opacity: float,
    out: np.ndarray,
) -> np.ndarray:
    """An image (H, W, C) with strokes of this number, length, width and slope (pixels for each row)."""
    out[...] = source
    count, length, width, lean = strokes
    rain_drops(np.uint64(key), count, length, width, float(lean), color.astype(np.float32), np.float32(opacity), out)
    return out


def raining(
    dtype: np.dtype, strokes: tuple[int, int, int, float], color: np.ndarray, opacity: float
) -> Callable[[np.ndarray, np.ndarray, Any], np.ndarray]:
    """`rain` for many calls."""
    count, length, width, lean = strokes
    numbers = count, length, width, float(lean), color.astype(np.float32), np.float32(opacity)
    compute = machine_code(rain_drops, np.uint64(0), *numbers, np.empty((1, 1, 1), dtype))

    def run(source: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        np.copyto(out, source)
        compute(key, *numbers, out)
        return out

    return run


@kernel
def relight_bytes(source, moved, scale, out):
    """Changes the lightness of every pixel, half the sum of its largest and smallest value; hue and saturation do not change."""
    one, two, step = np.uint64(1), np.uint64(2), np.uint64(3)
    i, end = np.uint64(0), np.uint64(source.size)
    while i < end:
        red, green, blue = source[i], source[i + one], source[i + two]
        place = np.uint64(max(red, green, blue)) + np.uint64(min(red, green, blue))
        lightness, factor = moved[place], scale[place]
        middle = np.float32(place) * np.float32(0.5)
        out[i] = convert(lightness + factor * (np.float32(red) - middle), out)
        out[i + one] = convert(lightness + factor * (np.float32(green) - middle), out)
        out[i + two] = convert(lightness + factor * (np.float32(blue) - middle), out)
        i += step


def light_tables(lightness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each sum of a pixel's largest and smallest value: the new lightness, and the factor of distances from it.

    The argument is the new lightness for each of the 511 sums, from 0 to 255.
    """
    before = np.arange(LIGHTNESSES) / 2
    room, wanted = np.minimum(before, 255 - before), np.minimum(lightness, 255 - lightness)
    scale = np.where(room > 0, wanted / np.where(room > 0, room, 1), 0)  # black and white have no colour to keep
    return lightness.astype(np.float32), scale.astype(np.float32)


def relight(source: np.ndarray, tables: tuple[np.ndarray, np.ndarray], out: np.ndarray) -> np.ndarray:
    """RGB bytes with the lightness from the tables of ``light_tables``."""
    relight_bytes(plain(source).reshape(-1), *tables, out.reshape(-1))
    return out


def relighting(tables: tuple[np.ndarray, np.ndarray]) -> Filling:
    """`relight` with these tables."""
    compute = machine_code(relight_bytes, BYTES, *tables, BYTES)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(source.ravel(), *tables, out.ravel())
        return out

    return run
