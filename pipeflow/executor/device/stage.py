"""The base of all stages on a device."""

from collections.abc import Iterable

import numpy as np

from pipeflow.backends.cpu import Arena
from pipeflow.declare import OpDef
from pipeflow.device.memory import aligned
from pipeflow.device.runtime import DeviceArray
from pipeflow.executor.batch import BatchRun, put
from pipeflow.executor.device.device import Device, Landing
from pipeflow.executor.runners.base import StageRunner, StandIn, traits_of
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan, Stage, Step


class DeviceStage(StageRunner):
    """The base of segments and functions: copies to the CPU are queued right after their data is made."""

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        self.stage: Stage = plan.stages[number]
        self.blamed = self.stage.steps[0]
        device = surroundings.device
        if device is None:
            raise RuntimeError(
                f"{self.stage.steps[0].title} runs on the GPU and this pipeline has none: give it a device_id"
            )
        self.device: Device = device
        self.runtime = device.runtime
        self.stand_in: StandIn | None = None
        traits = [traits_of(plan, step) for step in self.stage.steps]
        self.whole = any(found.granularity == "batch" and not found.rows for found in traits)
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

    def require_library(self, op: OpDef) -> None:
        """Raises an error when the pipeline is built, if the GPU form of an operator needs a library that is missing."""
        needs = op.gpu_hook("needs")
        if needs is not None:
            with self.runtime.active():
                self.runtime.require(needs())

    def reserve_slots(self, slots: Iterable[int]) -> None:
        """Allocates memory of the hinted sizes."""
        for slot in slots:
            self.device.pool.reserve(slot, self.hints.get(slot, 0), self.device.blocks)
        for slot, _ in self.returning:
            self.device.landing.reserve(self.hints.get(slot, 0), self.device.blocks)

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Queues the work of one batch."""
        del begin, end, arena
        with self.runtime.active():
            self.perform(batch, None)
        return False

    def remake(self, batch: BatchRun, rows: set[int]) -> set[int]:
        """Queues the work of rows that are made again; of all rows if a step depends on the whole batch."""
        with self.runtime.active():
            self.perform(batch, None if self.whole else sorted(rows))
        return set(range(batch.size)) if self.whole else rows

    def given(self, batch: BatchRun, sample: int) -> None:
        """Queues the copy of the values to the CPU."""
        with self.runtime.active():
            self.send_back(batch, [sample])

    def contain(self, stand_in: StandIn, keeps_rows: bool) -> None:
        """Keeps the function that gives values for a failed step."""
        del keeps_rows
        self.stand_in = stand_in

    def perform(self, batch: BatchRun, rows: list[int] | None) -> None:
        """Queues the work of a batch, or of some of its rows."""
        raise NotImplementedError

    def open(self, batch: BatchRun, step: Step, rows: list[int] | None) -> None:
        """Prepares the slots of a step."""
        for slot, spec in zip(step.outputs, step.specs):
            if rows is None or batch.values[slot] is None:
                batch.values[slot] = [None] * batch.size
                batch.layouts[slot] = spec.layout
            for row in rows or ():
                put(batch, slot, row, None)

    def active(self, batch: BatchRun, step: Step, rows: list[int] | None) -> list[int]:
        """The rows that a step runs for."""
        active = batch.active(step.guard)
        if active is None and rows is None and not batch.failures:
            return list(range(batch.size))
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
            self.runtime.record(event, self.runtime.returning)
            landing = batch.values[target]
            if rows is None:
                batch.values[target] = Landing(arrays, [event])
                continue
            if not isinstance(landing, Landing):  # it was received already
                landing = batch.values[target] = Landing(list(landing), [])
            for row, array in zip(rows, arrays):
                landing.arrays[row] = array
            landing.events.append(event)

    def as_input(self, value: np.ndarray) -> DeviceArray:
        """A value on the device that replaces the result of a failed sample."""
        return self.device.put(value)
