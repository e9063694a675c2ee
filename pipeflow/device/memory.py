"""Blocks of device memory, staging blocks, and arenas: allocated while a pipeline warms up, then used in turn.

Nothing here waits for the device but the ring of staging blocks, whose next block may still be read by a copy.
"""

import gc
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np

from pipeflow.device.calls import ALIGNMENT
from pipeflow.device.runtime import DeviceBlock, DeviceLease, Memory, Runtime

GROWTH = 1.5
SMALLEST = 64 * 1024  # bytes of a block
OTHER = -1  # the purpose of blocks that are no output of a step


def aligned(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where samples of these sizes begin, and the whole size: equal ones are dense, others each at an aligned address."""
    if len(set(sizes)) <= 1:
        step = sizes[0] if sizes else 0
        return [step * index for index in range(len(sizes))], step * len(sizes)
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += aligned(size)
    return places, end


class DevicePool:
    """Blocks for what is handed on, apart for each purpose, so that what one batch needed fits the next one."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.allocations = 0
        self.reserved = 0
        self._returned: dict[int, deque[DeviceBlock]] = {}
        self._free: dict[int, list[DeviceBlock]] = {}
        self._capacity: dict[int, int] = {}
        self._lock = threading.RLock()

    def reserve(self, purpose: int, nbytes: int, blocks: int) -> None:
        """Allocates blocks of a purpose ahead of their first use."""
        if nbytes:
            with self._lock:
                self._capacity[purpose] = nbytes = max(nbytes, SMALLEST)
                self._free[purpose] = [self._block(nbytes) for _ in range(blocks)]

    def collect(self) -> None:
        """Records what the consumers of blocks that came back have queued, so that it is waited for."""
        with self._lock:
            for purpose, returned in self._returned.items():
                while returned:
                    block = returned.popleft()
                    for handle in block.streams:
                        event = block.spare.pop() if block.spare else self.runtime.event()
                        self.runtime.record(event, self.runtime.external(handle))
                        block.consumed.append(event)
                    block.streams.clear()
                    self._free[purpose].append(block)

    def take(self, purpose: int, nbytes: int, writer: object) -> DeviceLease:
        """A block of at least so many bytes that the stream ``writer`` may write to."""
        with self._lock:
            self._free.setdefault(purpose, [])
            home = self._returned.setdefault(purpose, deque())
            self.collect()
            free = self._free[purpose]
            if nbytes > self._capacity.get(purpose, 0):
                self._capacity[purpose] = aligned(int(nbytes * GROWTH) if purpose in self._capacity else nbytes)
            capacity = max(self._capacity.get(purpose, 0), SMALLEST)
            for block in [block for block in free if block.nbytes < capacity]:
                free.remove(block)
                self._release(block)
            block = free.pop(0) if free else self._block(capacity)
        if writer is self.runtime.copying:
            self.runtime.wait(writer, block.computed)
        for event in block.consumed:
            self.runtime.wait(writer, event)
        block.spare += block.consumed
        block.consumed = []
        return DeviceLease(block, home, self)

    def trim(self) -> int:
        """Gives the blocks that are not in use back to the device; returns how many bytes that were."""
        with self._lock:
            self.collect()
            freed = 0
            for free in self._free.values():
                while free:
                    freed += free[-1].nbytes
                    self._release(free.pop())
            return freed

    def memory(self, nbytes: int) -> Memory:
        """Memory that stays with its owner."""
        with self._lock:
            return self._allocate(nbytes)

    def release(self, memory: Memory) -> None:
        """Gives such memory back."""
        with self._lock:
            self.reserved -= memory.nbytes
            self.runtime.free(memory)

    def _block(self, nbytes: int) -> DeviceBlock:
        return DeviceBlock(self._allocate(nbytes), self.runtime.event())

    def _allocate(self, nbytes: int) -> Memory:
        try:
            memory = self.runtime.allocate(nbytes)
        except MemoryError:
            gc.collect()  # an exception, say, may hold the batch that it came from
            self.trim()
            memory = self.runtime.allocate(nbytes)
        self.allocations += 1
        self.reserved += nbytes
        return memory

    def _release(self, block: DeviceBlock) -> None:
        self.reserved -= block.nbytes
        self.runtime.free(block.memory)


class PinnedBlock:
    """Page-locked memory of a ring, and the event of the copy that reads it."""

    __slots__ = ("array", "copied")

    def __init__(self, array: np.ndarray, copied: object) -> None:
        self.array = array
        self.copied = copied


class PinnedRing:
    """The staging blocks of one segment, used in turn."""

    def __init__(self, runtime: Runtime, depth: int) -> None:
        self.runtime = runtime
        self.allocations = 0
        self._depth = depth
        self._blocks: deque[PinnedBlock] = deque()

    def take(self, nbytes: int) -> PinnedBlock:
        """The block that was used longest ago, when the copy from it is done."""
        if len(self._blocks) < self._depth:
            return self._keep(PinnedBlock(self._array(nbytes), self.runtime.event()))
        block = self._blocks.popleft()
        self.runtime.synchronize(block.copied)
        if len(block.array) < nbytes:
            block.array = self._array(nbytes)
        return self._keep(block)

    def _keep(self, block: PinnedBlock) -> PinnedBlock:
        self._blocks.append(block)
        return block

    def _array(self, nbytes: int) -> np.ndarray:
        self.allocations += 1
        return self.runtime.pinned(nbytes)


class Arena:
    """Device memory between the steps of one segment: the next batch overwrites it, in the order of the compute stream."""

    def __init__(self, pool: DevicePool, hint: int) -> None:
        self.pool = pool
        self._chunks: list[Memory] = []
        self._hint = hint
        self._used = 0  # of the last chunk
        self._wanted = 0  # by this batch

    def begin(self) -> None:
        """Starts a batch: what did not fit the last time gets one chunk."""
        if len(self._chunks) > 1:
            self._hint = aligned(int(GROWTH * self._wanted))
            for chunk in self._chunks:
                self.pool.release(chunk)
            self._chunks = []
        self._used = self._wanted = 0

    def take(self, nbytes: int) -> int:
        """The address of so many bytes."""
        nbytes = aligned(nbytes)
        self._wanted += nbytes
        if not self._chunks or self._used + nbytes > self._chunks[-1].nbytes:
            self._chunks.append(self.pool.memory(max(nbytes, self._hint, SMALLEST)))
            self._used = 0
        address = self._chunks[-1].address + self._used
        self._used += nbytes
        return address
