"""Stages that run on a device: segments of operators, functions of the user, and what comes back to the CPU.

A segment is planned whole on the host: the shapes, arguments and random draws of all its steps. Then one copy takes samples,
rows of descriptors, tables and arguments to the device, and one launch an operator follows. Nothing waits for the device
but a staging block for the copy that read it last, and a CPU stage behind ``.cpu()`` for that copy alone. Which wait
protects what stands in ``device/runtime.py``.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.compile.plan import Plan, Stage, Step, lies_in_inputs
from pipeflow.device.calls import DevicePlanner, SampleValues, View
from pipeflow.device.memory import OTHER, Arena, DevicePool, PinnedBlock, PinnedRing, aligned, offsets
from pipeflow.device.runtime import DeviceArray, DeviceLease, FunctionCall, Runtime
from pipeflow.executor.batch import BatchRun, check_outputs
from pipeflow.executor.steps import BoundStep, MergeStep
from pipeflow.tensors import Block

log = logging.getLogger("pipeflow")
TABLES = 4096  # bytes of descriptors and tables that a sample needs at each step, to begin with


class LandingPool(HeapPool):
    """Page-locked memory for what comes back; it is handed out again when nobody refers to it any more."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def take(self, nbytes: int) -> np.ndarray:
        """``nbytes`` of memory as uint8."""
        return super().take(max(nbytes, 1 << 15))[:nbytes]

    def _allocate(self, capacity: int) -> Block:
        memory = self._runtime.pinned(capacity)
        with self._lock:
            self.allocations += 1
            self.reserved += capacity
        return Block("pinned", capacity, memory.__array_interface__["data"][0], memory)


class Device:
    """What the device stages of one executor share."""

    def __init__(self, runtime: Runtime, depth: int, batch_size: int) -> None:
        self.runtime = runtime
        self.depth = depth
        self.batch_size = batch_size
        self.pool = DevicePool(runtime)
        self.landing = LandingPool(runtime)
        self.rings: list[PinnedRing] = []
        self.careful = os.environ.get("PIPEFLOW_SYNC", "0") not in ("", "0")
        self.launches = 0
        self.uploads = 0
        self.on_cpu: Counter[str] = Counter()  # reason -> images that were decoded on the CPU

    def ring(self) -> PinnedRing:
        """Staging blocks for one segment: one for each batch in flight, and one to fill meanwhile."""
        self.rings.append(PinnedRing(self.runtime, self.depth + 1))
        return self.rings[-1]

    def collect(self) -> None:
        """Notes what consumers have queued on the batches that they let go."""
        with self.runtime.active():
            self.pool.collect()

    def statistics(self) -> dict[str, Any]:
        """Allocations and bytes, copies to the device and launches, and why images were decoded on the CPU."""
        pinned = sum(ring.allocations for ring in self.rings) + self.landing.allocations
        return {
            "allocations": self.pool.allocations,
            "reserved": self.pool.reserved,
            "pinned_allocations": pinned,
            "uploads": self.uploads,
            "launches": self.launches,
            "decoded_on_cpu": dict(self.on_cpu),
        }

    def download(self, values: Sequence[DeviceArray | None], least: int = 0) -> list[np.ndarray | None]:
        """Queues copies to the host, one where the samples lie side by side; the arrays are filled when they are done.

        The memory has at least so many bytes, so that it fits the next batch too.
        """
        present = [x for x in values if x is not None]
        if not present:
            return [None] * len(values)
        begin = min(x.view.address for x in present)
        end = max(x.view.address + x.nbytes for x in present)
        whole = len({id(x.lease) for x in present}) == 1 and end - begin <= 2 * sum(x.nbytes for x in present) + 4096
        places = {}
        if whole:
            memory = self.landing.take(max(end - begin, least))
            places = {id(x): x.view.address - begin for x in present}
            if end > begin:
                self.runtime.download(self.runtime.computing, memory[: end - begin], begin)
        else:
            starts, total = offsets([x.nbytes for x in present])
            memory = self.landing.take(max(total, least))
            places = {id(x): start for x, start in zip(present, starts)}
            for x in {id(x): x for x in present}.values():
                if x.nbytes:
                    place = memory[places[id(x)] : places[id(x)] + x.nbytes]
                    self.runtime.download(self.runtime.computing, place, x.view.address)
        return [
            None if x is None else memory[places[id(x)] :][: x.nbytes].view(x.dtype).reshape(x.shape) for x in values
        ]

    def done(self, leases: Iterable[DeviceLease]) -> None:
        """Notes that the compute stream has used these blocks."""
        for lease in {id(lease.block): lease for lease in leases}.values():
            self.runtime.record(lease.block.computed, self.runtime.computing)

    def put(self, array: np.ndarray) -> DeviceArray:
        """One array on the device; waits for the copy. For what stands in for a sample that failed."""
        with self.runtime.active():
            array = np.ascontiguousarray(array)
            lease = self.pool.take(OTHER, array.nbytes, self.runtime.computing)
            pinned = self.landing.take(array.nbytes)
            pinned[:] = array.reshape(-1).view(np.uint8)
            self.runtime.upload(self.runtime.computing, lease.block.address, pinned)
            self.done([lease])
            self.runtime.synchronize(lease.block.computed)
            return DeviceArray(View(lease.block.address, array.shape, array.dtype), lease)


class Landing:
    """What is on its way to the CPU."""

    def __init__(self, arrays: list[np.ndarray | None], events: list[Any]) -> None:
        self.arrays = arrays
        self.events = events


class DeviceStage:
    """What segments and functions have in common: the copies to the CPU are queued where their data is made."""

    def __init__(self, plan: Plan, number: int, device: Device) -> None:
        self.device = device
        self.runtime = device.runtime
        self.stage: Stage = plan.stages[number]
        self.stand_in: Callable[[BatchRun, Step, int], Any] | None = None  # what a rule gives for a step that failed
        self.made = {slot for step in self.stage.steps for slot in step.outputs}
        hints = {slot: hint for step in plan.steps() for slot, hint in zip(step.outputs, step.hint)}
        self.hints = {slot: device.batch_size * aligned(hint) for slot, hint in hints.items()}  # bytes of a batch
        others = [step for place, stage in enumerate(plan.stages) if place != number for step in stage.all_steps()]
        read = {slot for step in others for slot in (*step.inputs, *(slot for slot, _ in step.guard))}
        self.leaving = self.made & (read | set(plan.outputs))
        self.returning = [
            (step.inputs[0], step.outputs[0])
            for stage in plan.stages
            if stage.kind == "arrival"
            for step in stage.steps
            if step.inputs[0] in self.made
        ]

    def reserve(self, slots: Iterable[int]) -> None:
        """Allocates what byte-size hints promise: for the batches in flight, the one handed out and the one before it."""
        for slot in slots:
            self.device.pool.reserve(slot, self.hints.get(slot, 0), self.device.depth + 2)
        for slot, _ in self.returning:
            self.device.landing.reserve(self.hints.get(slot, 0), self.device.depth + 2)

    def run(self, batch: BatchRun, pool: HeapPool) -> None:
        """Queues the work of one batch."""
        del pool  # the device has memory of its own
        with self.runtime.active():
            self.perform(batch, None)

    def again(self, batch: BatchRun, sample: int) -> None:
        """Queues the work of one row that is made anew."""
        with self.runtime.active():
            self.perform(batch, [sample])

    def perform(self, batch: BatchRun, rows: list[int] | None) -> None:
        """Queues the work of a batch, or of some of its rows."""
        raise NotImplementedError

    def finish(self, batch: BatchRun) -> None:
        """Checks what the declarations cannot promise."""

    def open(self, batch: BatchRun, step: Step, rows: list[int] | None) -> None:
        """Prepares the slots of a step."""
        for slot, spec in zip(step.outputs, step.specs):
            if rows is None or batch.values[slot] is None:
                batch.values[slot] = [None] * batch.size
                batch.layouts[slot] = spec.layout

    def active(self, batch: BatchRun, step: Step, rows: list[int] | None) -> list[int]:
        """The rows that a step runs for."""
        active = batch.active(step.guard)
        every: Iterable[int] = range(batch.size) if active is None else active
        wanted = None if rows is None else set(rows)
        return [row for row in every if row not in batch.failures and (wanted is None or row in wanted)]

    def send_back(self, batch: BatchRun, rows: list[int] | None) -> None:
        """Queues the copies to the CPU."""
        for slot, target in self.returning:
            values = batch.values[slot]
            chosen = values if rows is None else [values[row] for row in rows]
            arrays = self.device.download(chosen, self.hints.get(slot, 0) if rows is None else 0)
            event = self.runtime.event()
            self.runtime.record(event, self.runtime.computing)
            landing = batch.values[target]
            if rows is None or not isinstance(landing, Landing):
                batch.values[target] = Landing(arrays, [event])
            else:
                for row, array in zip(rows, arrays):
                    landing.arrays[row] = array
                landing.events.append(event)

    def taken(self, value: np.ndarray) -> DeviceArray:
        """A value that stands in for one of a sample that failed."""
        return self.device.put(value)


class Chunk:
    """A staging block, the device block that it is copied to, and how much of both is used."""

    def __init__(self, pinned: PinnedBlock, lease: DeviceLease) -> None:
        self.pinned = pinned
        self.lease = lease
        self.used = 0

    @property
    def room(self) -> int:
        """The bytes that are left."""
        return min(len(self.pinned.array), self.lease.block.nbytes) - self.used


class Work:
    """One batch in a segment while it is planned: what goes to the device with one copy, and what is launched then."""

    def __init__(self, segment: "Segment", rows: int) -> None:
        self.segment = segment
        self.rows = rows
        self.chunks: list[Chunk] = []
        self.queue: list[tuple[Step, Callable[[], None]]] = []
        self.leases: list[DeviceLease] = []
        self.constants: dict[int, DeviceArray] = {}

    def stage(self, nbytes: int) -> tuple[np.ndarray, int, DeviceLease]:
        """Memory to fill on the host, its address on the device after the copy, and what keeps it there."""
        nbytes = aligned(max(nbytes, 1))
        if not self.chunks or self.chunks[-1].room < nbytes:
            # one chunk serves a batch, once its size is known
            segment = self.segment
            capacity = max(segment.capacity, nbytes)
            pinned = segment.ring.take(capacity)
            lease = segment.device.pool.take(segment.purpose, capacity, segment.runtime.copying)
            self.chunks.append(Chunk(pinned, lease))
            self.leases.append(lease)
        chunk = self.chunks[-1]
        begin = chunk.used
        chunk.used += nbytes
        return chunk.pinned.array[begin : begin + nbytes], chunk.lease.block.address + begin, chunk.lease

    def upload(self, array: np.ndarray) -> int:
        """The device address of a copy of a host array."""
        place, address, _ = self.stage(array.nbytes)
        place[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return address

    def put(self, samples: Sequence[np.ndarray]) -> list[DeviceArray]:
        """Samples that go to the device, side by side."""
        starts, total = offsets([sample.nbytes for sample in samples])
        place, address, lease = self.stage(total)
        for sample, start in zip(samples, starts):
            target = place[start : start + sample.nbytes]
            if sample.nbytes:
                np.copyto(target.view(sample.dtype).reshape(sample.shape), sample)
        return [
            DeviceArray(View(address + start, sample.shape, sample.dtype), lease)
            for sample, start in zip(samples, starts)
        ]

    def send(self) -> None:
        """Queues the copy, and lets the compute stream wait for it."""
        runtime, segment = self.segment.runtime, self.segment
        for chunk in self.chunks:
            runtime.upload(runtime.copying, chunk.lease.block.address, chunk.pinned.array[: chunk.used])
            runtime.record(chunk.pinned.copied, runtime.copying)
            runtime.wait(runtime.computing, chunk.pinned.copied)
        segment.device.uploads += len(self.chunks)
        if len(self.chunks) > 1:
            segment.capacity = aligned(sum(chunk.used for chunk in self.chunks) * 3 // 2)

    def launch(self, batch: BatchRun) -> None:
        """Queues the launches in the order of the steps; an error is blamed on its step."""
        device = self.segment.device
        for place, (step, launch) in enumerate(self.queue):
            try:
                launch()
                device.launches += 1
                if device.careful and (place + 1 == len(self.queue) or self.queue[place + 1][0] is not step):
                    device.runtime.drain(device.runtime.computing)
            except Exception as error:
                batch.fail(error, step)
                return


class CallMemory:
    """What one operator's GPU form is given by a segment; see device.calls.DeviceMemory."""

    def __init__(self, work: Work, step: Step) -> None:
        self.work = work
        self.step = step
        self.leases: list[DeviceLease | None] = []

    def place(self, output: int, sizes: Sequence[int]) -> Sequence[int]:
        """The addresses of one output of all samples."""
        segment, slot = self.work.segment, self.step.outputs[output]
        starts, total = offsets(sizes)
        if slot not in segment.held:
            self.leases.append(None)
            base = segment.arena.take(total)
        else:
            lease = segment.device.pool.take(slot, total, segment.runtime.computing)
            self.leases.append(lease)
            self.work.leases.append(lease)
            base = lease.block.address
        return [base + start for start in starts]

    def view(self, output: int, views: Sequence[View]) -> Sequence[int]:
        """Results that lie in memory of the inputs stay there; the step's inputs are held as long as they are."""
        del output
        self.leases.append(None)
        return [view.address for view in views]

    def scratch(self, nbytes: int) -> int:
        """Memory between two launches."""
        return self.work.segment.arena.take(nbytes)

    def upload(self, array: np.ndarray) -> int:
        """A table on the device."""
        return self.work.upload(array)

    def launch(self, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues a kernel."""
        runtime = self.work.segment.runtime
        launch = partial(runtime.launch, runtime.computing, kernel, grid, threads, rows, first, count)
        self.work.queue.append((self.step, launch))

    def run(self, function: Callable[..., None], views: Sequence[View]) -> None:
        """Queues a function of the array module."""
        runtime = self.work.segment.runtime
        arrays = [runtime.array(view.address, view.shape, view.dtype, None) for view in views]
        self.work.queue.append((self.step, partial(runtime.run, runtime.computing, function, arrays)))


class Segment(DeviceStage):
    """Steps on the device whose shapes are known when it begins."""

    def __init__(self, plan: Plan, number: int, device: Device) -> None:
        super().__init__(plan, number, device)
        # Whose samples may lie in memory of another slot: that memory must last as long.
        self.held = set(self.leaving)
        for step in reversed(self.stage.steps):
            if lies_in_inputs(step) and self.held & set(step.outputs):
                self.held.update(step.inputs)
        self.held &= self.made
        self.ring = device.ring()
        self.purpose = -number - 2  # of its staged blocks in the pool; those of outputs are known by their slots
        carried = [self.hints.get(step.inputs[0], 0) for step in self.stage.steps if step.op == "_transfer"]
        self.capacity = aligned(sum(carried) + device.batch_size * TABLES * len(self.stage.steps))
        device.pool.reserve(self.purpose, self.capacity if sum(carried) else 0, device.depth + 2)
        self.arena = Arena(device.pool, sum(self.hints.get(slot, 0) for slot in self.made - self.held))
        self.reserve(self.held)
        kinds = {"_transfer": UploadStep, "_merge": SelectStep, "copy": CopyStep}
        self.steps: list[Any] = [kinds.get(step.op, OperatorStep)(plan, step, self) for step in self.stage.steps]

        self.runtime.prepare(sorted({kernel for step in self.steps for kernel in step.foreseen(plan)}))

    def perform(self, batch: BatchRun, rows: list[int] | None) -> None:
        """Plans all steps on the host, then queues one copy and the launches."""
        self.arena.begin()
        work = Work(self, batch.size)
        for item in self.steps:
            self.open(batch, item.step, rows)
            try:
                item.plan(batch, work, self.active(batch, item.step, rows))
            except Exception as error:
                batch.fail(error, item.step)
                return
        leases = work.leases
        for step in self.stage.steps:
            for slot in step.inputs:
                values = batch.values[slot]
                if type(values) is list:
                    leases += [x.lease for x in values if type(x) is DeviceArray and x.lease is not None]
        try:
            work.send()
            work.launch(batch)
            if batch.error is None:
                self.send_back(batch, rows)
        finally:
            self.device.done(leases)
        for slot in self.made - self.leaving:
            batch.values[slot] = None  # the next batch overwrites it

    def finish(self, batch: BatchRun) -> None:
        """Compares the sides of merges."""
        for item in self.steps:
            if isinstance(item, SelectStep) and batch.values[item.step.outputs[0]] is not None:
                item.merge.finish(batch)

    def fail(self, batch: BatchRun, step: Step, row: int, error: Exception, work: Work) -> None:
        """A sample that a step cannot do: what its rule gives for it goes to the device instead."""
        batch.fail(error, step, row)
        values = self.stand_in(batch, step, row) if self.stand_in is not None else None
        if values is not None:
            for slot, value in zip(step.outputs, [work.put([value])[0] for value in values]):
                batch.values[slot][row] = value


class SegmentStep(BoundStep):
    """A step of a segment."""

    def __init__(self, plan: Plan, step: Step, segment: Segment) -> None:
        super().__init__(plan, step)
        self.segment = segment
        self.constant_inputs = {slot for slot in step.inputs if plan.slots[slot].storage == "constant"}

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Plans the work for these rows."""
        raise NotImplementedError

    def foreseen(self, plan: Plan) -> Sequence[str]:
        """The kernels that the step will launch, as far as they can be told."""
        del plan
        return ()

    def inputs(self, batch: BatchRun, work: Work, row: int) -> list[DeviceArray]:
        """The inputs of a row on the device; a constant goes there once a batch."""
        found = []
        for slot in self.step.inputs:
            if slot not in self.constant_inputs:
                found.append(batch.values[slot][row])
                continue
            if slot not in work.constants:
                work.constants[slot] = work.put([np.ascontiguousarray(batch.values[slot][row, ...])])[0]
            found.append(work.constants[slot])
        return found


class UploadStep(SegmentStep):
    """``.gpu()``: samples go into the staging block."""

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Copies the samples of the rows."""
        (source,), (target,) = self.step.inputs, self.step.outputs
        values = batch.values[source]
        batch.layouts[target] = batch.layouts[source]
        if source in self.constant_inputs:
            for row in rows:
                batch.values[target][row] = self.inputs(batch, work, row)[0]
            return
        samples = [values[row] if type(values) is list else values[row, ...] for row in rows]
        for row, sample in zip(rows, work.put(samples)):
            batch.values[target][row] = sample


class SelectStep(SegmentStep):
    """A merge: the sample of the side that was taken; nothing is copied."""

    def __init__(self, plan: Plan, step: Step, segment: Segment) -> None:
        super().__init__(plan, step, segment)
        self.merge = MergeStep(plan, step, set())
        self.merge.storage = "table"  # it compares the sides sample by sample

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Picks the sides."""
        first, second, predicate = self.step.inputs
        flags = batch.mask(((predicate, True),)) if batch.size else []
        (target,) = self.step.outputs
        spec = self.step.specs[0]
        for row in rows:
            batch.values[target][row] = batch.values[first if flags[row] else second][row]
        batch.layouts[target] = spec.layout or batch.layouts[first] or batch.layouts[second] or ""
        self.merge.finish(batch)


class CopyStep(SegmentStep):
    """``fn.copy``: the same bytes elsewhere."""

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Queues a copy, one where the samples lie side by side."""
        (target,) = self.step.outputs
        sources = [self.inputs(batch, work, row)[0] for row in rows]
        batch.layouts[target] = batch.layouts[self.step.inputs[0]]
        memory = CallMemory(work, self.step)
        addresses = memory.place(0, [x.nbytes for x in sources])
        runtime = self.segment.runtime
        begin = sources[0].view.address if sources else 0
        total = sum(x.nbytes for x in sources)
        starts, whole = offsets([x.nbytes for x in sources])
        if whole == total and all(x.view.address == begin + start for x, start in zip(sources, starts)):
            pieces = [(addresses[0], begin, total)] if total else []
        else:
            pieces = [(to, x.view.address, x.nbytes) for to, x in zip(addresses, sources) if x.nbytes]
        for piece in pieces:
            work.queue.append((self.step, partial(runtime.copy, runtime.computing, *piece)))
        for row, source, address in zip(rows, sources, addresses):
            batch.values[target][row] = DeviceArray(source.view._replace(address=address), memory.leases[0])


class OperatorStep(SegmentStep):
    """An operator with a GPU form."""

    def __init__(self, plan: Plan, step: Step, segment: Segment) -> None:
        super().__init__(plan, step, segment)
        self.planner = DevicePlanner(self.op, self.constants, self.count)
        self.in_inputs = lies_in_inputs(step)

    def foreseen(self, plan: Plan) -> Sequence[str]:
        """The kernels for a sample of the types that are known of the inputs, with everyday extents."""
        specs = [plan.slots[slot].spec for slot in self.step.inputs]
        values = [plan.slots[slot].spec for _, slot in self.step.arguments]
        if any(spec.dtype is None or spec.shape is None for spec in (*specs, *values)):
            return ()
        views = [View(0, _everyday(spec), spec.dtype) for spec in specs]
        arguments = {
            name: np.ones(_everyday(spec, 1), spec.dtype) for (name, _), spec in zip(self.step.arguments, values)
        }
        memory = KernelNames()
        try:
            self.planner([SampleValues(views, arguments, 1)], [spec.layout or "" for spec in specs], memory)
        except Exception as error:  # it is compiled when its first sample comes
            log.debug("the kernels of %s cannot be foreseen: %r", self.step.title, error)
        return memory.names

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Plans the launches over the rows."""
        step = self.step
        keys = self.batch_keys(batch).tolist() if self.op.random else None
        samples, inputs = [], []
        columns = [(name, batch.values[slot]) for name, slot in step.arguments]
        for row in rows:
            inputs.append(self.inputs(batch, work, row))
            arguments = {name: values[row] if type(values) is list else values[row, ...] for name, values in columns}
            samples.append(SampleValues([x.view for x in inputs[-1]], arguments, keys[row] if keys is not None else 0))
        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        self.planner.per_frame = frozenset(
            name for name, slot in step.arguments if (batch.layouts[slot] or "")[:1] == "F"
        )
        memory = CallMemory(work, step)
        results, found = self.planner(
            samples, layouts, memory, lambda index, error: self.segment.fail(batch, step, rows[index], error, work)
        )
        for row, given, made in zip(rows, inputs, results):
            for output, slot in enumerate(step.outputs):
                if made is not None:
                    lease = memory.leases[output] if not self.in_inputs else _lease_under(made[output], given)
                    batch.values[slot][row] = DeviceArray(made[output], lease)
        for slot, layout in zip(step.outputs, found):
            batch.layouts[slot] = layout or batch.layouts[slot] or ""


EVERYDAY = {"C": 3, "F": 2, "D": 4}


def _everyday(spec: Any, extent: int = 256) -> tuple[int, ...]:
    """The shape of a Spec with what is not known filled in."""
    layout = spec.layout or "*" * len(spec.shape)
    return tuple(EVERYDAY.get(letter, extent) if n is None else n for letter, n in zip(layout, spec.shape))


class KernelNames:
    """Takes what an operator asks of a device and only notes the kernels."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def place(self, output: int, sizes: Sequence[int]) -> Sequence[int]:
        """No memory."""
        del output
        return [0] * len(sizes)

    def view(self, output: int, views: Sequence[View]) -> Sequence[int]:
        """No memory."""
        del output
        return [0] * len(views)

    def scratch(self, nbytes: int) -> int:
        """No memory."""
        del nbytes
        return 0

    def upload(self, array: np.ndarray) -> int:
        """No copy."""
        del array
        return 0

    def launch(self, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """The name."""
        del grid, threads, rows, first, count
        self.names.append(kernel)

    def run(self, function: Callable[..., None], views: Sequence[View]) -> None:
        """No call."""


def _lease_under(view: View, inputs: Sequence[DeviceArray]) -> DeviceLease | None:
    """What keeps the memory of a view of one of the inputs."""
    around = [x for x in inputs if x.view.address <= view.address <= x.view.address + x.nbytes]
    return around[0].lease if around else inputs[0].lease


class FunctionStage(DeviceStage, BoundStep):
    """A function of the user that works with arrays on the device."""

    def __init__(self, plan: Plan, number: int, device: Device) -> None:
        DeviceStage.__init__(self, plan, number, device)
        BoundStep.__init__(self, plan, self.stage.steps[0])
        self.call: Any = self.op.gpu_hook()
        check = self.op.gpu_hook("check")
        if check is not None:
            check(self.op.known(self.constants))
        self.ring = device.ring()  # for what is on the CPU after all
        self.contained = False
        self.by_rows = self.step.device == "gpu" and self.op.traits_of(self.constants).rows
        with self.runtime.active():
            self.reserve(self.step.outputs)

    def perform(self, batch: BatchRun, rows: list[int] | None) -> None:
        """Calls the function; its own work and the copies of its results are queued on the compute stream."""
        step = self.step
        self.open(batch, step, rows)
        active = self.active(batch, step, rows)
        groups = [[row] for row in active] if self.contained and self.by_rows else [active] if active else []
        leases: list[DeviceLease] = []
        for group in groups:
            call = self._call(batch, group)
            try:
                with self.runtime.using(self.runtime.computing):
                    self.call(call)
                if self.device.careful:
                    self.runtime.drain(self.runtime.computing)
            except Exception as error:
                row = group[call.current] if call.current >= 0 else group[0] if len(group) == 1 else -1
                batch.fail(error, step, row)
                if row < 0 and self.contained:
                    for row in group:
                        batch.failures[row] = (error, step)
                    batch.error = None
            for index, failure in call.failed.items():
                batch.fail(failure, step, group[index])
            leases += call.leases
            for slot, results in zip(step.outputs, call.results):
                for row, result in zip(group, results):
                    batch.values[slot][row] = result
        for slot in step.inputs if step.device == "gpu" else ():
            leases += [x.lease for x in batch.values[slot] if x is not None and x.lease is not None]
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout or ""
        if batch.error is None and not batch.failures:
            self.send_back(batch, rows)
        self.device.done(leases)
        if rows is None:
            self.finish(batch)

    def _call(self, batch: BatchRun, rows: list[int]) -> "DeviceFunctionCall":
        inputs = []
        for slot, writable in zip(self.step.inputs, self.step.writable or (False,) * len(self.step.inputs)):
            values = batch.values[slot]
            samples = [values[row] if type(values) is list else values[row, ...] for row in rows]
            inputs.append((samples, writable))
        keys = self.batch_keys(batch)[rows] if self.op.random else np.empty(0, np.uint64)
        known = self.sources(batch)
        return DeviceFunctionCall(self, len(rows), inputs, keys, [str(known[row]) for row in rows])

    def finish(self, batch: BatchRun) -> None:
        """Checks what the declaration cannot promise."""
        check_outputs(batch, self.step)


class DeviceFunctionCall(FunctionCall):
    """A call of a function over a batch, or over one row of it."""

    def __init__(
        self,
        stage: FunctionStage,
        size: int,
        inputs: Sequence[tuple[list[Any], bool]],
        keys: np.ndarray,
        sources: list[str],
    ) -> None:
        runtime = stage.runtime
        defaults = {name: param.default for name, param in stage.op.arguments.items() if not param.required}
        super().__init__(stage.op, {**defaults, **stage.constants}, size, keys, runtime)
        self.stage = stage
        self.leases: list[DeviceLease] = []
        self.results: list[list[DeviceArray | None]] = [[] for _ in stage.step.outputs]
        self._sources = sources
        self._inputs = inputs
        self._slabs: dict[int, tuple[DeviceLease, int]] = {}

    def array(self, position: int, index: int) -> Any:
        """A sample of an input as an array."""
        samples, writable = self._inputs[position]
        x = samples[index]
        if not isinstance(x, DeviceArray):
            return x  # of a step that takes its input from the CPU
        found = self.stage.runtime.array(x.view.address, x.shape, x.dtype, x.lease)
        return found if writable else found.copy()

    @property
    def num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self._inputs)

    def keep(self, output: int, array: Any) -> None:
        """Copies one sample of an output into memory of the batch."""
        runtime, slot = self.stage.runtime, self.stage.step.outputs[output]
        nbytes = int(array.nbytes)
        made = self.results[output]
        lease, used = self._slabs.get(output, (None, 0))
        last = made[-1] if made else None
        begin = used if last is not None and last.nbytes == nbytes else aligned(used)  # equal samples lie dense
        if lease is None or begin + nbytes > lease.block.nbytes:
            lease = self.stage.device.pool.take(slot, (self.size - len(made)) * aligned(nbytes), runtime.computing)
            self.leases.append(lease)
            begin = 0
        view = View(lease.block.address + begin, tuple(array.shape), np.dtype(array.dtype))
        if nbytes and runtime.as_array(array) is None:
            pinned = self.stage.ring.take(nbytes)
            pinned.array[:nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            runtime.upload(runtime.computing, view.address, pinned.array[:nbytes])
            runtime.record(pinned.copied, runtime.computing)
        elif nbytes:
            runtime.array(view.address, view.shape, view.dtype, lease)[...] = array
        self._slabs[output] = lease, begin + nbytes
        made.append(DeviceArray(view, lease))

    def source(self, index: int) -> str:
        """Where a sample comes from."""
        return self._sources[index]

    def leave_out(self) -> None:
        """Goes on behind a sample that failed."""
        for made in self.results:
            made.append(None)

    def note(self, reason: str) -> None:
        """Counts a reason."""
        self.stage.device.on_cpu[reason] += 1


class ArrivalStage(BoundStep):
    """``.cpu()``: waits for the copy that was queued where the data was made."""

    def __init__(self, plan: Plan, step: Step, device: Device) -> None:
        super().__init__(plan, step)
        self.runtime = device.runtime

    def ready(self, batch: BatchRun) -> bool:
        """Whether the copy is done."""
        landing = batch.values[self.step.outputs[0]]
        return not isinstance(landing, Landing) or all(map(self.runtime.done, landing.events))

    def run(self, batch: BatchRun, pool: HeapPool) -> None:
        """Takes the arrays in."""
        del pool
        (source,), (target,) = self.step.inputs, self.step.outputs
        landing = batch.values[target]
        assert isinstance(landing, Landing), "the stage that made the data has queued its copy"
        with self.runtime.active():
            for event in landing.events:
                self.runtime.synchronize(event)
        active = batch.active(self.step.guard)
        kept = landing.arrays
        if active is not None:
            chosen = set(active)
            kept = [x if row in chosen else None for row, x in enumerate(kept)]
        batch.values[target] = kept
        batch.layouts[target] = batch.layouts[source]

    def again(self, batch: BatchRun, sample: int) -> None:
        """A row that was made anew is in what came back already."""

    def finish(self, batch: BatchRun) -> None:
        """There is nothing to check."""
