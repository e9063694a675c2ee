"""The keys of the samples of a batch, and their first random numbers, in one call each. `seeds.py` needs forty calls of NumPy."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.core import dispatcher

from pipeflow.kernels.cpu.jit import kernel, types_of
from pipeflow.kernels.cpu.noise import mixed, unit

_EPOCH, _OFFSET = np.uint64(0x94D049BB133111EB), np.uint64(0xBF58476D1CE4E5B9)
_POSITION = np.uint64(0x9E3779B97F4A7C15)


@kernel
def keys_at(of, positions, epochs, out):
    """Row k of the output has the keys of all samples at the operator with key k."""
    for i in range(len(positions)):
        where = mixed(np.uint64(positions[i]) * _POSITION + _POSITION)
        when = mixed(np.uint64(epochs[i]) * _EPOCH + _OFFSET)
        for k in range(len(of)):
            out[k, i] = mixed(mixed(where ^ of[k]) ^ when)


@kernel
def units(keys, counters, out):
    """Row i of the output has the numbers in [0, 1) of key i at these counters."""
    for i in range(len(keys)):
        for j in range(len(counters)):
            out[i, j] = np.float64(mixed(keys[i] ^ counters[j]) >> np.uint64(11)) * (1.0 / (1 << 53))


@kernel
def first_of(key):
    """`seeds.first_key`: the key of position 0 in epoch 0."""
    return mixed(mixed(mixed(_POSITION) ^ key) ^ mixed(_OFFSET))


def own_kernels() -> list[tuple[dispatcher.Dispatcher, tuple[types.Type, ...]]]:
    """The kernels, with the types of their arguments."""
    row, numbers, table = np.zeros(1, np.uint64), np.zeros(1, np.int64), np.zeros((1, 1), np.uint64)
    return [(keys_at, types_of(row, numbers, numbers, table)), (units, types_of(row, row, np.zeros((1, 1))))]


def load() -> tuple[Callable[..., None], Callable[..., None]]:
    """Reads the kernels from the disk, or compiles them; returns their machine code."""
    found = [_code_of(*each) for each in own_kernels()]
    return found[0], found[1]


def _code_of(compiled: dispatcher.Dispatcher, signature: tuple[types.Type, ...]) -> Callable[..., Any]:
    compiled.compile(signature)
    return compiled.overloads[signature].entry_point


@cache
def first_key() -> Callable[[int], int]:
    """`seeds.first_key` for keys of 64 bits, in machine code: every call of a random operator on arrays needs this key."""
    return _code_of(first_of, types_of(np.uint64(0)))


@cache
def unit_of() -> Callable[[int, int], float]:
    """`seeds.Key.unit`, of a key and a number, in machine code."""
    return _code_of(unit, types_of(np.uint64(0), np.uint64(0)))
