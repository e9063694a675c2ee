"""Batches of items of similar length."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.kernels import cpu as kernels
from pipeflow.operators.readers.order import permute

_WINDOW = 64  # items are sorted by length within windows of this number of batches
_NO_LIMIT = 2**62


class Batches(NamedTuple):
    """The batches of an epoch: batch n has the items ``order[starts[n]:ends[n]]``."""

    order: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def items(self, number: int) -> list[int]:
        """The items of a batch."""
        return self.order[self.starts[number] : self.ends[number]].tolist()


class Buckets:
    """Divides a data set into batches of similar length, differently in each epoch if it is shuffled.

    The items are put in the order of the epoch, and sorted by length within windows of some batches: rising and falling in turn,
    so that neighbouring windows meet at similar lengths. The result is cut into batches, and then the batches are shuffled.
    """

    def __init__(
        self,
        lengths: "Sequence[int] | np.ndarray | Callable[[int], int]",
        size: int,
        *,
        batch_size: int | None,
        max_tokens: int | None,
        shuffle: bool,
        drop_last: bool,
    ) -> None:
        self._lengths = _lengths(lengths, size)
        if max_tokens is not None:
            if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
                raise ValueError(f"max_tokens must be a number from 1 on, got {max_tokens!r}")
            over = np.flatnonzero(self._lengths > max_tokens)
            if len(over):
                item = int(over[0])
                raise ValueError(
                    f"item {item} has the length {self._lengths[item]}, and a batch may have max_tokens={max_tokens}: raise it, "
                    "or leave such items out of the data set"
                )
        self._rows = batch_size or _NO_LIMIT
        self._tokens = max_tokens or _NO_LIMIT
        self._shuffle, self._drop_last = shuffle, drop_last and max_tokens is None
        self._made: tuple[tuple[int, int], Batches] | None = None
        settings = np.array([self._rows, self._tokens, shuffle, drop_last], np.int64)
        self.digest = zlib.crc32(settings.tobytes(), zlib.crc32(self._lengths.tobytes()))

    @property
    def most(self) -> int:
        """The largest number of items that a batch may have."""
        shortest = max(1, int(self._lengths.min(initial=_NO_LIMIT)))
        return max(1, min(self._rows, self._tokens // shortest, len(self._lengths)))

    def of_epoch(self, seed: int, epoch: int) -> Batches:
        """The batches of an epoch."""
        if self._made is None or self._made[0] != (seed, epoch):
            self._made = (seed, epoch), self._batches(seed, epoch)
        return self._made[1]

    def _batches(self, seed: int, epoch: int) -> Batches:
        size = len(self._lengths)
        order = np.arange(size)
        if self._shuffle:
            order = permute(order, size, seed, epoch) if size else order
        lengths = self._lengths[order]
        mean = max(1.0, float(lengths.mean())) if size else 1.0
        window = int(_WINDOW * min(self._rows, self._tokens / mean, max(1, size)))  # no item is longer than max_tokens
        number = np.arange(size) // window
        line = np.lexsort((np.where(number % 2, -lengths, lengths), number))  # stable: equal lengths stay in order
        order, lengths = order[line], lengths[line]
        ends = kernels.packing.cut(lengths, self._rows, self._tokens)
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
        if self._drop_last and len(ends) and ends[-1] - starts[-1] < self._rows:
            starts, ends = starts[:-1], ends[:-1]
        if self._shuffle and len(ends):
            places = permute(np.arange(len(ends)), len(ends), seed, epoch, 1)
            starts, ends = starts[places], ends[places]
        return Batches(order, starts, ends)


def _lengths(given: Any, size: int) -> np.ndarray:
    """The length of each item, as int64."""
    values = np.asarray([given(index) for index in range(size)] if callable(given) else given)
    if values.shape != (size,) or (values.dtype.kind not in "iu" and size):
        raise ValueError(
            f"bucket_by has the shape {values.shape} and the type {values.dtype}: it has the length of each of the {size} items, "
            "or is a function that gives the length of the item with an index"
        )
    if size and int(values.min()) < 0:
        raise ValueError(f"bucket_by: item {int(np.argmin(values))} has the length {int(values.min())}")
    return values.astype(np.int64)
