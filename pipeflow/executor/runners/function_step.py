"""A function of the user as a step of a stage. Everything that is equal for all samples is looked up once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pipeflow import declare
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.sample_step import Placement, SampleStep
from pipeflow.kernels.at_work import at_work
from pipeflow.plan import Plan, Step
from pipeflow.tensors import lent


class FunctionStep(SampleStep):
    """A step whose operator declares the call of one sample (``caller``) and has no arguments that are nodes."""

    def __init__(self, plan: Plan, step: Step, inside: set[int]) -> None:
        super().__init__(plan, step, inside, None)
        # slot, True if it is in this stage, and the right to write to it (None: the function gets the array itself)
        rights = step.writable if step.user_code else (None,) * len(step.inputs)
        self.reads = tuple(zip(step.inputs, (slot in inside for slot in step.inputs), rights, strict=True))
        self.copies = self.storages == ("table",) and step.copied and not self.compiled
        self._call: Callable[..., Any] | None = None
        self.reports = isinstance(
            self.constants.get("jit"), str
        )  # compiled code is tried, and a message about a difference names the sample

    @staticmethod
    def fits(step: Step) -> bool:
        """True if such a step can run this one."""
        return not step.fetch and not step.arguments and declare.find(step.op).caller_hook is not None

    def run(self, batch: BatchRun, sample: int, row: list[Any], place: Placement) -> None:
        """Runs one sample; ``row`` has its results in this stage so far."""
        values = batch.values
        for slot, polarity, inside in self.guard:
            flag = row[slot] if inside else values[slot][sample]
            if bool(flag) is not polarity:
                return
        inputs = []
        for slot, inside, writable in self.reads:
            if inside:
                value = row[slot]
            else:
                held = values[slot]
                value = held[sample] if type(held) is list else held[sample, ...]
            given = writable is None or (writable and value.flags.writeable)
            inputs.append(value if given else lent(value, self.converts))
        place.sample = sample
        place.given = None
        call = self._call
        if call is None:  # only with the first sample, because the function may be compiled now
            call = self._call = self.op.caller_hook(self.op.known(self.constants))  # type: ignore[misc]
        key = batch.keys[self.key_slot][sample] if self.random else 0
        if self.reports:
            at_work.describe = partial(batch.name_of, sample)
            try:
                outputs = call(inputs, key)
            finally:
                at_work.describe = None  # the description refers to the batch
        else:
            outputs = call(inputs, key)
        if self.count and batch.layouts[self.step.outputs[0]] is None:
            layouts = place.layouts or place.find_layouts()
            assert self.kernel is not None
            for slot, layout in zip(self.step.outputs, self.kernel.output_layouts(inputs, layouts, {})):
                batch.layouts[slot] = layout or ""
        self.keep(batch, sample, row, place, outputs)

    def keep(self, batch: BatchRun, sample: int, row: list[Any], place: Placement, outputs: Sequence[Any]) -> None:
        """Stores the results of one sample in their slots: at once if there is one result, which is copied."""
        if not self.copies:
            super().keep(batch, sample, row, place, outputs)
            return
        (result,) = outputs
        kept = place.memory[0].empty(result.shape, result.dtype)
        kept[...] = result
        batch.values[self.key_slot][sample] = row[self.key_slot] = kept
