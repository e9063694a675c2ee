"""Stages that run all their steps for one sample after another.

A stage with strands has functions that may wait for each other. Its strands are different tasks if the executor has a
thread for each of them, and else each task starts the threads that it needs.
"""

import threading
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipeflow import timing
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.errors import add_notes
from pipeflow.executor import chunks, runners
from pipeflow.executor.batch import BatchRun, bytes_of, value_at
from pipeflow.executor.clocks import STEP_CLOCK_MIN_SECONDS, Clock
from pipeflow.executor.runners import many
from pipeflow.executor.runners.base import StageRunner, StandIn
from pipeflow.executor.runners.early import EarlySteps
from pipeflow.executor.runners.function_step import FunctionStep
from pipeflow.executor.runners.late_code import late_code
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.sample_step import ChunkRows, Placement, SampleStep
from pipeflow.executor.surroundings import Surroundings
from pipeflow.executor.watch import RunningCall
from pipeflow.kernels import decisions
from pipeflow.plan import Plan, Step, takes_out

if TYPE_CHECKING:
    from pipeflow.executor.runners.chain import Chain
    from pipeflow.executor.runners.kept import KeptStep, Needed

NONE = frozenset[int]()
CACHED = (
    256 << 10
)  # bytes of a batch that a function finds in the cache of its processor, if another one has just made them
WAITS_SECONDS = 3e-5  # seconds for a sample: a function that waits for another thread takes longer


class _Placements:
    """The steps of a stage for some samples of a batch: each with the samples that it runs for, and its placement. They are made
    when they are first read, because a chain may need none of them.
    """

    def __init__(self, batch: BatchRun, steps: Sequence[SampleStep], arena: Arena, pool: HeapPool) -> None:
        self._of = batch, steps, arena, pool

    @cached_property
    def all(self) -> list[tuple[SampleStep, list[bool] | None, Placement]]:
        """All steps."""
        batch, steps, arena, pool = self._of
        return [(step, step.mask(batch), Placement(batch, step, arena, pool)) for step in steps]

    def place(self, number: int) -> Placement:
        """The placement of a step."""
        return self.all[number][2]


class SampleStage(StageRunner):
    """A chain of steps that runs from beginning to end for one sample after another."""

    per_sample = True

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        stage = plan.stages[number]
        inside = {slot for step in stage.steps for slot in step.outputs}
        readers = surroundings.readers
        self.steps: list[SampleStep] = [
            MergeStep(plan, step, inside)
            if step.role == "merge"
            else runners.kept.KeptStep(plan, step, inside)
            if step.role == "kept"
            else FunctionStep(plan, step, inside)
            if FunctionStep.fits(step)
            else SampleStep(plan, step, inside, readers[step.name] if step.fetch else None)
            for step in stage.steps
        ]
        counts = stage.strands or (len(self.steps),)
        ends = list(accumulate(counts))
        self.parts = [self.steps[end - count : end] for count, end in zip(counts, ends)]
        enough = not surroundings.settings.synchronous and surroundings.settings.threads >= len(self.parts)
        self.strands = len(self.parts) if enough else 1
        self._beside = surroundings.beside
        self.merges = [MergeStep(plan, step, set()) for step in stage.merges]
        self._needed: dict[SampleStep, Needed] = {}  # if samples are kept: by the first step of a part
        keeping = [cast("KeptStep", step) for step in self.steps if step.step.role == "kept"]
        for kept in keeping:
            kept.open(plan, surroundings.course.sources)
        for part in self.parts if any(kept.stores for kept in keeping) else ():
            self._needed[part[0]] = runners.kept.Needed(part, plan.read_outside([step.step for step in part]))
        automatic = any(step.constants.get("parallel") == "auto" for step in self.steps)
        self.alone_if_better = automatic and self.strands == 1
        self.blamed = stage.steps[0] if stage.steps else None
        read = {slot for step in stage.steps for slot in step.reads()}
        for step in self.steps:
            # Outputs that another step of the stage reads stay in the cache for it.
            step.streams = (
                step.op.staged and step.count == 1 and takes_out(step.step) and not read & {*step.step.outputs}
            )
        # A chain needs all samples of a chunk at once: not with strands, or with steps whose samples may be kept.
        able = any(step.op.makes_chains or step.op.calls_share for step in self.steps)
        whole = len(self.parts) == 1 and not keeping
        self._plan = plan
        self.early = EarlySteps(plan, self.steps if whole else ())
        self.chain = runners.chain.Chain.of(plan, self.steps, self.early) if able and whole else None
        self.together = many.together(self.steps, self.early.steps) if whole else []
        read_here = {slot for step in self.steps for slot in step.step.reads()}
        made = {slot for number in (*self.early.steps, *self.together) for slot in self.steps[number].step.outputs}
        self._handed = sorted(made & read_here)  # slots of these steps that other steps of the stage may read
        self._late = [
            late_code(step.op.name, step.op.body_loads) for step in self.steps if step.op.body_loads is not None
        ]
        first = self.steps[0] if len(self.steps) == 1 else None
        self._lone = first if isinstance(first, FunctionStep) and first.runs_many else None
        self.meets = any(step.meets for step in self.steps)
        # Functions that one thread calls for the whole batch, one after another: none of several may wait for a later one.
        functions = [step for step in self.steps if isinstance(step, FunctionStep) and step.runs_whole]
        free = whole and self.chain is None and not (self.meets and len(self.steps) > 1)
        self._as_serial = tuple(functions) if free and len(functions) == len(self.steps) else ()
        # One thread takes all samples at once, in less time for each: few numbers, or those of a function.
        self._at_once = bool(self._as_serial) or 0 < len(self.steps) == len(self.together) + len(self.early.steps)
        self._layouts = [
            (slot, spec.layout) for step in self.steps for slot, spec in zip(step.step.outputs, step.step.specs)
        ]
        # Values in the memory of a thread are gone at the end of the stage.
        held = [
            [slot for slot, kind in zip(step.step.outputs, step.storages) if kind != "arena"] for step in self.steps
        ]
        # Steps whose results are checked, with the slots that are; those of a merge always are.
        self._checked = [
            (step, [] if type(step) is MergeStep else slots)
            for step, slots in zip(self.steps, held)
            if type(step) is MergeStep or (step.may_differ and slots)
        ]
        self._numbers = np.empty(0, np.int64)  # those of the samples of a batch
        self._is_first = number == 1
        self.slots = len(plan.slots)
        self.pool = surroundings.pool
        self._tried = [function for step in self.steps if isinstance(step, FunctionStep) for function in step.tried]
        self.limited = any(step.constants.get("timeout") is not None for step in self.steps)
        self._places: dict[int, list[Placement]] = {}  # by thread, if a function has a time limit
        self._stand_in: StandIn | None = None
        self._measured = False  # True if each step has its own clock, however short it is
        self._seconds_per_sample = 0.0
        self._processors = surroundings.processors
        self._lock = threading.Lock()
        self._use(self.chain)
        self._failing: Any = threading.Lock() if stage.strands else nullcontext()

    def _use(self, chain: "Chain | None") -> None:
        """Uses a chain from the next batch on, or from the next chunk on."""
        if self.chain is not None:
            self.chain.settle(1.0)
        self.chain = chain
        tables: set[int] = set() if chain is None else {*chain.results.slots}
        self._stored = [  # the steps that need memory or lists for results
            step
            for step in self.steps
            if any(
                kind in ("dense", "table") and slot not in tables
                for slot, kind in zip(step.step.outputs, step.storages)
            )
        ]
        # There is no lower limit with a function that may wait for its call for another sample: the two must not be in the same
        # chunk.
        least, most = chunks.SAMPLES if chain is None else chunks.CHAIN
        self.chunk_seconds = (0.0 if self.meets else least), most
        # True if the chain has all the work, if it describes the samples.
        self._chained_only = chain is not None and not (chain.later or self.together or self.limited)
        if chain is not None:
            chain.counting = self._lock

    def borrows(self) -> Collection[int]:
        """What only the chain reads: compiled code writes its results to other memory."""
        chain = self.chain
        if chain is None or not self._chained_only:
            return ()
        return {*chain.inputs} - self._plan.read_outside([step.step for step in chain.steps])

    def takeovers(self) -> int:
        """Changes when the chain has its first program, and when a trial of compiled code is over."""
        return (self.chain is not None and self.chain.has_programs) + sum(map(decisions.decided, self._tried))

    def chunk(self, left: int, threads: int, batches: int) -> int:
        """The number of samples to claim at once."""
        if not self.steps or (threads == 1 and self._at_once):
            return left
        seconds = self._seconds_per_sample
        if not seconds:
            return 1
        if threads == 1 and left * seconds < self.chunk_seconds[1]:
            return left
        if len(self.parts) > 1 and threads > 1 and seconds > WAITS_SECONDS:
            return 1
        # More threads than processors wait for each other: that time is not work.
        seconds = seconds * min(1.0, self._processors / threads)
        return chunks.chunk_size(left, threads, seconds, self.chunk_seconds, batches)

    def reserve(self, batch_size: int, batches: int) -> None:
        """Allocates for the functions of the user in the chain."""
        for step in self.steps:
            step.reserve_hints(self.pool, batch_size, batches)

    def foresee(self, batches: Sequence[BatchRun]) -> None:
        """Finds the files that the chain reads."""
        if self.chain is not None:
            self.chain.foresee(batches)

    def enter(self, batch: BatchRun) -> None:
        """Prepares the slots of all steps."""
        for code in self._late:
            code.ready(batch)
        ahead, layouts = batch.done_ahead if self._is_first else frozenset(), batch.layouts
        for slot, layout in self._layouts:
            if not ahead or slot not in batch.ahead:
                layouts[slot] = layout
        done = NONE
        if self.early.steps:
            done = batch.columns[self] = self.early.run(batch, self.pool, ahead)
            if not self.early.steps.keys().isdisjoint(self.early.lost):
                self.early = self.early.fewer()
                if self.chain is not None:
                    self._use(runners.chain.Chain.of(self._plan, self.steps, self.early))
        for step in self._stored:
            if done and self.steps.index(step) in done:
                continue
            if step.fetched_from is not None and self.chain is not None and self.chain.foreseen(batch):
                continue
            try:
                step.enter(batch, self.pool)
            except MemoryError as error:
                add_notes(error, step.step.notes())
                raise
        if self.chain is not None and self.chain.results.slots:
            self.chain.results.enter(batch)

    def _done_early(self, batch: BatchRun) -> frozenset[int]:
        """The numbers of the steps of this stage that are done for the whole batch, perhaps together with other batches."""
        return batch.columns.get(self, NONE)

    def _chain_for(self, batch: BatchRun) -> "Chain | None":
        """The chain, if it can run for a batch: all early steps are done."""
        chain = self.chain
        return chain if chain is None or not chain.early or chain.early <= self._done_early(batch) else None

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Runs some samples, one after another."""
        if not self.steps or len(batch.columns.get(self, NONE)) == len(self.steps):  # as `_done_early`, without a call
            return False
        if len(self.parts) == 1:
            self._run(batch, begin, end, arena, self.steps)
        else:
            parts = [(arena if number == 0 else Arena(), part) for number, part in enumerate(self.parts)]
            self._beside([partial(self._run, batch, begin, end, own, part) for own, part in parts])
        return False

    def run_strand(self, batch: BatchRun, begin: int, end: int, arena: Arena, strand: int) -> None:
        """Runs one strand of some samples."""
        self._run(batch, begin, end, arena, self.parts[strand])

    def _run(self, batch: BatchRun, begin: int, end: int, arena: Arena, steps: Sequence[SampleStep]) -> None:
        started = timing.wall()
        alone = len(self.parts) == 1
        if self.chain is not None and self.chain.shorter is not None:
            self._use(self.chain.shorter)
        if end - begin != batch.size or not self._ran_as_serial(batch, arena):
            rows = self._run_only_chain(batch, begin, end, arena) if self._chained_only else None
            if rows is None or rows.chained is None or len(rows.chained) != end - begin:
                batch.copy_lent()
                self._run_parts(batch, begin, end, arena, steps, rows)
        taken = (timing.wall() - started) / (end - begin)
        known = self._seconds_per_sample
        slower = 0.8 * known + 0.2 * taken
        if not alone and taken > slower:
            slower = taken  # one waiting strand is enough
        self._seconds_per_sample = slower if known else taken

    def _ran_as_serial(self, batch: BatchRun, arena: Arena) -> bool:
        """Runs the functions for the whole batch, one after another, as serial ones; False if samples must come one by one.

        After a failure, functions that can be called again for the same samples are called sample by sample; of others, the
        results before the failure are lost. So there must be no rule that needs them.
        """
        steps = self._as_serial
        if not steps or self.limited or batch.absent or batch.failures:
            return False
        repeats = all(step.repeats for step in steps)
        if not (repeats or self._stand_in is None) or any(step.probe is not None for step in steps):
            return False
        apart = self._apart(steps) or (self._measured and len(steps) > 1)
        for number, step in enumerate(steps):
            begun, processor = timing.wall(), timing.processor() if apart else 0.0
            failed = step.run_whole(batch, self.pool)
            if failed is not None and repeats:
                for earlier in steps[:number]:  # their rows are made one by one
                    earlier.enter(batch, self.pool)
                return False
            if failed is not None:
                error, sample = failed
                batch.fail(error, step.step, sample)
                if sample >= 0:
                    self._run_after(batch, number, sample, arena)
                return True
            if apart:
                with self._lock:
                    step.clock.add(timing.wall() - begun, timing.processor() - processor, batch.size)
        if (
            len(steps) > 1
            and sum(bytes_of(batch.values[slot]) for step in steps[:-1] for slot in step.step.outputs) > CACHED
        ):
            self._as_serial, self._at_once = (), False
        return True

    def _run_after(self, batch: BatchRun, number: int, failed: int, arena: Arena) -> None:
        """Runs the functions from this one on for the samples after one that has failed in it."""
        members = _Placements(batch, self.steps, arena, self.pool).all[number:]
        for sample in range(failed + 1, batch.size):
            row: list[Any] = [None] * self.slots
            for slot in (slot for step in self.steps[:number] for slot in step.step.outputs):
                row[slot] = value_at(batch.values[slot], sample)
            self._run_steps(batch, sample, row, members, None)

    def _apart(self, steps: Sequence[SampleStep]) -> bool:
        """True if each step has its own clock."""
        return len(steps) > 1 and self._seconds_per_sample > STEP_CLOCK_MIN_SECONDS * len(steps)

    def _run_only_chain(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> ChunkRows | None:
        """Runs the chain of a stage that has no other work; ``chained`` of the rows are the samples that are done. None if the
        stage has other work, or a reader before the chain.

        Python code is slow after milliseconds of kernels, because it is out of the caches. So this path has little of it.
        """
        chain = self.chain
        if chain is not None and chain.early:
            chain = self._chain_for(batch)
        if chain is None or self._measured or batch.absent or batch.failures:
            return None
        files = chain.files(batch) if chain.reads else None
        if files is None and chain.begin:
            return None
        if len(self._numbers) < end:
            self._numbers = np.arange(end)
        whole = not begin and end == len(self._numbers)  # a call of NumPy is slow here
        rows = ChunkRows(self.slots, self._numbers if whole else self._numbers[begin:end])
        rows.chained = chain.run(batch, rows, arena, self.pool, self._apart(self.steps), files)
        rows.by_chain = files is not None
        return rows

    def _run_parts(
        self, batch: BatchRun, begin: int, end: int, arena: Arena, steps: Sequence[SampleStep], rows: ChunkRows | None
    ) -> None:
        """Runs the steps that compute all samples at once, the chain, and the others for one sample after another. ``rows`` are
        those of samples for which the chain has run.
        """
        row: list[Any] = [None] * self.slots
        alone = len(self.parts) == 1
        needed = self._needed.get(steps[0])
        laps = [Clock() for _ in steps] if self._apart(steps) or (self._measured and len(steps) > 1) else None
        probed = [(step.clock, step.probe) for step in steps if step.probe is not None]
        for clock, probe in probed:
            probe.begin(clock)
        members = _Placements(batch, steps, arena, self.pool)
        if self.limited:
            self._places[threading.get_ident()] = [place for _, _, place in members.all]
        samples = range(begin, end)
        done: set[int] = set()
        chain = self._chain_for(batch)
        if self.together or self._done_early(batch):
            rows = self._rows(batch, samples) if rows is None else rows
            done = self._run_together(batch, rows, laps)
        if len(done) == len(steps):
            samples = range(0)
        elif chain is not None:
            rows = self._rows(batch, samples) if rows is None else rows
            self._run_chained(chain, batch, rows, arena, members, laps, done)
            samples = range(0)
        elif self._lone is not None and laps is None and not (self.limited or batch.absent or batch.failures):
            place = members.place(0)
            self._lone.run_many(batch, samples, place, partial(self._stop, batch, [None] * self.slots, place))
            samples = range(0)
        left: Sequence[Any] = members.all if samples else ()
        clocks_left = laps
        handed: list[tuple[int, Any]] = []
        if done and rows is not None and samples:
            left, clocks_left = _without(done, left), laps and _without(done, laps)
            samples = rows.samples.tolist()
            handed = [(slot, rows.columns[slot]) for slot in self._handed if slot in rows.columns]
        for number, sample in enumerate(samples):
            if sample in batch.absent or (alone and sample in batch.failures):
                continue  # each strand runs even if another one fails, so that the result is always the same
            if done and rows is not None:
                row = rows.pop(sample, row)  # a row of its own, if a step was computed only for some samples
                for slot, column in handed:
                    row[slot] = column[number, ...] if type(column) is np.ndarray else column[number]
            chosen: Sequence[Any] = left
            clocks = clocks_left
            if needed is not None:
                numbers = needed.numbers(batch, sample, row, chosen)
                chosen = [chosen[number] for number in numbers]
                clocks = laps and [laps[number] for number in numbers]
            self._run_steps(batch, sample, row, chosen, clocks)
        if laps is not None or probed:
            with self._lock:
                for step, lap in zip(steps, laps or ()):
                    step.clock.add(lap.seconds, lap.busy, lap.calls)
                for clock, probe in probed:
                    probe.end(clock)

    def _run_chained(
        self,
        chain: "Chain",
        batch: BatchRun,
        rows: ChunkRows,
        arena: Arena,
        members: "_Placements",
        laps: Sequence[Clock] | None,
        ended: Collection[int],
    ) -> None:
        """The samples of a chunk: the steps before the chain for all, then the chain, then the rest sample by sample.

        ``ended`` has the numbers of steps that are done.
        """

        def part(sample: int, begin: int, end: int) -> None:
            chosen, clocks = members.all[begin:end], laps and laps[begin:end]
            if ended:
                numbers = {number - begin for number in ended}
                chosen, clocks = _without(numbers, chosen), clocks and _without(numbers, clocks)
            self._run_steps(batch, sample, rows[sample], chosen, clocks)

        files = None if rows.chained is not None else chain.files(batch)
        begin = 0 if files is not None or rows.by_chain else chain.begin  # of the steps that the chain runs
        for number, step in enumerate(self.steps[:begin]):
            if number in ended:
                continue
            place = partial(members.place, number)
            missing = chain.fetch(step, batch, rows, place, arena, self.pool, laps[number] if laps else None)
            for sample in missing:
                part(sample, number, number + 1)
            if missing:
                rows.left = np.array(
                    [sample for sample in rows.left.tolist() if sample not in batch.failures], np.int64
                )
        done = rows.chained
        if done is None:
            done = chain.run(batch, rows, arena, self.pool, laps is not None, files)
        if len(done) == len(rows.left) and not chain.later:
            return
        ready = set(done.tolist())
        for sample in rows.left.tolist():
            part(sample, chain.end if sample in ready else begin, len(self.steps))

    def _rows(self, batch: BatchRun, samples: Sequence[int]) -> ChunkRows:
        """The rows of the samples of a chunk that have not failed."""
        if batch.absent or batch.failures:
            lost = batch.absent | batch.failures.keys()
            samples = [sample for sample in samples if sample not in lost]
        return ChunkRows(self.slots, np.array(samples, np.int64))

    def _run_together(self, batch: BatchRun, rows: ChunkRows, laps: Sequence[Clock] | None) -> set[int]:
        """Runs steps that compute all samples of a chunk in one call; returns the numbers of those that are done."""
        done: set[int] = set()
        missing: set[int] = set()  # slots of steps that must run for one sample after another
        early = self._done_early(batch)
        if early and len(rows.samples):
            first, count = int(rows.samples[0]), len(rows.samples)
            dense = int(rows.samples[-1]) - first + 1 == count
            for slot in (slot for number in early for slot in self.steps[number].step.outputs):
                values = batch.values[slot]
                if dense:
                    rows.columns[slot] = values if count == batch.size else values[first : first + count]
                else:
                    rows.columns[slot] = values[rows.samples]
            done.update(early)
        for number in self.together if len(rows.samples) else ():
            step, begun, processor = self.steps[number], timing.wall(), timing.processor()
            if not missing.isdisjoint(step.step.reads()) or not many.run(step, batch, rows, self.pool):
                missing.update(step.step.outputs)
            else:
                done.add(number)
                if laps is not None:
                    laps[number].add(timing.wall() - begun, timing.processor() - processor, len(rows.samples))
        return done

    def _run_steps(
        self, batch: BatchRun, sample: int, row: list[Any], members: Sequence[Any], laps: Sequence[Clock] | None
    ) -> None:
        """One sample through some steps."""
        if laps is not None:
            self._run_measured(batch, sample, row, members, laps)
            return
        for step, mask, place in members:
            if mask is not None and not mask[sample]:
                continue
            try:
                step.run(batch, sample, row, place)
            except Exception as error:
                if not self._stood_in(error, batch, step, sample, row, place):
                    break

    def _run_measured(
        self, batch: BatchRun, sample: int, row: list[Any], members: Sequence[Any], clocks: Sequence[Clock]
    ) -> None:
        """One sample, with both clocks read between the steps."""
        begun, processor = timing.wall(), timing.processor()
        for (step, mask, place), clock in zip(members, clocks):
            if mask is not None and not mask[sample]:
                continue
            over = False
            try:
                step.run(batch, sample, row, place)
            except Exception as error:
                over = not self._stood_in(error, batch, step, sample, row, place)
            ended, left = timing.wall(), timing.processor()
            clock.add(ended - begun, left - processor)
            begun, processor = ended, left
            if over:
                break

    def _stop(self, batch: BatchRun, row: list[Any], place: Placement, error: Exception, sample: int) -> None:
        """Keeps the failure of the only step for one sample."""
        self._stood_in(error, batch, self.steps[0], sample, row, place)

    def _stood_in(
        self, error: Exception, batch: BatchRun, step: SampleStep, sample: int, row: list[Any], place: Placement
    ) -> bool:
        """Keeps a failure, or the values that its rule gives in place of the results: then True."""
        with self._failing:
            earlier = batch.failures.pop(sample, None)  # of another strand
            batch.fail(error, step.step, sample)
            values = None if self._stand_in is None else self._stand_in(batch, step.step, sample)
            if earlier is not None and (values is not None or self._place_of(earlier[1]) < self._place_of(step.step)):
                batch.failures[sample] = earlier
        if values is None:
            return False
        try:
            step.keep(batch, sample, row, place, values)
        except Exception as inner:
            batch.fail(inner, step.step)
            return False
        return True

    def _place_of(self, step: Step) -> int:
        return next(place for place, item in enumerate(self.steps) if item.step is step)

    def sample_of(self, batch: BatchRun, call: RunningCall) -> int:
        """The sample that a call of a function is for."""
        del batch
        places = self._places[call.thread]
        return next(place.sample for place in places if place.step.calls(call.function))

    def remake(self, batch: BatchRun, rows: set[int]) -> set[int]:
        """Runs the stage again for these rows."""
        arena = Arena()
        batch.done_ahead = NONE
        batch.columns.pop(self, None)
        for step in self.steps:
            step.clear(batch, rows, self.pool)
        for row in sorted(rows):
            self.run(batch, row, row + 1, arena)
        return rows

    def contain(self, stand_in: StandIn, keeps_rows: bool) -> None:
        """Does nothing: in this stage a row always fails alone."""
        del keeps_rows
        self._stand_in = stand_in

    def settle(self, stage: Clock) -> None:
        """The clocks get the times of the chain."""
        if self.chain is not None:
            self.chain.settle(stage.busy / stage.seconds if stage.seconds else 1.0)

    def measure(self, on: bool) -> None:
        """True if each of several steps has its own clock, also if its samples take little time."""
        self._measured = on

    def finish(self, batch: BatchRun) -> None:
        """Checks the results at the end of the stage."""
        if self.chain is not None and self.chain.results.slots:
            self.chain.results.finish(batch)  # before the checks, which arrays need not have
        for step, slots in self._checked:
            for slot in slots:
                if type(batch.values[slot]) is not np.ndarray or batch.layouts[slot]:
                    break
            else:
                if slots:  # arrays, whose samples have one type and one number of axes
                    continue
            step.finish(batch)
        for merge in self.merges:
            merge.run_whole(batch)


def _without(numbers: Collection[int], items: Sequence[Any]) -> list[Any]:
    """The items without those that have these numbers."""
    return [item for number, item in enumerate(items) if number not in numbers]
