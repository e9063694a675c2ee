"""The plan of one batch in a segment: memory, the copy to the device, and the queue of launches."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeflow.declare import NoTable
from pipeflow.device.calls import View, array_address
from pipeflow.device.memory import DeviceArena, PinnedBlock, aligned, offsets, offsets_column
from pipeflow.device.runtime import LEGACY, PER_THREAD, DeviceArray, DeviceLease, wait_for, wait_for_default_streams
from pipeflow.device.tables import ArrayColumn, DeviceColumn
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.device.device import Device
from pipeflow.executor.device.graphs import Queued
from pipeflow.plan import Step
from pipeflow.tensors import Block, DeviceSample, Lease

PART = 4 << 20  # bytes for one thread: to copy them takes a third of a millisecond, to start a thread a tenth
WIDEST = 16  # bytes of the widest element, a complex number
LEAST = 64 << 10  # bytes for one copy: to queue a copy takes as long as to copy so many to staging memory
MOST_PARTS = 4  # the most threads that copy at the same time: so many use the whole bandwidth of the memory


def page_locked(array: np.ndarray) -> Block | None:
    """The page-locked memory of the pipeline that has an array; None for other arrays."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.block if isinstance(base, Lease) and base.block.kind == "pinned" and array.flags.c_contiguous else None


def runs_of(samples: Sequence[np.ndarray], starts: Sequence[int]) -> list[tuple[int, np.ndarray]] | None:
    """The copies, (offset on the device, bytes), of samples that are in page-locked memory; samples with equal gaps on both
    sides are one copy. None if other samples are among them, or if staging memory is faster than many small copies.
    """
    runs: list[tuple[Block, int, int, int]] = []  # memory, begin and end there, offset on the device
    for sample, start in zip(samples, starts):
        if not sample.nbytes:
            continue
        block = page_locked(sample)
        if block is None:
            return None
        begin = array_address(sample) - block.address
        end = begin + sample.nbytes
        if runs and runs[-1][0] is block and begin - start == runs[-1][1] - runs[-1][3]:
            _, begin, _, start = runs.pop()
        runs.append((block, begin, end, start))
    if sum(end - begin for _, begin, end, _ in runs) < LEAST * len(runs):
        return None
    return [(start, block.owner[begin:end]) for block, begin, end, start in runs]


class StagingChunk:
    """A staging block, the device block that it is copied to, and how much of both is used."""

    def __init__(self, pinned: PinnedBlock, lease: DeviceLease) -> None:
        self.pinned = pinned
        self.lease = lease
        self.used = 0
        self.capacity = min(len(pinned.array), lease.block.nbytes)


def is_plain(array: Any) -> bool:
    """True if kernels can read an array: it is contiguous, and aligned as its size allows, also for a wider type.

    ``fn.reinterpret`` makes a view of another type, and a load from an address that does not fit it ends the process.
    """
    alignment = min(array.nbytes & -array.nbytes, WIDEST)
    return bool(array.flags.c_contiguous) and not (alignment and array_address(array) % alignment)


def copy_all(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Copies the second of each pair to the first. NumPy copies large arrays without the interpreter's lock."""
    for target, source in pairs:
        np.copyto(target, source)


class SegmentMemory:
    """The memory of a segment on both sides of the copy, and between its launches.

    ``beside`` runs several functions at the same time, in up to ``threads`` threads.
    """

    def __init__(
        self,
        device: Device,
        purpose: int,
        held: set[int],
        capacity: int,
        between: int,
        beside: Callable[[Sequence[Callable[[], None]]], None],
        threads: int,
    ) -> None:
        self.device = device
        self.beside = beside
        self.parts = min(threads, MOST_PARTS)
        self.runtime = device.runtime
        self.purpose = purpose  # of its staged blocks in the pool; for blocks of outputs, the slot is the purpose
        self.held = held  # the slots whose memory belongs to the batch
        self.ring = device.ring()
        self.capacity = capacity  # bytes that one batch copies to the device
        self.sending: deque[tuple[Any, list[np.ndarray]]] = deque()  # arrays that are being copied to the device
        self.arena = DeviceArena(device.pool, between)
        self.graphs = device.launch_graphs()

    def hold(self, event: Any, arrays: list[np.ndarray]) -> None:
        """Keeps arrays until the copies from them are done. The host waits if the device is too many batches behind."""
        self.sending.append((event, arrays))
        while self.sending and (len(self.sending) > self.device.depth or self.runtime.done(self.sending[0][0])):
            self.runtime.synchronize(self.sending.popleft()[0])


class Work:
    """The plan of one batch in a segment: the data that one copy takes to the device, and the launches after it.

    ``failed`` is called for a sample that fails in a step.
    """

    def __init__(self, memory: SegmentMemory, failed: Callable[["Work", Step, int, Exception], None]) -> None:
        self.memory = memory
        self.failed = failed
        self.chunks: list[StagingChunk] = []
        self.direct: list[tuple[int, np.ndarray]] = []  # address on the device, and the bytes to copy there
        self.sent: list[np.ndarray] = []  # the arrays that have these bytes
        self.queue: list[Queued] = []
        self.leases: list[DeviceLease] = []
        self.constants: dict[int, DeviceArray] = {}
        self.columns: dict[int, tuple[list[int], ArrayColumn]] = {}  # slot -> some rows of it

    def column(self, values: Sequence[DeviceArray], slot: int, rows: list[int]) -> ArrayColumn:
        """Rows of a slot as a column."""
        if type(values) is DeviceColumn and len(rows) == len(values):
            return values.column
        known = self.columns.get(slot)
        if known is None or known[0] != rows:
            known = self.columns[slot] = rows, ArrayColumn.of([values[row].view for row in rows])
        return known[1]

    def stage(self, nbytes: int) -> tuple[np.ndarray, int, DeviceLease]:
        """Memory to fill on the host, its address on the device after the copy, and the object that keeps the memory on the
        device.
        """
        nbytes = aligned(max(nbytes, 1))
        if not self.chunks or self.chunks[-1].used + nbytes > self.chunks[-1].capacity:
            # after the first batch its size is known: one chunk is enough
            memory = self.memory
            capacity = max(memory.capacity, nbytes)
            pinned = memory.ring.take(capacity)
            lease = memory.device.pool.take(memory.purpose, capacity, memory.runtime.copying)
            self.chunks.append(StagingChunk(pinned, lease))
            self.leases.append(lease)
        chunk = self.chunks[-1]
        begin = chunk.used
        chunk.used += nbytes
        return chunk.pinned.array[begin : begin + nbytes], chunk.lease.block.address + begin, chunk.lease

    def upload(self, array: np.ndarray) -> int:
        """The device address of a copy of a host array."""
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        place, address, _ = self.stage(array.nbytes)
        place[: array.nbytes] = array.reshape(-1).view(np.uint8)
        return address

    def put(self, samples: Sequence[np.ndarray], slot: int | None = None) -> Sequence[DeviceArray]:
        """Samples that are copied to the device, one after another; those of a slot from where they are, if possible."""
        starts, total = offsets([sample.nbytes for sample in samples])
        runs = None if slot is None else runs_of(samples, starts)
        if runs:
            lease = self.memory.device.pool.take(slot, total, self.memory.runtime.copying)
            self.leases.append(lease)
            address = lease.block.address
            self.direct += [(address + start, piece) for start, piece in runs]
            self.sent += samples
        else:
            address, lease = self._staged(samples, starts, total)
        views = [(address + start, sample.shape, sample.dtype) for sample, start in zip(samples, starts)]
        try:
            return DeviceColumn(ArrayColumn.of(views), lease)
        except NoTable:  # types or numbers of axes differ
            return [DeviceArray(View(*view), lease) for view in views]

    def _staged(self, samples: Sequence[np.ndarray], starts: Sequence[int], total: int) -> tuple[int, DeviceLease]:
        place, address, lease = self.stage(total)
        count = max(1, min(self.memory.parts, total // PART, len(samples)))
        parts: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(count)]
        for sample, start in zip(samples, starts):
            if sample.nbytes:
                target = place[start : start + sample.nbytes].view(sample.dtype).reshape(sample.shape)
                parts[start * count // total].append((target, sample))
        self.memory.beside([partial(copy_all, part) for part in parts])
        return address, lease

    def adopt(self, samples: Sequence[DeviceSample]) -> list[DeviceArray]:
        """Samples that are on the device already. Their memory is used directly, or copied if kernels cannot read it."""
        runtime, pool = self.memory.runtime, self.memory.device.pool
        with runtime.using(runtime.computing):
            wait_for_default_streams(runtime)
            wait_for(runtime, {sample.stream for sample in samples} - {0, LEGACY, PER_THREAD})
            arrays = [runtime.as_array(sample.value) for sample in samples]
            arrays = [array if is_plain(array) else array.copy() for array in arrays]
        views = [View(array_address(array), tuple(array.shape), np.dtype(array.dtype)) for array in arrays]
        shared = any(sample.shared for sample in samples)
        base, size = views[0].address, views[0].nbytes
        if all(view.address == base + size * place and view.nbytes == size for place, view in enumerate(views)):
            leases = [pool.adopt(base, size * len(views), (samples, arrays), shared)] * len(views)  # one array
        else:
            leases = [pool.adopt(view.address, view.nbytes, (samples, arrays), shared) for view in views]
        self.leases += leases
        return [DeviceArray(view, lease) for view, lease in zip(views, leases)]

    def copy(self, step: Step, *piece: int) -> None:
        """Queues a copy on the device: target, source and number of bytes."""
        copy = self.memory.runtime.copy
        self.queue.append(Queued(step, lambda stream: copy(stream, *piece), piece))

    def send(self) -> None:
        """Queues the copy, and lets the compute stream wait for it."""
        runtime, memory = self.memory.runtime, self.memory
        for chunk in self.chunks:
            runtime.upload(runtime.copying, chunk.lease.block.address, chunk.pinned.array[: chunk.used])
            runtime.record(chunk.pinned.copied, runtime.copying)
            runtime.wait(runtime.computing, chunk.pinned.copied)
        for address, piece in self.direct:
            runtime.upload(runtime.copying, address, piece)
        if self.direct:
            event = runtime.event()
            runtime.record(event, runtime.copying)
            runtime.wait(runtime.computing, event)
            memory.hold(event, self.sent)
        memory.device.uploads += len(self.chunks) + len(self.direct)
        if len(self.chunks) > 1:
            memory.capacity = aligned(sum(chunk.used for chunk in self.chunks) * 3 // 2)

    def launch(self, batch: BatchRun) -> None:
        """Queues the launches in the order of the steps, or a graph of all; an error names its step."""
        device, stream = self.memory.device, self.memory.runtime.computing
        if self.memory.graphs is not None:
            try:
                if self.memory.graphs.replay(self.queue):
                    return
            except Exception as error:
                batch.fail(error, self.queue[0].step)
                return
        for place, (step, queue, _) in enumerate(self.queue):
            try:
                queue(stream)
                device.launches += 1
                if device.careful and (place + 1 == len(self.queue) or self.queue[place + 1].step is not step):
                    device.runtime.drain(device.runtime.computing)
            except Exception as error:
                batch.fail(error, step)
                return


class CallMemory:
    """The memory and launches of a segment for the GPU form of one operator: a device.calls.DeviceMemory."""

    def __init__(self, work: Work, step: Step) -> None:
        self.work = work
        self.step = step
        self.leases: list[DeviceLease | None] = []

    def allocate(self, output: int, sizes: Sequence[int] | np.ndarray) -> Sequence[int] | np.ndarray:
        """The addresses of one output of all samples."""
        memory, slot = self.work.memory, self.step.outputs[output]
        starts, total = offsets_column(np.asarray(sizes, np.int64))
        if slot not in memory.held:
            self.leases.append(None)
            base = memory.arena.take(total)
        else:
            lease = memory.device.pool.take(slot, total, memory.runtime.computing)
            self.leases.append(lease)
            self.work.leases.append(lease)
            base = lease.block.address
        return starts + base if isinstance(sizes, np.ndarray) else (starts + base).tolist()

    def view(self, output: int, views: Sequence[View]) -> Sequence[int]:
        """Results in memory of the inputs stay there; the inputs of the step are kept as long as they are."""
        del output
        self.leases.append(None)
        return [view.address for view in views]

    def scratch(self, nbytes: int) -> int:
        """Memory between two launches."""
        return self.work.memory.arena.take(nbytes)

    def upload(self, array: np.ndarray) -> int:
        """A table on the device."""
        return self.work.upload(array)

    def launch(self, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues a kernel."""
        name = kernel, grid, threads, rows, first, count
        launch = self.work.memory.runtime.launch
        self.work.queue.append(Queued(self.step, lambda stream: launch(stream, *name), name))

    def run(self, function: Callable[..., None], views: Sequence[View]) -> None:
        """Queues a function of the array module."""
        runtime = self.work.memory.runtime
        arrays = [runtime.array(view.address, view.shape, view.dtype, None) for view in views]
        self.work.queue.append(Queued(self.step, lambda stream: runtime.run(stream, function, arrays), None))
