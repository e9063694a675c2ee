"""The samples of a batch as columns of addresses and extents. Compiled code makes and reads such samples without a Python object
for each; the array of a sample is made when it is first read.
"""

import ctypes
import itertools
import math
import struct
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

_FIRST: Callable[[Any], Any] = ctypes.c_char.from_buffer
_LOCK = threading.Lock()  # for the few instructions in which a column or a block is added


@lru_cache(maxsize=64)
def _integers(count: int) -> Any:
    return ctypes.c_int64 * count


@lru_cache(maxsize=64)  # the memory of a batch is that of an earlier one
def _in_turn(begin: int, nbytes: int, count: int, shape: tuple[int, ...]) -> bytes:
    """The numbers of samples of this shape, one after another from this address on."""
    numbers = itertools.chain.from_iterable((begin + sample * nbytes, *shape) for sample in range(count))
    return struct.pack(f"{count * (1 + len(shape))}q", *numbers)


class PlacedArrays(Sequence[Any]):
    """The arrays of a batch, None for samples that have none yet. Several threads may store different samples.

    Kernels put the code of NumPy out of the caches, and then each function of NumPy costs 20 us when it is first called. So the
    numbers are memory of ctypes, as that of the pools is (``memory.py``): its address and its extents are read without NumPy.
    """

    def __init__(self, size: int) -> None:
        self._arrays: list[Any] = [None] * size  # those that were stored as arrays, or have been read
        self._read = False  # True if there may be some
        self._blocks: list[np.ndarray] = []  # with the samples
        self._memory: Any = None  # address and extents of each sample that is in a block, and else 0; their address;
        self.address = 0
        self._cells: memoryview | None = None  # and the same as bytes, and as many zeros
        self._zeros = b""
        self._numbers: np.ndarray | None = None  # and the same as an array
        self._extents: list[list[int]] | None = None
        self._dtype: np.dtype | None = None
        self._left = size  # samples that are in no block
        # Memory for all samples, if they are likely to have one shape; its address.
        self._whole: np.ndarray | None = None
        self._begin = 0
        self._given: bytearray | None = (
            None  # 1 for samples whose part of it was given out; None if it is all or nothing
        )
        # The numbers of the last batch that became one array, its address and bytes, and its shape: the next batch is often in
        # the same memory.
        self._turn: tuple[bytes, tuple[int, int], tuple[int, ...]] = (b"", (0, 0), ())

    def numbers(self, dtype: np.dtype, axes: int) -> np.ndarray | None:
        """The memory for address and extents of each sample of this type; None if there are others."""
        with _LOCK:
            if self._numbers is None:
                size = len(self._arrays)
                self._dtype = dtype
                self._memory = _integers(size * (1 + axes))()
                self.address = ctypes.addressof(self._memory)
                self._cells = memoryview(self._memory).cast("B")
                self._zeros = bytes(len(self._cells))
                self._numbers = np.ndarray((size, 1 + axes), np.int64, self._memory)
        return self._numbers if dtype == self._dtype and self._numbers.shape[1] == 1 + axes else None

    def placed(self, samples: int, blocks: Sequence[np.ndarray]) -> None:
        """Notes that the numbers of further samples were stored; they are in these blocks."""
        with _LOCK:
            self._blocks += blocks
            self._left -= samples

    def part(
        self, begin: int, end: int, nbytes: int, take: Callable[[int], np.ndarray]
    ) -> tuple[np.ndarray, int] | None:
        """Memory for some samples of so many bytes each, and its address: a part of one block for all samples, which ``take``
        allocates. None if one of them had it before: if other samples are smaller, or missing, their results may be there.
        """
        size = len(self._arrays)
        with _LOCK:
            if self._whole is None:
                self._whole = whole = take(nbytes * size)
                self._begin = ctypes.addressof(_FIRST(whole))
                if end - begin == size:
                    return whole, self._begin
                self._given = bytearray(size)
            if self._given is None or len(self._whole) != nbytes * size or 1 in self._given[begin:end]:
                return None
            self._given[begin:end] = bytes([1]) * (end - begin)
        return self._whole[begin * nbytes : end * nbytes], self._begin + begin * nbytes

    def one_shape(self) -> tuple[int, ...] | None:
        """The shape of the samples, if all have the same and are columns, else None."""
        if self._left or self._numbers is None or not self._arrays:
            return None
        shape = []
        for axis in self.extents():
            if axis.count(axis[0]) != len(axis):
                return None
            shape.append(axis[0])
        return tuple(shape)

    def extents(self) -> list[list[int]]:
        """For each axis the extents of all samples, which are columns and stay as they are."""
        if self._extents is None:
            width = len(self._memory) // len(self._arrays)
            self._extents = [self._memory[axis::width] for axis in range(1, width)]
        return self._extents

    def dense(self) -> np.ndarray | None:
        """The batch as one array, if the samples have one shape and fill the block for all, one after another."""
        whole = self._whole
        if whole is None or self._left or self._memory is None:
            return None
        assert self._dtype is not None
        numbers, place = bytes(self._memory), (self._begin, len(whole))
        known, where, shape = self._turn
        if numbers != known or place != where:
            count = len(self._arrays)
            extents = tuple(self._memory[1 : len(self._memory) // count])
            nbytes, shape = math.prod(extents) * self._dtype.itemsize, (count, *extents)
            if nbytes * count != len(whole) or numbers != _in_turn(self._begin, nbytes, count, extents):
                return None
            self._turn = numbers, place, shape
        return np.ndarray(shape, self._dtype, whole)

    def clear(self) -> None:
        """Removes the samples, and keeps the memory for their numbers for the next batch. Nothing else may refer to them."""
        self._left = size = len(self._arrays)
        if self._read:
            self._arrays, self._read = [None] * size, False
        self._blocks.clear()
        self._extents = self._whole = self._given = None
        if self._cells is not None:
            self._cells[:] = self._zeros

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
                self._read = True
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
        self._arrays[index], self._read = array, True
