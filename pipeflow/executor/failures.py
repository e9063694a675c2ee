"""Failures of samples: the rules, and the counts.

A batch is a fixed set of positions, and a failure never moves another sample. So keys and resume points do not change, and ranks
that work in step stay in step. The rule of a step is its own ``on_error`` or the pipeline's:

- ``"raise"``: the error is raised in the batch's turn, and the whole batch is consumed.
- ``"skip"``: the row is missing from all outputs of the batch; later steps do not get it. If a step moves samples to
  other rows (``fn.permute_batch``), the samples that the row is made of are left out, with all rows that are made of them:
  others are computed in their place and not delivered.
- ``"replace"``: the batch is made as if its sources had given the next good sample in place of this one. So a row
  is made of one sample in all steps, with its own key, and steps that use the whole batch get the delivered samples.
- a value, or a function from the ``Failure`` to a value: it replaces the outputs of the step (with the pipeline's rule: the
  outputs of the pipeline) of this row.

Failures count when their batch is delivered, so prefetching does not matter. Also without ``max_failures`` a job ends if too
many samples in a row fail: else a source that does not end and always fails would be read for ever.
"""

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pipeflow import declare, types
from pipeflow.errors import TooManyFailures, add_notes, count_of
from pipeflow.executor.batch import BatchRun, place_of, put, value_at
from pipeflow.executor.runners.base import BoundStep, StageRunner, origins_of, traits_of
from pipeflow.plan import Plan, Step
from pipeflow.tensors import as_sample

KEPT = 10_000  # the list of failures has the last ones, up to this number
JUDGED = 1000  # a fraction counts only after this number of samples, so that an early failure does not end a job
IN_A_ROW = 1000  # single bad samples do not fail so often without a good one between them


@dataclass(frozen=True)
class Failure:
    """One sample that failed: its place in the data, its error, and what was done."""

    position: int
    epoch: int
    batch: int
    sample: int
    source: str
    operator: str
    exception: BaseException
    traceback: str
    action: str
    order: int = field(default=0, repr=False, compare=False)  # the number of the operator in the plan
    unread: bool = field(default=False, repr=False, compare=False)  # True if the source did not return the sample

    def __str__(self) -> str:
        source = f" (source: {self.source})" if self.source else ""
        what = f"{type(self.exception).__name__}: {self.exception}"
        return f"position {self.position} of epoch {self.epoch}{source} in {self.operator}: {what} [{self.action}]"


@dataclass(frozen=True)
class Rule:
    """The action if a step fails for a sample. With ``row`` the value replaces the whole row, not the outputs of the step."""

    action: str
    value: Any = None
    row: bool = False


class Counts(NamedTuple):
    """The counts of samples and failures up to a batch."""

    batch: int
    failed: int
    seen: int


def _unknown() -> None:
    return None


class Failures:
    """Applies the rules of a plan, and counts."""

    def __init__(self, plan: Plan, stages: Sequence[StageRunner], limit: int | float | Fraction | None = None) -> None:
        self.plan = plan
        self.stages = stages
        self.limit = limit
        self.counts = Counts(-1, 0, 0)
        self.in_a_row = 0  # the number of delivered samples that failed after the last good one
        self.any_good = False  # True if a good sample was delivered
        self.epoch_size: Callable[[], int | None] = _unknown  # the samples in an epoch of the readers, if there are any
        self.log: deque[Failure] = deque(maxlen=KEPT)
        self.rules = {step.name: self.rule_of(step) for step in plan.steps()}
        self.orders = {step.name: order for order, step in enumerate(plan.steps())}
        self.active = any(rule.action != "raise" for rule in self.rules.values())
        self.movers: dict[tuple[int, ...], BoundStep] = {}  # output slot -> the step that moves samples to other rows
        for step in plan.steps() if self.active else ():
            self.find_movers(step)

    def find_movers(self, step: Step) -> None:
        """Notes the step if it moves samples to other rows."""
        if traits_of(self.plan, step).moves:
            self.movers[step.outputs] = BoundStep(self.plan, step)

    def contain(self) -> None:
        """Makes every stage keep the failure of a row to that row."""
        for runner in self.stages:
            rule = None if runner.blamed is None else self.rules[runner.blamed.name]
            runner.contain(self.stand_in, rule is not None and rule.action != "raise")

    def rule_of(self, step: Step) -> Rule:
        """The rule for a step that fails."""
        own = step.on_error is not None
        value = self.plan.constant(step.on_error if own else self.plan.on_error)
        return Rule(value) if isinstance(value, str) else Rule("value", value, row=not own)

    # While a batch runs.

    def stand_in(self, batch: BatchRun, step: Step, sample: int) -> "tuple[np.ndarray, ...] | None":
        """The values that replace the outputs of a step that has just failed, if its rule gives values."""
        rule = self.rules[step.name]
        if rule.action != "value" or rule.row:
            return None
        batch.begin_losses()
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
        """Applies the rules to the rows that failed in a stage; failures that must be raised stay in ``batch.failures``.

        Rows that are now made of another sample run through all stages again. So do rows whose result changes because a step
        uses the whole batch. The earliest stage runs first, and a failure there is handled before all others.
        """
        batch.begin_losses()
        behind: list[set[int]] = [set() for _ in range(stage + 2)]  # stage -> the rows that it has to make again
        settled: set[int] = set()
        number = stage
        while batch.error is None:
            if batch.failures:
                raised = any(self.rules[step.name].action == "raise" for _, step in batch.failures.values())
                if raised or settled & batch.failures.keys():
                    return
                settled |= batch.failures.keys()
                changed = self._apply_rules(batch, number)
                if changed is None:
                    return
                behind[1] |= changed
            else:
                found = next((place for place in range(1, stage + 1) if behind[place]), None)
                if found is None:
                    return
                number, rows = found, behind[found] - batch.absent
                behind[number] = set()
                settled.clear()
                batch.masks.clear()
                batch.columns.clear()
                behind[number + 1] |= self._remake(batch, number, rows) if rows else rows
            batch.masks.clear()
            if batch.error is None:
                self.stages[number].finish(batch)

    def _apply_rules(self, batch: BatchRun, stage: int) -> set[int] | None:
        """Applies its rule to each failed row; returns the rows that are now made of another sample.

        None if no sample can replace one of them.
        """
        runner, lost = self.stages[stage], []
        for sample, (error, step) in sorted(batch.failures.items()):
            rule = self.rules[step.name]
            if rule.action == "replace" or (self.movers and (rule.action == "skip" or rule.row)):
                lost.append(sample)
                continue
            if rule.action == "skip" or rule.row:
                self._leave_out(batch, step, sample, rule, error)
                continue
            values = self.stand_in(batch, step, sample)
            for slot, value in zip(step.outputs, values or ()):
                put(batch, slot, sample, runner.as_input(value) if self.plan.slots[slot].memory == "device" else value)
            runner.given(batch, sample)
        return self._replace(batch, lost)

    def _remake(self, batch: BatchRun, stage: int, rows: set[int]) -> set[int]:
        runner = self.stages[stage]
        try:
            return runner.remake(batch, rows)
        except Exception as error:
            batch.fail(error, runner.blamed)
            return set()

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
        """Replaces a whole row by given values; returns False if these cannot be made."""
        try:
            dtypes = [self.plan.slots[slot].spec.dtype for slot in self.plan.outputs]
            batch.given[sample] = _values(rule.value, failure, dtypes)
        except Exception as inner:
            batch.fail(inner, step)
            return False
        return True

    def _replace(self, batch: BatchRun, lost: Sequence[int]) -> set[int] | None:
        """Replaces each sample of a lost row by the next good one; returns the replaced samples.

        A sample that has failed is not used for others either. None if no sample is left.
        """
        for row in lost:
            error, step = batch.failures.pop(row)
            for sample in self._made_of(batch, (*step.inputs, *(slot for _, slot in step.arguments)), row):
                if sample in batch.donors:
                    batch.tried.setdefault(sample, set()).add(batch.donors[sample])
                elif sample not in batch.replaced:
                    batch.replaced[sample] = error, step
                    rule = self.rules[step.name]
                    failure = self._failure(batch, step, sample, error, rule.action)
                    batch.incidents.append(failure)
                    if rule.action != "replace":
                        batch.hidden.add(sample)
                    if rule.row and not self.give_row(batch, step, sample, rule, failure):
                        return None
        changed = set()
        for sample, (error, step) in batch.replaced.items():
            useless = batch.replaced.keys() | batch.tried.get(sample, set())
            if sample in batch.donors and batch.donors[sample] not in useless:
                continue
            order = [(sample + offset) % batch.size for offset in range(1, batch.size)]
            donor = next((x for x in order if x not in useless and x not in batch.absent), None)
            if donor is None and len(batch.hidden) == batch.size:  # all of them are left out
                batch.absent.update(range(batch.size))
                return set()
            if donor is None:
                batch.failures[sample] = error, step
                add_notes(error, ["no good row of this batch could replace it"])
                return None
            batch.donors[sample] = donor
            self.take_source(batch, sample, donor)
            changed.add(sample)
        return changed

    def _made_of(self, batch: BatchRun, slots: Sequence[int], row: int) -> set[int]:
        """The samples from which a row of these slots is made: its own, unless a step has moved samples."""
        if not self.movers:
            return {row}
        makers = self.plan.makers()
        todo, seen, found = [(slot, row) for slot in slots], set(), set()
        while todo:
            place = slot, row = todo.pop()
            if place in seen or slot not in makers:
                continue
            seen.add(place)
            step = makers[slot]
            inputs = [*step.inputs, *(slot for _, slot in step.arguments)]
            if step in self.plan.stages[0].steps:
                found.add(row)
            elif step.role == "merge":
                inputs = [step.inputs[0 if batch.mask(((step.inputs[2], True),))[row] else 1]]
            elif step.outputs in self.movers:
                inputs, row = list(step.inputs), origins_of(self.movers[step.outputs], batch)[row]
            todo += [(slot, row) for slot in inputs]
        return found or {row}

    def hide(self, batch: BatchRun) -> None:
        """Leaves out the rows to which a step has moved samples that are left out."""
        samples = set(batch.hidden)
        for item in self.movers.values() if samples else ():
            for row in origins_of(item, batch).keys() - batch.hidden:
                made_of = sorted(self._made_of(batch, item.step.outputs, row) & samples)
                if made_of:
                    known = next(failure for failure in batch.incidents if failure.sample == made_of[0])
                    place = {"sample": row, "position": int(batch.positions[row]), "source": batch.source_of(row)}
                    batch.incidents.append(replace(known, **place))
                    batch.hidden.add(row)
                    if made_of[0] in batch.given:
                        batch.given[row] = batch.given[made_of[0]]

    def take_source(self, batch: BatchRun, sample: int, donor: int) -> None:
        """Copies the samples of the sources from one row to another; for a row that is left out, also the random numbers."""
        batch.columns.clear()
        batch.keys.clear()
        drawn = [step for stage in self.plan.stages for step in stage.columns] if sample in batch.hidden else []
        for step in (*self.plan.stages[0].steps, *drawn):
            for slot in step.outputs:
                if batch.values[slot] is None:  # the columns of later stages are computed when these begin
                    continue
                put(batch, slot, sample, value_at(batch.values[slot], donor))
        for number, known in list(batch.origins.items()):
            if known is not None:
                batch.failed_sources.setdefault((sample, number), place_of(known, sample))
                rows = list(range(len(known)))
                rows[sample] = donor
                batch.origins[number] = [known[row] for row in rows] if isinstance(known, list) else known[rows]

    def _failure(self, batch: BatchRun, step: Step, sample: int, error: BaseException, action: str) -> Failure:
        epochs = batch.epochs
        text = "".join(traceback.format_exception(error))
        return Failure(
            int(batch.positions[sample]) if sample < len(batch.positions) else -1,
            int(epochs[sample] if isinstance(epochs, np.ndarray) and epochs.ndim else epochs),
            batch.iteration,
            sample,
            _source(batch, step, sample),
            step.title,
            _without_frames(error),
            text,
            action,
            self.orders.get(step.name, 0),
            declare.find(step.op).factory is not None,
        )

    # When a batch is delivered.

    def judge(self, batch: BatchRun) -> TooManyFailures | None:
        """The error if, with this batch, more samples have failed than are allowed."""
        if not batch.incidents:
            return None
        if self.limit is None:
            return self._judge_run(batch)
        if batch.failure() is not None:
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

    def _judge_run(self, batch: BatchRun) -> TooManyFailures | None:
        """The error if so many samples in a row failed that a whole epoch has no good one, or that none was good so far."""
        run, size = self._run_after(batch), self.epoch_size()
        whole = None if size is None else 2 * size - 1  # so many in a row contain a whole epoch
        if run < (whole if whole is not None and (self.any_good or whole < IN_A_ROW) else IN_A_ROW):
            return None
        last = max(batch.incidents, key=lambda failure: failure.sample)
        sources = ", ".join(step.title for step in self.plan.stages[0].steps) or last.operator
        advice = (
            "If the data has ended, let the source raise StopIteration"
            if last.unread
            else f"Look at the data, and at {last.operator}"
        )
        error = TooManyFailures(
            f"{count_of(run, 'sample')} in a row of {sources} failed, and there was no good one between them; the last one: "
            f"{last}. {advice}. max_failures=N allows N failures, also in a row. All of them: pipe.failures()"
        )
        error.__cause__ = last.exception
        add_notes(error, getattr(last.exception, "__notes__", ()))
        return error

    def _run_after(self, batch: BatchRun) -> int:
        """The number of samples up to the end of a batch that failed after the last good one.

        A value in place of a sample counts as good, unless the source returned nothing: else a source without an end would be
        read for ever.
        """
        lost = {failure.sample for failure in batch.incidents if failure.action != "value" or failure.unread}
        if not batch.size:
            return self.in_a_row
        good = next((sample for sample in reversed(range(batch.size)) if sample not in lost), None)
        return self.in_a_row + batch.size if good is None else batch.size - 1 - good

    def account(self, batch: BatchRun) -> None:
        """Counts the failures of a delivered batch; a second call changes nothing."""
        if batch.index <= self.counts.batch:
            return
        counts = self.counts
        if not (self.active or batch.failures or batch.incidents) and batch.error is None:  # as nearly always
            self.counts = Counts(batch.index, counts.failed, counts.seen + batch.size)
            return
        if self.active and (batch.failures or batch.error is None):
            run = self._run_after(batch) if batch.incidents else 0
            self.any_good |= run < self.in_a_row + batch.size
            self.in_a_row = run
        if batch.error is not None or batch.failures:
            self.counts = counts._replace(batch=batch.index)
            return
        found = sorted(batch.incidents, key=lambda failure: (failure.sample, failure.order)) if batch.incidents else []
        if found and not (self.log and self.log[-1] is found[-1]):
            self.log.extend(found)
        self.counts = Counts(batch.index, counts.failed + len(found), counts.seen + batch.size)

    def state(self) -> list[int]:
        """The counts, for a checkpoint."""
        return [self.counts.failed, self.counts.seen]

    def restore(self, state: "Sequence[int] | None") -> None:
        """Continues the counts of a checkpoint."""
        self.counts = Counts(self.counts.batch, *(state or (0, 0)))


def _values(value: Any, failure: Failure, dtypes: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """A given value, or the result of a given function, as one array for each output."""
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


def _source(batch: BatchRun, step: Step, sample: int) -> str:
    """The source of a sample that failed, also if another sample has its place now."""
    replaced = [batch.failed_sources.get((sample, number)) for number in batch.sources_of(step)]
    return next(filter(None, replaced), "") or batch.source_of(sample, step)


def _without_frames(error: BaseException) -> BaseException:
    """The exception without tracebacks: their frames would keep the arrays of the batch alive."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            todo += [one.__cause__, one.__context__]
    return error
