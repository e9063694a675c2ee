"""Random numbers, what is made of them alone, and the order of readers, for several small batches at once.

Keys and columns, such as random arguments, depend on nothing but the positions of the samples, and so do small results that are
made of columns alone, such as matrices of random angles. A call of NumPy takes as long for 16 samples as for 256. So for small
batches these steps run for several batches at once, on one long batch, and each batch gets its part.

Readers that only compute which samples come next are read for as many batches at once. Between two batches the kernels use the
caches, and then the same code takes five times as long as for a batch that follows another one directly.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeflow.backends.cpu import HeapPool
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.base import StageRunner, traits_of
from pipeflow.executor.runners.column import ColumnStep
from pipeflow.executor.runners.reading import SourceStage
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.executor.runners.sample_step import SampleStep
from pipeflow.executor.runners.whole import WholeStep
from pipeflow.plan import Plan

SAMPLES = 1024  # of the long batch
LEAST_BATCHES = 2
MOST_BATCHES = 16
MOST_FAILURES = 4
READ_FROM = 4  # the first batches are read alone, so that none of them waits


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
        self._sources, self._course = sources, sources.course
        self._stage = stage
        sources.later = self
        self._batches = min(MOST_BATCHES, SAMPLES // size)
        known = {slot for slot, _ in plan.constants} | {slot for item in columns for slot in item.step.outputs}
        self.steps: dict[int, SampleStep] = {}  # of the first stage of samples, by their numbers there
        self._early = stage.early if isinstance(stage, SampleStage) else None
        for number, step in self._early.steps.items() if self._early is not None else ():
            if known.issuperset(step.step.reads()):
                self.steps[number] = step
                known.update(step.step.outputs)
        # Steps on whole batches that read nothing, such as the order of the samples.
        self.whole = [item for item in stages[1:] if isinstance(item, WholeStep) and item.makes_several]
        self._size = size
        self._gives = bool(self._columns or self.steps or self.whole) or _is_random(plan)
        self._long: BatchRun | None = None
        self._failures = 0  # long batches with an error
        self._later: deque[BatchRun] = deque()  # batches that were read before they were scheduled
        self._states: dict[str, Any] = {}  # of the sources before the first of them
        self._reads = sources.workers is None

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
        """Gives a batch its part, unless it has it already; False if it has to run the steps itself."""
        if batch.foreseen:
            return True
        if not self._gives or not batch.index or not batch.size or self._failures >= MOST_FAILURES:
            return False
        epoch = batch.epochs
        if isinstance(epoch, np.ndarray):  # of a reader, a batch of which may be of two epochs
            if epoch.tobytes() != epoch[:1].tobytes() * len(epoch):
                return False
            epoch = int(epoch[0])
        long, first = self._long, int(batch.positions[0])
        if long is None or long.epoch != epoch or not 0 <= first - long.cursor <= long.size - batch.size:
            if int(batch.positions[-1]) - first != batch.size - 1:  # each shard of a shuffled reader has every n-th
                return False
            long = self._make(batch, np.arange(first, first + batch.size * self._batches), epoch)
            if long is None:
                return False
            self._long = long
        begin = first - long.cursor
        end = begin + batch.size
        if not batch.consecutive and batch.positions.tobytes() != long.positions[begin:end].tobytes():
            return False
        self._hand(batch, long, begin)
        return True

    def _hand(self, batch: BatchRun, long: BatchRun, begin: int) -> None:
        """Gives a batch its part, which begins with this sample of the long one."""
        end = begin + batch.size
        batch.ahead = {slot: values[begin:end] for slot, values in long.ahead.items()}
        if batch.size == self._size and not begin % batch.size:
            batch.ahead.update(
                (slot, values[begin // batch.size]) for slot, values in long.columns.get(self, {}).items()
            )
        for slot, values in batch.ahead.items():
            batch.values[slot] = values
            batch.layouts[slot] = long.layouts[slot]
        batch.done_ahead = long.done_ahead
        keys = {key: each[begin:end] for key, each in long.places[2].items()}
        batch.places = batch.positions, batch.epochs, keys
        batch.part_of = long, begin

    def forget(self) -> None:
        """Drops what was made for batches that are still to come, and restores the sources to the place before them."""
        self._long = None
        if self._later:
            self._restore(self._states)  # first: after an interrupt this is called again
            self._later.clear()

    def _restore(self, states: Mapping[str, Any]) -> None:
        for item in self._sources.in_turn:
            item.restore(states[item.step.name])

    def hand_over(self, batch: BatchRun) -> bool:
        """Gives a batch what was read for it; False if nothing was. After an interrupt the sources are restored (``forget``)."""
        if not self._later:
            return False
        one = self._later[0]
        batch.take_over(one)
        if batch.begun:
            batch.keep_reading()
        self._states = one.states
        batch.after = one.after
        assert one.after is not None
        self._course.at = one.after
        self._later.popleft()
        return True

    def read_on(self, batch: BatchRun) -> None:
        """Reads the batches that follow this one, and makes their parts. Only in threads of the executor: an interrupt does not
        break it off.
        """
        if batch.index < READ_FROM or batch.begun or batch.error is not None or not self._reads:
            return
        if not all(item.source.foreseen for item in self._sources.in_turn):
            return
        place, states = self._course.at, batch.states
        made: list[BatchRun] = []
        while len(made) + 1 < self._batches:
            one = BatchRun(batch.index, len(self._plan.slots), batch.keys_of, batch.slot_origins)
            self._sources.read(one)
            if one.error is not None or one.after is None:
                self._reads = False
                self._restore(states)
                break
            states = one.states
            made.append(one)
        if made and all(one.size for one in made) and self._failures < MOST_FAILURES:
            self._hand_parts(made)
        if self._stage is not None:
            self._stage.foresee(made)
        self._states, self._course.at = batch.states, place
        self._later.extend(made)

    def _hand_parts(self, batches: Sequence[BatchRun]) -> None:
        """Gives each of these batches its part. Their positions need not be neighbours, nor their epochs be the same."""
        epochs = np.empty(sum([one.size for one in batches]), np.int64)
        begin = 0
        for one in batches:
            epochs[begin : begin + one.size] = one.epochs
            begin += one.size
        long = self._make(batches[0], np.concatenate([one.positions for one in batches]), epochs)
        if long is None:
            return
        begin = 0
        for one in batches:
            self._hand(one, long, begin)
            one.foreseen, begin = True, begin + one.size

    def _make(self, batch: BatchRun, positions: np.ndarray, epochs: Any) -> BatchRun | None:
        long = BatchRun(batch.index, len(self._plan.slots), batch.keys_of, batch.slot_origins)
        long.epoch = epochs if isinstance(epochs, int) else batch.epoch
        long.epochs, long.iteration = epochs, batch.iteration
        long.size, long.cursor, long.positions = len(positions), int(positions[0]), positions
        long.keys_at(long.keys_of[0])  # of all random steps
        self._sources.fill_constants(long)
        try:
            for item in self._columns:
                item.run(long, self._pool)
                long.ahead.update((slot, long.values[slot]) for slot in item.step.outputs)
        except Exception:  # the batches run the step themselves, and report the error
            self._failures += 1
            return None
        done = set()
        for number, step in self.steps.items():
            assert self._early is not None
            try:
                self._early.run_one(number, long, self._pool)
            except Exception:  # perhaps its compiled code is not loaded yet
                break
            done.add(number)
            long.ahead.update((slot, long.values[slot]) for slot in step.step.outputs)
        long.done_ahead = frozenset(done)
        if self.whole and not long.size % self._size:
            long.columns[self] = {}
            for whole in self.whole:
                (slot,), (spec,), made = whole.step.outputs, whole.step.specs, whole.several(long, self._size)
                if made is not None:
                    long.columns[self][slot], long.layouts[slot] = made, spec.layout
        return long


def _is_random(plan: Plan) -> bool:
    """True if a step that is no source reads random numbers."""
    keyed = [step for step in plan.steps() if step.key is not None and step not in plan.stages[0].steps]
    return not all(traits_of(plan, step).keyless for step in keyed)
