"""The random numbers of `pipeflow.seeds` for several samples: the same bits, without arrays between the steps."""

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


def loaded() -> bool:
    """True if the kernels are in memory."""
    return bool(uniform.signatures)


def load() -> None:
    """Reads the kernels from the disk, or compiles them."""
    keys, end = np.zeros(1, np.uint64), np.zeros(1)
    units(keys, np.empty((1, 1)))
    uniform(keys, end, end, end.astype(np.float32), np.empty((1, 1), np.float32))
