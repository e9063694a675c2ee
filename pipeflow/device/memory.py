"""Blocks of device memory, staging blocks and arenas: allocated during the first batches, then used again in turn.

Only the ring of staging blocks waits for the device: a copy may still read its next block.
"""

import gc
import logging
import threading
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from pipeflow.device.calls import ALIGNMENT, aligned_places
from pipeflow.device.runtime import LEGACY, PER_THREAD, DeviceBlock, DeviceLease, Memory, Runtime

log = logging.getLogger("pipeflow")
GROWTH = 1.5
SMALLEST = 64 * 1024  # bytes of a block
# The purposes of blocks that are not outputs of a step. Each has its own blocks, because their sizes differ.
JOINED, STAND_IN, ADOPTED = "joined", "stand-in", "adopted"


@dataclass
class Adopted:
    """Memory of another library, kept as long as any object refers to it."""

    address: int
    nbytes: int
    owner: Any


def aligned(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offsets of samples of these sizes, and the total size. Equal sizes are dense; others have aligned offsets."""
    if len(set(sizes)) <= 1:
        step = sizes[0] if sizes else 0
        return [step * index for index in range(len(sizes))], step * len(sizes)
    *places, end = accumulate([-(-size // ALIGNMENT) * ALIGNMENT for size in sizes], initial=0)
    return places, end


def offsets_column(sizes: np.ndarray) -> tuple[np.ndarray, int]:
    """The same for an array of sizes."""
    if not len(sizes) or (sizes == sizes[0]).all():
        step = int(sizes[0]) if len(sizes) else 0
        return np.arange(len(sizes)) * step, step * len(sizes)
    return aligned_places(sizes)


class DevicePool:
    """Blocks for data that leaves a segment. Each purpose has its own, so a block of one batch fits the next batch.

    ``ahead`` is the number of blocks of a purpose that the copy stream fills in turn, so that kernels do not delay it.
    """

    def __init__(self, runtime: Runtime, ahead: int = 1) -> None:
        self.runtime = runtime
        self.ahead = ahead
        self.allocations = 0
        self.reserved = 0
        self._returned: dict[Hashable, deque[DeviceBlock]] = {}
        self._free: dict[Hashable, list[DeviceBlock]] = {}
        self._capacity: dict[Hashable, int] = {}
        self._made: Counter[Hashable] = Counter()  # the number of blocks of each purpose, free or not
        # All memory, by its id. If a lease is collected as part of a cycle, Python also finalizes the objects that only the
        # cycle refers to. Without this reference that would free memory whose block comes back to the pool.
        self._memories: dict[int, Memory] = {}
        self._lock = threading.RLock()

    def reserve(self, purpose: Hashable, nbytes: int, blocks: int) -> None:
        """Allocates blocks of a purpose ahead of their first use."""
        if nbytes:
            with self._lock:
                self._capacity[purpose] = nbytes = max(nbytes, SMALLEST)
                self._free[purpose] = [self._block(purpose, nbytes, nbytes) for _ in range(blocks)]

    def collect(self) -> None:
        """Records the work that consumers queued on released blocks, so that the pool can wait for it."""
        with self._lock:
            for purpose, returned in self._returned.items():
                if returned:
                    self._take_back(purpose, returned)
            adopted = self._free.get(ADOPTED, [])
            for block in [block for block in adopted if self._idle(block)]:
                adopted.remove(block)
                del self._memories[id(block.memory)]

    def _take_back(self, purpose: Hashable, returned: "deque[DeviceBlock]") -> None:
        while returned:
            block = returned.popleft()
            # In this thread PER_THREAD means another stream. The legacy stream waits for the default streams of all threads.
            for handle in {LEGACY if handle == PER_THREAD else handle for handle in block.streams}:
                self._consumed(block, handle)
            block.streams.clear()
            self._free[purpose].append(block)

    def _consumed(self, block: DeviceBlock, handle: int) -> None:
        event = block.spare.pop() if block.spare else self.runtime.event()
        try:
            self.runtime.record(event, self.runtime.external(handle))
        except Exception as error:  # the consumer's stream was destroyed: wait here for its work
            log.debug("the stream %#x of a consumer cannot be waited for: %r", handle, error)
            self.runtime.drain_all()
            block.spare.append(event)
        else:
            block.consumed.append(event)

    def take(self, purpose: Hashable, nbytes: int, writer: object) -> DeviceLease:
        """A block of at least this number of bytes that the stream ``writer`` may write to."""
        with self._lock:
            self._free.setdefault(purpose, [])
            home = self._returned.setdefault(purpose, deque())
            self.collect()
            free = self._free[purpose]
            capacity = self._capacity.get(purpose, 0)
            if nbytes > capacity:
                capacity = aligned(int(nbytes * GROWTH) if purpose in self._capacity else nbytes)
            capacity = max(capacity, SMALLEST)
            for block in [block for block in free if block.nbytes < capacity]:
                free.remove(block)
                self._made[purpose] -= 1
                self.release(block.memory)
            block = self._next(purpose, capacity, nbytes, writer)
            # Only what there was memory for counts: a batch that was too large does not make the next ones too large.
            self._capacity[purpose] = min(capacity, block.nbytes)
        if writer is self.runtime.copying:
            self.runtime.wait(writer, block.computed)
        for event in block.consumed:
            self.runtime.wait(writer, event)
        block.spare += block.consumed
        block.consumed = []
        return DeviceLease(block, home, self)

    def _next(self, purpose: Hashable, capacity: int, least: int, writer: object) -> DeviceBlock:
        """The block that has been free for longest. For the copy stream: an idle or new block, while there are fewer than
        ``ahead``.
        """
        free = self._free[purpose]
        if writer is self.runtime.copying and self._made[purpose] < self.ahead:
            found = next(filter(self._idle, free), None)
            if found is None:
                return self._block(purpose, capacity, least)
            free.remove(found)
            return found
        return free.pop(0) if free else self._block(purpose, capacity, least)

    def adopt(self, address: int, nbytes: int, owner: Any, shared: bool) -> DeviceLease:
        """Memory of another owner: it is kept until the device has finished with it, and never used for other data."""
        with self._lock:
            home = self._returned.setdefault(ADOPTED, deque())
            self._free.setdefault(ADOPTED, [])
            self.collect()
            block = DeviceBlock(Adopted(address, nbytes, owner), self.runtime.event(), shared)
            self._memories[id(block.memory)] = block.memory
        return DeviceLease(block, home, self)

    def _idle(self, block: DeviceBlock) -> bool:
        return all(map(self.runtime.done, (block.computed, *block.consumed)))

    def trim(self) -> int:
        """Frees the blocks that are not in use; returns their number of bytes."""
        with self._lock:
            self.collect()
            freed = 0
            for purpose, free in self._free.items():
                freed += self._freed(purpose, free) if purpose != ADOPTED else 0
            return freed

    def _freed(self, purpose: Hashable, free: "list[DeviceBlock]") -> int:
        freed = 0
        while free:
            freed += free[-1].nbytes
            self._made[purpose] -= 1
            self.release(free.pop().memory)
        return freed

    def memory(self, nbytes: int, least: int) -> Memory:
        """Memory that one owner keeps until ``release``: ``least`` bytes, where there are no more."""
        with self._lock:
            return self._allocate(nbytes, least)

    def release(self, memory: Memory) -> None:
        """Frees memory that ``memory`` returned."""
        with self._lock:
            self.reserved -= memory.nbytes
            del self._memories[id(memory)]
            self.runtime.free(memory)

    def _block(self, purpose: Hashable, nbytes: int, least: int) -> DeviceBlock:
        block = DeviceBlock(self._allocate(nbytes, least), self.runtime.event())
        self._made[purpose] += 1
        return block

    def _allocate(self, nbytes: int, least: int) -> Memory:
        try:
            memory = self.runtime.allocate(nbytes)
        except MemoryError:
            gc.collect()  # for example, an exception may keep a batch
            self.trim()
            try:
                memory = self.runtime.allocate(nbytes)
            except MemoryError:
                if least >= nbytes:
                    raise
                memory = self.runtime.allocate(nbytes := least)  # without room for larger batches
        self.allocations += 1
        self.reserved += nbytes
        self._memories[id(memory)] = memory
        return memory


class PinnedBlock:
    """Page-locked memory of a ring, and the event of the last copy from it."""

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
        """The block that was used longest ago; it waits until the copy from it is done."""
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


class DeviceArena:
    """Device memory between the steps of one segment. The next batch overwrites it, in the order of the compute stream."""

    def __init__(self, pool: DevicePool, hint: int) -> None:
        self.pool = pool
        self._chunks: list[Memory] = []
        self._hint = hint
        self._used = 0  # bytes used of the last chunk
        self._wanted = 0  # bytes used by this batch

    def begin(self) -> None:
        """Starts a batch. If the last one needed several chunks, they become one."""
        if len(self._chunks) > 1:
            self._hint = aligned(int(GROWTH * self._wanted))
            for chunk in self._chunks:
                self.pool.release(chunk)
            self._chunks = []
        self._used = self._wanted = 0

    def take(self, nbytes: int) -> int:
        """The address of this number of bytes."""
        nbytes = aligned(nbytes)
        self._wanted += nbytes
        if not self._chunks or self._used + nbytes > self._chunks[-1].nbytes:
            self._chunks.append(self.pool.memory(max(nbytes, self._hint, SMALLEST), nbytes))
            self._used = 0
        address = self._chunks[-1].address + self._used
        self._used += nbytes
        return address
