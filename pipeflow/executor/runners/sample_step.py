"""One step of a stage that runs sample by sample."""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import Bound, Source
from pipeflow.errors import widened
from pipeflow.executor.batch import BatchRun, check_outputs, place_of, put
from pipeflow.executor.runners.base import BoundStep
from pipeflow.executor.runners.late_code import LateCode
from pipeflow.kernels import cpu as kernels
from pipeflow.plan import Plan, Step, has_kernels
from pipeflow.tensors import lent

LARGE_BATCH = 4 << 20  # outputs of so many bytes, with those of the batches in flight, do not fit into the caches
LARGE_SAMPLE = 16 << 10


def is_large(shape: tuple[int, ...], dtype: np.dtype, samples: int) -> bool:
    """True if a batch of such samples is written without the caches."""
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    return nbytes >= LARGE_SAMPLE and nbytes * samples >= LARGE_BATCH and not dtype.hasobject


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    np.copyto(target, source)


def _copy_past_caches(source: np.ndarray, target: np.ndarray) -> None:
    kernels.everyday.copy(source, target)


def copied(source: np.ndarray, target: np.ndarray, past: bool) -> None:
    """Copies an array, past the caches if this is wanted."""
    (_copy_past_caches if past else _copy)(source, target)


def _loaded() -> bool:
    return "pipeflow.kernels.cpu.streaming" in sys.modules and kernels.streaming.loaded()


# for steps without compiled kernels: those of a step with them are loaded with the kernels
past_caches = LateCode("pipeflow copies", _loaded, lambda: kernels.streaming.load())


class SampleSource:
    """The source of a sample, looked up when it is read: ``str(source)`` for messages, ``source.name`` for the user's data."""

    __slots__ = ("known", "sample")

    def __init__(self, known: Any, sample: int) -> None:
        self.known = known
        self.sample = sample

    def __str__(self) -> str:
        return place_of(self.known, self.sample)

    @property
    def name(self) -> str:
        """Its text in `source_info()`."""
        return str(self.known[self.sample])


class SampleStep(BoundStep):
    """Run for one sample after another, as a member of a stage."""

    def __init__(self, plan: Plan, step: Step, inside: set[int], reader: Source | None) -> None:
        super().__init__(plan, step)
        self.inputs = tuple((slot, slot in inside) for slot in step.inputs)
        self.arguments = tuple((name, slot, slot in inside) for name, slot in step.arguments)
        # A guard on slots of earlier stages is evaluated once for the batch, other guards sample by sample.
        self.late_guard = any(slot in inside for slot, _ in step.guard)
        self.guard = tuple((slot, on, slot in inside) for slot, on in step.guard) if self.late_guard else ()
        self.fetched_from = reader  # the reader, for a step that reads samples
        self.random = self.op.random and reader is None
        self.wants_source = "source" in self.op.wants
        # The files of a reader may differ in type, and then so do the results of the operators after it.
        self.may_differ = step.user_code or any(spec.dtype is None for spec in step.specs)
        self.key_slot = step.outputs[0] if step.outputs else -1
        self.compiled = reader is None and has_kernels(step)
        self.streams = False  # True if its results may be written without the caches
        self.kernel = None if reader is not None else Bound(self.op, self.constants, self.count, step.specs)

    def kind_of(self, name: str) -> Any:
        """The declared type of an argument."""
        return self.op.arguments[name].type

    def mask(self, batch: BatchRun) -> list[bool] | None:
        """The samples to run for, if they are known before the stage begins; None for all."""
        return batch.mask(self.step.guard) if self.step.guard and not self.late_guard else None

    def enter(self, batch: BatchRun, pool: HeapPool) -> None:
        """Prepares the slots that this step fills."""
        for output, (slot, storage, spec) in enumerate(zip(self.step.outputs, self.storages, self.step.specs)):
            if storage == "dense":
                memory = self.memory(batch, pool, output)
                batch.values[slot] = memory.empty((batch.size, *spec.shape), spec.dtype)
            elif storage == "table":
                batch.values[slot] = [None] * batch.size
            batch.layouts[slot] = spec.layout

    def run(self, batch: BatchRun, sample: int, row: list[Any], place: "Placement") -> None:
        """Runs one sample; ``row`` has its results in this stage so far."""
        values = batch.values
        for slot, polarity, inside in self.guard:
            flag = row[slot] if inside else values[slot][sample]
            if bool(flag) is not polarity:  # values of an earlier sample in the row are never read
                return
        inputs = []
        for slot, inside in self.inputs:
            if inside:
                inputs.append(row[slot])
            else:
                held = values[slot]
                inputs.append(held[sample] if type(held) is list else held[sample, ...])
        place.sample = sample
        place.given = None
        if self.fetched_from is not None:
            try:
                outputs = self.fetched_from.fetch(int(inputs[0]))
            except Exception as error:
                raise widened(error) from error.__cause__
            if self.count == 1 and not isinstance(outputs, tuple):
                outputs = (outputs,)
        else:
            if self.step.user_code:
                inputs = [
                    x if writable and x.flags.writeable else lent(x, self.converts)
                    for x, writable in zip(inputs, self.step.writable)
                ]
            per_sample = {}
            for name, column, slot, inside in place.arguments:
                if column is not None:
                    per_sample[name] = column[sample]
                elif inside:
                    per_sample[name] = row[slot]
                else:
                    held = values[slot]
                    per_sample[name] = held[sample] if type(held) is list else held[sample, ...]
            layouts = place.layouts or place.find_layouts()
            assert self.kernel is not None
            if (self.op.sequences or self.op.by_frame) and self.arguments:
                framed = [name for name, slot, _ in self.arguments if (batch.layouts[slot] or "")[:1] == "F"]
                self.kernel.per_frame = frozenset(framed)
            key = self.keys(batch)[sample] if self.random else None
            source = SampleSource(self.sources(batch), sample) if self.wants_source else ""
            outputs = self.kernel(inputs, layouts, per_sample, key, place, source)
            if self.count and batch.layouts[self.step.outputs[0]] is None:
                found = self.kernel.output_layouts(inputs, layouts, per_sample)
                for slot, layout in zip(self.step.outputs, found):
                    batch.layouts[slot] = layout or ""
        self.keep(batch, sample, row, place, outputs)

    def keys(self, batch: BatchRun) -> list[int]:
        """The keys of all samples of a batch. Two threads may compute them at the same time, which does no harm."""
        known = batch.keys.get(self.key_slot)
        if known is None:
            known = batch.keys[self.key_slot] = self.batch_keys(batch).tolist()
        return known

    def fetch_many(
        self, batch: BatchRun, rows: "ChunkRows", place: Callable[[], "Placement"], arena: Arena, pool: HeapPool
    ) -> Collection[int]:
        """Reads the samples of the rows in one call of the reader; returns those that are left."""
        assert self.fetched_from is not None
        ((slot, _),) = self.inputs
        held, samples = batch.values[slot], rows.left
        memory = pool.for_device if self.sent[0] else pool

        # The memory of the thread has room for one sample, but these samples must be kept until the chunk is done.
        blocks = [arena] if self.storages[0] != "table" or self.step.copied else []

        def room(nbytes: int) -> np.ndarray:
            return blocks.pop().block(self.step.outputs[0], nbytes) if blocks else memory.take(nbytes)

        indices = held[samples] if isinstance(held, np.ndarray) else np.array([int(held[sample]) for sample in samples])
        fetched = self.fetched_from.fetch_many(indices.reshape(len(samples)).astype(np.int64), room)
        if fetched is None:
            return samples.tolist()
        if fetched.missing or not self._keep_columns(batch, rows, fetched.columns):
            for number, sample in enumerate(samples.tolist()):
                if number not in fetched.missing:
                    kept = place()
                    kept.sample, kept.given = sample, None
                    self.keep(batch, sample, rows[sample], kept, fetched.row(number))
        return [int(samples[number]) for number in fetched.missing]

    def _keep_columns(self, batch: BatchRun, rows: "ChunkRows", columns: Sequence[Any]) -> bool:
        """Stores the results of several samples in their slots; False if each has to be stored by itself."""
        if rows.left is not rows.samples or self.step.copied or not self._fit(batch, columns, 0):
            return False
        samples = rows.samples.tolist()
        for slot, storage, column in zip(self.step.outputs, self.storages, columns):
            values = batch.values[slot]
            if storage == "dense":
                values[rows.samples] = column
            elif storage == "table":
                for sample, value in zip(samples, column):
                    values[sample] = value
            rows.columns[slot] = column
        return True

    def keep_columns(self, batch: BatchRun, columns: Sequence[np.ndarray], first: int) -> bool:
        """Stores the outputs from ``first`` on of all samples of the batch, arrays of their own; False if each has to be stored
        by itself.
        """
        if not self._fit(batch, columns, first):
            return False
        for slot, storage, column in zip(self.step.outputs[first:], self.storages[first:], columns):
            if storage in ("dense", "table"):
                batch.values[slot] = column
        return True

    def _fit(self, batch: BatchRun, columns: Sequence[Any], first: int) -> bool:
        """True if columns of outputs have the form of their slots, which may not be there yet."""
        specs = self.step.specs[first:]
        for slot, storage, spec, column in zip(self.step.outputs[first:], self.storages[first:], specs, columns):
            if storage == "dense" and not (
                type(batch.values[slot]) in (np.ndarray, NoneType)
                and type(column) is np.ndarray
                and column.shape[1:] == spec.shape
                and column.dtype == spec.dtype
            ):
                return False
        return True

    def keep(self, batch: BatchRun, sample: int, row: list[Any], place: "Placement", outputs: Sequence[Any]) -> None:
        """Stores the results of one sample in their slots."""
        values = batch.values
        for output, (slot, storage, result) in enumerate(zip(self.step.outputs, self.storages, outputs)):
            if storage == "dense":
                if place.streaming or result is not place.given:  # or it is one of several outputs or another array
                    held = values[slot]
                    target = held[sample] if type(held) is list else held[sample, ...]
                    if target.shape != result.shape:
                        raise ValueError(f"the result has shape {result.shape} and {target.shape} was expected")
                    place.copy(result, target)
                    result = target
            elif storage == "table":
                if self.step.copied or (place.streaming and place.given is not None):
                    kept = place.memory[output].empty(result.shape, result.dtype)
                    large = is_large(result.shape, result.dtype, batch.size)
                    copied(result, kept, large and (self.compiled or past_caches.ready(batch)))
                    result = kept
                held = values[slot]
                if type(held) is np.ndarray and (held.dtype != result.dtype or held.shape[1:] != result.shape):
                    put(batch, slot, sample, result)
                else:
                    held[sample] = result
            row[slot] = result

    def clear(self, batch: BatchRun, rows: Iterable[int], pool: HeapPool) -> None:
        """Gives new memory to rows that are made again."""
        for output, (slot, storage, spec) in enumerate(zip(self.step.outputs, self.storages, self.step.specs)):
            for row in rows if storage in ("dense", "table") else ():
                memory = self.memory(batch, pool, output)
                put(batch, slot, row, memory.empty(spec.shape, spec.dtype) if storage == "dense" else None)

    def finish(self, batch: BatchRun) -> None:
        """Checks the results at the end of the stage."""
        if self.may_differ:
            check_outputs(batch, self.step)


class ChunkRows(dict[int, list[Any]]):
    """The results of samples in this stage so far: a row for each sample, with the values of all slots. A row is made when it is
    first read.
    """

    __slots__ = ("by_chain", "chained", "columns", "left", "samples", "slots")

    def __init__(self, slots: int, samples: np.ndarray) -> None:
        self.slots = slots
        self.samples = self.left = samples  # ascending; and those that have not failed
        self.columns: dict[int, Any] = {}  # slot -> the values of all samples
        self.chained: np.ndarray | None = None  # the samples that a chain has done, if it has run
        self.by_chain = False  # True if the chain read the files of the samples

    def __missing__(self, sample: int) -> list[Any]:
        row = self[sample] = [None] * self.slots
        place = int(np.searchsorted(self.samples, sample))
        for slot, column in self.columns.items():
            row[slot] = column[place, ...] if type(column) is np.ndarray else column[place]
        return row


class Placement:
    """Memory for the outputs of a step, and its arguments as far as they are known before the stage.

    The memory belongs to the batch or to the arena of the thread. If a batch is larger than the caches, the samples of operators
    with ``staged`` are made in the arena, which is in the cache, and copied from there without the caches: three planes that are
    written at the same time take 45 us in this way, and 100 us directly. A result that is written from first to last is as fast
    without this.
    """

    __slots__ = (
        "arena",
        "arguments",
        "batch",
        "copy",
        "given",
        "layouts",
        "memory",
        "sample",
        "slots",
        "step",
        "storages",
        "streaming",
    )

    def __init__(self, batch: BatchRun, step: SampleStep, arena: Arena, pool: HeapPool) -> None:
        self.batch = batch
        self.step = step
        self.slots = step.step.outputs
        self.storages = step.storages
        self.arena = arena
        self.memory = [step.memory(batch, pool, output) for output in range(step.count)]
        self.sample = 0
        self.given: Any = None
        self.streaming = False  # True if ``given`` is in the arena although the result belongs to the batch
        self.copy: Callable[[Any, Any], Any] = _copy
        self.layouts: tuple[str, ...] = ()
        self.arguments = [
            (name, None if inside else batch.column(slot, step.kind_of(name)), slot, inside)
            for name, slot, inside in step.arguments
        ]

    def find_layouts(self) -> tuple[str, ...]:
        """The layouts of the inputs; they are kept as soon as all are known."""
        found = [self.batch.layouts[slot] for slot in self.step.step.inputs]
        layouts = tuple([layout or "" for layout in found])
        if None not in found:
            self.layouts = layouts
        return layouts

    def __call__(self, output: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        storage = self.storages[output]
        slot = self.slots[output]
        if storage == "arena":
            return self.arena.empty(slot, shape, dtype)
        if self.step.streams:
            self.streaming = is_large(shape, dtype, self.batch.size)
            if self.streaming:
                self.copy = _copy_past_caches
                self.given = self.arena.empty(slot, shape, dtype)
                return self.given
        if storage == "dense":
            held = self.batch.values[slot]
            self.given = held[self.sample] if type(held) is list else held[self.sample, ...]
            return self.given
        return self.memory[output].empty(shape, dtype)
