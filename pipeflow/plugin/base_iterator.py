"""``LastBatchPolicy`` and the base class of iterators, under the module name that DALI has for them.

An iterator for a framework is a subclass of ``pipeflow.plugin.base.BaseIterator`` with a ``convert``. An iterator that
was written for DALI overrides ``__next__`` and calls the methods with an underscore; these methods here use the same
loop.
"""

from typing import Any

import numpy as np

from pipeflow.epochs import BaseIterator, LastBatchPolicy

__all__ = ["LastBatchPolicy"]


class _DaliBaseIterator(BaseIterator):
    """The base class of iterators written for DALI: ``__next__`` of the subclass makes the batches."""

    def __init__(self, pipelines: Any, *arguments: Any, **options: Any) -> None:
        several = isinstance(pipelines, (list, tuple))
        first = pipelines[0] if several and pipelines else pipelines
        outputs = [f"output_{number}" for number in range(getattr(first, "num_outputs", 0))]
        mine = getattr(self, "output_map", None)
        super().__init__(pipelines, outputs, *arguments, **options)
        self.output_map = outputs if mine is None else mine
        self._pipes = self.loop.pipelines
        self._num_gpus = len(self._pipes)
        self._reader_name = self.loop.reader
        self._last_batch_policy = self.loop.policy
        self._delivered: list[Any] = []
        self._counts: list[int] = []

    def _get_outputs(self) -> list[Any]:
        """The outputs of every pipeline for the next batch; StopIteration at the end of the epoch."""
        try:
            self._delivered, self._counts = self.loop.next(lambda delivered, counts: (delivered, counts))
        except StopIteration:
            if self._auto_reset:
                self.loop.start()
            raise
        return [item.outputs for item in self._delivered]

    def _schedule_runs(self) -> None:
        """Does nothing: the pipelines work ahead by themselves."""

    def _advance_and_check_drop_last(self) -> None:
        """Does nothing: a batch that is to be dropped was not returned."""

    def _remove_padded(self) -> tuple[np.ndarray, list[int]]:
        """For every pipeline: True if its batch has samples after the epoch's end, and the number that belong to it."""
        beyond = [count < item.size for count, item in zip(self._counts, self._delivered)]
        return np.array(beyond), self._counts
