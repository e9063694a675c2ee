"""Random numbers, and what is made of them alone, for several small batches in one call.

Keys and columns, such as random arguments, depend on nothing but the positions of the samples, and so do small results that are
made of columns alone, such as matrices of random angles. A call of NumPy takes as long for 16 samples as for 256. So for small
batches these steps run for several batches at once, on one long batch, and each batch gets its part.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners import many
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.runners.column import ColumnStep
from pipeflow.executor.runners.reading import SourceStage
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.executor.runners.sample_step import ChunkRows, SampleStep
from pipeflow.plan import Plan

SAMPLES = 1024  # of the long batch
LEAST_BATCHES = 2
MOST_BATCHES = 16
LARGEST = 64  # elements of a result: as long as one batch is kept, the memory of the long one is
MOST_FAILURES = 4


class MadeAhead:
    """The keys and steps of a plan that depend only on positions, for the next batches.

    Two threads may make a long batch at the same time, which does no harm. A part is given once: a user may write into it. So
    ``forget`` is called before batches are made again.
    """

    def __init__(
        self, plan: Plan, columns: Sequence[ColumnStep], stages: Sequence[StageRunner], pool: HeapPool, size: int
    ) -> None:
        self._plan, self._columns, self._pool = plan, columns, pool
        sources, stage = stages[0], stages[1] if len(stages) > 1 else None
        assert isinstance(sources, SourceStage)
        self._fill_constants = sources.fill_constants
        self._batches = min(MOST_BATCHES, SAMPLES // size)
        known = {slot for slot, _ in plan.constants} | {slot for item in columns for slot in item.step.outputs}
        self.steps: dict[int, SampleStep] = {}  # of the first stage of samples, by their numbers there
        together = (
            [(number, stage.steps[number]) for number in stage.together] if isinstance(stage, SampleStage) else []
        )
        for number, step in together:
            if known.issuperset(step.step.reads()) and not step.step.guard and _is_small(step):
                self.steps[number] = step
                known.update(step.step.outputs)
        self._long: BatchRun | None = None
        self._failures = 0  # long batches with an error

    @classmethod
    def of(
        cls,
        plan: Plan,
        columns: Sequence[Sequence[ColumnStep]],
        stages: Sequence[StageRunner],
        pool: HeapPool,
        size: int,
    ) -> "MadeAhead | None":
        """None if batches are not small, or nothing is random."""
        if size * LEAST_BATCHES > SAMPLES:
            return None
        own = [item for part in columns for item in part]
        return cls(plan, own, stages, pool, size) if plan.keys() else None

    def give(self, batch: BatchRun) -> bool:
        """Gives a batch its part; False if it has to run the steps itself."""
        if not batch.index or not batch.size or self._failures >= MOST_FAILURES:
            return False
        epoch = batch.epochs
        if isinstance(epoch, np.ndarray):  # of a reader, a batch of which may be of two epochs
            if epoch[0] != epoch[-1] or (epoch != epoch[0]).any():
                return False
            epoch = int(epoch[0])
        long, first = self._long, int(batch.positions[0])
        if long is None or long.epoch != epoch or not 0 <= first - long.cursor <= long.size - batch.size:
            if int(batch.positions[-1]) - first != batch.size - 1:  # each shard of a shuffled reader has every n-th
                return False
            long = self._make(batch, first, epoch)
            if long is None:
                return False
            self._long = long
        begin = first - long.cursor
        end = begin + batch.size
        if not batch.consecutive and not np.array_equal(batch.positions, long.positions[begin:end]):
            return False
        batch.ahead = {slot: values[begin:end] for slot, values in long.ahead.items()}
        for slot, values in batch.ahead.items():
            batch.values[slot] = values
            batch.layouts[slot] = long.layouts[slot]
        batch.done_ahead = long.done_ahead
        keys = {key: each[begin:end] for key, each in long.places[2].items()}
        batch.places = batch.positions, batch.epochs, keys
        return True

    def forget(self) -> None:
        """Drops what was made for batches that are still to come."""
        self._long = None

    def _make(self, batch: BatchRun, first: int, epoch: int) -> BatchRun | None:
        long = BatchRun(batch.index, len(self._plan.slots), batch.keys_of)
        long.epoch, long.epochs, long.iteration = epoch, epoch, batch.iteration
        long.size, long.cursor = batch.size * self._batches, first
        long.positions = np.arange(first, first + long.size)
        long.keys_at(long.keys_of[0])  # of all random steps
        self._fill_constants(long)
        try:
            for item in self._columns:
                item.run(long, self._pool)
                long.ahead.update((slot, long.values[slot]) for slot in item.step.outputs)
        except Exception:  # the batches run the step themselves, and report the error
            self._failures += 1
            return None
        rows = ChunkRows(len(self._plan.slots), np.arange(long.size))
        done = set()
        for number, step in self.steps.items():
            step.enter(long, self._pool)
            if not many.run(step, long, rows, self._pool):
                break  # perhaps its compiled code is not loaded yet
            done.add(number)
            long.ahead.update((slot, rows.columns[slot]) for slot in step.step.outputs)
        long.done_ahead = frozenset(done)
        return long


def _is_small(step: SampleStep) -> bool:
    return all(spec.static and prod(spec.shape) <= LARGEST for spec in step.step.specs)
