"""Loops over one or several pipelines: the end of an epoch, and its last batch.

``Pipeline.epoch()`` and every adapter in ``plugin/`` use this code; a checkpoint holds its state.

An epoch ends in one of three ways. With a reader (``reader_name``, or the only one) the number of its samples decides,
and the next epoch follows without a reset. With ``size`` batches are counted. Otherwise StopIteration of the source
ends it.
"""

import math
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, unique
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pipeflow.device.tensors import TensorListGPU
from pipeflow.errors import InvalidState, WrongIterator, count_of
from pipeflow.executor.batch import Handing, Held
from pipeflow.resume import RunJournal
from pipeflow.tensors import TensorListCPU, traced


class Reached(NamedTuple):
    """How far a loop has come."""

    epoch: int = 0  # how many epochs have been finished
    step: int = 0  # how many batches of this epoch have been returned
    ended: bool = False  # the last batch of this epoch has been returned
    over: bool = False  # the loop has raised StopIteration for this epoch
    carry: int = 0  # samples of this epoch that were in the last batch of the epoch before (``size`` and FILL)


class Past(NamedTuple):
    """Passes over epochs that were finished before the program was started again; they return no batches."""

    passes: int  # the number of passes that remain, with the present one
    over: bool  # the present pass has raised StopIteration


@unique
class LastBatchPolicy(Enum):
    """The policy for the samples at the end of an epoch that do not fill a batch."""

    FILL = 0
    DROP = 1
    PARTIAL = 2


ONE_AT_A_TIME = (
    "another loop is using this pipeline, and each batch would go to only one of them: end the first loop (close() ends it "
    "early), or make a second pipeline"
)
_ENDINGS = {LastBatchPolicy.FILL: "fill", LastBatchPolicy.DROP: "drop", LastBatchPolicy.PARTIAL: "partial"}


class Loop:
    """Runs one or several pipelines together, epoch by epoch, and returns their batches without conversion."""

    def __init__(
        self,
        pipelines: Any,
        size: int = -1,
        reader_name: str | None = None,
        policy: LastBatchPolicy = LastBatchPolicy.FILL,
        last_batch_padded: bool = False,
        any_reader: bool = False,
        journal: "RunJournal | str | os.PathLike[str] | None" = None,
    ) -> None:
        self.pipelines: list[Any] = list(pipelines) if isinstance(pipelines, (list, tuple)) else [pipelines]
        if not self.pipelines:
            raise WrongIterator("there is no pipeline to iterate over: the list is empty")
        for pipeline in self.pipelines:
            if not hasattr(pipeline, "build"):
                raise WrongIterator(f"an iterator takes a pipeline or a list of pipelines, got {pipeline!r}")
        self.policy = policy
        self.size = _checked_size(size, reader_name, last_batch_padded, len(self.pipelines))
        self.padded = last_batch_padded
        for pipeline in self.pipelines:
            pipeline.build()
        sizes = {pipeline.max_batch_size for pipeline in self.pipelines}
        if len(sizes) != 1:
            raise WrongIterator(f"All pipelines should have the same batch size set, got {sorted(sizes)}")
        self.batch_size = sizes.pop()
        self.reader = self._find_reader(reader_name, any_reader)
        self.ending: Any = _ENDINGS[policy] if self.reader else "fill"
        self._at = Held(Reached())
        self._leaving: list[Callable[[], None]] = []  # calls that take the pipelines to the next epoch, kept until done
        self._skipped: Handing | None = None  # a batch that was skipped at the end of this epoch
        self.walker: weakref.ref[Any] | None = None  # the present pass over this loop
        self._take_up()
        self.journal = RunJournal(journal) if isinstance(journal, (str, os.PathLike)) else journal
        self._out: Handing | None = None  # of the batch that the user's loop has and that is not recorded as done
        self._repeated = Held(False)
        self._past = Past(0, False)
        if self.journal is not None:
            self._resume(self.journal)

    def _resume(self, journal: RunJournal) -> None:
        """Continues from the journal; passes over epochs that are finished there return no batches."""
        metas = [self.pipelines[0].reader_meta(name) for name in self.pipelines[0].reader_meta()]
        shard, shards = (metas[0]["shard_id"], metas[0]["number_of_shards"]) if metas else (0, 1)
        journal.take_up(self.pipelines, shard, shards)
        self.take_up()
        self._past = Past(self.finished, False)

    @property
    def finished(self) -> int:
        """The number of finished epochs."""
        return self.at.epoch + self.at.over

    @property
    def again(self) -> bool:
        """True if the last batch had been delivered before the program was started again."""
        return self._repeated.get()

    @property
    def begun(self) -> bool:
        """True if the present pass has returned a batch, or its end."""
        return bool(self.at.step or self.at.over or self._past.over)

    @property
    def at(self) -> Reached:
        """How far the loop has come; the last batch that the caller got is counted."""
        return self._at.get()

    # The length and the end of an epoch.

    def _find_reader(self, name: str | None, any_reader: bool) -> str | None:
        executors = [pipeline._built() for pipeline in self.pipelines]
        if name is None and any_reader and executors[0].readers:
            name = executors[0].readers[0].step.name
        if name is None:
            return None
        for pipeline in self.pipelines:
            pipeline.reader_meta(name)  # its error names the readers that exist
        metas = [pipeline.reader_meta(name) for pipeline in self.pipelines]
        name = self.pipelines[0]._name_of(name)
        for key, what in (
            ("epoch_size", "size"),
            ("number_of_shards", "num_shards"),
            ("pad_last_batch", "pad_last_batch"),
            ("stick_to_shard", "stick_to_shard"),
        ):
            values = [meta[key] for meta in metas]
            if len(set(values)) != 1:
                raise ValueError(f"the reader {name!r} must have the same {what} in all pipelines, got {values}")
        self._check_agreement(executors, name)
        for executor in executors:
            self._check_other_readers(executor, name)
        full = metas[0]["epoch_size"] // metas[0]["number_of_shards"]
        if self.policy is LastBatchPolicy.DROP and full < self.batch_size:
            raise ValueError(
                f"LastBatchPolicy.DROP leaves nothing: a shard has {count_of(full, 'sample')} and batch_size is "
                f"{self.batch_size}"
            )
        return name

    def _check_agreement(self, executors: Sequence[Any], name: str) -> None:
        """Refuses shards that would shuffle the same data differently: samples would be lost or come twice."""
        found = {
            item.source.shared_permutation(item.step.key or 0)
            for executor in executors
            for item in executor.readers
            if item.step.name == name
        }
        if len(found) > 1:
            raise ValueError(
                f"the shards of {name!r} would be shuffled differently, and samples lost, because the seeds of the pipelines "
                f"differ ({[pipeline.seed for pipeline in self.pipelines]}): give all of them the same seed, or the reader "
                "a seed of its own"
            )

    def _check_other_readers(self, executor: Any, name: str) -> None:
        sizes = {
            item.step.name: (item.source.reader_meta()["epoch_size"], item.source.reader_meta()["number_of_shards"])
            for item in executor.readers
        }
        if self.policy is not LastBatchPolicy.FILL and len(set(sizes.values())) > 1:
            raise ValueError(
                f"the readers of this pipeline end their epochs at different samples ({sizes}: size and number of shards): "
                "use LastBatchPolicy.FILL, with which no reader stops"
            )

    def length(self) -> int:
        """The number of batches in the present epoch; if it cannot be known, a TypeError gives the reason."""
        at = self.at
        if at.over:
            return self._total(self._next_carry(at)) if self.size > 0 else self._left()
        return at.step if at.ended else at.step + self._left()

    def _left(self) -> int:
        if self.size > 0:
            return self._total(self.at.carry) - self.at.step
        lengths = [pipeline_left(pipeline, self.reader, self.ending) for pipeline in self.pipelines]
        return min(lengths)

    def _total(self, carry: int) -> int:
        """The number of batches of an epoch whose end is given by ``size``."""
        each = self.batch_size * len(self.pipelines)
        wanted = self.size - carry
        return wanted // each if self.policy is LastBatchPolicy.DROP else -(-wanted // each)

    def _next_carry(self, at: Reached) -> int:
        """The number of samples of the next epoch with which the last batch of this one was filled."""
        given = at.step * self.batch_size * len(self.pipelines) + at.carry
        fills = self.policy is LastBatchPolicy.FILL and not self.padded and at.ended
        return (given - self.size) % self.size if fills else 0

    # Running through the epochs.

    def prepare(self) -> None:
        """Lets the pipelines begin to work on their first batches, except those that are fed before each batch."""
        for pipeline in self.pipelines:
            pipeline._begin(self, self.ending)
            if not pipeline._sets_up:
                pipeline._prefetch()
        self.release()

    def next(self, convert: Callable[[list[Any], list[int]], Any]) -> Any:
        """The next batch: ``convert(batches of the pipelines, how many samples of each belong to the epoch)``.

        At the end of the epoch it raises StopIteration, until ``start`` is called. A batch counts as returned only
        when all work on it is done, so an interrupt before that loses no batch: the next call returns the same one.
        """
        handing, delivered, at, error = self._ask()
        if error is None:
            try:
                result = convert(delivered, self._rows(delivered, at))
            except Exception as unfit:
                error = unfit
        if error is not None:
            raise handing.given() or error
        return handing.given() or result

    def _ask(self) -> tuple[Handing, list[Any], Reached, BaseException | None]:
        """The deliveries of the pipelines, the progress of the loop after them, and the first error."""
        self._go_on()
        if self._past.passes:
            self._past = self._past._replace(over=True)
            self.release()
            raise StopIteration
        self._acknowledge()
        handing = Handing()
        at = self.at
        if at.over or at.ended or (self.size > 0 and at.step >= self._total(at.carry)):
            self._finish()
        try:
            self._prefetch(at)
        except StopIteration:  # of iter_setup()
            self._finish()
        # If one pipeline fails, the others are still called, so that all pipelines stay at the same batch.
        delivered, failures = [], []
        for pipeline in self.pipelines:
            try:
                delivered.append(pipeline._deliver(handing))
            except Exception as failure:
                failures.append(failure)
        failures += [item.error for item in delivered if item.error is not None]
        if any(isinstance(failure, StopIteration) for failure in failures):
            handing.given()
            self._finish()
        if self._dropped(delivered):
            handing.given()
            return self._ask()
        at = at._replace(step=at.step + 1)
        if self.reader is not None:
            at = at._replace(ended=self._reader_ended(self.reader, delivered))
        elif self.size > 0:
            at = at._replace(ended=at.step >= self._total(at.carry))
        self._at.change(handing, at)
        for pipeline in self.pipelines:
            pipeline._place.change(handing, at._asdict())
        if self.journal is not None:
            self._repeated.change(handing, self.journal.again)
            self._out = handing
            self.journal.handed_out()
        error = failures[0] if failures else self._not_full(delivered) if self.size > 0 else None
        return handing, delivered, at, error

    def _prefetch(self, at: Reached) -> None:
        for pipeline in self.pipelines:
            pipeline._begin(self, self.ending)
            try:
                pipeline._prefetch()
            except StopIteration:
                if at.step or self.size < 0:
                    raise
                pipeline._prefetch()  # the source ended with the samples that are counted: iter_setup() begins it again

    def _acknowledge(self) -> None:
        """Records the previous batch as done, because the loop takes another one."""
        if self.journal is not None and self._out is not None and self._out.done:
            self.journal.done(self.pipelines)
            self._out = None

    def _dropped(self, delivered: Sequence[Any]) -> bool:
        short = any(item.made < self.batch_size for item in delivered if item.error is None)
        return short and self.policy is LastBatchPolicy.DROP and self.reader is None and self.size < 0

    def _reader_ended(self, reader: str, delivered: Sequence[Any]) -> bool:
        ends = [reader in item.ends for item in delivered]
        if len(set(ends)) > 1:
            raise InvalidState(
                f"the pipelines are at different batches: the epoch of {reader!r} ends in {ends.count(True)} of {len(ends)}; "
                "were some of them also run elsewhere, or restored from checkpoints of different batches?"
            )
        return ends[0]

    def _not_full(self, delivered: Sequence[Any]) -> RuntimeError | None:
        for item in delivered:
            if item.size != self.batch_size:
                return RuntimeError(
                    f"with size={self.size} batches are counted and must be full: one has {count_of(item.size, 'sample')}, "
                    f"batch_size is {self.batch_size}; leave size out, and the source's StopIteration ends the epoch"
                )

        return None

    def _finish(self) -> None:
        self._set(self.at._replace(over=True, ended=True))
        if self.journal is not None:
            self.journal.done(self.pipelines)
        self.release()
        raise StopIteration

    def start(self) -> None:
        """Begins the next epoch, also in the middle of this one; does nothing if this one has just begun."""
        if self._past.over:
            self._past = Past(self._past.passes - 1, False)
        at = self.at
        consumed = any(pipeline._consumed for pipeline in self.pipelines)
        if not self._leaving and not (at.over or (at.step and consumed)):
            return
        if not self._leaving:
            if self.size > 0:
                self._skip_rest(at)
            self._leaving = [self._way_out(pipeline._built(), at) for pipeline in self.pipelines]
        self._go_on()

    def _way_out(self, executor: Any, at: Reached) -> Callable[[], None]:
        """A call that takes a pipeline to its next epoch; more calls have the same result."""
        state = executor.state()
        if executor.course.ended or (self.reader is None and self.size < 0):
            return partial(executor.reset, True, state)
        if not at.ended and self.size < 0:
            return partial(executor.next_epoch, state)
        return lambda: None

    def _go_on(self) -> None:
        """Begins the epoch that ``start`` has requested; if an interrupt stopped this, all of it is done again."""
        if not self._leaving:
            return
        at = self.at
        for pipeline, leave in zip(self.pipelines, self._leaving):
            leave()
            pipeline._consumed = False
        if at.step or at.over:  # else the place of the loop is already set
            self._set(Reached(at.epoch + 1, carry=self._next_carry(at) if self.size > 0 else at.carry))
        self._skipped = None
        self._leaving = []

    def _skip_rest(self, at: Reached) -> None:
        """With ``size`` and DROP, skips the remaining samples of an epoch: they do not belong to the next one."""
        rest = self.size % (self.batch_size * len(self.pipelines))
        if self.policy is not LastBatchPolicy.DROP or not at.ended or not rest:
            return
        if self._skipped is None or not self._skipped.done:
            self._skipped = Handing()
            for pipeline in self.pipelines:
                pipeline._begin(self, self.ending)
                with suppress(Exception):  # no caller wants this batch, and iter_setup() may have none
                    pipeline._prefetch()
                    pipeline._deliver(self._skipped)
            self._skipped.given()

    def _rows(self, delivered: Sequence[Any], at: Reached) -> list[int]:
        """How many samples of each pipeline's batch belong to the epoch."""
        counts = [item.size for item in delivered]
        if self.size > 0 and self.policy is LastBatchPolicy.PARTIAL:
            each = self.batch_size * len(self.pipelines)
            rest = self.size - (at.step - 1) * each
            counts = [min(count, max(0, rest - number * self.batch_size)) for number, count in enumerate(counts)]
        return counts

    def release(self) -> None:
        """Gives the pipelines back, so that another loop can use them."""
        for pipeline in self.pipelines:
            pipeline._release(self)

    # The place of the loop, for checkpoints: every pipeline has a copy of it.

    def _set(self, at: Reached) -> None:
        self._at.set(at)
        for pipeline in self.pipelines:
            pipeline._place.set(at._asdict())

    def take_up(self) -> None:
        """Continues from the state that was loaded into the pipelines."""
        self.release()
        self._take_up()

    def _take_up(self) -> None:
        places = [pipeline._place.get() for pipeline in self.pipelines]
        if any(place != places[0] for place in places):
            raise ValueError(
                f"the pipelines are at different batches ({places}): restore all of them from one call of checkpoints()"
            )
        self._leaving, self._skipped = [], None
        if places[0]:
            self._at.set(Reached(**{name: places[0][name] for name in Reached._fields}))


def _checked_size(size: int, reader_name: str | None, padded: bool, pipelines: int) -> int:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"size must be an integer, got {type(size).__name__} {size!r}")
    if size == 0 or size < -1:
        raise WrongIterator(f"size must be at least 1, or -1 to read until the pipeline ends, got {size}")
    if reader_name and size > 0:
        raise WrongIterator(
            f"When reader_name is provided, size should not be set: the reader {reader_name!r} knows its size, got size={size}"
        )
    if reader_name and padded:
        raise WrongIterator("last_batch_padded is for size=...: with reader_name the reader's pad_last_batch counts")
    if size < 0 and not reader_name and pipelines > 1:
        raise WrongIterator(
            f"with {pipelines} pipelines give reader_name, or size: the samples of all of them together"
        )
    return int(size)


def pipeline_left(pipeline: Any, reader: str | None, ending: Any) -> int:
    """The batches that the present epoch of a pipeline still has, after the last one that was delivered."""
    executor = pipeline._built()
    states = executor.state()["states"]
    size = pipeline.max_batch_size
    if reader is not None:
        return executor.course.source(reader).batches_left(states[reader], size, ending)
    lengths = {}
    for item in executor.readers:
        raise TypeError(
            f"the number of batches is not known: the epochs of {item.step.name!r} follow each other without an end; give "
            f"reader_name={item.step.name!r}, or size"
        )
    for item in executor.sources:
        left = item.source.batches_left(states[item.step.name], size, ending)
        if left is None:
            raise TypeError(
                f"the number of batches is not known: {item.step.name!r} does not say when it ends (a list as source or a "
                "reader does; adapters also take size=)"
            )
        lengths[item.step.name] = left
    if not lengths or min(lengths.values()) == math.inf:
        raise TypeError("the number of batches is not known: nothing in this pipeline ends its epochs")
    return int(min(lengths.values()))


def part(batch: Any, rows: int) -> Any:
    """The first samples of a batch."""
    if rows == len(batch):
        return batch
    if isinstance(batch, TensorListGPU):
        return batch.first(rows)
    dense = batch.is_dense_tensor() and not traced(batch.at(0))  # a part of a traced array has no history
    return TensorListCPU(batch.as_array()[:rows] if dense else batch.samples()[:rows], batch.layout())
