"""Where a run is: which batch is read next, and the state of the pipeline after the batch that was taken last.

Sources run ahead of the loop. So there are two places: ``at`` is that of the next batch to read, and ``state()`` is what a
checkpoint holds, which moves when a batch is taken. Every change is made by one assignment, and what leads to it can be done
again: an interrupt leaves it either as it was or as it shall be.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pipeflow.declare import Ending, Request
from pipeflow.executor.batch import BatchRun, Mark
from pipeflow.executor.keeper import Keeper
from pipeflow.executor.runners.source import SourceStep


class Course:
    """Epochs and checkpoint state of one run. The owner sees to it that nothing is read meanwhile."""

    def __init__(self, batch_size: int, checkpointing: bool = False) -> None:
        self.batch_size = batch_size
        self.checkpointing = checkpointing  # objects of the user are asked for their state after every batch
        self.sources: list[SourceStep] = []
        self.keepers: list[Keeper] = []
        self.at = Mark(0, 0, 0)
        self.ending: Ending = "fill"  # how readers end their epochs
        self.ended = False  # a source has ended the epoch with StopIteration
        self.failures: Callable[[], list[int]] = lambda: [0, 0]  # the counts of failures, for the state
        self._after: dict[str, Any] = {}
        self.mark()

    @property
    def readers(self) -> list[SourceStep]:
        """The sources whose epochs follow each other without a reset."""
        return [item for item in self.sources if item.op.fetches]

    def source(self, name: str) -> Any:
        """The source object behind an operator's name, None if there is none."""
        return next((item.source for item in self.sources if item.step.name == name), None)

    def add(self, item: SourceStep) -> None:
        """A source that has not been read yet."""
        self.sources.append(item)
        self._after["states"][item.step.name] = item.state(self.checkpointing)

    # Reading.

    def begin(self, batch: BatchRun) -> None:
        """Gives a batch that is about to be read its place."""
        batch.epoch, batch.iteration, batch.epochs = self.at.epoch, self.at.iteration, self.at.epoch

    def request(self, item: SourceStep, wanted: int) -> Request:
        """What a source is asked for."""
        return Request(wanted, *self.at, item.step.key or 0, self.ending)

    def place(self, batch: BatchRun, size: int) -> None:
        """Gives the samples of a batch their positions, where no reader has done so."""
        batch.size = size
        if len(batch.positions) != size:
            batch.positions = np.arange(self.at.position, self.at.position + size)

    def passed(self, batch: BatchRun) -> None:
        """The batch has been read; the next one follows it."""
        batch.after = Mark(self.at.epoch, self.at.iteration + 1, self.at.position + batch.size)
        self.at = batch.after

    def states_after(self, read: Iterable[BatchRun]) -> dict[str, Any]:
        """The states of sources and objects of the user after batches that have not been taken."""
        states = dict(self._after["states"])
        for batch in read:
            states.update(batch.states)
        return states

    def go_back(self, read: Iterable[BatchRun]) -> None:
        """Takes the sources and the objects of the user back to where they were after the batches that have been read."""
        states = self.states_after(read)
        for item in self.sources:
            item.restore(states[item.step.name])
        for keeper in self.keepers:
            keeper.restore(states)

    # The state after the batch that was taken last.

    def state(self) -> dict[str, Any]:
        """Where the pipeline is after the last batch that was taken, whatever has run ahead."""
        return dict(self._after)

    def taken(self, batch: BatchRun) -> None:
        """A batch has gone to the caller: its state is the pipeline's now."""
        assert batch.after is not None
        self._after = {
            "epoch": batch.after.epoch,
            "iteration": batch.after.iteration,
            "position": batch.after.position,
            "states": {**self._after["states"], **batch.states},
            "failures": self.failures(),
        }

    def at_end(self) -> None:
        """The caller learns of the epoch's end. Nothing runs ahead of it, so the sources' own states are those after it."""
        own = {item.step.name: item.state(self.checkpointing) for item in self.sources}
        self._after = {**self._after, "states": {**self._after["states"], **own}}

    def mark(self) -> None:
        """The place of reading is the state now: nothing has run ahead."""
        states = {item.step.name: item.state(self.checkpointing) for item in self.sources}
        for keeper in self.keepers:
            states[keeper.name] = keeper.snapshot()
        self._after = {**self.at._asdict(), "states": states, "failures": self.failures()}

    # Going elsewhere. What has run ahead has been dropped before, and ``state`` is the one from which it starts.

    def reset(self, state: dict[str, Any], rewind: bool) -> None:
        """Begins the epoch after the last one begun; ``rewind`` restarts sources that were not told how to cycle."""
        for item in self.sources:
            if item.op.fetches:  # a reader goes back to the samples of the batches that are dropped
                item.source.restore(state["states"][item.step.name])
            item.source.reset()
            if rewind:
                item.source.rewind()
        for keeper in self.keepers:
            keeper.restore(state["states"])
        self.ended = False
        self.at = Mark(state["epoch"] + 1, 0, 0)
        self.mark()

    def go_to(self, state: dict[str, Any], ending: Ending | None = None) -> None:
        """Goes to a saved state; ``ending`` says how readers end their epochs from now on."""
        for item in self.sources:
            item.restore(state["states"].get(item.step.name))
        for keeper in self.keepers:
            keeper.restore(state["states"])
        self.ended = False
        self.at = Mark(state["epoch"], state["iteration"], state["position"])
        self.ending = self.ending if ending is None else ending
        self._after = {**state, "states": dict(state["states"])}

    def next_epoch(self, state: dict[str, Any]) -> None:
        """Leaves an epoch that has begun for the next one, which readers alone can do without a reset."""
        if not self.readers:
            self.reset(state, rewind=True)
            return
        self.go_to(state)
        for item in self.readers:
            item.source.next_epoch()
        self.mark()

    def seek(self, step: int, epoch: int) -> None:
        """Goes to batch ``step`` of ``epoch``; every source can be asked for it and nothing keeps a state of its own."""
        for item in self.sources:
            item.source.seek(step, epoch, self.batch_size, item.step.key or 0)
        self.ended = False
        self.at = Mark(0 if self.readers else epoch, step, step * self.batch_size)
        self.mark()
