"""The large arrays of a batch, written to their place in the batch as soon as an item is read.

Otherwise all items of a batch are in memory at the same time, each with memory of its own, and are copied later, when the
processor's cache does not have them any more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.executor.workers.segments import Placed
from pipeflow.loading.leaves import Field, Path, is_named_tuple

LARGE = 1 << 14  # bytes of an array; smaller ones are copied when the batch is made

Room = Callable[[tuple[int, ...], np.dtype], Placed]  # memory for an array of the batch


class RowBlocks:
    """The blocks of one batch. There is one for each path at which the items have a large array."""

    def __init__(self, room: Room, count: int, frame: Any) -> None:
        self._room, self._count, self._frame = room, count, frame
        self._blocks: dict[Path, Placed] = {}
        self._idle = False  # True if the first item has no large arrays

    def moved(self, item: Any, index: int) -> Any:
        """The item with rows of the blocks in place of its large arrays. The item itself does not change."""
        if self._idle or self._count < 2:
            return item
        found = self._move(item, index, ())
        self._idle = not self._blocks
        return found

    def _move(self, value: Any, index: int, path: Path) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            row = None if value.nbytes < LARGE else self._row(value, index, path)
            return value if row is None else row
        if kind is dict:
            return {key: self._move(x, index, (*path, key)) for key, x in value.items()}
        if kind is tuple or kind is list:
            return kind([self._move(x, index, (*path, n)) for n, x in enumerate(value)])
        if is_named_tuple(value):
            return kind(*[self._move(x, index, (*path, Field(f))) for f, x in zip(value._fields, value)])
        if self._frame.is_tensor(value):
            found = self._frame.array_of(value)
            row = None if found is None or found[0].nbytes < LARGE else self._row(found[0], index, path)
            return value if found is None or row is None else self._frame.restored(row, found[1])
        return value

    def _row(self, array: np.ndarray, index: int, path: Path) -> np.ndarray | None:
        """The row of a block with the content of the array; None if the array has no place in the block."""
        if array.dtype.hasobject:
            return None
        block = self._blocks.get(path)
        if block is None:
            block = self._blocks[path] = self._room((self._count, *array.shape), array.dtype)
        if block.array.dtype != array.dtype or block.array.shape[1:] != array.shape:
            return None
        row: np.ndarray = block.array[index]
        row[...] = array
        return row

    def block_of(self, arrays: Sequence[np.ndarray]) -> Placed | None:
        """The block of which these arrays are the first rows, in order."""
        first = arrays[0].__array_interface__["data"][0] if self._blocks else None
        for block in self._blocks.values() if self._blocks else ():
            rows = block.array
            if rows.__array_interface__["data"][0] == first and len(arrays) <= len(rows):
                same = all(
                    x.dtype == rows.dtype
                    and x.shape == rows.shape[1:]
                    and x.__array_interface__["data"][0] == first + n * rows.strides[0]
                    for n, x in enumerate(arrays)
                )
                return block.first(len(arrays)) if same else None
        return None
