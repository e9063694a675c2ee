"""The objects for the results of a chain. A batch gets them from an earlier one whose results are arrays by now."""

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import Any

from pipeflow.executor.batch import BatchRun
from pipeflow.tensors import PlacedArrays


class ResultsOfBatch:
    """The samples of each slot, and the columns in which a program stores them."""

    __slots__ = ("known", "values")

    def __init__(self, values: Sequence[PlacedArrays]) -> None:
        self.values = values
        # The program, and its columns if they belong only to these values.
        self.known: tuple[Any, Any] | None = None


class ChainResults:
    """The slots in which compiled code stores its results without an array for each."""

    def __init__(self, slots: Sequence[int]) -> None:
        self.slots = slots
        # Slots whose samples had one shape in the last batch, with their bytes, if the batch did not become one array.
        self.packed: dict[int, int] = {}
        self._free: deque[ResultsOfBatch] = deque()
        self._one_program = True

    def enter(self, batch: BatchRun) -> None:
        """Prepares the slots. To make the objects takes 10 us for each batch, so they are used again."""
        try:
            made = self._free.pop()
        except IndexError:
            made = None
        if made is None or len(made.values[0]) != batch.size:
            made = ResultsOfBatch([PlacedArrays(batch.size) for _ in self.slots])
        batch.columns[self] = made
        if made.known is not None:
            batch.columns[made.known[0]] = made.known[1]
        for slot, values in zip(self.slots, made.values):
            batch.values[slot] = values

    def keep(self, batch: BatchRun, program: Any, columns: Any, lasting: bool) -> None:
        """Keeps the columns of a program for other batches. If there are several programs, their results may differ in type, and
        each batch gets its own objects.
        """
        made = batch.columns.get(self)
        if made is None or not self._one_program:
            return
        if made.known is None:
            made.known = program, columns if lasting else None
        elif made.known[0] is not program:
            self._one_program = False
            self._free.clear()

    def finish(self, batch: BatchRun) -> None:
        """Makes one array of the results of a slot, if they have one shape and are next to each other in memory. If all slots
        become arrays, nothing refers to the objects of the batch any more.
        """
        made: ResultsOfBatch | None = batch.columns.pop(self, None)
        known = () if made is None else made.values
        free = made is not None and self._one_program
        for number, slot in enumerate(self.slots):
            values = batch.values[slot]
            dense = values.dense() if type(values) is PlacedArrays else None
            if dense is not None:
                batch.values[slot] = dense
                free = free and values is known[number]
                continue
            free = False
            shape = values.one_shape() if type(values) is PlacedArrays else None
            if shape is None:
                self.packed.pop(slot, None)
            else:
                self.packed[slot] = prod(shape) * values.dtype.itemsize
        if free and made is not None:
            if made.known is not None:
                batch.columns.pop(made.known[0], None)
            for values in known:
                values.clear()
            self._free.append(made)
