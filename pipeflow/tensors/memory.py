"""Blocks of a pool, and the leases that give them back.

An array that is taken out of a batch is valid as long as it exists, also after the batch and the pipeline are gone.
The base of every pooled array is a Lease: the object that gives its Block back to the pool when the last array that refers to
it is gone.
"""

import ctypes
from collections import deque
from functools import lru_cache
from typing import Any

import numpy as np


class Block:
    """A piece of memory of one kind ("heap", "shared", "pinned" or "device") that a pool gives out many times."""

    __slots__ = ("address", "kind", "nbytes", "owner")

    def __init__(self, kind: str, nbytes: int, address: int, owner: Any) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.address = address
        self.owner = owner


_NOTHING = Block("none", 0, 0, None)
_NOWHERE: deque[Block] = deque(maxlen=0)


class Lease:
    """Keeps a Block out of its pool. It is the base of the first array, so every view of that array holds it.

    The finaliser only appends to a deque: that is safe from any thread, inside any lock, at exit and in a forked child. A lease
    is memory of ctypes too, so one call makes an array of any shape in it (``array_in``).
    """

    block, _home = _NOTHING, _NOWHERE  # until `array_in` sets its own

    def __del__(self) -> None:
        self._home.append(self.block)


@lru_cache(maxsize=256)
def _of_size(nbytes: int) -> Any:
    """The class of the leases of so many bytes: the pools have a few sizes."""
    return type("LeaseOfMemory", (Lease, ctypes.c_ubyte * nbytes), {})


def array_in(block: Block, home: deque[Block], shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """An array at the beginning of a block, which ``home`` gets back when the array and all made from it are gone."""
    lease = _of_size(block.nbytes).from_address(block.address)
    lease.block = block
    lease._home = home
    return np.ndarray(shape, dtype, lease)
