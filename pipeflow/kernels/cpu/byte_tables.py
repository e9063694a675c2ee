"""Replaces bytes by those of a table: 64 at a time if the processor can, which is faster than any arithmetic."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.jit import Filling, kernel, over_elements, plain
from pipeflow.kernels.cpu.simd import bytes as simd

ENOUGH = 2048  # fewer bytes are computed faster than a table is made
VALUES = np.arange(256, dtype=np.uint8)
BYTE = np.dtype(np.uint8)


@kernel
def translate_flat(source, table, out):
    simd.translate_row(source, table, out, source.size)


@cache
def fast() -> bool:
    """True if a look-up is faster than a multiplication and an addition for each value."""
    return simd.has_tables()


def translated(source: np.ndarray, table: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The entry of each byte in a table of 256 bytes."""
    translate_flat(plain(source).reshape(-1), table, out.reshape(-1))
    return out


def filled_by_table(table: np.ndarray) -> Filling:
    """`translated` with one table, for many calls."""
    return over_elements(translate_flat, BYTE, (table,), BYTE)


def of_every_byte(compiled: Any, *numbers: Any) -> Filling:
    """A kernel of (bytes, *numbers, result) for many calls, as a look-up in a table if this is faster."""
    if not fast():
        return over_elements(compiled, BYTE, numbers, BYTE)
    table = np.empty(256, np.uint8)
    compiled(VALUES, *numbers, table)
    return filled_by_table(table)


def by_table(compute: Callable[[np.ndarray, np.ndarray], object], source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Runs ``compute(values, result)``, which must compute each byte independently; for many bytes it makes a table and looks
    them up.
    """
    if source.size < ENOUGH or not fast() or source.dtype != BYTE or out.dtype != BYTE:
        compute(plain(source).reshape(-1), out.reshape(-1))
        return out
    table = np.empty(256, np.uint8)
    compute(VALUES, table)
    return translated(source, table, out)
