"""What becomes of samples that fail.

A batch is a fixed set of positions, and a failure never moves another sample: keys, resume points and ranks that run in
step stay what they are. The rule of a step is its own ``on_error`` or the pipeline's:

- ``"raise"``: the batch is consumed whole and its error raised in its turn.
- ``"skip"``: the row is missing from all outputs of the batch; later steps do not see it.
- ``"replace"``: the row is made again from the source of the next good row of the batch, under its own key.
- a value, or a function of the ``Failure`` that gives one: it stands for the step's outputs (from the pipeline's rule: for the
  pipeline's outputs) of this row.

Failures count when their batch is delivered, so prefetching does not matter.
"""

import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pipeflow import types
from pipeflow.compile.plan import Plan, Step
from pipeflow.errors import TooManyFailures, add_notes, count_of
from pipeflow.executor.batch import BatchRun, put, value_at
from pipeflow.executor.runners.base import StageRunner
from pipeflow.tensors import as_sample

KEPT = 10_000  # the list of failures holds the last ones
JUDGED = 1000  # a fraction is judged on at least so many samples, so that an early failure does not end a job


@dataclass(frozen=True)
class Failure:
    """One sample that failed: where it stands in the data, what happened, and what became of it."""

    position: int
    epoch: int
    batch: int
    sample: int
    source: str
    operator: str
    exception: BaseException
    traceback: str
    action: str

    def __str__(self) -> str:
        source = f" (source: {self.source})" if self.source else ""
        what = f"{type(self.exception).__name__}: {self.exception}"
        return f"position {self.position} of epoch {self.epoch}{source} in {self.operator}: {what} [{self.action}]"


@dataclass(frozen=True)
class Rule:
    """What to do when a step fails for a sample. ``row`` says that the value is the whole row's, not the step's."""

    action: str
    value: Any = None
    row: bool = False


class Counts(NamedTuple):
    """What has been counted up to a batch."""

    batch: int
    failed: int
    seen: int


class Failures:
    """Applies the rules of a plan, and counts."""

    def __init__(self, plan: Plan, stages: Sequence[StageRunner], limit: int | float | Fraction | None = None) -> None:
        self.plan = plan
        self.stages = stages
        self.limit = limit
        self.counts = Counts(-1, 0, 0)
        self.log: deque[Failure] = deque(maxlen=KEPT)
        self.rules = {step.name: self.rule_of(step) for step in plan.steps()}
        self.active = any(rule.action != "raise" for rule in self.rules.values())

    def contain(self) -> None:
        """Lets the stages keep the failure of a row to that row."""
        for runner in self.stages:
            rule = None if runner.blamed is None else self.rules[runner.blamed.name]
            runner.contain(self.stand_in, rule is not None and rule.action != "raise")

    def rule_of(self, step: Step) -> Rule:
        """What to do when a step fails."""
        own = step.on_error is not None
        value = self.plan.constant(step.on_error if own else self.plan.on_error)
        return Rule(value) if isinstance(value, str) else Rule("value", value, row=not own)

    # While a batch runs.

    def stand_in(self, batch: BatchRun, step: Step, sample: int) -> "tuple[np.ndarray, ...] | None":
        """The values that stand for the outputs of a step that has just failed, where its rule gives any."""
        rule = self.rules[step.name]
        if rule.action != "value" or rule.row:
            return None
        error, _ = batch.failures.pop(sample)
        failure = self._failure(batch, step, sample, error, "value")
        try:
            values = _values(rule.value, failure, [spec.dtype for spec in step.specs])
        except Exception as inner:
            batch.fail(inner, step)
            return None
        batch.incidents.append(failure)
        return values

    def settle(self, batch: BatchRun, stage: int) -> None:
        """Deals with the rows that failed in a stage; those that must be raised stay in ``batch.failures``."""
        settled: set[int] = set()
        while batch.failures and batch.error is None:
            failed = dict(sorted(batch.failures.items()))
            if settled & failed.keys() or any(self.rules[step.name].action == "raise" for _, step in failed.values()):
                return
            settled |= failed.keys()
            lost = []
            for sample, (error, step) in failed.items():
                rule = self.rules[step.name]
                if rule.action == "replace":
                    lost.append(sample)
                    continue
                if rule.action == "skip" or rule.row:
                    self._leave_out(batch, step, sample, rule, error)
                    continue
                values = self.stand_in(batch, step, sample)
                for slot, value in zip(step.outputs, values or ()):
                    on_device = self.plan.slots[slot].kind == "device"
                    put(batch, slot, sample, self.stages[stage].as_input(value) if on_device else value)
            for sample in lost:
                if not self._replace(batch, stage, sample, set(lost)):
                    return
            batch.masks.clear()
            self.stages[stage].finish(batch)

    def _leave_out(self, batch: BatchRun, step: Step, sample: int, rule: Rule, error: BaseException) -> None:
        del batch.failures[sample]
        failure = self._failure(batch, step, sample, error, rule.action)
        if rule.row and not self.give_row(batch, step, sample, rule, failure):
            return
        batch.absent.add(sample)
        for slot in step.outputs:
            if self.plan.slots[slot].storage in ("table", "batch", "source"):
                put(batch, slot, sample, None)
        batch.incidents.append(failure)

    def give_row(self, batch: BatchRun, step: Step, sample: int, rule: Rule, failure: Failure) -> bool:
        """Puts given values into the place of a whole row; False where they cannot be made."""
        try:
            dtypes = [self.plan.slots[slot].spec.dtype for slot in self.plan.outputs]
            batch.given[sample] = _values(rule.value, failure, dtypes)
        except Exception as inner:
            batch.fail(inner, step)
            return False
        return True

    def _replace(self, batch: BatchRun, stage: int, sample: int, lost: set[int]) -> bool:
        """Makes a row again from the source of the next good one; False where none can be made."""
        error, step = batch.failures.pop(sample)
        order = [(sample + offset) % batch.size for offset in range(1, batch.size)]
        for donor in order:
            if donor in batch.absent or donor in lost or donor in batch.failures:
                continue
            self.take_source(batch, sample, donor)
            batch.masks.clear()
            for number in range(1, stage + 1):
                self._again(batch, number, sample)
                if sample in batch.failures:
                    break
            if sample not in batch.failures:
                lost.discard(sample)
                batch.incidents.append(self._failure(batch, step, sample, error, "replace"))
                return True
            del batch.failures[sample]
        batch.failures[sample] = (error, step)
        add_notes(error, ["no good row of this batch could replace it"])
        return False

    def take_source(self, batch: BatchRun, sample: int, donor: int) -> None:
        """Gives a row what the sources gave another one."""
        batch.columns.clear()
        for step in self.plan.stages[0].steps:
            for slot in step.outputs:
                put(batch, slot, sample, value_at(batch.values[slot], donor))
        for number, known in list(batch.origins.items()):
            if known is not None:
                batch.failed_sources.setdefault(sample, batch.source_of(sample))
                changed = list(known)
                changed[sample] = changed[donor]
                batch.origins[number] = changed

    def _again(self, batch: BatchRun, stage: int, sample: int) -> None:
        runner = self.stages[stage]
        try:
            runner.redo(batch, sample)
        except Exception as error:
            batch.fail(error, runner.blamed, sample)

    def _failure(self, batch: BatchRun, step: Step, sample: int, error: BaseException, action: str) -> Failure:
        epochs = batch.epochs
        text = "".join(traceback.format_exception(error))
        return Failure(
            int(batch.positions[sample]) if sample < len(batch.positions) else -1,
            int(epochs[sample] if isinstance(epochs, np.ndarray) and epochs.ndim else epochs),
            batch.iteration,
            sample,
            batch.failed_sources.get(sample) or batch.source_of(sample),
            step.title,
            _without_frames(error),
            text,
            action,
        )

    # When a batch is delivered.

    def judge(self, batch: BatchRun) -> TooManyFailures | None:
        """The error when with this batch more samples have failed than are allowed."""
        if not batch.incidents or self.limit is None:
            return None
        count, seen = self.counts.failed + len(batch.incidents), self.counts.seen + batch.size
        scale = 1 if isinstance(self.limit, int) else max(seen, JUDGED)
        if count <= Fraction(self.limit) * scale:
            return None
        last = max(batch.incidents, key=lambda failure: failure.sample)
        error = TooManyFailures(
            f"{count_of(count, 'sample')} of {seen} failed, more than max_failures={self.limit} allows; "
            f"the last one: {last}. All of them: pipe.failures()"
        )
        error.__cause__ = last.exception
        return error

    def account(self, batch: BatchRun) -> None:
        """Counts the failures of a batch that was delivered; to do it again changes nothing."""
        if batch.index <= self.counts.batch:
            return
        if batch.failure() is not None:
            self.counts = self.counts._replace(batch=batch.index)
            return
        found = sorted(batch.incidents, key=lambda failure: failure.sample)
        if found and not (self.log and self.log[-1] is found[-1]):
            self.log.extend(found)
        self.counts = Counts(batch.index, self.counts.failed + len(found), self.counts.seen + batch.size)

    def state(self) -> list[int]:
        """The counts, for a checkpoint."""
        return [self.counts.failed, self.counts.seen]

    def restore(self, state: "Sequence[int] | None") -> None:
        """Goes on counting from a checkpoint."""
        self.counts = Counts(self.counts.batch, *(state or (0, 0)))


def _values(value: Any, failure: Failure, dtypes: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """A given value, or what a given function says, as one array an output."""
    if callable(value):
        value = value(failure)
    parts: Sequence[Any] = (value,) if len(dtypes) == 1 and not isinstance(value, tuple) else value
    if not isinstance(parts, (tuple, list)) or len(parts) != len(dtypes):
        given = count_of(len(parts), "value") if isinstance(parts, (tuple, list)) else type(value).__name__
        raise ValueError(f"on_error gives {given} in place of {count_of(len(dtypes), 'output')}")
    arrays = []
    for part, dtype in zip(parts, dtypes):
        if isinstance(part, (bool, int, float, list, tuple)):
            array = np.asarray(part, dtype) if dtype is not None else types.as_constant(part)
        else:
            array = as_sample(part)
            types.as_dtype(array.dtype)
        arrays.append(array)
    return tuple(arrays)


def _without_frames(error: BaseException) -> BaseException:
    """The exception without tracebacks, whose frames would keep the arrays of the batch alive."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            todo += [one.__cause__, one.__context__]
    return error
