"""Chains of steps that compiled code runs for several samples in one call, without the interpreter.

A step belongs to a chain if its operator declares its work as calls of compiled kernels (``@op.calls``,
declare/kernel_calls.py). For the first sample the declarations of all steps are recorded in a program (program.py), which
kernels/cpu/kernel_calls.py runs for it and for others. If no program describes a sample, or a kernel fails, the steps themselves
process the sample: they return the same results, and report errors.
"""

import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pipeflow import declare, seeds, timing
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import ByteArrays, FilesToRead, NoExample, NoTable, NotReady, Spec
from pipeflow.declare.bound import PLAIN_ERRORS
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.clocks import Clock
from pipeflow.executor.runners.base import fits_kernels
from pipeflow.executor.runners.early import EarlySteps
from pipeflow.executor.runners.function_step import FunctionStep
from pipeflow.executor.runners.late_code import LateCode, load_keys
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.program import Program
from pipeflow.executor.runners.program_guards import ChainGuards
from pipeflow.executor.runners.program_parts import InputNumbers, held_by
from pipeflow.executor.runners.program_shares import merge_copies, slots_lent
from pipeflow.executor.runners.results import ChainResults
from pipeflow.executor.runners.sample_step import ChunkRows, Placement, SampleStep
from pipeflow.kernels import cpu as kernels
from pipeflow.plan import Plan
from pipeflow.tensors import PlacedArrays

log = logging.getLogger("pipeflow.chains")
PROGRAMS = 8  # of a chain, for files of different kinds; samples of more kinds are computed one by one
FAILURES = 64  # the most samples for which a chain tries to make a program and cannot
UNTIL_SHORTER = 4  # after so many of those, the chain ends before the step that describes none of them
ENOUGH, MOST_READS = 64, 1.25  # samples, and the reads of a file for which a chain goes on to read them itself
FEW = 64  # numbers that an operator may give whose calls are ``small``
BATCHES = 16  # places of input batches whose numbers are kept
PAUSE = 16  # runs before kernels that were not ready are checked again
Kind = tuple[
    Any, ...
]  # types, numbers of axes and layouts of the inputs; the flags to open a file, if the chain reads it
NONE = np.empty(0, np.int64)
BYTES = np.dtype(np.uint8)


class ChainFiles(NamedTuple):
    """The files of a batch that a chain reads."""

    kind: Kind
    paths: InputNumbers  # the address of the path of each sample


class ChainTimes:
    """What one thread has spent in a chain."""

    __slots__ = ("_settled", "calls", "files", "skipped", "spent")

    def __init__(self, steps: int) -> None:
        self.spent = np.zeros(steps + 1, np.int64)  # nanoseconds in the calls of each step, and of reading files
        self.calls = self.files = 0  # samples, and those whose files were read
        self.skipped = [0] * (steps + 1)  # by step, samples for which its guard is false
        self._settled = self._sums()

    def _sums(self) -> np.ndarray:
        calls = [*[self.calls - skipped for skipped in self.skipped[:-1]], self.files]
        return np.array([*self.spent.tolist(), *calls])

    def settle(self, clocks: Sequence[Clock], busy: float) -> None:
        """Adds to the clocks what is new; ``busy`` is the part of the time in which the thread was on a processor."""
        now = self._sums()
        found = (now - self._settled).tolist()
        self._settled = now
        for clock, spent, count in zip(clocks, found, found[len(clocks) :]):
            if count:
                clock.add(spent / 1e9, busy * spent / 1e9, count)


def _loaded() -> bool:
    return "pipeflow.kernels.cpu.kernel_calls" in sys.modules and kernels.kernel_calls.loaded()


driver = LateCode(
    "pipeflow programs", _loaded, lambda: kernels.kernel_calls.load()
)  # the compiled code that runs programs


class Chain:
    """A maximal run of steps of a stage whose operators declare calls: ``steps[begin:end]`` of the stage."""

    def __init__(self, plan: Plan, steps: Sequence[SampleStep], early: EarlySteps, begin: int, end: int) -> None:
        self._whole = plan, steps, early
        self.begin, self.end = begin, end
        self._numbers = [number for number in range(begin, end) if number not in early.steps]
        self.steps: Sequence[SampleStep] = [steps[number] for number in self._numbers]
        self._reader = next((step for step in steps if step.fetched_from is not None), steps[0])
        self.early = early.steps.keys()  # the numbers of steps that are done for the whole batch before
        read = dict.fromkeys(slot for step in self.steps for slot in _data(step))
        storages = {slot: kind for step in self.steps for slot, kind in zip(step.step.outputs, step.storages)}
        outside = [slot for slot in read if slot not in storages]
        # Programs keep constants, unless they are all that the chain reads.
        varying = [slot for slot in outside if plan.slots[slot].storage != "constant"] or outside
        self.inputs = tuple(varying)
        self.constants = tuple(slot for slot in outside if slot not in varying)
        self.used = _used(plan, self.steps)
        self.lent = slots_lent(self.steps, self.used)
        self.later = any(
            number not in early.steps for number in range(end, len(steps))
        )  # True if other steps of the stage follow
        tables = [slot for slot, kind in storages.items() if kind == "table" and not self.later]
        self.results = ChainResults(tables)
        self.inside = {
            slot for step in steps[:begin] for slot in step.step.outputs if slot not in early.slots
        }  # filled by other steps of the stage, for one chunk
        self.reads = self._reads_files(steps)  # True if it can read the files itself
        # True if other outputs of that reader are read.
        self._keeps = self.reads and not {"dense", "table"}.isdisjoint(self._reader.storages[1:])
        self.shorter: Chain | None = None  # the chain that replaces this one if its last steps describe no sample
        self._outside = self.inside.isdisjoint(self.inputs)
        self._batches: dict[Any, tuple[Kind, InputNumbers]] = {}  # by type, shape, address and layout of each input
        self._programs: dict[Kind, list[Program]] = {}
        self._failed = 0
        self._read = self._samples = 0
        self._failed_at = [0] * len(self.steps)
        self._random = any(declare.find(step.op).draws for step in plan.steps())
        self._pause = 0
        self._lock = threading.Lock()
        self.counting = threading.Lock()  # for the clocks of the steps
        self.guards = ChainGuards(self.steps)
        self._guarded = [number for number, step in enumerate(self.steps) if step.step.guard]
        self._times: dict[int, ChainTimes] = {}  # by thread; a later thread with the same number continues them
        self._untimed = np.zeros(len(self.steps) + 1, np.int64)  # not read

    @classmethod
    def of(cls, plan: Plan, steps: Sequence[SampleStep], early: EarlySteps) -> "Chain | None":
        """The chain of a stage, after the steps that fetch samples; None if it has none."""
        begin = next(
            (number for number, step in enumerate(steps) if step.fetched_from is None and number not in early.steps),
            len(steps),
        )
        end, made = begin, set(early.slots)
        while end < len(steps) and (
            end in early.steps or (_able(steps[end]) and _decided(steps[end], made, early.slots))
        ):
            made.update(steps[end].step.outputs)
            end += 1
        return cls.ending(plan, steps, early, begin, end)

    @classmethod
    def ending(cls, plan: Plan, steps: Sequence[SampleStep], early: EarlySteps, begin: int, end: int) -> "Chain | None":
        """The chain of these steps, or of the first ones: it ends before a merge that would have to copy images, as its result
        is used after the chain. None if it computes nothing.
        """
        before = -1
        while end != before:
            numbers = [number for number in range(begin, end) if number not in early.steps]
            members = [steps[number] for number in numbers]
            used = _used(plan, members)
            lent = slots_lent(members, used)
            copies = (number for number, step in zip(numbers, members) if merge_copies(step, used, lent))
            before, end = end, next(copies, end)
        return cls(plan, steps, early, begin, end) if any(map(_computes, members)) else None

    @property
    def has_programs(self) -> bool:
        """True if it can run samples: its compiled code is loaded, and describes some."""
        return any(self._programs.values())

    def _reads_files(self, steps: Sequence[SampleStep]) -> bool:
        """True if the only step before the chain reads samples, and only the chain reads the first part of them."""
        before = [step for number, step in enumerate(steps[: self.begin]) if number not in self.early]
        reader = self._reader
        if before != [reader] or len(reader.inputs) != 1 or reader.step.copied or any(reader.shared + reader.sent):
            return False
        first, *others = reader.step.outputs
        read = [slot for step in steps for slot in step.step.reads()]
        return (
            self.inputs == (first,)
            and first not in self._whole[0].read_outside([step.step for step in self.steps])
            and not any(slot in read for slot in others)
        )

    def files(self, batch: BatchRun) -> ChainFiles | None:
        """The file of each sample, if the chain reads them. The other outputs of the reader are stored."""
        if not self.reads or self._pause or not driver.ready(batch):
            return None
        if self not in batch.columns:
            self._find_files([batch])
        return batch.columns[self]

    def foreseen(self, batch: BatchRun) -> bool:
        """True if the files of a batch were found before, and the other outputs of the reader are stored."""
        return self.reads and not self._pause and batch.columns.get(self) is not None

    def _find_files(self, batches: Sequence[BatchRun]) -> None:
        """Finds the files of each batch, and stores the other outputs of the reader; None if compiled code cannot read them."""
        found, step = self._found_files(batches), self._reader
        if found is None:
            for batch in batches:
                batch.columns[self] = None
            return
        paths, end = InputNumbers(found.paths[:, None], False), 0
        for batch in batches:
            begin, end = end, end + batch.size
            kept = not self._keeps or step.keep_columns(batch, [column[begin:end] for column in found.columns], 1)
            batch.columns[self] = ChainFiles((found.flags,), paths.following(begin)) if kept else None

    def _found_files(self, batches: Sequence[BatchRun]) -> FilesToRead | None:
        step = self._reader
        assert step.fetched_from is not None
        known = [batch.values[step.inputs[0][0]] for batch in batches]
        if not all(isinstance(indices, np.ndarray) for indices in known):
            return None
        indices = np.concatenate([indices.reshape(-1) for indices in known], dtype=np.int64)
        return step.fetched_from.files_to_read(indices)

    def foresee(self, batches: Sequence[BatchRun]) -> None:
        """Finds the files of batches that are not scheduled yet."""
        if batches and self.reads and not self._pause and driver.ready(batches[0]):
            self._find_files(batches)

    def run(
        self,
        batch: BatchRun,
        rows: ChunkRows,
        arena: Arena,
        pool: HeapPool,
        timed: bool,
        files: ChainFiles | None = None,
    ) -> np.ndarray:
        """Runs the chain for the samples of the rows; returns those that are done. With ``files`` it reads their files. If it is
        ``timed``, ``settle`` gives the clocks of the steps their times.
        """
        if (files is None and not driver.ready(batch)) or kernels.kernel_calls.clock() is None:
            return NONE  # before the kernels are loaded, or on a system without that clock
        if self._pause:
            self._pause -= 1
            return NONE
        if self._random and seeds.compiled is None:
            load_keys(batch)
        times = (self._times.get(threading.get_ident()) or self._times_of_thread()) if timed else None
        spent = self._untimed if times is None else times.spent
        done: list[np.ndarray] = []
        read = 0
        groups: Iterable[tuple[Kind, np.ndarray, InputNumbers]]
        if files is not None:
            groups = ((files.kind, rows.left, files.paths),)
        elif (whole := self._whole_batch(batch)) is not None:
            groups = ((whole[0], rows.left, whole[1]),)
        else:
            groups = self._kinds(batch, rows)
        for kind, samples, numbers in groups:
            known: Sequence[Program] = self._programs.get(kind, ())
            number = 0
            while len(samples) and number < PROGRAMS:
                try:
                    program = (
                        known[number] if number < len(known) else self._new(kind, number, batch, rows, int(samples[0]))
                    )
                except NotReady as error:
                    # `build` loads them only if it knows the types of the data.
                    kernels.later.ready(error.wanted)
                    self._pause = 0 if isinstance(error, NoExample) else PAUSE
                    break
                if program is None:
                    samples, numbers = samples[1:], numbers.chosen(slice(1, None))
                    continue
                read += len(samples)
                status = program.run(batch, samples, numbers, rows, arena, pool, spent)
                if status is None:
                    done.append(samples)
                    break
                done.append(samples[status == 0])
                left = status == kernels.kernel_calls.UNDESCRIBED
                samples, numbers = samples[left], numbers.chosen(left)
                number += 1
        ended = done[0] if len(done) == 1 else np.concatenate([NONE, *done])
        # Reads are counted from the first file on that is read again.
        if files is not None and (self._samples or read != len(ended)):
            # No lock is needed: a chunk that is not counted does no harm.
            self._read += read + len(rows.left) - len(ended)
            self._samples += len(rows.left)
            if self._samples >= ENOUGH:
                self._judge_reads()
        if times is not None:
            times.calls += len(rows.left)
            if files is not None:
                times.files += len(rows.left)
            for number in self._guarded:
                left_out = self.guards.flags(batch, self.steps[number].step.guard)[rows.left] == 0
                times.skipped[number] += int(np.count_nonzero(left_out))
        return ended

    def _times_of_thread(self) -> "ChainTimes":
        """The times of the calling thread."""
        made = self._times[threading.get_ident()] = ChainTimes(len(self.steps))
        return made

    def settle(self, busy: float) -> None:
        """Adds to the clocks of the steps what the threads have spent since the last call (``ChainTimes.settle``)."""
        clocks = [*[step.clock for step in self.steps], self._reader.clock]
        with self.counting:
            for times in tuple(self._times.values()):
                times.settle(clocks, busy)

    def _judge_reads(self) -> None:
        """If many files are read again, for other programs or for the steps, the reader reads them once."""
        self.reads = self.reads and self._read <= MOST_READS * self._samples
        self._read = self._samples = 0

    def _kinds(self, batch: BatchRun, rows: ChunkRows) -> Iterator[tuple[Kind, np.ndarray, InputNumbers]]:
        """The samples in groups of one kind, with the address and the extents of each input of each sample."""
        layouts = [batch.layouts[slot] for slot in self.inputs]
        columns = [self._column(batch, rows, slot) for slot in self.inputs]
        known = [column for column in columns if column is not None]
        if len(known) == len(columns):
            numbers = known[0][1] if len(known) == 1 else np.concatenate([numbers for _, numbers in known], axis=1)
            kind = (*[(dtype, numbers.shape[1] - 1) for dtype, numbers in known], *layouts)
            yield kind, rows.left, InputNumbers(numbers, True)
            return
        kinds: dict[Kind, tuple[list[int], list[list[int]]]] = {}
        for sample in rows.left.tolist():
            arrays = self._arrays(batch, rows, sample)
            if all(map(fits_kernels, arrays)):
                samples, addresses = kinds.setdefault(tuple([(x.dtype, x.ndim) for x in arrays]), ([], []))
                samples.append(sample)
                addresses.append([part for x in arrays for part in (kernels.kernel_calls.address_of(x), *x.shape)])
        for kind, (samples, addresses) in kinds.items():
            yield (*kind, *layouts), np.array(samples), InputNumbers(np.array(addresses, np.int64), True)

    def _whole_batch(self, batch: BatchRun) -> tuple[Kind, InputNumbers] | None:
        """The kind of the batch and the numbers of all samples, if each input is one array with the whole batch. They are kept:
        batches are in the same memory again and again, and NumPy would take 25 us.
        """
        if not self._outside:
            return None
        values, layouts = batch.values, batch.layouts
        found: list[Any] = []
        for slot in self.inputs:
            array = values[slot]
            if type(array) is not np.ndarray:
                return None
            found += (array.dtype, array.shape, array.strides, kernels.kernel_calls.address_of(array), layouts[slot])
        key = tuple(found)
        known = self._batches.get(key)
        if known is None:
            held = [values[slot] for slot in self.inputs]
            if not all(map(fits_kernels, held)):
                return None
            if len(self._batches) >= BATCHES:
                self._batches.clear()
            numbers = np.concatenate([_rows_of(array, np.arange(len(array))) for array in held], axis=1)
            kind = (*[(array.dtype, array.ndim - 1) for array in held], *[layouts[slot] for slot in self.inputs])
            known = self._batches[key] = kind, InputNumbers(numbers, False)
        return known

    def _column(self, batch: BatchRun, rows: ChunkRows, slot: int) -> tuple[np.dtype, np.ndarray] | None:
        """The type of an input, and address and extents of each sample; None if its arrays are of several kinds."""
        samples = rows.left
        if slot in self.inside:
            column = rows.columns.get(slot)
            if type(column) is not ByteArrays:
                return None
            chosen = slice(None) if samples is rows.samples else np.searchsorted(rows.samples, samples)
            numbers = np.empty((len(samples), 2), np.int64)
            numbers[:, 0], numbers[:, 1] = column.addresses[chosen], column.sizes[chosen]
            return BYTES, numbers
        held = batch.values[slot]
        if type(held) is PlacedArrays and held.columns is not None:
            return held.dtype, held.columns[samples]
        if type(held) is list:
            return _numbers_of([held[sample] for sample in samples.tolist()])
        if not fits_kernels(held):
            return None
        return held.dtype, _rows_of(held, samples)

    def _read_again(self, batch: BatchRun, sample: int) -> list[Any]:
        """The bytes of the file of a sample, for a program that reads files."""
        step = self._reader
        assert step.fetched_from is not None
        return [step.fetched_from.fetch(int(batch.values[step.inputs[0][0]][sample]))[0]]

    def _arrays(self, batch: BatchRun, rows: ChunkRows, sample: int) -> list[Any]:
        """The inputs of a sample."""
        return [rows[sample][slot] if slot in self.inside else held_by(batch, slot, sample) for slot in self.inputs]

    def fetch(
        self,
        step: SampleStep,
        batch: BatchRun,
        rows: ChunkRows,
        place: Callable[[], Placement],
        arena: Arena,
        pool: HeapPool,
        lap: Clock | None,
    ) -> Collection[int]:
        """Reads the samples of a step before the chain in one call, as far as its reader can; returns those that are left."""
        if not driver.ready(batch):
            return rows.left.tolist()
        started = timing.wall(), timing.processor()
        left = step.fetch_many(batch, rows, place, arena, pool)
        done = len(rows.left) - len(left)
        if lap is not None and done:
            lap.add(timing.wall() - started[0], timing.processor() - started[1], done)
        return left

    def _new(self, kind: Kind, number: int, batch: BatchRun, rows: ChunkRows, sample: int) -> Program | None:
        """The program with this number for samples of a kind, which is made for this sample unless another thread has made it."""
        with self._lock:
            programs = self._programs.setdefault(kind, [])
            if number < len(programs):
                return programs[number]
            if sum(map(len, self._programs.values())) >= PROGRAMS or self._failed >= FAILURES:
                return None
            flags = kind[0] if type(kind[0]) is int else None
            try:
                arrays = self._arrays(batch, rows, sample) if flags is None else self._read_again(batch, sample)
            except Exception:  # the reader itself reports the error
                return None
            program = Program(self, flags)
            try:
                program.record(batch, sample, arrays)
            except NotReady:
                raise
            except (NoTable, *PLAIN_ERRORS):  # the step itself reports the error
                log.debug("no program describes sample %d from step %d on", sample, program.step, exc_info=True)
                self._failed += 1
                self._failed_at[program.step] += 1
                if program.step and self._failed_at[program.step] == UNTIL_SHORTER and not any(self._programs.values()):
                    self.shorter = Chain.ending(*self._whole, self.begin, self._numbers[program.step])
                return None
            programs.append(program)
            return program


def _rows_of(batch: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Address and extents of samples of a batch that is one array."""
    numbers = np.empty((len(samples), batch.ndim), np.int64)
    numbers[:, 0] = samples * batch.strides[0] + kernels.kernel_calls.address_of(batch)
    numbers[:, 1:] = batch.shape[1:]
    return numbers


def _numbers_of(arrays: Sequence[Any]) -> tuple[np.dtype, np.ndarray] | None:
    """The type of arrays of one kind, and address and extents of each; None for others."""
    if not arrays or not fits_kernels(arrays[0]):
        return None
    first = arrays[0]
    dtype, ndim, address_of, found = first.dtype, first.ndim, kernels.kernel_calls.address_of, []
    for array in arrays:
        if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != ndim:
            return None
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            return None
        found.append((address_of(array), *array.shape))
    return dtype, np.array(found, np.int64)


def _able(step: SampleStep) -> bool:
    """True if the step can be a member of a chain."""
    op, plain = step.op, step.step
    if type(step) is MergeStep:
        return True
    return (
        type(step) in (SampleStep, FunctionStep)
        and op.calls_hook is not None
        and (op.calls_for is None or op.calls_for(op.known(step.constants)))
        and (not op.calls_small or all(map(_may_be_small, plain.specs)))
        and all(name in op.calls_varying for name, _, _ in step.arguments)
        and (not step.random or "key" in op.calls_varying)
        and bool(plain.inputs)
    )


def _may_be_small(spec: Spec) -> bool:
    """False for results that certainly have more than a few numbers, or a number of them that differs from sample to sample."""
    return spec.ndim is None or (None not in spec.shape and prod(spec.shape) <= FEW)


def _decided(step: SampleStep, made: set[int], early: set[int]) -> bool:
    """True if the conditions of a step are known before its stage, or are among the slots that are ``made``, and if its arguments
    are known before the stage or are ``early``.
    """
    if not all(slot in early for _, slot, within in step.arguments if within):
        return False
    inside = [slot for slot, _, within in step.guard if within]
    if type(step) is MergeStep and step.predicate[1]:
        inside.append(step.predicate[0])
    return made.issuperset(inside)


def _computes(step: SampleStep) -> bool:
    """False if the result would be a view of the input, which needs no copy."""
    op = step.op
    if "dense" in step.storages or step.step.copied:
        return op.makes_chains or op.calls_share
    return op.makes_chains and not op.returns_views


def _used(plan: Plan, steps: Sequence[SampleStep]) -> set[int]:
    """The slots of a chain that are used after it. A debug run reads a slot that no step reads."""
    read = {slot for step in steps for slot in _data(step)}
    kinds = [(slot, kind) for step in steps for slot, kind in zip(step.step.outputs, step.storages)]
    ends = {slot for slot, kind in kinds if kind != "arena" and slot not in read}
    return ends | plan.read_outside([step.step for step in steps])


def _data(step: SampleStep) -> Sequence[int]:
    """The slots whose samples a step reads; the predicate of a merge is a guard."""
    return step.step.inputs[:2] if type(step) is MergeStep else step.step.inputs
