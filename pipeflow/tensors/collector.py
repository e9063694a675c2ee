"""The collector copies each result of one output once, into the memory of its batch."""

from collections.abc import Callable, Sequence

import numpy as np

Take = Callable[[int], np.ndarray]


def slab_size(samples: int, hint: int) -> int:
    """The bytes for this number of samples of the hinted size; each begins at a multiple of 64."""
    return samples * (-(-hint // 64) * 64)


class Collector:
    """Gathers the results of one output for a batch: each is copied once, immediately, into memory of the batch.

    Results go into one slab of memory until it is full. Results of equal shapes become one dense array; those of
    different shapes become views one after another. ``take(nbytes)`` returns new memory. ``hint`` is the expected size
    of a sample in bytes: with it, a slab for the whole batch is made at the start, for any shapes.
    """

    __slots__ = ("_offset", "_slab", "_table", "_take", "dense", "hint", "size")

    def __init__(self, size: int, take: Take, hint: int = 0) -> None:
        self.size = size
        self.hint = hint
        self.dense: np.ndarray | None = None
        self._take = take
        self._slab: np.ndarray | None = None
        self._offset = 0
        self._table: list[np.ndarray] = []

    def start(self, first: np.ndarray) -> np.ndarray:
        """Memory for the whole batch if all samples are like the first one: an array (samples, *shape)."""
        shape = (self.size, *first.shape)
        if first.dtype == object:
            self.dense = np.empty(shape, object)
        else:
            self._slab = self._take(
                slab_size(self.size, self.hint) if self.hint >= first.nbytes else self.size * first.nbytes
            )
            self.dense = self._slab[: self.size * first.nbytes].view(first.dtype).reshape(shape)
        return self.dense

    def store(self, index: int, sample: np.ndarray) -> None:
        """Writes a sample with the same shape as the first one."""
        assert self.dense is not None
        # a 0-d array of an object would be stored as that array, not as the object
        self.dense[index] = sample[()] if sample.dtype.hasobject else sample

    def spill(self, count: int) -> None:
        """Switches to samples of different shapes; the first ``count`` are already written."""
        assert self.dense is not None
        self._table = [self.dense[index, ...] for index in range(count)]
        self._offset = count * (self.dense.nbytes // max(self.size, 1))
        self.dense = None

    def put(self, sample: np.ndarray) -> None:
        """Appends one sample after a spill."""
        if sample.dtype == object:
            self._table.append(sample.copy())
            return
        start = -(-self._offset // 64) * 64
        if self._slab is None or start + sample.nbytes > len(self._slab):
            left = self.size - len(self._table)
            self._slab, start = self._take(left * max(sample.nbytes + 64, self.hint)), 0
        place = self._slab[start : start + sample.nbytes].view(sample.dtype).reshape(sample.shape)
        np.copyto(place, sample)
        self._offset = start + sample.nbytes
        self._table.append(place)

    def values(self) -> "np.ndarray | list[np.ndarray]":
        """The gathered results: a dense array or a list of samples."""
        return self.dense if self.dense is not None else self._table

    def gather(self, samples: Sequence[np.ndarray]) -> "np.ndarray | list[np.ndarray]":
        """Copies all samples of a batch at once."""
        if not samples:
            return []
        dense = self.start(samples[0])
        shape = samples[0].shape
        for index, sample in enumerate(samples):
            if sample.shape != shape:
                self.spill(index)
                for rest in samples[index:]:
                    self.put(rest)
                break
            if dense.dtype.hasobject:
                self.store(index, sample)
            else:
                dense[index] = sample
        return self.values()
