"""The first stage of a plan: reads a batch from each source, and sets the positions of the samples."""

from typing import Protocol

import numpy as np

from pipeflow.backends.cpu import Arena
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.clocks import Lap
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.surroundings import Surroundings
from pipeflow.plan import Plan


class BatchesToCome(Protocol):
    """Batches that are read before they are scheduled (``executor/ahead.py``)."""

    def hand_over(self, batch: BatchRun) -> bool:
        """Gives a batch what was read for it; False if nothing was."""

    def read_on(self, batch: BatchRun) -> None:
        """Perhaps reads the batches that follow this one."""


class SourceStage(StageRunner):
    """Reads all sources in turn."""

    later: BatchesToCome | None = None

    def __init__(self, plan: Plan, number: int, surroundings: Surroundings) -> None:
        assert number == 0, "the sources are the first stage"
        self.course = surroundings.course
        self.pool = surroundings.pool
        self.steps = self.course.sources
        # Readers first: they may return fewer samples at the end of their epoch, and then the other sources return as many.
        self.in_turn = sorted(self.course.sources, key=lambda item: not item.op.fetches)
        self._constants = [(slot, plan.constant(value), plan.slots[slot].spec.layout) for slot, value in plan.constants]
        self._repeated: tuple[int, list[np.ndarray]] = (
            -1,
            [],
        )  # the number of samples of a batch, and the constants for them
        shares = any(slot.memory == "shared" for slot in plan.slots)
        self.workers = surroundings.workers if shares else None

    def run(self, batch: BatchRun, begin: int, end: int, arena: Arena) -> bool:
        """Reads one batch, if it was not read before; ``batch.ended`` is True if there was none."""
        del begin, end, arena
        if self.later is None:
            self.read(batch)
        elif not self.later.hand_over(batch):
            self.read(batch)
            self.later.read_on(batch)
        return False

    def read(self, batch: BatchRun) -> None:
        """Reads one batch."""
        course = self.course
        course.begin(batch)
        if self.workers is not None:
            batch.region = self.workers.region()
        try:
            sizes = self._ask(batch)
        except StopIteration:
            batch.ended = True
            return
        if batch.error is None and len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
            batch.fail(RuntimeError(f"the sources of a batch gave different numbers of samples ({listed})"), None)
        course.count_samples(batch, next(iter(sizes.values())) if sizes else course.batch_size)
        self.fill_constants(batch)
        if batch.begun:
            batch.keep_reading()
        course.passed(batch)

    def fill_constants(self, batch: BatchRun) -> None:
        """Fills the slots of constants for the samples of a batch."""
        size, views = self._repeated
        if size != batch.size:  # else they are those of the last batch: nothing can write to them
            views = [np.broadcast_to(value, (batch.size, *value.shape)) for _, value, _ in self._constants]
            self._repeated = batch.size, views
        for (slot, _, layout), view in zip(self._constants, views):
            batch.values[slot] = view
            batch.layouts[slot] = layout or ""

    def _ask(self, batch: BatchRun) -> dict[str, int]:
        """Reads each source; returns the numbers of samples."""
        sizes: dict[str, int] = {}
        wanted = self.course.batch_size
        lap = Lap() if len(self.in_turn) > 1 else None  # for a single source the clock of its stage is enough
        for item in self.in_turn:
            if lap is not None:
                lap.enter(item.clock)
            try:
                sizes[item.step.name] = item.run(
                    batch, self.course.request(item, wanted), self.pool, self.course.checkpointing
                )
                if item.op.fetches:
                    wanted = min(wanted, sizes[item.step.name])
            except StopIteration:
                raise
            except Exception as error:
                batch.fail(error, item.step)
            if lap is not None:
                lap.leave(item.clock)
        return sizes
