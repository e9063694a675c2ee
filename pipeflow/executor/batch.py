"""One batch while it passes through the stages."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from pipeflow import seeds, system
from pipeflow.declare import column_values
from pipeflow.device.tables import DeviceColumn
from pipeflow.device.tensors import TensorListGPU
from pipeflow.errors import WrongResult, WrongShape, add_notes, count_of
from pipeflow.plan import MOVED, Plan, Step
from pipeflow.tensors import PlacedArrays, TensorListCPU

T = TypeVar("T")


class BatchMark(NamedTuple):
    """The place of a batch in a run: epoch, number in the epoch, and position of its first sample."""

    epoch: int
    iteration: int
    position: int


class Handing:
    """The delivery of one batch, or of one batch of each of several pipelines, to a caller.

    Until ``given`` is called nothing has changed: the next call in the same thread gets the same batch. So an interrupt
    (Ctrl-C) loses no batch, if nothing but the return follows: ``return handing.given() or batch``.
    """

    __slots__ = ("done", "thread")

    def __init__(self) -> None:
        self.done = False
        self.thread = threading.current_thread()  # the object, not its number: a later thread may get the same number

    def given(self) -> Any:
        """Marks the batch as delivered."""
        self.done = True

    def is_for(self, thread: threading.Thread) -> bool:
        """True if this thread may get the batch: if it began the delivery, or if the thread that began it has ended."""
        return not self.done and (self.thread is thread or not self.thread.is_alive())


class Held(Generic[T]):
    """A value that changes exactly when a batch is delivered to the caller."""

    __slots__ = ("_next", "_value")

    def __init__(self, value: T) -> None:
        self._value = value
        self._next: tuple[Handing, T] | None = None

    def get(self) -> T:
        """The current value."""
        if self._next is not None and self._next[0].done:
            self._value = self._next[1]
            self._next = None
        return self._value

    def set(self, value: T) -> None:
        """Changes it now."""
        self._next = None
        self._value = value

    def change(self, handing: Handing, value: T) -> None:
        """Changes it when that batch is delivered."""
        if (known := self._next) is not None and known[0].done:
            self._value = known[1]
        self._next = (handing, value)


class Wait(NamedTuple):
    """The wait for a batch, by the clock of the executor: every report of waits has it from here."""

    asked: float  # when the caller called for it
    at: float  # when it was delivered
    disturbed: bool = False  # True if measuring disturbed the pipeline


@dataclass
class Delivered:
    """One batch as the user gets it; a failed batch has an error in place of outputs."""

    outputs: tuple[Any, ...]  # each is a TensorListCPU or TensorListGPU
    index: int
    epoch: int
    iteration: int
    size: int
    positions: np.ndarray
    padding: np.ndarray | None  # True for each sample that only fills the batch
    ends: frozenset[str]  # the readers whose epoch ends with it
    error: BaseException | None = None
    made: int = 0  # the size with the rows that were left out
    wait: Wait | None = None  # None in a debug run

    def to(self, handing: Handing) -> tuple[Any, ...]:
        """Returns the outputs or raises the error; with this call the batch is delivered."""
        if self.error is not None:
            raise handing.given() or self.error
        return handing.given() or self.outputs

    @classmethod
    def of(
        cls, batch: "BatchRun", outputs: tuple[Any, ...], rows: list[int] | None, error: BaseException | None = None
    ) -> "Delivered":
        """The delivery of these outputs of a batch, which are those of these rows, or of all."""
        positions, padding = batch.positions, batch.padding
        if rows is not None:
            positions = positions[rows]
            padding = None if padding is None else padding[rows]
        place = batch.index, batch.epoch, batch.iteration
        return cls(
            outputs, *place, len(positions), positions, padding, frozenset(batch.ends), error, batch.size, batch.wait
        )


class KnownOutput(NamedTuple):
    """An output of the pipeline: its slot, and what is known of it before a batch is made."""

    slot: int
    constant: bool
    dtype: np.dtype | None
    ndim: int | None
    source: int
    device: Any  # None for a result on the CPU

    @classmethod
    def of(cls, plan: Plan, device: Any = None) -> "list[KnownOutput]":
        """All outputs of a plan; ``device`` has those on a GPU."""
        found = []
        for slot in plan.outputs:
            kind = plan.slots[slot]
            there = device if kind.memory == "device" else None
            constant, source = kind.storage == "constant", plan.origins[slot]
            found.append(cls(slot, constant, kind.spec.dtype, kind.spec.ndim, source, there))
        return found


_NO_POSITIONS = np.empty(0, np.int64)
# Nothing can be added to these.
_NO_ROWS: Any = frozenset()
_NO_INCIDENTS: Any = ()
_NOTHING: Any = MappingProxyType({})


class BatchRun:
    """The values of all slots of one batch, and its progress."""

    __slots__ = (
        "absent",
        "after",
        "ahead",
        "before",
        "begun",
        "chunk",
        "claimed",
        "columns",
        "consecutive",
        "cursor",
        "done",
        "done_ahead",
        "donors",
        "ended",
        "ends",
        "epoch",
        "epochs",
        "error",
        "failed_sources",
        "failures",
        "foreseen",
        "given",
        "handing",
        "hidden",
        "incidents",
        "index",
        "iteration",
        "keys",
        "keys_of",
        "layouts",
        "lent",
        "masks",
        "origins",
        "padding",
        "part_of",
        "pending",
        "places",
        "positions",
        "read",
        "region",
        "replaced",
        "sent",
        "size",
        "slot_origins",
        "stage",
        "states",
        "strand",
        "tried",
        "values",
        "wait",
    )

    def __init__(
        self, index: int, slots: int, keys_of: tuple[int, ...] = (), slot_origins: tuple[int, ...] = ()
    ) -> None:
        self.index = index
        self.epoch = 0
        self.iteration = 0
        self.size = 0
        self.positions = _NO_POSITIONS
        self.consecutive = False  # True if they follow those of the batch before, without a reader
        self.epochs: Any = 0
        self.after: BatchMark | None = None  # the place of the next batch, set when the sources have been read
        self.begun = False  # True if a caller has begun to make it (only without threads)
        self.read: Any = None  # the samples of the sources, to make it again after an interrupt (only without threads)
        self.handing: Handing | None = None
        self.wait: Wait | None = None  # of the caller, when it is delivered
        self.values: list[Any] = [None] * slots
        self.layouts: list[str | None] = [None] * slots
        # The slots with arrays that belong to the source until it is called again, and the allocators for copies.
        self.lent: Mapping[int, Any] = _NOTHING
        # guard -> its samples; only those that were computed
        self.masks: dict[tuple[tuple[int, bool], ...], list[bool]] = {}
        self.columns: dict[
            Any, Any
        ] = {}  # by slot and kind: the arguments of all samples; also arrays of them, and of keys
        self.keys_of = (
            keys_of  # the keys of the random steps of the plan: those of all samples are computed in one call
        )
        self.places: tuple[Any, ...] = (None, None, {})  # positions and epochs, and the keys of all samples there
        self.keys: dict[int, Any] = {}  # the keys of a random step, by its first output slot (or its name)
        self.origins: dict[int, Any] = {}  # for each source of the plan: the source_info of the samples, or None
        self.slot_origins = slot_origins  # `Plan.origins`
        self.states: dict[str, Any] = {}
        self.before: Mapping[str, Any] = _NOTHING  # the states of objects of the user before the batch
        # What was made for several batches at once: the values of slots, and the steps of the stage of samples that are done.
        self.ahead: dict[int, Any] = {}
        self.done_ahead: frozenset[int] = frozenset()
        # The long batch of which these are a part, and its sample that is the first of this batch.
        self.part_of: tuple[BatchRun, int] | None = None
        self.foreseen = False  # True if ``ahead`` was given to it when it was read, before it was scheduled
        self.padding: np.ndarray | None = None
        self.ends: list[str] = []
        self.stage = 0
        self.cursor = 0  # in a sample stage: the next sample that no thread has claimed
        self.chunk = (0, 0)  # the samples of which the next strand is claimed, if the stage has strands
        self.strand = 0
        self.pending = 0  # samples that are not finished, claimed or not
        self.claimed = False
        self.region: Any = None  # memory shared with worker processes, for data that only they read
        self.sent: Any = None  # the work that was sent to the worker processes, or None
        self.done = False
        self.ended = False
        self.error: BaseException | None = None
        self.failures: dict[int, tuple[BaseException, Step]] = {}
        # These are shared by all batches until ``begin_losses``: to make and to free them takes a hundredth of a small batch.
        self.absent: set[int] = _NO_ROWS  # rows that later steps do not get
        self.given: dict[int, tuple[np.ndarray, ...]] = _NOTHING  # rows whose outputs replace failed ones
        self.incidents: list[Any] = _NO_INCIDENTS  # the failed rows, counted at delivery
        # By sample and source: what it was before it was replaced.
        self.failed_sources: dict[tuple[int, int], str] = _NOTHING
        # Samples that another sample of the batch replaces.
        self.replaced: dict[int, tuple[BaseException, Step]] = _NOTHING
        self.donors: dict[int, int] = _NOTHING  # failed sample -> the sample that replaces it
        self.hidden: set[int] = _NO_ROWS  # the samples that are replaced, and rows made of them: they are not delivered
        self.tried: dict[int, set[int]] = _NOTHING  # the rows that failed in place of a sample

    def begin_losses(self) -> None:
        """Makes the collections of what becomes of failed rows, unless the batch has them; called before anything is added."""
        if self.incidents is _NO_INCIDENTS:
            self.absent, self.hidden = set(), set()
            self.given, self.failed_sources, self.replaced, self.donors, self.tried = {}, {}, {}, {}, {}
            self.incidents = []

    def forget_losses(self) -> None:
        """Shares empty collections with other batches again."""
        self.absent = self.hidden = _NO_ROWS
        self.given = self.failed_sources = self.replaced = self.donors = self.tried = _NOTHING
        self.incidents = _NO_INCIDENTS

    def keep_reading(self) -> None:
        """Keeps the samples of the sources, so that the batch can be made again from them."""
        values = [list(x) if type(x) is list else x for x in self.values]
        kept = list(self.layouts), dict(self.origins), dict(self.failures), self.error, dict(self.states)
        self.read = (values, *kept)

    def copy_lent(self) -> None:
        """Copies the arrays that still belong to the source."""
        for slot, memory in self.lent.items():
            copy = self.values[slot] = copied(self.values[slot], memory)
            if self.read is not None:
                self.read[0][slot] = copy
        self.lent = _NOTHING

    def take_over(self, other: "BatchRun") -> None:
        """Takes what the sources gave for a batch that was read before this one was scheduled."""
        self.epoch, self.iteration, self.epochs = other.epoch, other.iteration, other.epochs
        self.size, self.positions, self.padding, self.ends = other.size, other.positions, other.padding, other.ends
        self.values, self.layouts, self.origins, self.states = other.values, other.layouts, other.origins, other.states
        self.columns, self.places = other.columns, other.places
        self.ahead, self.done_ahead, self.foreseen = other.ahead, other.done_ahead, other.foreseen
        self.part_of = other.part_of

    def make_again(self) -> None:
        """Restores the batch as it was when the sources had been read."""
        values, layouts, origins, failures, error, states = self.read
        self.values[:] = [list(x) if type(x) is list else x for x in values]
        self.layouts[:] = layouts
        self.origins, self.failures, self.error, self.states = dict(origins), dict(failures), error, dict(states)
        for known in (self.masks, self.columns, self.keys):
            known.clear()
        self.forget_losses()
        self.stage = self.cursor = self.strand = self.pending = 0
        self.claimed, self.sent, self.foreseen, self.part_of = True, None, False, None

    def fail(self, error: BaseException, step: Step | None, sample: int = -1) -> None:
        """Keeps an error until the batch is delivered; of several samples the first one is kept."""
        if isinstance(error, StopIteration):
            wrapped = RuntimeError(f"{step.title if step else 'a step'} raised StopIteration")
            wrapped.__cause__ = error
            error = wrapped
        notes = [] if step is None else [*self._notes(step, sample), *_rights(error, step)]
        add_notes(error, [*notes, *system.limits_reached(error)])
        if sample >= 0 and step is not None:
            self.failures[sample] = (error, step)
        else:
            self.error = self.error or error

    def _notes(self, step: Step, sample: int) -> list[str]:
        if sample >= 0:
            where = f", {self.name_of(sample, step)}"
        else:
            where = f", batch {self.iteration}" + (f" of {count_of(self.size, 'sample')}" if self.size else "")
        return step.notes(where)

    def name_of(self, sample: int, step: Step | None = None) -> str:
        """The number of a sample and of its batch, and its source."""
        source = self.source_of(sample, step)
        return f"sample {sample} of batch {self.iteration}" + (f" (source: {source})" if source else "")

    def source_of(self, sample: int, step: Step | None = None) -> str:
        """The file or other origin of a sample that a step reads, "" if it is not known."""
        for number in self.sources_of(step):
            known = self.origins.get(number)
            if known is not None and sample < len(known):
                return place_of(known, sample)
        return ""

    def sources_of(self, step: Step | None) -> list[int]:
        """The sources of what a step makes and reads; all of the batch if it reads none. None of moved samples."""
        slots = () if step is None else (*step.outputs, *step.inputs, *(slot for _, slot in step.arguments))
        found = [self.slot_origins[slot] for slot in slots if slot < len(self.slot_origins)]
        if MOVED in found:
            return []
        return [number for number in found if number >= 0] or sorted(self.origins)

    def failure(self) -> BaseException | None:
        """The error to raise for this batch, if any."""
        if self.error is not None or not self.failures:
            return self.error
        return self.failures[min(self.failures)][0]

    def mask(self, guard: tuple[tuple[int, bool], ...]) -> list[bool]:
        """For each sample True if its guard is true. A predicate is read only if those before it are true."""
        known = self.masks.get(guard)
        if known is None:
            slot, polarity = guard[-1]
            held = self.values[slot]
            flags = held.tolist() if isinstance(held, np.ndarray) else held
            known = [flag is not None and bool(flag) is polarity for flag in flags]
            if len(guard) > 1:
                known = [before and now for before, now in zip(self.mask(guard[:-1]), known)]
            self.masks[guard] = known
        return known

    def flags(self, guard: tuple[tuple[int, bool], ...]) -> np.ndarray:
        """The same as ``mask`` for compiled code."""
        known = self.columns.get(guard)
        if known is None:
            known = self.columns[guard] = np.array(self.mask(guard), np.int64)
        return known

    def keys_at(self, key: int) -> np.ndarray:
        """The keys of all samples at the operator with this key."""
        positions, epochs, known = self.places
        if positions is not self.positions or epochs is not self.epochs:
            every = np.array(self.keys_of, np.uint64)
            known = dict(zip(self.keys_of, seeds.keys_of(every, self.positions, self.epochs)))
            self.places = self.positions, self.epochs, known
        if key not in known:
            known[key] = seeds.sample_keys(key, self.positions, self.epochs)
        return known[key]

    def with_donors(self, keys: np.ndarray) -> np.ndarray:
        """The keys of samples; one that is left out has its donor's: with other numbers a function might fail on good data."""
        rows = list(self.hidden & self.donors.keys())
        if rows:
            keys = keys.copy()
            keys[rows] = keys[[self.donors[row] for row in rows]]
        return keys

    def column(self, slot: int, kind: Any) -> list[Any] | None:
        """The values of a slot as arguments of that kind, one for each sample; None if each must be converted by itself."""
        values = self.values[slot]
        if not isinstance(values, np.ndarray) or (self.layouts[slot] or "")[:1] == "F":
            return None
        if (slot, kind) not in self.columns:
            self.columns[slot, kind] = column_values(kind, values)
        return self.columns[slot, kind]

    def numbers(self, slot: int, kind: Any, real: bool) -> np.ndarray | None:
        """The same values as ``column`` as numbers of 64 bits, for compiled code; None if they are not single numbers."""
        if (slot, kind, real) not in self.columns:
            held = self._plain_numbers(slot, kind) if real is (kind is float) else None
            if held is None:
                values, types = self.column(slot, kind), (float,) if real else (bool, int)
                fits = values is not None and all(type(value) in types for value in values)
                held = np.array(values, np.float64 if real else np.int64).view(np.int64) if fits else None
            self.columns[slot, kind, real] = held
        return self.columns[slot, kind, real]

    def _plain_numbers(self, slot: int, kind: Any) -> np.ndarray | None:
        """The same for one whole number of at most 32 bits a sample, without an object for each."""
        values = self.values[slot]
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biu" or values.dtype.itemsize > 4:
            return None
        if values.size != self.size or (self.layouts[slot] or "")[:1] == "F" or kind not in (bool, int, float):
            return None
        plain = values.reshape(-1).astype(np.float64 if kind is float else np.int64)
        return (plain != 0).astype(np.int64) if kind is bool else plain.view(np.int64)

    def active(self, guard: tuple[tuple[int, bool], ...]) -> list[int] | None:
        """The samples for which a guard is true, ascending; None for all."""
        if not guard:
            return [index for index in range(self.size) if index not in self.absent] if self.absent else None
        return [index for index, holds in enumerate(self.mask(guard)) if holds and index not in self.absent]

    def holds(self, guard: tuple[tuple[int, bool], ...], sample: int) -> bool:
        """True if a guard is true for one sample."""
        return not guard or self.mask(guard)[sample]

    def seen(self) -> list[int] | None:
        """The samples that have not failed so far; None for all."""
        lost = self.absent | self.hidden
        return [index for index in range(self.size) if index not in lost] if lost else None

    def rows(self) -> list[int] | None:
        """The samples that are delivered; None for all."""
        if not self.absent and not self.hidden and not self.given:
            return None
        missing = (self.absent | self.hidden) - self.given.keys()
        return [index for index in range(self.size) if index not in missing]

    def outputs(self, outputs: Sequence[KnownOutput], rows: list[int] | None) -> tuple[Any, ...]:
        """The results of these rows, or of all, as the user gets them."""
        results: list[Any] = []
        for number, (slot, constant, dtype, ndim, source, device) in enumerate(outputs):
            values, layout, info = self.values[slot], self.layouts[slot] or "", self.origins.get(source)
            if constant:
                values = np.array(values)  # the user may write into a batch
            if rows is not None:
                values = self.delivered(values, rows, number, device)
                info = None if info is None else [info[row] for row in rows]
            if device is None:
                results.append(TensorListCPU.from_parts(values, dtype, ndim, layout, info))
                continue
            samples = values if isinstance(values, DeviceColumn) else list(values)
            results.append(TensorListGPU.from_parts(device.runtime, samples, dtype, ndim, layout, info))
        return tuple(results)

    def delivered(self, values: Any, rows: list[int], output: int, device: Any) -> list[Any]:
        """The delivered rows of an output, with the values that replace failed ones."""
        made = [row for row in rows if row not in self.given]
        kept = {row: value_at(values, row) for row in made}
        for row in self.given.keys() & set(rows):
            kept[row] = self.given[row][output]
            if made and (kept[row].dtype != kept[made[0]].dtype or kept[row].ndim != kept[made[0]].ndim):
                raise TypeError(
                    f"on_error gives {_kind(kept[row])} for output {output} of the pipeline, whose other samples are "
                    f"{_kind(kept[made[0]])}"
                )
            if device is not None:
                kept[row] = device.put(kept[row])
        return [kept[row] for row in rows]


def copied(values: np.ndarray, memory: Any) -> np.ndarray:
    """A copy in memory of this allocator."""
    copy: np.ndarray = memory.empty(values.shape, values.dtype)
    np.copyto(copy, values)
    return copy


def value_at(values: Any, sample: int) -> Any:
    """A row of a slot, whatever the form of its values."""
    return values[sample, ...] if isinstance(values, np.ndarray) else values[sample]


def bytes_of(values: Any) -> int:
    """The bytes of a slot that has values for all samples."""
    return values.nbytes if isinstance(values, np.ndarray) else sum([each.nbytes for each in values])


_PUTTING = threading.Lock()  # two threads that make a list of one array would each lose a row of the other


def put(batch: BatchRun, slot: int, sample: int, value: Any) -> None:
    """Replaces a row of a slot by another value. It never writes to memory that may be shared."""
    with _PUTTING:
        values = batch.values[slot]
        if values is None:
            return
        if type(values) not in (list, PlacedArrays):
            values = batch.values[slot] = [value_at(values, index) for index in range(len(values))]
    values[sample] = value


def _rights(error: BaseException, step: Step) -> list[str]:
    """The reason why user code may not write to its input."""
    text = str(error).lower()
    if not step.user_code or not ("read-only" in text or "readonly" in text):
        return []
    reasons = [f"input {index} is read-only: {why}" for index, why in enumerate(step.shared_with) if why]
    return [f"{'; '.join(reasons)}. Change a copy instead: x = x.copy()"] if reasons else []


def place_of(sources: Any, sample: int) -> str:
    """The source of a sample for messages: a reader's ``source_info()`` has no `file_root`, and its ``place`` has it."""
    return str(sources.place(sample) if hasattr(sources, "place") else sources[sample])


def check_outputs(batch: BatchRun, step: Step) -> None:
    """Checks that the samples of one output of user code, or of two branches, have one type and fit their layout."""
    for output, slot in enumerate(step.outputs):
        values, layout = batch.values[slot], batch.layouts[slot]
        if values is None or not len(values):
            continue
        if isinstance(values, np.ndarray):
            ndim, where = values.ndim - 1, 0
        elif type(values) is PlacedArrays and values.columns is not None:
            ndim, where = values.ndim, 0
        else:
            where = next((index for index, array in enumerate(values) if array is not None), -1)
            if where < 0:
                continue
            first = values[where]
            ndim = first.ndim
            for sample, array in enumerate(values):
                if array is not None and (array.dtype != first.dtype or array.ndim != ndim):
                    kind = WrongResult if array.dtype != first.dtype else WrongShape
                    text = f"output {output} has samples of different kinds in one batch: {_kind(first)} for the first and "
                    advice = "" if step.user_code or kind is WrongShape else ": fn.cast gives them one type"
                    batch.fail(kind(f"{text}{_kind(array)} for sample {sample}{advice}"), step, sample)
                    break
        if layout and len(layout) != ndim:
            text = f"layout {layout!r} has {len(layout)} axes and output {output} of {step.title} has {ndim}"
            batch.fail(ValueError(text), step, where)


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype} {array.shape}"
