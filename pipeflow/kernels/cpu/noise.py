"""Noise by element: a counter-based generator, so that any element's number can be computed alone."""

import math

import numpy as np

from pipeflow.kernels.cpu.casting import as_type, cast, convert
from pipeflow.kernels.cpu.jit import kernel, plain

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mixed(x):
    """64 bits that depend on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def gaussian_flat(source, key, mean, deviation, out):
    """Elements 2 i and 2 i + 1 share one pair of uniform numbers (Box and Muller)."""
    step = np.float32(2.0**-24)
    for i in range((source.size + 1) // 2):
        word = mixed(key ^ mixed(np.uint64(i + 1) * GOLDEN))
        # 24 bits each: exact in float32, and never 0 under the logarithm
        first = (np.float32(word >> np.uint64(40)) + np.float32(0.5)) * step
        second = np.float32((word >> np.uint64(8)) & np.uint64(0xFFFFFF)) * step
        radius = deviation * math.sqrt(np.float32(-2) * math.log(first))
        angle = np.float32(2 * math.pi) * second
        out[2 * i] = convert(np.float32(source[2 * i]) + (mean + radius * math.cos(angle)), out)
        if 2 * i + 1 < source.size:
            out[2 * i + 1] = convert(np.float32(source[2 * i + 1]) + (mean + radius * math.sin(angle)), out)


FAST = {np.dtype(np.uint8), np.dtype(np.float32)}


def add_gaussian(data: np.ndarray, key: int, mean: float, deviation: float, out: np.ndarray) -> np.ndarray:
    """Data plus normal noise of the key."""
    source = data if data.dtype in FAST else as_type(data, np.dtype(np.float32))
    target = out if out.dtype in FAST and source.dtype == out.dtype else np.empty(out.shape, np.float32)
    gaussian_flat(
        plain(source).reshape(-1), np.uint64(key), np.float32(mean), np.float32(deviation), target.reshape(-1)
    )
    return out if target is out else cast(target, out)
