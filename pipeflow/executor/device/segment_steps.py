"""The steps of a segment: uploads, merges, copies and operators."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeflow.declare import NoTable
from pipeflow.device.calls import DevicePlanner, SampleValues, View
from pipeflow.device.chains import ChainPlanner
from pipeflow.device.memory import offsets
from pipeflow.device.runtime import DeviceArray, DeviceLease
from pipeflow.device.tables import DeviceColumn, TablePlanner, stacked
from pipeflow.executor.batch import BatchRun, value_at
from pipeflow.executor.device.work import CallMemory, Work
from pipeflow.executor.runners.base import BoundStep
from pipeflow.executor.runners.late_code import late_code, load_keys
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.plan import Plan, Step, is_in_inputs
from pipeflow.tensors import DeviceSample

log = logging.getLogger("pipeflow")


class SegmentStep(BoundStep):
    """A step of a segment."""

    def __init__(self, plan: Plan, step: Step) -> None:
        super().__init__(plan, step)
        # Inputs after the first that the host reads: they are on the CPU.
        self.on_device, self.numbers = (step.inputs[:1], step.inputs[1:]) if self.op.host_inputs else (step.inputs, ())
        self.constant_inputs = {slot for slot in self.on_device if plan.slots[slot].storage == "constant"}

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Plans the work for these rows."""
        raise NotImplementedError

    def kernel_names(self, plan: Plan) -> Sequence[str]:
        """The kernels that the step will launch, as far as they are known."""
        del plan
        return ()

    def inputs(self, batch: BatchRun, work: Work, row: int) -> list[DeviceArray]:
        """The inputs of a row on the device; a constant is copied once for each batch."""
        found = []
        for slot in self.on_device:
            if slot not in self.constant_inputs:
                found.append(batch.values[slot][row])
                continue
            if slot not in work.constants:
                work.constants[slot] = work.put([np.asarray(batch.values[slot][row, ...], order="C")])[0]
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
        samples = [value_at(values, row) for row in rows]
        if any(sample.dtype.hasobject for sample in samples):
            raise TypeError("the data is text, and str and bytes stay on the CPU: encode it as numbers first")
        if len(samples) == batch.size and DeviceSample not in set(map(type, samples)):
            batch.values[target] = work.put(samples, slot=target)
            return
        there = [type(sample) is DeviceSample for sample in samples]
        for kind, move in ((False, partial(work.put, slot=target)), (True, work.adopt)):
            chosen = [place for place, on in enumerate(there) if on == kind]
            if chosen:
                for place, sample in zip(chosen, move([samples[place] for place in chosen])):
                    batch.values[target][rows[place]] = sample


class SelectStep(SegmentStep):
    """A merge: the sample of the side that was taken, without a copy."""

    def __init__(self, plan: Plan, step: Step) -> None:
        super().__init__(plan, step)
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
    """``fn.copy``: the same bytes in other memory."""

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Queues the copies: one if the samples are next to each other."""
        (target,) = self.step.outputs
        sources = [self.inputs(batch, work, row)[0] for row in rows]
        batch.layouts[target] = batch.layouts[self.step.inputs[0]]
        memory = CallMemory(work, self.step)
        addresses = memory.allocate(0, [x.nbytes for x in sources])
        begin = sources[0].view.address if sources else 0
        total = sum(x.nbytes for x in sources)
        starts, whole = offsets([x.nbytes for x in sources])
        if whole == total and all(x.view.address == begin + start for x, start in zip(sources, starts)):
            pieces = [(addresses[0], begin, total)] if total else []
        else:
            pieces = [(to, x.view.address, x.nbytes) for to, x in zip(addresses, sources) if x.nbytes]
        for piece in pieces:
            work.copy(self.step, *piece)
        for row, source, address in zip(rows, sources, addresses):
            batch.values[target][row] = DeviceArray(source.view._replace(address=address), memory.leases[0])


class OperatorStep(SegmentStep):
    """An operator with a GPU form."""

    def __init__(self, plan: Plan, step: Step) -> None:
        super().__init__(plan, step)
        planner = ChainPlanner if self.op.links else DevicePlanner
        self.planner = planner(self.op, self.constants, self.count)
        self.by_table = TablePlanner(self.planner)
        self.in_inputs = is_in_inputs(step)

    def kernel_names(self, plan: Plan) -> Sequence[str]:
        """The kernels for a sample of the known input types, with common extents."""
        specs = [plan.slots[slot].spec for slot in self.step.inputs]
        values = [plan.slots[slot].spec for _, slot in self.step.arguments]
        if any(spec.dtype is None or spec.shape is None for spec in (*specs, *values)):
            return ()
        views = [View(0, _everyday(spec), spec.dtype) for spec in specs[: len(self.on_device)]]
        numbers = tuple(
            [
                np.full(_everyday(spec, 1), 0.5 if spec.dtype.kind == "f" else 1, spec.dtype)
                for spec in specs[len(self.on_device) :]
            ]
        )
        arguments = {
            name: np.ones(_everyday(spec, 1), spec.dtype) for (name, _), spec in zip(self.step.arguments, values)
        }
        memory = KernelNames()
        try:
            sample = SampleValues(views, arguments, 1, numbers)
            self.by_table.plan([sample], [spec.layout or "" for spec in specs], memory)
        except Exception as error:  # then it is compiled with its first sample
            log.debug("the kernels of %s are not known before the first batch: %r", self.step.title, error)
        return memory.names

    def plan(self, batch: BatchRun, work: Work, rows: list[int]) -> None:
        """Plans the launches over the rows."""
        step = self.step
        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        self.planner.per_frame = frozenset(
            name for name, slot in step.arguments if (batch.layouts[slot] or "")[:1] == "F"
        )
        if self.by_table.able and rows and not self.constant_inputs and not self.numbers:
            try:
                self._plan_table(batch, work, rows, layouts)
                return
            except NoTable:
                pass  # the rows are planned sample by sample
        keys = self.batch_keys(batch).tolist() if self.op.random else None
        samples, inputs = [], []
        columns = [(name, batch.values[slot]) for name, slot in step.arguments]
        numbers = [batch.values[slot] for slot in self.numbers]
        sources = self.sources(batch) if "source" in self.op.wants else None
        for row in rows:
            inputs.append(self.inputs(batch, work, row))
            arguments = {name: value_at(values, row) for name, values in columns}
            key = keys[row] if keys is not None else 0
            read = tuple([np.asarray(value_at(values, row)) for values in numbers])
            source = "" if sources is None else str(sources[row])
            known = tuple(
                [batch.values[slot][row, ...] if slot in self.constant_inputs else None for slot in self.on_device]
            )
            samples.append(SampleValues([x.view for x in inputs[-1]], arguments, key, read, source, known))
        memory = CallMemory(work, step)
        results, found = self.planner(
            samples, layouts, memory, lambda index, error: work.failed(work, step, rows[index], error)
        )
        for row, given, made in zip(rows, inputs, results):
            for output, slot in enumerate(step.outputs):
                if made is not None:
                    lease = memory.leases[output] if not self.in_inputs else _lease_under(made[output], given)
                    batch.values[slot][row] = DeviceArray(made[output], lease)
        for slot, layout in zip(step.outputs, found):
            batch.layouts[slot] = layout or batch.layouts[slot] or ""

    def _plan_table(self, batch: BatchRun, work: Work, rows: list[int], layouts: Sequence[str]) -> None:
        """Plans the launches over the rows as columns; NoTable if that cannot be done."""
        if self.op.rows_load is not None:
            late_code(self.op.name, self.op.rows_load).ready(batch)
        if batch.keys_of:
            load_keys(batch)
        (target,) = self.step.outputs
        inputs = [work.column(batch.values[slot], slot, rows) for slot in self.step.inputs]
        arguments = {name: column_at(batch.values[slot], rows) for name, slot in self.step.arguments}
        keys = self.batch_keys(batch) if self.op.random else np.zeros(batch.size, np.uint64)
        memory = CallMemory(work, self.step)
        output, layout = self.by_table(inputs, arguments, column_at(keys, rows), layouts, memory)
        (lease,) = memory.leases
        made = DeviceColumn(output, lease)
        if len(rows) == batch.size:
            batch.values[target] = made
        else:
            for row, array in zip(rows, made):
                batch.values[target][row] = array
            work.columns[target] = rows, output
        batch.layouts[target] = layout or batch.layouts[target] or ""


def column_at(values: Any, rows: list[int]) -> np.ndarray:
    """The values of an argument for these rows, in ascending order, as one array."""
    if isinstance(values, np.ndarray):
        return values if len(rows) == len(values) else values[rows]
    return stacked([np.asarray(values[row]) for row in rows])


EVERYDAY = {"C": 3, "F": 2, "D": 4}


def _everyday(spec: Any, extent: int = 256) -> tuple[int, ...]:
    """The shape of a Spec with the unknown extents filled in."""
    layout = spec.layout or "*" * len(spec.shape)
    return tuple(EVERYDAY.get(letter, extent) if n is None else n for letter, n in zip(layout, spec.shape))


class KernelNames:
    """A device call that runs nothing and only notes the kernels."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def allocate(self, output: int, sizes: Sequence[int] | np.ndarray) -> Sequence[int]:
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
    """The objects that keep the memory of a view of one of the inputs."""
    around = [x for x in inputs if x.view.address <= view.address <= x.view.address + x.nbytes]
    return around[0].lease if around else inputs[0].lease
