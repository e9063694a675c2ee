"""Requests the groups of rows of later batches.

Rows that can only be decoded in groups are not read ahead row by row (`ahead.py`). A group is requested once, some time before
the first batch that needs it, and its bytes are kept until it is decoded.
"""

import copy
from collections import deque
from typing import Any

import numpy as np

from pipeflow.declare import Request
from pipeflow.operators.readers.ahead import AHEAD
from pipeflow.operators.readers.order import Sampler

BATCHES = 1024  # batches that are looked at


class GroupsAhead:
    """Looks at later batches, and requests their groups while there is room.

    ``samples`` has four methods: ``groups(indices)`` returns the groups of rows in the order in which they are needed,
    ``request(group)`` requests one, ``requested()`` returns the number of bytes that were requested and not decoded yet, and
    ``forget()`` drops these.
    """

    def __init__(self, samples: Any) -> None:
        self._samples = samples
        self._planned: deque[tuple[np.ndarray, bool]] = deque()  # the batches, and True if an epoch ends with one
        self._ends = 0  # the number of ends of epochs in the planned batches
        self._at_end = False  # True if the last batch was the end of its epoch
        self._todo: deque[tuple[Any, bool]] = deque()  # groups to request, and True if they are of the next epoch
        self._scout: Sampler | None = None
        self._wanted: Any = None

    def serve(self, indices: np.ndarray, sampler: Sampler, request: Request) -> None:
        """Requests the groups of a batch that was just taken from the sampler, and those of the next batches."""
        wanted = request.batch_size, request.ending
        if self._planned and wanted == self._wanted and np.array_equal(self._planned[0][0], indices):
            self._at_end = self._planned.popleft()[1]
            self._ends -= self._at_end
        else:
            self._samples.forget()
            self._planned.clear()
            self._ends = 0
            self._scout, self._wanted = copy.copy(sampler), wanted
            self._todo = deque((group, False) for group in self._samples.groups(indices))
            self._at_end = sampler.ended
        assert self._scout is not None
        while True:
            beyond = (self._at_end or self._ends > 0) and (not self._todo or self._todo[0][1])
            if self._samples.requested() >= (1 if beyond else AHEAD):  # the next epoch may never be read
                return
            if self._todo:
                self._samples.request(self._todo.popleft()[0])
            elif self._looks_on(beyond):
                found = self._scout.take(request.batch_size, request.ending).index
                self._planned.append((found, self._scout.ended))
                self._ends += self._scout.ended
                self._todo.extend((group, beyond) for group in self._samples.groups(found))
            else:
                return

    def _looks_on(self, beyond: bool) -> bool:
        """True if the batch after the planned ones is needed; of the next epoch only the first one is."""
        assert self._scout is not None
        begun = beyond and bool(self._planned) and not self._planned[-1][1]
        return len(self._planned) < BATCHES and not begun and self._scout.order.foreseeable
