"""The samples of a batch as columns of addresses and extents. Compiled code makes and reads such samples without a Python object
for each; the array of a sample is made when it is first read.
"""

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_LOCK = threading.Lock()  # for the few instructions in which a column or a block is added


class PlacedArrays(Sequence[Any]):
    """The arrays of a batch, None for samples that have none yet. Several threads may store different samples."""

    def __init__(self, size: int) -> None:
        self._arrays: list[Any] = [None] * size  # those that were stored as arrays, or have been read
        self._blocks: list[np.ndarray] = []  # with the samples
        self._numbers: np.ndarray | None = None  # address and extents of each sample that is in a block, and else 0
        self._dtype: np.dtype | None = None
        self._left = size  # samples that are in no block
        self._whole: np.ndarray | None = None  # memory for all samples, if they are likely to have one shape
        self._given = bytearray(size)  # 1 for samples whose part of it was given out

    def numbers(self, dtype: np.dtype, axes: int) -> np.ndarray | None:
        """The memory for address and extents of each sample of this type; None if there are others."""
        with _LOCK:
            if self._numbers is None:
                self._dtype = dtype
                self._numbers = np.zeros((len(self), 1 + axes), np.int64)
        return self._numbers if dtype == self._dtype and self._numbers.shape[1] == 1 + axes else None

    def placed(self, samples: int, blocks: Sequence[np.ndarray]) -> None:
        """Notes that the numbers of further samples were stored; they are in these blocks."""
        with _LOCK:
            self._blocks += blocks
            self._left -= samples

    def part(self, begin: int, end: int, nbytes: int, take: Callable[[int], np.ndarray]) -> np.ndarray | None:
        """Memory for some samples of so many bytes each: a part of one block for all samples, which ``take`` allocates. None if
        one of them had it before: if other samples are smaller, or missing, their results may be there.
        """
        with _LOCK:
            if self._whole is None:
                self._whole = take(nbytes * len(self))
            if len(self._whole) != nbytes * len(self) or any(self._given[begin:end]):
                return None
            self._given[begin:end] = bytes([1]) * (end - begin)
        return self._whole[begin * nbytes : end * nbytes]

    def one_shape(self) -> tuple[int, ...] | None:
        """The shape of the samples, if all have the same and are columns, else None."""
        numbers = self.columns
        if numbers is None or not len(numbers):
            return None
        _, *shape = numbers[0].tolist()  # a call of NumPy is slow here, because kernels have used the caches
        extents = numbers[:, 1:].tobytes()
        same = extents == extents[: 8 * len(shape)] * len(numbers)
        return tuple(shape) if same else None

    def dense(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """The batch as one array, if the samples have this shape and follow one another in one block."""
        whole, numbers = self._whole, self.columns
        if whole is None or numbers is None:
            return None
        assert self._dtype is not None
        nbytes, count = math.prod(shape) * self._dtype.itemsize, len(numbers)
        begin = whole.__array_interface__["data"][0]
        if nbytes * count != len(whole) or (numbers[:, 0] != begin + nbytes * np.arange(count)).any():
            return None
        return np.ndarray((count, *shape), self._dtype, whole)

    @property
    def columns(self) -> np.ndarray | None:
        """Address and extents of each sample; None if some were stored as arrays."""
        return None if self._left else self._numbers

    @property
    def dtype(self) -> np.dtype:
        """The type of the samples."""
        return self[0].dtype if self._dtype is None or self._left else self._dtype

    @property
    def ndim(self) -> int:
        """The number of axes of the samples."""
        return self[0].ndim if self._numbers is None or self._left else self._numbers.shape[1] - 1

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is tuple:  # as of a dense batch: the sample, and all of it
            index = index[0]
        if isinstance(index, slice):
            return [self[sample] for sample in range(*index.indices(len(self)))]
        array = self._arrays[index]
        if array is None and self._numbers is not None:
            address, *shape = self._numbers[index].tolist()
            if address:
                array = self._arrays[index] = self._array(address, shape)
        return array

    def _array(self, address: int, shape: list[int]) -> np.ndarray:
        """The array at an address. One without elements may begin where its block ends."""
        assert self._dtype is not None
        for block in self._blocks:
            place = address - block.__array_interface__["data"][0]
            if 0 <= place < len(block) or (place == len(block) and 0 in shape):
                return np.ndarray(shape, self._dtype, block, place)
        raise AssertionError("a sample is in one of the blocks")

    def __setitem__(self, index: int, array: Any) -> None:
        with _LOCK:
            self._left = -len(self) - 1  # arrays of their own have no columns
            if self._numbers is not None:
                self._numbers[index] = 0
        self._arrays[index] = array
