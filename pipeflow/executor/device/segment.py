"""Segments: steps on the device whose shapes are known when the segment begins."""

from functools import partial

from pipeflow.device.memory import aligned
from pipeflow.device.runtime import DeviceArray
from pipeflow.device.tables import DeviceColumn
from pipeflow.errors import add_notes
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.device.graphs import refuse
from pipeflow.executor.device.segment_steps import CopyStep, OperatorStep, SegmentStep, SelectStep, UploadStep
from pipeflow.executor.device.stage import DeviceStage
from pipeflow.executor.device.work import LEAST, SegmentMemory, Work
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan, Step, is_in_inputs

TABLES = 4096  # bytes of descriptors and tables for a sample and step, at the beginning


class DeviceSegment(DeviceStage):
    """Plans all its steps on the host, then queues one copy and the launches."""

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        super().__init__(plan, number, surroundings)
        device, stage = self.device, self.stage
        # Slots whose samples may be in memory of another slot: that memory must be kept as long as they are.
        held = set(self.leaving)
        for step in reversed(stage.steps):
            if is_in_inputs(step) and held & set(step.outputs):
                held.update(step.inputs)
        held &= self.made
        with self.runtime.active():
            transfers = [step for step in stage.steps if step.role == "transfer"]
            sent = [step for step in transfers if plan.slots[step.inputs[0]].memory == "pinned"]
            for step in sent:
                device.sending.reserve(self.hints.get(step.inputs[0], 0), device.blocks)
            direct = [step for step in sent if self.hints.get(step.inputs[0], 0) >= LEAST * device.batch_size]
            carried = sum(self.hints.get(step.inputs[0], 0) for step in transfers if step not in direct)
            capacity = aligned(carried + device.batch_size * TABLES * len(stage.steps))
            between = sum(self.hints.get(slot, 0) for slot in self.made - held)
            beside, threads = surroundings.beside, surroundings.settings.threads
            self.memory = SegmentMemory(device, -number - 2, held, capacity, between, beside, threads)
            hinted = carried or any(self.hints.get(slot) for slot in self.made)
            device.pool.reserve(self.memory.purpose, capacity if hinted else 0, device.blocks)
            self.reserve_slots(held - {step.outputs[0] for step in direct})
            for step in direct:
                device.pool.reserve(step.outputs[0], self.hints[step.inputs[0]], device.blocks)
            kinds = {"transfer": UploadStep, "merge": SelectStep, "copy": CopyStep}
            self.members: list[SegmentStep] = [kinds.get(step.role, OperatorStep)(plan, step) for step in stage.steps]
            for item in self.members:
                if isinstance(item, OperatorStep):
                    try:
                        if self.memory.graphs is not None and item.op.gpu_hook("needs") is not None:
                            refuse(item.op, "calls a library that allocates memory")
                        self.require_library(item.op)
                    except Exception as error:
                        add_notes(error, item.step.notes())
                        raise
            self.runtime.prepare(sorted({kernel for item in self.members for kernel in item.kernel_names(plan)}))

    def perform(self, batch: BatchRun, rows: list[int] | None) -> None:
        """Plans all steps on the host, then queues one copy and the launches."""
        self.memory.arena.begin()
        work = Work(self.memory, partial(self._failed, batch))
        for item in self.members:
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
                if type(values) is DeviceColumn:
                    leases += [] if values.lease is None else [values.lease]
                elif type(values) is list:
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
        for item in self.members:
            if isinstance(item, SelectStep) and batch.values[item.step.outputs[0]] is not None:
                item.merge.finish(batch)

    def _failed(self, batch: BatchRun, work: Work, step: Step, row: int, error: Exception) -> None:
        """Handles a sample that failed in a step: the value of its rule is copied to the device instead."""
        batch.fail(error, step, row)
        values = None if self.stand_in is None else self.stand_in(batch, step, row)
        if values is not None:
            for slot, value in zip(step.outputs, [work.put([value])[0] for value in values]):
                batch.values[slot][row] = value
