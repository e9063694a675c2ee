"""The samples of a batch as columns of addresses and extents. Compiled code makes and reads such samples without a Python object
for each; the array of a sample is made when it is first read.
"""

import threading
from collections.abc import Sequence
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
