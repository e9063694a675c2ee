"""Thirty functions in the ways in which people write them, and a kernel written by hand for each that Numba can compile.

`jit_set.py` measures them. A kernel writes its result into memory that was allocated before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np

MEAN = np.array([0.4, 0.5, 0.6], np.float32)
TABLE = {0: 0.5, 1: 2.0}
LEVELS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Written:
    """A function, its kind of pixels ("f": float32, "u": uint8), and the kernel; None if it is not expected to compile."""

    function: Callable
    kind: str
    kernel: Callable | None
    jit: str = "auto"


SET: list[Written] = []


def written(kind: str, kernel: Callable | None = None, jit: str = "auto"):
    def keep(function: Callable) -> Callable:
        SET.append(Written(function, kind, None if kernel is None else numba.njit(nogil=True)(kernel), jit))
        return function

    return keep


def halved(value):
    return value * np.float32(0.5)


# --- expressions ----------------------------------------------------------------------------------------


def _normalized(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = (np.float32(x[i, j, k]) / np.float32(255.0) - np.float32(0.5)) / np.float32(0.25)


@written("u", _normalized)
def normalized(x):
    return (x.astype(np.float32) / np.float32(255.0) - np.float32(0.5)) / np.float32(0.25)


def _by_constants(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(3):
                out[i, j, k] = (x[i, j, k] - MEAN[k]) / np.float32(1.25)


@written("f", _by_constants)
def by_constants(x):
    return (x - MEAN) / np.float32(1.25)


def _brighter(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = min(max(np.float32(x[i, j, k]) * np.float32(1.2) + np.float32(3), 0), 255)


@written("u", _brighter)
def brighter(x):
    return np.clip(x.astype(np.float32) * np.float32(1.2) + np.float32(3), 0, 255).astype(np.uint8)


def _negative(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = 255 - x[i, j, k]


@written("u", _negative)
def negative(x):
    return 255 - x


def _squared(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * x[i, j, k] + np.float32(1)


@written("f", _squared)
def squared(x):
    return x * x + np.float32(1)


def _doubled(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = np.float64(x[i, j, k]) / 3


@written("u", _doubled)
def to_float64(x):
    return x.astype(np.float64) / 3


def _thresholded(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                value = x[i, j, k]
                out[i, j, k] = value * np.float32(0.1) if value > np.float32(0.5) else np.float32(0)


@written("f", _thresholded)
def thresholded(x):
    return np.where(x > np.float32(0.5), x * np.float32(0.1), np.float32(0))


def _gray(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            red, green, blue = x[i, j, 0], x[i, j, 1], x[i, j, 2]
            out[i, j] = np.float32(0.299) * red + np.float32(0.587) * green + np.float32(0.114) * blue


@written("f", _gray)
def gray(x):
    return np.float32(0.299) * x[..., 0] + np.float32(0.587) * x[..., 1] + np.float32(0.114) * x[..., 2]


def _averaged(x, out):
    for i in range(x.shape[0] - 1):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = np.uint8(x[i + 1, j, k] + x[i, j, k]) // np.uint8(2)


@written("u", _averaged)
def averaged(x):
    return (x[1:] + x[:-1]) // 2


def _by_helper(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * np.float32(0.5) + np.float32(1)


@written("f", _by_helper)
def by_helper(x):
    return halved(x) + np.float32(1)


# --- masks, slices, memory ------------------------------------------------------------------------------


def _black(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = 0 if x[i, j, k] > 128 else x[i, j, k]


@written("u", _black)
def black_where_bright(x):
    out = x.copy()
    out[x > 128] = 0
    return out


def _cropped(x, out):
    out[:] = x[8:-8, 8:104]


@written("u", _cropped)
def cropped(x):
    return x[8:-8, 8:104]


def _second(x, out):
    out[:] = x[::2, ::-1]


@written("f", _second)
def every_second(x):
    return x[::2, ::-1]


def _padded(x, out):
    out[:] = 0
    out[1:-1, 1:-1] = x


@written("u", _padded)
def padded(x):
    out = np.zeros((x.shape[0] + 2, x.shape[1] + 2, x.shape[2]), x.dtype)
    out[1:-1, 1:-1] = x
    return out


def _joined(x, out):
    out[: x.shape[0]] = x
    out[x.shape[0] :] = x[:1]


@written("u", _joined)
def joined(x):
    return np.concatenate((x, x[:1]))


def _in_place(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * np.float32(0.5) - np.float32(1)


@written("f", _in_place)
def in_place(x):
    x = x.copy()
    x *= np.float32(0.5)
    x -= np.float32(1)
    return x


def _in_levels(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                value = x[i, j, k]
                out[i, j, k] = (value > 0.25) + (value > 0.5) + (value > 0.75)


@written("f", _in_levels)
def in_levels(x):
    out = np.zeros(x.shape, np.int32)
    for level in LEVELS:
        out += x > level
    return out


# --- loops ----------------------------------------------------------------------------------------------


def _contrast(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = min(max(int(x[i, j, k]) * 2 - 50, 0), 255)


@written("u", _contrast)
def contrast_in_loops(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = min(max(int(x[i, j, k]) * 2 - 50, 0), 255)
    return out


def _smoothed(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                before = x[i, max(j - 1, 0), k]
                after = x[i, min(j + 1, x.shape[1] - 1), k]
                out[i, j, k] = (int(before) + 2 * int(x[i, j, k]) + int(after)) // 4


@written("u", _smoothed)
def smoothed(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                before = x[i, max(j - 1, 0), k]
                after = x[i, min(j + 1, x.shape[1] - 1), k]
                out[i, j, k] = (int(before) + 2 * int(x[i, j, k]) + int(after)) // 4
    return out


def _histogram(x, out):
    out[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[x[i, j, k]] += 1


@written("u", _histogram)
def histogram(x):
    counts = np.zeros(256, np.int64)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                counts[x[i, j, k]] += 1
    return counts


def _total(x, out):
    total = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                total += x[i, j, k]
    out[()] = total


@written("u", _total)
def total(x):
    return x.sum()


# --- early returns, dictionaries, closures, random numbers ----------------------------------------------


def _early(x, out):
    if x[0, 0, 0] <= np.float32(0.5):
        out[:] = x
        return
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * np.float32(2)


@written("f", _early)
def early(x):
    if x[0, 0, 0] > np.float32(0.5):
        return x * np.float32(2)
    return x


def _looked_up(x, out):
    factor = np.float64(2.5) if x[0, 0, 0] > np.float32(0.5) else np.float64(1.5)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * factor


@written("f", _looked_up)
def looked_up(x):
    table = {0: 1.5, 1: 2.5}
    return x * np.float64(table[int(x[0, 0, 0] > np.float32(0.5))])


def _weighted(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(3):
                out[i, j, k] = x[i, j, k] * np.float32(0.5 * k)


def _closure():
    weights = np.linspace(0, 1, 3).astype(np.float32)

    def weighted(x):
        return x * weights

    return weighted


written("f", _weighted)(_closure())


def _noisy(x, out, rng):
    number = np.float32(rng.random()) * np.float32(0.1)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] + number


@written("f", _noisy)
def noisy(x, rng):
    return x + np.float32(rng.random()) * np.float32(0.1)


def _flipped(x, out, rng):
    if rng.random() < 0.5:
        out[:] = x[:, ::-1]
    else:
        out[:] = x


@written("u", _flipped)
def flipped_at_random(x, rng):
    if rng.random() < 0.5:
        return x[:, ::-1].copy()
    return x.copy()


# --- what is not expected to compile, or to give the same bits ------------------------------------------


@written("f")
def looked_up_outside(x):
    return x * TABLE[int(x[0, 0, 0] > 0.5)]


@written("f")
def exponential(x):
    return np.exp(x)


@written("f")
def mean_of_floats(x):
    return x.mean(axis=(0, 1))


@written("u")
def wrapping(x):
    return x[0, 0, 0] + x[0, 0, 1]


@written("f")
def formatted(x):
    return np.array([len(f"{x.max():.3f}")])
