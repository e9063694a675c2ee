"""A function of the user as a step of a stage. Everything that is equal for all samples is looked up once."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from types import FunctionType
from typing import Any

import numpy as np

from pipeflow import declare
from pipeflow.backends.cpu import HeapPool
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.base import traits_of
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
        self.random = self.random and not traits_of(plan, step).keyless
        self._call: Callable[..., Any] | None = None
        only = self.op.calls_for  # True if a chain may run it, which needs the shapes of the last results
        self._notes_shapes = only is not None and only(self.op.known(self.constants))
        self.seen: tuple[tuple[int, ...], ...] | None = None
        self.reports = isinstance(
            self.constants.get("jit"), str
        )  # compiled code is tried, and a message about a difference names the sample

        self.tried = [value for value in self.constants.values() if self.reports and isinstance(value, FunctionType)]

        # A batch that one thread has whole is made as by a serial function, with less work for each sample.
        plain = {*self.storages} == {"table"} and not step.hint and not any(self.shared)
        self.runs_whole = plain and self.runs_many
        self.repeats &= self.runs_whole

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
        key = self.keys(batch)[sample] if self.random else 0
        if self.reports:
            at_work.describe = partial(batch.name_of, sample)
            try:
                outputs = call(inputs, key)
            finally:
                at_work.describe = None  # the description refers to the batch
        else:
            outputs = call(inputs, key)
        if self.count and batch.layouts[self.step.outputs[0]] is None:
            self._find_layouts(batch, inputs, place.layouts or place.find_layouts())
        self.keep(batch, sample, row, place, outputs)

    @property
    def runs_many(self) -> bool:
        """True if ``run_many`` can run it: no condition and no report belongs to a single sample."""
        return not self.step.guard and not self.reports

    def run_whole(self, batch: BatchRun, pool: HeapPool) -> tuple[Exception, int] | None:
        """Runs a whole batch; returns an error and the number of its sample, -1 if it is not known. Later samples did not run."""
        step = self.step
        columns = [self._whole(batch.values[slot], right) for slot, _, right in self.reads]
        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        call = declare.BatchCall(batch.size, lambda: self.batch_keys(batch), layouts, self.memory(batch, pool, 0).take)
        try:
            outputs = declare.run_whole(self.op, self.constants, {}, columns, call, self.count)
            if self.count and batch.layouts[step.outputs[0]] is None:
                first = [column[0, ...] if type(column) is np.ndarray else column[0] for column in columns]
                self._find_layouts(batch, first, layouts)
        except Exception as error:
            return error, call.current
        for slot, values in zip(step.outputs, outputs):
            batch.values[slot] = values
        return None

    def run_many(
        self, batch: BatchRun, samples: range, place: Placement, failed: Callable[[Exception, int], None]
    ) -> None:
        """Runs some samples, one after another; ``failed`` gets errors. It does what ``run`` does, with less for each sample."""
        values = batch.values
        columns = [self._column(values[slot], samples, writable) for slot, _, writable in self.reads]
        rows = zip(*columns) if columns else repeat((), len(samples))
        keys = self.keys(batch)[samples.start : samples.stop] if self.random else repeat(0)
        place.given = None
        row: list[Any] = [None] * len(values)
        for sample, inputs, key in zip(samples, rows, keys):
            try:
                call = self._call
                if call is None:
                    call = self._call = self.op.caller_hook(self.op.known(self.constants))  # type: ignore[misc]
                outputs = call(inputs, key)
                if self.count and batch.layouts[self.step.outputs[0]] is None:
                    self._find_layouts(batch, inputs, place.layouts or place.find_layouts())
                self.keep(batch, sample, row, place, outputs)
            except Exception as error:
                failed(error, sample)

    def _whole(self, held: Any, writable: bool | None) -> Any:
        """An input of several samples, a list or one array, with the rights that the function has to it."""
        if writable is None:
            return held
        if not isinstance(held, np.ndarray):
            return [x if writable and x.flags.writeable else lent(x, self.converts) for x in held]
        return held if writable and held.flags.writeable else lent(held, self.converts)

    def _column(self, held: Any, samples: range, writable: bool | None) -> Sequence[Any]:
        """An input of some samples, one by one, with the rights that the function has to it."""
        part = self._whole(held[samples.start : samples.stop], writable)
        return part if type(part) is list else [part[index, ...] for index in range(len(samples))]

    def _find_layouts(self, batch: BatchRun, inputs: Sequence[Any], layouts: Sequence[str]) -> None:
        assert self.kernel is not None
        for slot, layout in zip(self.step.outputs, self.kernel.output_layouts(inputs, layouts, {})):
            batch.layouts[slot] = layout or ""

    def keep(self, batch: BatchRun, sample: int, row: list[Any], place: Placement, outputs: Sequence[Any]) -> None:
        """Stores the results of one sample in their slots: at once if there is one result, which is copied."""
        if self._notes_shapes:
            self.seen = tuple([result.shape for result in outputs])
        if not self.copies:
            super().keep(batch, sample, row, place, outputs)
            return
        (result,) = outputs
        kept = place.memory[0].empty(result.shape, result.dtype)
        kept[...] = result
        batch.values[self.key_slot][sample] = row[self.key_slot] = kept
