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


STEP = 2.0**-53
FEW = 12.0  # counts up to which numbers are summed one by one
MOST = 1e15  # counts that a float64 still tells apart


@kernel
def salt_and_pepper_flat(source, key, prob, share, salt, pepper, outer, channels, inner, out):
    """Sets places to salt or pepper; `outer`, `channels` and `inner` are the extents, all channels of a place alike."""
    scale = 4294967296.0
    hit, white = np.uint64(prob * scale), np.uint64(share * scale)
    for o in range(outer):
        for j in range(inner):
            place = o * inner + j
            word = mixed(key ^ mixed(np.uint64(place + 1) * GOLDEN))
            noisy = word >> np.uint64(32) < hit
            value = salt[0] if word & np.uint64(0xFFFFFFFF) < white else pepper[0]
            for c in range(channels):
                at = (o * channels + c) * inner + j
                out[at] = value if noisy else source[at]


def salt_and_pepper(
    data: np.ndarray,
    key: int,
    prob: float,
    share: float,
    values: np.ndarray,
    extents: tuple[int, int, int],
    out: np.ndarray,
) -> np.ndarray:
    """Data with salt (the first of the values) and pepper (the second) in some places."""
    raw = np.dtype(np.uint16) if data.dtype == np.float16 else data.dtype
    salt, pepper = values[:1].copy().view(raw), values[1:].copy().view(raw)
    source, target = plain(data.view(raw)).reshape(-1), out.view(raw).reshape(-1)
    salt_and_pepper_flat(source, np.uint64(key), prob, share, salt, pepper, *extents, target)
    return out


@kernel
def unit(key, counter):
    """Number `counter` of a key, in [0, 1)."""
    return np.float64(mixed(key ^ mixed((counter + np.uint64(1)) * GOLDEN)) >> np.uint64(11)) * STEP


@kernel
def poisson(key, mean):
    """A count with this mean: summed up where it is small, else by transformed rejection (Hoermann, 1993)."""
    if not mean > 0:
        return 0.0
    counter = np.uint64(0)
    if mean < FEW:
        chance = math.exp(-mean)
        total, count, number = chance, 0, unit(key, counter)
        while number > total and count < 200:
            count += 1
            chance *= mean / count
            total += chance
        return np.float64(count)
    mean = min(mean, MOST)
    root, log = math.sqrt(mean), math.log(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    scale, limit = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = unit(key, counter) - 0.5, unit(key, counter + np.uint64(1))
        counter += np.uint64(2)
        edge = 0.5 - abs(u)
        if edge <= 0:
            continue
        count = math.floor((2 * a / edge + b) * u + mean + 0.43)
        if edge >= 0.07 and v <= limit:
            return count
        if count < 0 or (edge < 0.013 and v > edge) or v <= 0:
            continue
        if math.log(v * scale / (a / (edge * edge) + b)) <= count * log - mean - math.lgamma(count + 1):
            return count


@kernel
def shot_flat(source, key, factor, out):
    """Counts whose mean is the value in units of the factor, in these units again."""
    for i in range(source.size):
        own = mixed(key ^ mixed(np.uint64(i + 1) * GOLDEN))
        out[i] = convert(poisson(own, np.float64(source[i]) / factor) * factor, out)


def shot(data: np.ndarray, key: int, factor: float, out: np.ndarray) -> np.ndarray:
    """Data as counted in units of the factor."""
    source = as_type(data, np.dtype(np.float32)) if data.dtype == np.float16 else data
    target = np.empty(out.shape, np.float32) if out.dtype == np.float16 else out
    shot_flat(plain(source).reshape(-1), np.uint64(key), factor, target.reshape(-1))
    return out if target is out else cast(target, out)
