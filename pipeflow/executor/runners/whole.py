"""Steps that process the whole batch: batch operators, and functions that are called for one sample after another."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow import declare, timing
from pipeflow.backends.cpu import Arena
from pipeflow.declare import Args, BatchCall, MakeOfColumns
from pipeflow.declare.bound import PLAIN_ERRORS
from pipeflow.executor.batch import BatchRun, check_outputs, put, value_at
from pipeflow.executor.clocks import KEPT_TASKS, SampleLaps
from pipeflow.executor.keeper import Keeper
from pipeflow.executor.runners.base import BoundStep, StageRunner, StandIn
from pipeflow.executor.surroundings import Surroundings
from pipeflow.executor.watch import RunningCall
from pipeflow.plan import Plan
from pipeflow.tensors import PlacedArrays, lent


class WholeStep(BoundStep, StageRunner):
    """Runs once for the whole batch; row by row if rows may fail alone and the result is the same."""

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        (step,) = plan.stages[number].steps
        BoundStep.__init__(self, plan, step)
        self.blamed = step
        self.pool = surroundings.pool
        self.contained = False
        self.remade = False  # True if rows may run again while another batch is in this stage
        # The arguments, if the work can be done for a batch whose samples are columns of addresses and extents.
        alone = self.op.columns_hook is not None and len(step.inputs) == self.count == 1
        plain = alone and not (step.arguments or step.guard or self.shared[0] or self.sent[0])
        self._by_columns = Args(**{**self.op.defaults, **self.constants}) if plain else None
        self._makers: dict[tuple[np.dtype, int, str], MakeOfColumns | None] = {}
        # True if the results of several batches may be made at once (executor/ahead.py)
        self.makes_several = self.op.batches_hook is not None and not (
            step.reads() or step.guard or any(self.sent + self.shared)
        )
        self._lock = threading.RLock()  # a row made again must not run with another batch in a serial function
        # an object of the user; its state is restored before a batch is made again
        self._rewound: Keeper | None = None
        if surroundings.course.checkpointing:
            self.keeper = Keeper.of(step.name, self.constants)

    @property
    def steps(self) -> "Sequence[BoundStep]":  # type: ignore[override]
        """The one step."""
        return (self,)

    def measure(self, on: bool) -> None:
        """Measures each call of a function that is called for one sample after another."""
        apart = on and self.step.user_code and self.by_rows
        self.clock.tasks = deque(maxlen=KEPT_TASKS) if apart else None

    def reserve(self, batch_size: int, batches: int) -> None:
        """Allocates for a function of the user."""
        self.reserve_hints(self.pool, batch_size, batches)

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Runs the step for the whole batch."""
        del begin, end, arena
        if self.makes_several and (made := batch.ahead.get(self.step.outputs[0])) is not None:
            batch.values[self.step.outputs[0]] = made
            return False
        probe = self.probe
        if probe is None and not self.remade and self._by_columns is not None:
            if not self._made_of_columns(batch):
                self._run_body(batch)
            return False
        if probe is None:
            self._run_all(batch)
            return False
        probe.begin(self.clock)
        begun, processor = timing.wall(), timing.processor()
        self._run_all(batch)
        self.clock.add(timing.wall() - begun, timing.processor() - processor)
        probe.end(self.clock)
        return False

    def several(self, long: BatchRun, size: int) -> np.ndarray | None:
        """The results of the batches of this size that make a long one: a row for each, None if each makes its own."""
        assert self.op.batches_hook is not None
        return self.op.batches_hook(
            self.batch_keys(long).reshape(-1, size), Args(**{**self.op.defaults, **self.constants})
        )

    def _run_all(self, batch: BatchRun) -> None:
        if not self.remade:
            self._run(batch)
            if self.keeper is not None:
                self._note_state(batch)
            return
        with self._lock:
            if self._rewound is not None:
                batch.before = {**batch.before, self._rewound.name: self._rewound.snapshot()}
            self._run_contained(batch)
            self._note_state(batch)

    def _note_state(self, batch: BatchRun) -> None:
        if self.keeper is not None:
            batch.states[self.keeper.name] = self.keeper.snapshot()

    def _run_contained(self, batch: BatchRun) -> None:
        with self._lock:
            if self.contained and self.by_rows:
                self._run_rows(batch)
            else:
                self._run(batch)
            if self.contained and batch.error is not None:
                samples = batch.active(self.step.guard)
                for sample in range(batch.size) if samples is None else samples:
                    batch.failures[sample] = (batch.error, self.step)
                batch.error = None

    def remake(self, batch: BatchRun, rows: set[int]) -> set[int]:
        """Runs these rows again if each runs alone, else all rows; then other rows may have changed too."""
        if not self.by_rows or self._rewound is not None:
            before = [batch.values[slot] for slot in self.step.outputs]
            self._run_again(batch)
            after = [batch.values[slot] for slot in self.step.outputs]
            others = set(range(batch.size)) - rows
            return rows | {row for row in others if not all(_same(*pair, row) for pair in zip(before, after))}
        for row in sorted(rows):
            for slot in self.step.outputs:
                put(batch, slot, row, None)
            try:
                if batch.holds(self.step.guard, row):
                    for slot, value in zip(self.step.outputs, self.run_row(batch, row)):
                        put(batch, slot, row, value)
            except Exception as error:
                batch.fail(error, self.step, row)
        return rows

    def _run_again(self, batch: BatchRun) -> None:
        """Runs the whole batch once more.

        An object of the user starts from its state before the batch, and afterwards gets the state that it has now:
        later batches may have been made with it.
        """
        if self._rewound is None:
            self._run_contained(batch)
            return
        with self._lock:
            now = self._rewound.snapshot()
            self._rewound.restore(batch.before)
            try:
                self._run_contained(batch)
            finally:
                self._rewound.restore({self._rewound.name: now})

    def run_row(self, batch: BatchRun, sample: int) -> list[np.ndarray]:
        """The results for one row."""
        with self._lock:
            return self._row(batch, sample)

    def contain(self, stand_in: StandIn, keeps_rows: bool) -> None:
        """With ``keeps_rows`` the failure of a row belongs to that row only."""
        del stand_in  # values for failed rows are stored at the end of the stage
        self.contained = keeps_rows
        self.remade = True
        self._rewound = Keeper.of(self.step.name, self.constants)

    def finish(self, batch: BatchRun) -> None:
        """Checks the results."""
        if self.step.user_code:
            check_outputs(batch, self.step)

    def sample_of(self, batch: BatchRun, call: RunningCall) -> int:
        """The sample that a call of its function is for, -1 for a whole batch."""
        if not self.by_rows:
            return -1
        samples = batch.active(self.step.guard)
        return call.number if samples is None else samples[call.number]

    def let_go(self) -> None:
        """Continues without a thread that does not return."""
        self._lock = threading.RLock()

    def _row(self, batch: BatchRun, sample: int) -> list[np.ndarray]:
        step = self.step
        inputs = [self._input(batch.values[slot], [sample]) for slot in step.inputs]
        if step.user_code:
            inputs = [_with_right(values, right, self.converts) for values, right in zip(inputs, step.writable)]
        nodes = {name: self._input(batch.values[slot], [sample]) for name, slot in step.arguments}
        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        sources = [self.sources(batch)[sample]]
        call = BatchCall(
            1, lambda: self.batch_keys(batch)[sample : sample + 1], layouts, self.pool.take, step.hint, sources
        )
        outputs = declare.run_whole(self.op, self.constants, nodes, inputs, call, self.count)
        if any(batch.layouts[slot] is None for slot in step.outputs):
            self._find_layouts(batch, inputs)
        return [values[0, ...] if isinstance(values, np.ndarray) else values[0] for values in outputs]

    def _run_rows(self, batch: BatchRun) -> None:
        step = self.step
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout
            batch.values[slot] = [None] * batch.size
        samples = batch.active(step.guard)
        for sample in range(batch.size) if samples is None else samples:
            try:
                results = self._row(batch, sample)
            except Exception as error:
                batch.fail(error, step, sample)
                continue
            for slot, result in zip(step.outputs, results):
                batch.values[slot][sample] = result

    def _made_of_columns(self, batch: BatchRun) -> bool:
        """Makes the result of a batch from columns of addresses and extents, with few steps of Python; False if the body has to.
        An error is left to the body too.
        """
        (source,), (target,), (spec,) = self.step.inputs, self.step.outputs, self.step.specs
        values, layout = batch.values[source], batch.layouts[source]
        if type(values) is not PlacedArrays or batch.absent or spec.layout is None:
            return False
        if values.columns is None or not len(values):
            return False
        form = values.dtype, values.ndim, layout or ""
        try:
            if form not in self._makers:
                self._makers[form] = self._maker(*form)
            make = self._makers[form]
            made = None if make is None else make(values, self.pool.take)
        except PLAIN_ERRORS:
            return False
        if made is None:
            return False
        batch.values[target], batch.layouts[target] = made, spec.layout
        return True

    def _maker(self, dtype: np.dtype, axes: int, layout: str) -> MakeOfColumns | None:
        """What makes the results of such samples; None if the body does."""
        if dtype not in self.op.dtypes:
            return None
        assert self.op.columns_hook is not None
        assert self._by_columns is not None
        return self.op.columns_hook(self._by_columns, dtype, axes, layout)

    def _run(self, batch: BatchRun) -> None:
        if self._by_columns is None or not self._made_of_columns(batch):
            self._run_body(batch)

    def _run_body(self, batch: BatchRun) -> None:
        step = self.step
        for slot, spec in zip(step.outputs, step.specs):
            batch.layouts[slot] = spec.layout
        active = batch.active(step.guard)
        size = batch.size if active is None else len(active)
        if size == 0:
            for slot in step.outputs:
                batch.values[slot] = [None] * batch.size
            return
        inputs = [self._input(batch.values[slot], active) for slot in step.inputs]
        if step.user_code:
            inputs = [_with_right(values, right, self.converts) for values, right in zip(inputs, step.writable)]
        nodes = {name: self._input(batch.values[slot], active) for name, slot in step.arguments}

        def keys() -> np.ndarray:
            drawn = self.batch_keys(batch)
            return drawn if active is None else drawn[active]

        layouts = [batch.layouts[slot] or "" for slot in step.inputs]
        kinds = {*zip(self.shared, self.sent)}
        memory = self.memory(batch, self.pool, 0) if len(kinds) == 1 else self.pool
        call = BatchCall(size, keys, layouts, memory.take, step.hint, self.sources(batch))
        laps = SampleLaps() if self.clock.tasks is not None else None
        call.timed = laps
        try:
            outputs = declare.run_whole(self.op, self.constants, nodes, inputs, call, self.count)
        except Exception as error:
            if call.current >= 0:
                batch.fail(error, step, call.current if active is None else active[call.current])
            else:
                batch.fail(error, step)
            return
        if laps is not None and self.clock.tasks is not None:
            self.clock.tasks.extend((batch.index, *row) for row in laps.merged())
            self.moved = sum(map(_bytes_of, (*inputs, *outputs)))
        for slot, values in zip(step.outputs, outputs):
            if active is not None:
                scattered: list[Any] = [None] * batch.size
                for index, value in zip(active, values):
                    scattered[index] = np.asarray(value)
                values = scattered
            batch.values[slot] = values
            if batch.layouts[slot] is None:
                self._find_layouts(batch, inputs)
        for output, values in enumerate(outputs[: len(step.hint)]):
            self.largest[output] = max(self.largest[output], _largest(values))

    def _find_layouts(self, batch: BatchRun, inputs: Sequence[Any]) -> None:
        specs = []
        for values, slot in zip(inputs, self.step.inputs):
            if isinstance(values, np.ndarray):
                first = values[0, ...] if len(values) else None
            else:
                first = next((value for value in values if value is not None), None)
            if first is not None:
                specs.append(declare.Spec(np.shape(first), first.dtype, batch.layouts[slot]))
        found = self.op.specs(
            specs, {**self.constants, **dict.fromkeys(dict(self.step.arguments), declare.UNKNOWN)}, self.count
        )
        for slot, spec in zip(self.step.outputs, found):
            batch.layouts[slot] = spec.layout or ""

    def _input(self, values: Any, active: list[int] | None) -> Any:
        if active is None:
            return values
        return [value_at(values, index) for index in active]


def _same(before: Any, after: Any, row: int) -> bool:
    """True if a row of a slot has not changed."""
    if before is None or after is None:
        return before is after
    one, other = value_at(before, row), value_at(after, row)
    if one is None or other is None or one is other:
        return one is other
    return one.dtype == other.dtype and not one.dtype.hasobject and np.array_equal(one, other)


def _bytes_of(values: Any) -> int:
    """The bytes of all samples."""
    return values.nbytes if isinstance(values, np.ndarray) else sum(np.asarray(sample).nbytes for sample in values)


def _largest(values: Any) -> int:
    """The bytes of the largest sample."""
    if isinstance(values, np.ndarray):
        return values.nbytes // max(len(values), 1)
    return max((sample.nbytes for sample in values), default=0)


def _with_right(values: Any, writable: bool, converts: bool) -> Any:
    """The samples with the rights of user code: writable or read-only."""
    if isinstance(values, np.ndarray):
        return values if writable and values.flags.writeable else lent(values, converts)
    return [x if writable and x.flags.writeable else lent(x, converts) for x in values]
