"""Steps that read the next batch of a source."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from pipeflow import declare
from pipeflow.backends.cpu import HeapPool
from pipeflow.declare import Feed, Source
from pipeflow.errors import add_notes, widened
from pipeflow.executor.batch import BatchRun, copied
from pipeflow.executor.keeper import Keeper, readable
from pipeflow.executor.runners.base import BoundStep, fits_kernels
from pipeflow.plan import Plan, Step
from pipeflow.tensors import Collector, DeviceSample

LENT_BYTES = 1 << 16  # a smaller array is copied in less time than its new address takes


class SourceStep(BoundStep):
    """Reads the next batch of a source."""

    def __init__(self, plan: Plan, step: Step, number: int) -> None:
        super().__init__(plan, step)
        assert self.op.factory is not None
        try:
            self.source: Source = self.op.factory(**self.constants)
        except Exception as error:
            wide = widened(error)
            add_notes(wide, step.notes())
            raise wide from wide.__cause__
        self.no_copy = bool(self.constants.get("no_copy"))
        self.number = number
        self.lends: Collection[int] = ()  # slots whose arrays the next stage reads before the source is called again
        self.keeper = Keeper.of(step.name, self.constants)

    def cache_figures(self) -> dict[str, int] | None:
        """The figures of the source's cache of files; None if it has none."""
        return self.source.cache_figures()

    def state(self, checkpointing: bool) -> Any:
        """The state of the source; of an object of the user only with ``checkpointing``, because it may take time."""
        state = self.source.state()
        if self.keeper is None or not checkpointing:
            return state
        return {**(state or {}), "source": self.keeper.snapshot()}

    def restore(self, state: Any) -> None:
        """Restores the state of the source."""
        if state is not None and not isinstance(state, Mapping):
            raise ValueError(f"the state of {self.step.name!r} is damaged: it is {state!r}")
        if self.keeper is not None and state is not None and "source" in state:
            self.keeper.restore({self.keeper.name: state["source"]})
        with readable(self.step.name):
            self.source.restore(state)

    def run(self, batch: BatchRun, request: declare.Request, pool: HeapPool, checkpointing: bool = False) -> int:
        """Reads a batch and fills the slots of this source; returns the size of the batch."""
        feed = self.source.next(request)
        self.place(batch, feed)
        self.fill(batch, feed, pool, checkpointing)
        return feed.size

    @staticmethod
    def place(batch: BatchRun, feed: Feed) -> None:
        """Gives a batch the positions and epochs of the samples that were read: random numbers depend on them."""
        if feed.positions is not None:
            batch.positions = feed.positions
        if feed.epochs is not None:
            batch.epochs = feed.epochs

    def fill(self, batch: BatchRun, feed: Feed, pool: HeapPool, checkpointing: bool = False) -> None:
        """Fills the slots of this source with what was read."""
        for output, (slot, values) in enumerate(zip(self.step.outputs, feed.outputs)):
            if isinstance(values, list) and not self.sent[output]:
                self._refuse_gpu(values, output)
            if not (feed.owned or self.no_copy):
                memory = self.memory(batch, pool, output)
                if batch.begun and slot in self.lends and _lends(values):
                    batch.lent = {**batch.lent, slot: memory}
                else:
                    values = _copied(values, feed.size, memory)
            batch.values[slot] = values
            declared = self.step.specs[output].layout if output < len(self.step.specs) else ""
            found = feed.layouts[output] if feed.layouts else None
            batch.layouts[slot] = found or declared or ""
        batch.origins[self.number] = feed.source_info
        if feed.padding is not None:
            batch.padding = feed.padding
        if feed.ends_epoch:
            batch.ends.append(self.step.name)
        batch.states[self.step.name] = self.state(checkpointing)
        for sample, error in feed.failures.items():
            batch.fail(error, self.step, sample)

    def _refuse_gpu(self, values: list[Any], output: int) -> None:
        if DeviceSample in map(type, values):
            raise TypeError(
                f"output {output} of the source gives data on the GPU, and is read on the CPU: write "
                'fn.external_source(..., device="gpu"), and .cpu() where it is read'
            )


def _lends(values: Any) -> bool:
    """True for a large array that compiled code reads where it is."""
    return type(values) is np.ndarray and values.nbytes >= LENT_BYTES and fits_kernels(values)


def _copied(values: Any, size: int, memory: Any) -> Any:
    if isinstance(values, np.ndarray):
        return copied(values, memory)
    if DeviceSample in map(type, values):
        return [value.copy() for value in values]
    return Collector(size, memory.take).gather(values)
