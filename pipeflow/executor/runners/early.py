"""Steps of a stage that are computed for the whole batch before its first sample, because they read nothing that the stage makes.

Their results are a few numbers: an element of a table, a matrix, an argument that is computed in a branch. A call of NumPy for
the batch takes as long as one for a sample, and a chain reads the results as columns (program.py). Branches do not matter here:
numbers for samples that do not take one are made too, and no step reads them. If a call fails, for example for such a sample, the
step runs for one sample after another, as does each step that reads it; then errors belong to a sample.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import prod

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.declare import require
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners import many
from pipeflow.executor.runners.column import ColumnStep
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.sample_step import ChunkRows, SampleStep
from pipeflow.plan import Plan

LARGEST = 64  # elements of a result: as long as one batch is kept, the memory of the long one is (executor/ahead.py)
MOST_FAILURES = 16  # batches in a row for which a step fails until it is not early any more

Whole = Callable[[BatchRun, HeapPool], None]  # fills the slots of a step for all samples


class EarlySteps:
    """The early steps of a stage."""

    def __init__(self, plan: Plan, steps: Sequence[SampleStep], without: Collection[int] = ()) -> None:
        self._plan, self._stage = plan, steps
        self.steps: dict[int, SampleStep] = {}  # by their numbers in the stage
        self.slots: set[int] = set()  # those that they fill
        self._work: dict[int, Whole] = {}
        self._failures: dict[int, int] = {}
        self.lost = set(without)  # the numbers of steps that always fail
        inside = {slot for step in steps for slot in step.step.outputs}
        for number, step in enumerate(steps):
            if number not in self.lost and inside.isdisjoint(step.step.reads()) and _fits(step):
                work = _work_of(plan, step)
                if work is not None:
                    self.steps[number], self._work[number] = step, work
                    self.slots.update(step.step.outputs)
                    inside.difference_update(step.step.outputs)

    def run_one(self, number: int, batch: BatchRun, pool: HeapPool) -> None:
        """Computes one step for a batch; raises an error if it has to be computed sample by sample."""
        self._work[number](batch, pool)
        for slot in self.steps[number].step.outputs:
            batch.layouts[slot] = batch.layouts[slot] or ""  # that of single numbers may not be declared

    def run(self, batch: BatchRun, pool: HeapPool, done: Collection[int]) -> frozenset[int]:
        """Computes the steps that are not ``done``; returns the numbers of all that are now."""
        found, missing = set(done), set[int]()
        for number, step in self.steps.items() if batch.size else ():
            if number in found:
                continue
            if not missing.isdisjoint(step.step.reads()):
                missing.update(step.step.outputs)
                continue
            try:
                self.run_one(number, batch, pool)
                found.add(number)
                self._failures.pop(number, None)
            except Exception:  # the step itself reports the error
                missing.update(step.step.outputs)
                if many.loaded(step, batch):
                    self._failures[number] = self._failures.get(number, 0) + 1
                    if self._failures[number] >= MOST_FAILURES:
                        self.lost.add(number)
        return frozenset(found)

    def fewer(self) -> "EarlySteps":
        """The same without the steps that always fail."""
        return EarlySteps(self._plan, self._stage, self.lost)


def _fits(step: SampleStep) -> bool:
    """True if the results are few numbers in memory of the process."""
    plain = step.step
    if step.fetched_from is not None or plain.user_code or step.wants_source or any((*step.shared, *step.sent)):
        return False
    small = all(spec.static and prod(spec.shape) <= LARGEST for spec in plain.specs)
    return small and {*step.storages} <= {"dense", "table", "arena"}


def _work_of(plan: Plan, step: SampleStep) -> Whole | None:
    """The work of a step on a batch; None if it is declared only for a sample."""
    named = all(spec.layout is not None or not spec.shape for spec in step.step.specs)  # else it depends on the inputs
    if type(step) is MergeStep:
        return partial(_merged, step) if named else None
    if type(step) is not SampleStep:
        return None
    if step.op.elementwise and named:
        return ColumnStep(plan, step.step).run
    return partial(_by_many, step) if step.op.many_hook is not None else None


def _merged(step: MergeStep, batch: BatchRun, pool: HeapPool) -> None:
    first, second, predicate = step.step.inputs
    one, other, flags = (batch.values[slot] for slot in (first, second, predicate))
    require(all(type(values) is np.ndarray for values in (one, other, flags)))
    require(one.dtype == other.dtype and one.shape == other.shape and flags.ndim == 1)
    made = pool.empty(one.shape, one.dtype)
    made[...] = other
    np.copyto(made, one, where=flags.astype(bool).reshape(-1, *[1] * (one.ndim - 1)))
    batch.values[step.output], batch.layouts[step.output] = made, step.spec.layout or batch.layouts[first]


def _by_many(step: SampleStep, batch: BatchRun, pool: HeapPool) -> None:
    rows = ChunkRows(len(batch.values), np.arange(batch.size))
    step.enter(batch, pool)
    require(many.run_all(step, batch, rows, rows.samples, pool))
    for slot in step.step.outputs:
        values = rows.columns[slot]
        require(type(values) is np.ndarray)
        batch.values[slot] = values
