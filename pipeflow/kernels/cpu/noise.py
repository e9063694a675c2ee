"""Noise for each element, from a counter-based generator: the number of any element can be computed alone."""

import math
from collections.abc import Callable

import numpy as np

from pipeflow.kernels.cpu.casting import as_type, cast, convert
from pipeflow.kernels.cpu.jit import kernel, machine_code, plain

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mixed(x):
    """64 bits that depend on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


BLOCK = 1024  # pairs of numbers that are computed together, so that they stay in the first cache


def fitted(
    function: Callable[[np.ndarray], np.ndarray], low: float, high: float, degree: int
) -> tuple[np.float32, ...]:
    """The coefficients, the lowest first, of a polynomial that is close to a function between two numbers."""
    nodes = np.cos(np.pi * (np.arange(4 * degree) + 0.5) / (4 * degree))
    places = low + (high - low) * (nodes + 1) / 2
    found = np.polynomial.Chebyshev.fit(places, function(places), degree, domain=[low, high])
    return tuple(np.float32(x) for x in found.convert(kind=np.polynomial.Polynomial).coef)


# In float32 these polynomials are as exact as a library's functions, and the vectors of any processor can compute them.
ROOT_HALF = np.int32(np.array(math.sqrt(0.5), np.float32).view(np.int32))
L = fitted(lambda x: np.log1p(x) / x, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 9)  # log(1 + x) / x
S = fitted(lambda z: np.sin(2 * np.pi * np.sqrt(z)) / np.sqrt(z), 1e-12, 1 / 64, 4)  # sin(2 pi r) / r by r * r
C = fitted(lambda z: np.cos(2 * np.pi * np.sqrt(z)), 1e-12, 1 / 64, 4)
LOG_2 = np.float32(math.log(2))


@kernel
def uniform_pairs(key, start, first, second):
    """Two numbers of 24 bits from each word, exact in float32: above 0 and below 1, and from 0 to below 1."""
    step = np.float32(2.0**-24)
    for i in range(first.size):
        word = mixed(key ^ mixed(np.uint64(start + i + 1) * GOLDEN))
        first[i] = (np.float32(np.int32(word >> np.uint64(40))) + np.float32(0.5)) * step
        second[i] = np.float32(np.int32((word >> np.uint64(8)) & np.uint64(0xFFFFFF))) * step


@kernel
def radii(uniform, exponents, deviation):
    """deviation * sqrt(-2 * log(uniform)), in place."""
    bits = uniform.view(np.int32)
    for i in range(bits.size):
        power = (bits[i] - ROOT_HALF) >> np.int32(23)
        exponents[i] = np.float32(power)
        bits[i] = bits[i] - (power << np.int32(23))
    two = np.float32(-2)
    for i in range(bits.size):
        x = uniform[i] - np.float32(1)
        high = L[5] + x * (L[6] + x * (L[7] + x * (L[8] + x * L[9])))
        log = x * (L[0] + x * (L[1] + x * (L[2] + x * (L[3] + x * (L[4] + x * high))))) + exponents[i] * LOG_2
        uniform[i] = deviation * np.sqrt(max(two * log, np.float32(0)))


@kernel
def on_circles(radius, turn, out):
    """Points on circles, x and y in turn; angles are fractions of a turn, reduced to an eighth."""
    half, quarter = np.float32(0.5), np.float32(0.25)
    for i in range(turn.size):
        number = np.floor(turn[i] * np.float32(4) + half)
        r = turn[i] - number * quarter
        z = r * r
        sine = r * (S[0] + z * (S[1] + z * (S[2] + z * (S[3] + z * S[4]))))
        cosine = C[0] + z * (C[1] + z * (C[2] + z * (C[3] + z * C[4])))
        k = np.int32(number) & np.int32(3)
        odd = (k & np.int32(1)) != 0
        x, y = (sine, cosine) if odd else (cosine, sine)
        out[2 * i] = radius[i] * (x if (k == 0) | (k == 3) else -x)
        out[2 * i + 1] = radius[i] * (y if k < 2 else -y)


@kernel
def add_values(source, values, mean, out):
    for i in range(source.size):
        out[i] = convert(np.float32(source[i]) + (mean + values[i]), out)


@kernel
def gaussian_flat(source, key, mean, deviation, out):
    """Elements 2 i and 2 i + 1 share one pair of uniform numbers (Box and Muller)."""
    first, second = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    exponents, noise = np.empty(BLOCK, np.float32), np.empty(2 * BLOCK, np.float32)
    for begin in range(0, source.size, 2 * BLOCK):
        part = source[begin : begin + 2 * BLOCK]
        uniform_pairs(key, begin // 2, first, second)
        radii(first, exponents, deviation)
        on_circles(first, second, noise)
        add_values(part, noise, mean, out[begin : begin + 2 * BLOCK])


FAST = {np.dtype(np.uint8), np.dtype(np.float32)}


def add_gaussian(data: np.ndarray, key: int, mean: float, deviation: float, out: np.ndarray) -> np.ndarray:
    """Adds normal noise of the key to the data."""
    source = data if data.dtype in FAST else as_type(data, np.dtype(np.float32))
    target = out if out.dtype in FAST and source.dtype == out.dtype else np.empty(out.shape, np.float32)
    gaussian_flat(
        plain(source).reshape(-1), np.uint64(key), np.float32(mean), np.float32(deviation), target.reshape(-1)
    )
    return out if target is out else cast(target, out)


STEP = 2.0**-53
FEW = 12.0  # up to this mean, counts are found by adding numbers one by one
MOST = 1e15  # float64 distinguishes whole numbers up to this mean


@kernel
def noisy_places(key, start, hit, white, codes):
    """For each place: 1 if it becomes salt, 2 if it becomes pepper, else 0."""
    low = np.uint64(0xFFFFFFFF)
    for i in range(codes.size):
        word = mixed(key ^ mixed(np.uint64(start + i + 1) * GOLDEN))
        kind = np.uint8(1) if (word & low) < white else np.uint8(2)
        codes[i] = kind if (word >> np.uint64(32)) < hit else np.uint8(0)


@kernel
def salt_and_pepper_flat(source, key, prob, share, salt, pepper, outer, channels, inner, out):
    """Sets places to salt or pepper; `outer`, `channels` and `inner` are the extents. All channels of a place are
    set together.
    """
    scale = 4294967296.0
    hit, white = np.uint64(prob * scale), np.uint64(share * scale)
    codes = np.empty(BLOCK, np.uint8)
    out[:] = source
    places = outer * inner
    for begin in range(0, places, BLOCK):
        noisy_places(key, begin, hit, white, codes)
        for i in range(min(BLOCK, places - begin)):
            if codes[i]:
                o, j = divmod(begin + i, inner)
                value = salt[0] if codes[i] == 1 else pepper[0]
                for c in range(channels):
                    out[(o * channels + c) * inner + j] = value


def salt_and_pepper(
    data: np.ndarray,
    key: int,
    prob: float,
    share: float,
    values: np.ndarray,
    extents: tuple[int, int, int],
    out: np.ndarray,
) -> np.ndarray:
    """The data with salt (the first of the values) and pepper (the second) in some places."""
    raw, salt, pepper = raw_values(values)
    source, target = plain(data.view(raw)).reshape(-1), out.view(raw).reshape(-1)
    salt_and_pepper_flat(source, np.uint64(key), prob, share, salt, pepper, *extents, target)
    return out


def raw_values(values: np.ndarray) -> tuple[np.dtype, np.ndarray, np.ndarray]:
    """The type in which the kernel moves the values, and both values."""
    raw = np.dtype(np.uint16) if values.dtype == np.float16 else values.dtype
    return raw, values[:1].copy().view(raw), values[1:].copy().view(raw)


def salting(
    prob: float, share: float, values: np.ndarray, extents: tuple[int, int, int]
) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    """`salt_and_pepper` for many calls."""
    raw, salt, pepper = raw_values(values)
    like = np.empty(0, raw)
    compute = machine_code(salt_and_pepper_flat, like, np.uint64(0), prob, share, salt, pepper, *extents, like)

    flat = (lambda array: array.ravel()) if raw == values.dtype else lambda array: array.ravel().view(raw)

    def run(data: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(flat(data), key, prob, share, salt, pepper, *extents, flat(out))
        return out

    return run


def shot_again(dtype: np.dtype, factor: float) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    """`shot` for many calls with one type, which is not float16."""
    like = np.empty(0, dtype)
    compute = machine_code(shot_flat, like, np.uint64(0), factor, like)

    def run(data: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(data.ravel(), key, factor, out.ravel())
        return out

    return run


@kernel
def unit(key, counter):
    """Number `counter` of a key, in [0, 1)."""
    return np.float64(mixed(key ^ mixed((counter + np.uint64(1)) * GOLDEN)) >> np.uint64(11)) * STEP


@kernel
def poisson(key, mean):
    """A Poisson number with this mean: by adding numbers if the mean is small, else by transformed rejection (Hoermann, 1993)."""
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
    """Replaces each value by a Poisson number, in units of the factor, whose mean is the value."""
    for i in range(source.size):
        own = mixed(key ^ mixed(np.uint64(i + 1) * GOLDEN))
        out[i] = convert(poisson(own, np.float64(source[i]) / factor) * factor, out)


def shot(data: np.ndarray, key: int, factor: float, out: np.ndarray) -> np.ndarray:
    """The data as Poisson numbers in units of the factor."""
    source = as_type(data, np.dtype(np.float32)) if data.dtype == np.float16 else data
    target = np.empty(out.shape, np.float32) if out.dtype == np.float16 else out
    shot_flat(plain(source).reshape(-1), np.uint64(key), factor, target.reshape(-1))
    return out if target is out else cast(target, out)
