"""The course of a run: the batch that is read next, and the state of the pipeline after the last delivered batch.

Sources run ahead of the loop. So there are two places: ``at`` is the place of the next batch to read, ``state()`` is the one in a
checkpoint, which changes when a batch is delivered. Every change is one assignment, and the work before it can be
repeated: after an interrupt the state is either unchanged or complete.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import Ending, Request, Source
from pipeflow.executor.batch import BatchMark, BatchRun
from pipeflow.executor.keeper import Keeper
from pipeflow.executor.runners.source import SourceStep


class CourseReached(NamedTuple):
    """The place after a batch, with the states of sources and objects of the user, and the counts of failures."""

    mark: BatchMark
    states: dict[str, Any]
    failures: list[int]


class Course:
    """Epochs and checkpoint state of one run. The owner makes sure that nothing is read during a change."""

    def __init__(self, batch_size: int, checkpointing: bool = False) -> None:
        self.batch_size = batch_size
        self.checkpointing = checkpointing  # after every batch, objects of the user return their state
        self.sources: list[SourceStep] = []
        self.limited: list[Source] = []  # those that may have no data for a further batch
        self.keepers: list[Keeper] = []
        self.at = BatchMark(0, 0, 0)
        self.ending: Ending = "fill"  # how readers end their epochs
        self.ended = False  # a source has ended the epoch with StopIteration
        self.failures: Callable[[], list[int]] = lambda: [0, 0]  # the counts of failures, for the state
        # The state after the last delivered batch, or what it is made of when it is asked for; set by `mark`, when all sources
        # are known.
        self._after: dict[str, Any] | CourseReached = {"states": {}}

    @property
    def readers(self) -> list[SourceStep]:
        """The sources whose epochs follow each other without a reset."""
        return [item for item in self.sources if item.op.fetches]

    def epoch_size(self) -> int | None:
        """The number of samples in an epoch of all shards, for the longest reader; None if there is no reader."""
        sizes = [meta["epoch_size"] for item in self.readers if (meta := item.source.reader_meta()) is not None]
        return max(sizes, default=None)

    def available(self) -> float:
        """The number of batches that the sources can give at once."""
        return min([source.available() for source in self.limited]) if self.limited else inf

    def source(self, name: str) -> Any:
        """The source object of an operator by its name, or None."""
        return next((item.source for item in self.sources if item.step.name == name), None)

    def add(self, item: SourceStep) -> None:
        """A source that has not been read yet."""
        self.sources.append(item)
        if type(item.source).available is not Source.available:
            self.limited.append(item.source)
        self._states()[item.step.name] = item.state(self.checkpointing)

    # Reading.

    def begin(self, batch: BatchRun) -> None:
        """Sets the place of a batch before it is read."""
        batch.epoch, batch.iteration, batch.epochs = self.at.epoch, self.at.iteration, self.at.epoch

    def request(self, item: SourceStep, wanted: int) -> Request:
        """The request to a source for a batch."""
        return Request(wanted, *self.at, item.step.key or 0, self.ending)

    def count_samples(self, batch: BatchRun, size: int) -> None:
        """Sets the positions of the samples of a batch, unless a reader has set them."""
        batch.size = size
        if len(batch.positions) != size:
            batch.positions = np.arange(self.at.position, self.at.position + size)
            batch.consecutive = True

    def passed(self, batch: BatchRun) -> None:
        """Called after a batch has been read: the next one follows it."""
        batch.after = BatchMark(self.at.epoch, self.at.iteration + 1, self.at.position + batch.size)
        self.at = batch.after

    def states_after(self, read: Iterable[BatchRun]) -> dict[str, Any]:
        """The states of sources and objects of the user after batches that have not been taken."""
        states = dict(self._states())
        for batch in read:
            states.update(batch.states)
        return states

    def go_back(self, read: Iterable[BatchRun]) -> None:
        """Restores the sources and the objects of the user to their states after the batches that have been read."""
        states = self.states_after(read)
        for item in self.sources:
            item.restore(states[item.step.name])
        for keeper in self.keepers:
            keeper.restore(states)

    # The state after the batch that was taken last.

    def state(self) -> dict[str, Any]:
        """The state of the pipeline after the last delivered batch. Batches made ahead do not change it."""
        after = self._after
        if isinstance(after, CourseReached):
            return {**after.mark._asdict(), "states": after.states, "failures": after.failures}
        return dict(after)

    def _states(self) -> dict[str, Any]:
        after = self._after
        return after.states if isinstance(after, CourseReached) else after["states"]

    def taken(self, batch: BatchRun) -> None:
        """Called when a batch was delivered: its state becomes the state of the pipeline."""
        assert batch.after is not None
        states, known = batch.states, self._states()
        if states.keys() != known.keys():
            states = {**known, **states}
        self._after = CourseReached(batch.after, states, self.failures())

    def at_end(self) -> None:
        """Called when the caller gets the end of the epoch. No batch was read ahead, so the sources are in the states after the
        epoch.
        """
        own = {item.step.name: item.state(self.checkpointing) for item in self.sources}
        self._after = {**self.state(), "states": {**self._states(), **own}}

    def mark(self) -> None:
        """The place of reading becomes the state. The caller makes sure that no batch was read ahead."""
        states = {item.step.name: item.state(self.checkpointing) for item in self.sources}
        for keeper in self.keepers:
            states[keeper.name] = keeper.snapshot()
        self._after = {**self.at._asdict(), "states": states, "failures": self.failures()}

    # Going to another place. Batches that ran ahead have been dropped before; ``state`` is where to start.

    def reset(self, state: dict[str, Any], rewind: bool) -> None:
        """Begins the epoch after the last one begun; ``rewind`` also restarts sources without a ``cycle``."""
        for item in self.sources:
            if item.op.fetches:  # a reader goes back to the samples of the batches that are dropped
                item.source.restore(state["states"][item.step.name])
            item.source.reset()
            if rewind:
                item.source.rewind()
        for keeper in self.keepers:
            keeper.restore(state["states"])
        self.ended = False
        self.at = BatchMark(state["epoch"] + 1, 0, 0)
        self.mark()

    def go_to(self, state: dict[str, Any], ending: Ending | None = None) -> None:
        """Goes to a saved state; ``ending`` says how readers end their epochs from now on."""
        for item in self.sources:
            item.restore(state["states"].get(item.step.name))
        for keeper in self.keepers:
            keeper.restore(state["states"])
        self.ended = False
        self.at = BatchMark(state["epoch"], state["iteration"], state["position"])
        self.ending = self.ending if ending is None else ending
        self._after = {**state, "states": dict(state["states"])}

    def next_epoch(self, state: dict[str, Any]) -> None:
        """Goes from an epoch that has begun to the next one, which only readers can do without a reset."""
        if not self.readers:
            self.reset(state, rewind=True)
            return
        self.go_to(state)
        for item in self.readers:
            item.source.next_epoch()
        self.mark()

    def seek(self, step: int, epoch: int) -> None:
        """Goes to batch ``step`` of ``epoch``; every source can be read there, and nothing keeps a state."""
        for item in self.sources:
            item.source.seek(step, epoch, self.batch_size, item.step.key or 0)
        self.ended = False
        self.at = BatchMark(0 if self.readers else epoch, step, step * self.batch_size)
        self.mark()
