"""Blocks of a pool, and the leases that give them back.

An array that is taken out of a batch is valid as long as it exists, also after the batch and the pipeline are gone.
The base of every pooled array is a Lease: the object that gives its Block back to the pool when the last array that refers to
it is gone.
"""

from collections import deque
from typing import Any


class Block:
    """A piece of memory of one kind ("heap", "shared", "pinned" or "device") that a pool gives out many times."""

    __slots__ = ("address", "kind", "nbytes", "owner")

    def __init__(self, kind: str, nbytes: int, address: int, owner: Any) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.address = address
        self.owner = owner


class Lease:
    """Keeps a Block out of its pool. It is the base of the first array, so every view of that array holds it.

    The finaliser only appends to a deque: that is safe from any thread, inside any lock, at exit and in a forked child.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_home", "block")

    def __init__(self, block: Block, home: "deque[Block]") -> None:
        self.block = block
        self._home = home
        self.__array_interface__ = {
            "data": (block.address, False),
            "shape": (block.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._home.append(self.block)
