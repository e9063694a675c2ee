"""Functions of the user that work with arrays on the device, and decoders that finish on the CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Args
from pipeflow.device.calls import View, given_value
from pipeflow.device.memory import aligned
from pipeflow.device.runtime import DeviceArray, DeviceLease, FunctionCall
from pipeflow.errors import add_notes
from pipeflow.executor.batch import BatchRun, check_outputs, value_at
from pipeflow.executor.device.graphs import refuse
from pipeflow.executor.device.stage import DeviceStage
from pipeflow.executor.device.work import is_plain
from pipeflow.executor.keeper import Keeper
from pipeflow.executor.runners.base import BoundStep, StandIn
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan


class FunctionStage(DeviceStage, BoundStep):
    """A function of the user that works with arrays on the device."""

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        BoundStep.__init__(self, plan, plan.stages[number].steps[0])
        DeviceStage.__init__(self, plan, number, surroundings)
        step = plan.stages[number].steps[0]
        try:
            if self.device.cuda_graph:
                refuse(self.op, "runs code on the CPU for each batch")
            self.call: Any = self.op.gpu_hook()
            self.require_library(self.op)
            check = self.op.gpu_hook("check")
            if check is not None:
                check(self.op.known(self.constants))
        except Exception as error:
            add_notes(error, step.notes())
            raise
        self.ring = self.device.ring()  # for inputs on the CPU
        self.contained = False
        there = step.device == "gpu"
        self.constant_inputs = {slot for slot in step.inputs if there and plan.slots[slot].storage == "constant"}
        self.there: dict[int, DeviceArray] = {}  # constants, copied to the device by the first batch
        self.by_rows = step.device == "gpu" and self.by_rows
        if surroundings.course.checkpointing and step.user_code:
            self.keeper = Keeper.of(step.name, self.constants)
        with self.runtime.active():
            self.reserve_slots(step.outputs)

    @property
    def steps(self) -> Sequence[BoundStep]:  # type: ignore[override]
        """The one step."""
        return (self,)

    def contain(self, stand_in: StandIn, keeps_rows: bool) -> None:
        """With ``keeps_rows`` the failure of a row belongs to that row only."""
        super().contain(stand_in, keeps_rows)
        self.contained = keeps_rows

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
            leases += [x.lease for x in batch.values[slot] if type(x) is DeviceArray and x.lease is not None]
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout or ""
        if batch.error is None:
            self.send_back(batch, rows)
        self.device.done(leases)
        if self.keeper is not None and rows is None:
            batch.states[self.keeper.name] = self.keeper.snapshot()

    def _call(self, batch: BatchRun, rows: list[int]) -> "DeviceFunctionCall":
        inputs = []
        for slot, writable in zip(self.step.inputs, self.step.writable or (False,) * len(self.step.inputs)):
            values = batch.values[slot]
            if slot in self.constant_inputs:
                if slot not in self.there:
                    self.there[slot] = self.device.put(value_at(values, rows[0]))
                samples: list[Any] = [self.there[slot]] * len(rows)
            else:
                samples = [value_at(values, row) for row in rows]
            inputs.append((samples, writable))
        keys = self.batch_keys(batch)[rows] if self.op.random else np.empty(0, np.uint64)
        known = self.sources(batch)
        named = [(name, [value_at(batch.values[slot], row) for row in rows]) for name, slot in self.step.arguments]
        return DeviceFunctionCall(self, len(rows), inputs, keys, [str(known[row]) for row in rows], named)

    def finish(self, batch: BatchRun) -> None:
        """Checks that the samples of each output have one type and fit their layout."""
        check_outputs(batch, self.step)


class DeviceFunctionCall(FunctionCall):
    """A call of a function on a batch, or on one row of it."""

    def __init__(
        self,
        stage: FunctionStage,
        size: int,
        inputs: Sequence[tuple[list[Any], bool]],
        keys: np.ndarray,
        sources: list[str],
        named: Sequence[tuple[str, list[np.ndarray]]] = (),
    ) -> None:
        runtime = stage.runtime
        super().__init__(stage.op, {**stage.op.defaults, **stage.constants}, size, keys, runtime)
        self.stage = stage
        self.leases: list[DeviceLease] = []
        self.results: list[list[DeviceArray | None]] = [[] for _ in stage.step.outputs]
        self._sources = sources
        self._inputs = inputs
        self._named = named  # arguments that differ from sample to sample
        self._slabs: dict[int, tuple[DeviceLease, int]] = {}

    def array(self, position: int, index: int) -> Any:
        """A sample of an input as an array."""
        samples, writable = self._inputs[position]
        x = samples[index]
        if not isinstance(x, DeviceArray):
            return x  # for a step that takes its input from the CPU
        found = self.stage.runtime.array(x.view.address, x.shape, x.dtype, x.lease)
        own = writable and not (x.lease is not None and x.lease.block.shared)
        return found if own else found.copy()

    @property
    def num_inputs(self) -> int:
        """The number of inputs."""
        return len(self._inputs)

    def args_of(self, index: int) -> Args:
        """The arguments with their values for one sample."""
        if not self._named:
            return self.args
        found = dict(vars(self.args))
        for name, values in self._named:
            found[name] = given_value(self.op, name, values[index])
        return Args(**found)

    def keep(self, output: int, array: Any) -> None:
        """Copies one sample of an output into memory of the batch."""
        runtime, slot = self.stage.runtime, self.stage.step.outputs[output]
        nbytes = int(array.nbytes)
        made = self.results[output]
        lease, used = self._slabs.get(output, (None, 0))
        last = made[-1] if made else None
        begin = (
            used if last is not None and last.nbytes == nbytes else aligned(used)
        )  # samples of equal shapes are dense
        if lease is None or begin + nbytes > lease.block.nbytes:
            lease = self.stage.device.pool.take(slot, (self.size - len(made)) * aligned(nbytes), runtime.computing)
            self.leases.append(lease)
            begin = 0
        view = View(lease.block.address + begin, tuple(array.shape), np.dtype(array.dtype))
        on_device = runtime.as_array(array) if nbytes else None
        if nbytes and on_device is None:
            pinned = self.stage.ring.take(nbytes)
            pinned.array[:nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            runtime.upload(runtime.computing, view.address, pinned.array[:nbytes])
            runtime.record(pinned.copied, runtime.computing)
        elif on_device is not None and is_plain(
            on_device
        ):  # an assignment of CuPy costs five times as much of the host's time
            runtime.copy_array(runtime.computing, view.address, on_device)
        elif on_device is not None:
            runtime.array(view.address, view.shape, view.dtype, lease)[...] = on_device
        self._slabs[output] = lease, begin + nbytes
        made.append(DeviceArray(view, lease))

    def source(self, index: int) -> str:
        """The source of a sample."""
        return self._sources[index]

    def leave_out(self) -> None:
        """Continues after a sample that failed."""
        for made in self.results:
            made.append(None)

    def note(self, reason: str) -> None:
        """Counts a reason why work was done on the CPU."""
        self.stage.device.on_cpu[reason] += 1
