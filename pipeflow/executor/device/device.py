"""The shared parts of the device stages of one executor: memory, staging blocks, and copies to the CPU."""

import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pipeflow.backends.cpu import HeapPool, size_class
from pipeflow.device.calls import View
from pipeflow.device.memory import STAND_IN, DevicePool, PinnedRing, aligned, offsets
from pipeflow.device.runtime import DeviceArray, DeviceLease, Runtime
from pipeflow.executor.device.graphs import LaunchGraphs
from pipeflow.tensors import Block


class PinnedPool(HeapPool):
    """Page-locked memory, which is used again when nothing refers to it any more."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def take(self, nbytes: int) -> np.ndarray:
        """``nbytes`` of memory as uint8."""
        return super().take(max(nbytes, 1 << 15))[:nbytes]

    def _allocate(self, capacity: int) -> Block:
        with self._runtime.active():  # any thread may call this
            memory = self._runtime.pinned(capacity)
        with self._lock:
            self.allocations += 1
            self.reserved += capacity
        return Block("pinned", capacity, memory.__array_interface__["data"][0], memory)


class SendingPool(PinnedPool):
    """Page-locked memory for the results of CPU stages that are copied to the device.

    It is cut out of blocks of one size: to allocate page-locked memory makes the device wait, so samples of ever new sizes must
    not need new blocks.
    """

    FIRST, MOST = 1 << 20, 32 << 20  # bytes of a block: more and more, unless one array needs more
    FEW = 4  # blocks that are allocated before larger ones

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._size = size_class(self.FIRST)
        self._made = 0  # blocks of this size
        self._rest = np.empty(0, np.uint8)  # of the last block
        self._cutting = threading.Lock()

    def take(self, nbytes: int) -> np.ndarray:
        """``nbytes`` of memory as uint8."""
        with self._cutting:
            if nbytes > len(self._rest):
                self._rest = self._rest[:0].copy()  # the block may be free now
                self._rest = self._next(nbytes)
            cut, self._rest = self._rest[:nbytes], self._rest[aligned(nbytes) :]
            return cut

    def _array(self, nbytes: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.ndarray(shape, dtype, self.take(nbytes))

    def reserve(self, nbytes: int, blocks: int) -> None:
        """Allocates blocks ahead of their first use."""
        if not nbytes:
            return
        with self._cutting:
            self._grow(nbytes)
            super().reserve(self._size, blocks)
            self._made += blocks

    def _next(self, nbytes: int) -> np.ndarray:
        self._grow(nbytes)
        if not self._free.get(self._size):
            if self._made >= self.FEW and self._size < self.MOST:
                self._grow(2 * self._size)
            self._made += 1
        for free in [free for size, free in self._free.items() if size != self._size]:
            while free:
                self.reserved -= free.pop().nbytes
        return super()._array(self._size, (self._size,), np.uint8)

    def _grow(self, nbytes: int) -> None:
        if nbytes > self._size:
            self._size, self._made = size_class(nbytes), 0


class Device:
    """Memory, staging blocks and copies of one executor."""

    def __init__(self, runtime: Runtime, depth: int, batch_size: int, cuda_graph: bool = False) -> None:
        self.runtime = runtime
        self.depth = depth
        self.blocks = depth + 2  # of an output: for the batches in flight, the delivered one and the one before
        self.batch_size = batch_size
        self.pool = DevicePool(runtime, self.blocks)
        self.landing = PinnedPool(runtime)  # of copies to the CPU
        self.sending = SendingPool(runtime)
        self.cuda_graph = cuda_graph
        self.graphs: list[LaunchGraphs] = []
        self.rings: list[PinnedRing] = []
        self.one_by_one = PinnedRing(runtime, 1)  # for values that replace failed samples
        self.careful = os.environ.get("PIPEFLOW_SYNC", "0") not in ("", "0")
        self.launches = 0
        self.uploads = 0
        self.on_cpu: Counter[str] = Counter()  # reason -> images that were decoded on the CPU

    def ring(self) -> PinnedRing:
        """Staging blocks for one segment: one for each batch in flight, and one that is being filled."""
        self.rings.append(PinnedRing(self.runtime, self.depth + 1))
        return self.rings[-1]

    def launch_graphs(self) -> LaunchGraphs | None:
        """The graphs for one segment, if they are wanted; None if the host waits after every operator."""
        if not self.cuda_graph or self.careful:
            return None
        self.graphs.append(LaunchGraphs(self.runtime, self.blocks))
        return self.graphs[-1]

    def collect(self) -> None:
        """Records the work that consumers queued on the batches that they released."""
        with self.runtime.active():
            self.pool.collect()

    def statistics(self) -> dict[str, Any]:
        """Allocations and bytes, copies, launches and graphs, and the reasons why images were decoded on the CPU."""
        pinned = sum(ring.allocations for ring in (*self.rings, self.one_by_one))
        pinned += self.landing.allocations + self.sending.allocations
        return {
            "allocations": self.pool.allocations,
            "reserved": self.pool.reserved,
            "pinned_allocations": pinned,
            "uploads": self.uploads,
            "launches": self.launches,
            "graphs_captured": sum(one.captured for one in self.graphs),
            "graphs_replayed": sum(one.replayed for one in self.graphs),
            "decoded_on_cpu": dict(self.on_cpu),
        }

    def download(self, values: Sequence[DeviceArray | None], least: int = 0) -> list[np.ndarray | None]:
        """Queues copies to the host: one if the samples are next to each other. The arrays are filled when the copies are done.

        The memory has at least ``nbytes`` bytes, so that it fits the next batch too.
        """
        present = [x for x in values if x is not None]
        if not present:
            return [None] * len(values)
        runtime = self.runtime
        stream, blocks = runtime.returning, {id(x.lease.block): x.lease.block for x in present if x.lease is not None}
        computed = runtime.event()
        runtime.record(computed, runtime.computing)
        runtime.wait(stream, computed)
        begin = min(x.view.address for x in present)
        end = max(x.view.address + x.nbytes for x in present)
        whole = len({id(x.lease) for x in present}) == 1 and end - begin <= 2 * sum(x.nbytes for x in present) + 4096
        places = {}
        if whole:
            memory = self.landing.take(max(end - begin, least))
            places = {id(x): x.view.address - begin for x in present}
            if end > begin:
                runtime.download(stream, memory[: end - begin], begin)
        else:
            starts, total = offsets([x.nbytes for x in present])
            memory = self.landing.take(max(total, least))
            places = {id(x): start for x, start in zip(present, starts)}
            for x in {id(x): x for x in present}.values():
                if x.nbytes:
                    place = memory[places[id(x)] : places[id(x)] + x.nbytes]
                    runtime.download(stream, place, x.view.address)
        for block in blocks.values():
            event = block.spare.pop() if block.spare else runtime.event()
            runtime.record(event, stream)
            block.consumed.append(event)
        return [
            None if x is None else memory[places[id(x)] :][: x.nbytes].view(x.dtype).reshape(x.shape) for x in values
        ]

    def done(self, leases: Iterable[DeviceLease]) -> None:
        """Notes that the compute stream has used these blocks."""
        for lease in {id(lease.block): lease for lease in leases}.values():
            self.runtime.record(lease.block.computed, self.runtime.computing)

    def put(self, array: np.ndarray) -> DeviceArray:
        """One array on the device, for a value that replaces a failed sample."""
        with self.runtime.active():
            array = np.asarray(array, order="C")
            lease = self.pool.take(STAND_IN, array.nbytes, self.runtime.computing)
            pinned = self.one_by_one.take(array.nbytes)
            staged = pinned.array[: array.nbytes]
            staged[:] = array.reshape(-1).view(np.uint8)
            self.runtime.upload(self.runtime.computing, lease.block.address, staged)
            self.runtime.record(pinned.copied, self.runtime.computing)
            self.done([lease])
            return DeviceArray(View(lease.block.address, array.shape, array.dtype), lease)


class Landing:
    """Data that is being copied to the CPU."""

    def __init__(self, arrays: list[np.ndarray | None], events: list[Any]) -> None:
        self.arrays = arrays
        self.events = events
