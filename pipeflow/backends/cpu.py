"""Heap memory in size classes, which is used again when no array refers to it any more.

A new page costs 80 times as much as a warm one, so blocks are kept: the lease of an array returns its block to the pool. Small
blocks come from malloc, which is as fast.
"""

import threading
from collections import deque
from typing import Any

import numpy as np

from pipeflow.tensors import Block, array_in

SMALL = 16 * 1024
ALIGNMENT = 64


def size_class(nbytes: int) -> int:
    """The block size for a request: there are four sizes for each power of two, so that at most a fifth is unused."""
    if nbytes <= SMALL:
        return SMALL
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class HeapPool:
    """Memory for batches. ``take`` may be called from any thread."""

    def __init__(self) -> None:
        self._free: dict[int, deque[Block]] = {}
        self._lock = threading.Lock()
        self.allocations = 0
        self.reserved = 0
        self.page_locked: HeapPool | None = None  # memory for results that are only copied to a device

    @property
    def for_device(self) -> "HeapPool":
        """The pool for results that are only copied to a device; this one if there is none."""
        return self if self.page_locked is None else self.page_locked

    @property
    def all_reserved(self) -> int:
        """The bytes of all blocks, page-locked ones included."""
        return self.reserved + (0 if self.page_locked is None else self.page_locked.reserved)

    def take(self, nbytes: int) -> np.ndarray:
        """``nbytes`` of memory as uint8. It is not used again before the last array that refers to it is gone."""
        return np.empty(nbytes, np.uint8) if nbytes <= SMALL else self._array(nbytes, (nbytes,), np.uint8)

    def _array(self, nbytes: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        capacity = size_class(nbytes)
        free = self._free.get(capacity)
        if free is None:
            with self._lock:
                free = self._free.setdefault(capacity, deque())
        try:
            block = free.pop()
        except IndexError:
            block = self._allocate(capacity)
        return array_in(block, free, shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array in pooled memory."""
        if dtype.hasobject:
            return np.empty(shape, object)
        count = 1
        for extent in shape:
            count *= extent
        nbytes = count * dtype.itemsize
        return np.empty(shape, dtype) if nbytes <= SMALL else self._array(nbytes, shape, dtype)

    def reserve(self, nbytes: int, blocks: int) -> None:
        """Allocates blocks ahead of their first use."""
        if nbytes > SMALL:
            free = self._free.setdefault(size_class(nbytes), deque())
            free.extend(self._allocate(size_class(nbytes)) for _ in range(blocks))

    def trim(self) -> int:
        """Returns the blocks that are not in use to the system, and returns their number of bytes."""
        freed = 0
        for free in list(self._free.values()):
            while free:
                try:
                    freed += free.pop().nbytes
                except IndexError:
                    break
        with self._lock:
            self.reserved -= freed
        return freed

    def _allocate(self, capacity: int) -> Block:
        memory = np.empty(capacity + ALIGNMENT, np.uint8)
        address = memory.__array_interface__["data"][0]
        with self._lock:
            self.allocations += 1
            self.reserved += capacity
        return Block("heap", capacity, -(-address // ALIGNMENT) * ALIGNMENT, memory)


class Arena:
    """Memory of one thread for results between steps of a stage. Each sample overwrites it, so it is in the cache."""

    def __init__(self) -> None:
        self.counter: Any = (
            None  # of the work of kernels in this thread (``kernels/counts.py``), when it is first needed
        )
        self._buffers: dict[int, np.ndarray] = {}
        self._views: dict[tuple[int, tuple[int, ...], np.dtype], np.ndarray] = {}

    def empty(self, slot: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The memory of a slot as an array of this shape."""
        view = self._views.get((slot, shape, dtype))
        if view is not None:
            return view
        if dtype.hasobject:
            return np.empty(shape, object)
        count = 1
        for extent in shape:
            count *= extent
        nbytes = count * dtype.itemsize
        buffer = self.block(slot, nbytes)
        if len(self._views) > 512:  # else the table would grow without end if all images had different sizes
            self._views.clear()
        view = self._views[(slot, shape, dtype)] = buffer[:nbytes].view(dtype).reshape(shape)
        return view

    def block(self, slot: int, nbytes: int) -> np.ndarray:
        """The memory of a slot: at least ``nbytes`` bytes."""
        buffer = self._buffers.get(slot)
        if buffer is None or len(buffer) < nbytes:
            buffer = self._buffers[slot] = np.empty(size_class(nbytes), np.uint8)
            self._views = {key: kept for key, kept in self._views.items() if key[0] != slot}
        return buffer
