"""A batch as a worker process sends it: its arrays are in shared memory, everything else is pickled."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.executor.workers.segments import Placed, Unfilled
from pipeflow.loading.light import Shared
from pipeflow.loading.rows import LARGE, Room, RowBlocks
from pipeflow.saving.functions import dumps_with_holes, loads_with_holes


class Joining:
    """Joins leaves in a worker: they are written one after another to shared memory, large arrays when their item is read."""

    def __init__(self, find: Callable[[], Any], room: Room) -> None:
        self._find, self._room = find, room
        self._rows: RowBlocks | None = None

    def begin(self, count: int) -> Callable[[Any, int], Any]:
        """Begins a batch of at most so many items; the function returned moves the large arrays of an item to their place."""
        self._rows = RowBlocks(self._room, count, self._find())
        return self._rows.moved

    def placed(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays of an item that a pipeline gets by itself, the large ones in shared memory."""
        return tuple([self._placed(x) if type(x) is np.ndarray and x.nbytes >= LARGE else x for x in leaves])

    def _placed(self, array: np.ndarray) -> Any:
        if array.dtype.hasobject:
            return array
        place = self._room(array.shape, array.dtype)
        place.array[...] = array
        return place

    def __call__(self, values: Sequence[Any], kind: str) -> Any:
        """The batch of some leaves."""
        frame = self._find()
        arrays: Sequence[Any] = values
        name = ""
        if kind == "numbers":
            return frame.numbers(values)
        if kind == "tensors" or frame.name != "numpy":
            found = [frame.array_of(x) if kind == "tensors" else (x, frame.kind_of(x)) for x in values]
            kinds = {x and x[1] for x in found}
            name = kinds.pop()
            if name is None or kinds:
                return frame.stack_tensors(values) if kind == "tensors" else frame.stack_arrays(values)
            arrays = [x[0] for x in found]
        first = arrays[0]
        if len({x.dtype for x in arrays}) > 1:
            return frame.stack_tensors(values) if kind == "tensors" else frame.stack_arrays(values)
        block = self._rows and self._rows.block_of(arrays)
        if block:
            return Shared(block, name)

        def fill(place: np.ndarray) -> None:
            if first.ndim:  # one after another along the first axis of the items: the same bytes, by one call
                np.concatenate(arrays, out=place.reshape(-1, *first.shape[1:]) if place.size else None)
            else:
                place[...] = arrays

        return Shared(Unfilled((len(arrays), *first.shape), first.dtype, fill), name)


def packed(value: Any, frame: Any) -> tuple[bytes, list[Any]]:
    """A batch as bytes, and the arrays that are not in these bytes."""
    arrays: list[Any] = []
    seen: dict[int, tuple[int, str]] = {}

    def hole(part: Any) -> tuple[int, str] | None:
        kind = type(part)
        if kind is Shared:
            found = part.array, part.kind
        elif kind is Placed:
            found = part, ""
        elif kind is np.ndarray:
            if part.dtype.hasobject:
                return None
            found = part, ""
        else:
            found = frame.array_of(part)
            if found is None:
                return None
        if id(part) not in seen:
            seen[id(part)] = len(arrays), found[1]
            arrays.append(found[0])
        return seen[id(part)]

    return dumps_with_holes(value, hole), arrays


def unpacked(data: bytes, arrays: Sequence[np.ndarray], frame: Any) -> Any:
    """The batch from its parcel; its arrays and tensors are views of shared memory."""
    made: dict[int, Any] = {}

    def fill(hole: tuple[int, str]) -> Any:
        index, kind = hole
        if index not in made:
            made[index] = frame.restored(arrays[index], kind) if kind else arrays[index]
        return made[index]

    return loads_with_holes(data, fill)
