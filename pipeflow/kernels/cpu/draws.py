"""The random numbers of `pipeflow.seeds` for several samples: the same bits, without arrays between the steps."""

import math

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.noise import GOLDEN, mixed

U = np.uint64
UNIT = 1.0 / (1 << 53)


@kernel(fastmath=False)
def units(keys, out):
    """The first numbers in [0, 1) of each key: a row for each."""
    counters = np.empty(out.shape[1], np.uint64)
    for j in range(counters.size):
        counters[j] = mixed(U(j + 1) * GOLDEN)
    for i in range(keys.size):
        for j in range(counters.size):
            out[i, j] = np.float64(mixed(keys[i] ^ counters[j]) >> U(11)) * UNIT


@kernel(fastmath=False)
def uniform(keys, low, high, top, out):
    """Numbers between two ends as float32, rounded once, and at most `top`; there is one row of ends, or one for each key."""
    counters = np.empty(out.shape[1], np.uint64)
    for j in range(counters.size):
        counters[j] = mixed(U(j + 1) * GOLDEN)
    for i in range(keys.size):
        own = i if low.size > 1 else 0
        least, extent, most = low[own], high[own] - low[own], top[own]
        for j in range(counters.size):
            value = np.float32(least + np.float64(mixed(keys[i] ^ counters[j]) >> U(11)) * UNIT * extent)
            out[i, j] = value if value < most else most


@kernel(fastmath=False)
def units_of(key, out):
    """The first numbers in [0, 1) of one key."""
    for j in range(out.size):
        out[j] = np.float64(mixed(key ^ mixed(U(j + 1) * GOLDEN)) >> U(11)) * UNIT


@kernel
def state_of(key, words):
    """The state of a generator with this key (`seeds.Key.state`)."""
    for j in range(3):
        words[j] = mixed(key ^ mixed(U((1 << 40) + j + 1) * GOLDEN))
    words[3], words[4] = U(1), U(0)


@kernel(fastmath=False)
def line_of_floats(key, factor, rest, out):
    """`factor * x + rest` of the float32 numbers x that NumPy's generator with this key draws first (SFC64, two numbers from each
    word).
    """
    words, step = np.empty(5, np.uint64), np.float32(2.0**-24)
    state_of(key, words)
    a, b, c, count = words[0], words[1], words[2], words[3]
    for i in range(0, out.size, 2):
        drawn = a + b + count
        count += U(1)
        a, b, c = b ^ (b >> U(11)), c + (c << U(3)), ((c << U(24)) | (c >> U(40))) + drawn
        for half in range(min(2, out.size - i)):
            out[i + half] = np.float32((drawn & U(0xFFFFFFFF)) >> U(8)) * step * factor + rest
            drawn >>= U(32)


@kernel(fastmath=False)
def places_of(key, below, out):
    """The first random integers from 0 to below `below` of one key, as `units_of` makes them."""
    for j in range(out.size):
        unit = np.float64(mixed(key ^ mixed(U(j + 1) * GOLDEN)) >> U(11)) * UNIT
        out[j] = min(np.int64(unit * below), below - 1)


@kernel(fastmath=False)
def uniform_of(key, low, high, top, out):
    """`uniform` for one key."""
    for j in range(out.size):
        unit = np.float64(mixed(key ^ mixed(U(j + 1) * GOLDEN)) >> U(11)) * UNIT
        out[j] = min(np.float32(low + unit * (high - low)), top)


BLOCK = 256  # normal numbers that are computed together, so that what they are made of stays in the first cache
ROOT_HALF = np.uint64(np.array(math.sqrt(0.5)).view(np.uint64))
OFFSET = U(1024)  # makes the exponents of numbers below 1 positive
LOG_2 = math.log(2.0)
L = tuple(1.0 / (2 * k + 1) for k in range(11))  # Taylor series, as in `pipeflow.seeds`
S = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
C = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9))


@kernel(fastmath=False)
def normals_of(key, deviation, mean, out):
    """The first normal numbers of one key, made as by `seeds.normals_of`."""
    fractions, powers, turns = np.empty(BLOCK), np.empty(BLOCK, np.int32), np.empty(BLOCK)
    bits = fractions.view(np.uint64)
    for begin in range(0, out.size, BLOCK):
        count = min(BLOCK, out.size - begin)
        for i in range(count):
            place = U(2 * (begin + i))
            fractions[i] = 1.0 - np.float64(mixed(key ^ mixed((place + U(1)) * GOLDEN)) >> U(11)) * UNIT
            turns[i] = np.float64(mixed(key ^ mixed((place + U(2)) * GOLDEN)) >> U(11)) * UNIT
        for i in range(count):
            power = (bits[i] - ROOT_HALF + (OFFSET << U(52))) >> U(52)
            powers[i] = np.int32(power) - np.int32(OFFSET)
            bits[i] = bits[i] - ((power - OFFSET) << U(52))
        for i in range(count):
            s = (fractions[i] - 1.0) / (fractions[i] + 1.0)
            z = s * s
            high = ((((L[10] * z + L[9]) * z + L[8]) * z + L[7]) * z + L[6]) * z + L[5]
            low = ((((high * z + L[4]) * z + L[3]) * z + L[2]) * z + L[1]) * z + L[0]
            logarithm = 2.0 * s * low + powers[i] * LOG_2
            quarter = np.int32(4.0 * turns[i] + 0.5)
            angle = (turns[i] - 0.25 * quarter) * (2.0 * np.pi)
            x = angle * angle
            sine = ((((S[8] * x + S[7]) * x + S[6]) * x + S[5]) * x + S[4]) * x + S[3]
            sine = angle * (((sine * x + S[2]) * x + S[1]) * x + S[0])
            cosine = ((((C[8] * x + C[7]) * x + C[6]) * x + C[5]) * x + C[4]) * x + C[3]
            cosine = ((cosine * x + C[2]) * x + C[1]) * x + C[0]
            value = sine if quarter & np.int32(1) else cosine
            value = -value if (quarter == 1) | (quarter == 2) else value
            out[begin + i] = np.sqrt(-2.0 * logarithm) * value * deviation + mean


@kernel(fastmath=False)
def normals(keys, out):
    """The first normal numbers of each key: a row for each."""
    for i in range(keys.size):
        normals_of(keys[i], 1.0, 0.0, out[i])


@kernel
def integers_of(key, first, below, out):
    """`seeds.Key.integer` of one key: numbers from `first`, of which there are `below`, less than 2**32."""
    for j in range(out.size):
        bits, count = mixed(key ^ mixed(U(j + 1) * GOLDEN)), U(below[j])
        out[j] = first[j] + np.int64(((bits >> U(32)) * count + ((bits & U(0xFFFFFFFF)) * count >> U(32))) >> U(32))


def loaded() -> bool:
    """True if the kernels are in memory."""
    return bool(uniform.signatures)


def load() -> None:
    """Reads the kernels from the disk, or compiles them."""
    keys, end = np.zeros(1, np.uint64), np.zeros(1)
    units(keys, np.empty((1, 1)))
    normals(keys, np.empty((1, 1)))
    uniform(keys, end, end, end.astype(np.float32), np.empty((1, 1), np.float32))
