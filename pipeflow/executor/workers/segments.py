"""Shared memory without a name: segments that grow, leases on them, and the codec for chunks of samples.

A segment is anonymous memory (a memfd on Linux; elsewhere a file that is unlinked at once), known only by its descriptor. So
nothing remains when a process ends, and the size of /dev/shm does not matter. Pages are reserved before they
are written. A segment only grows, by a second mapping of the same pages, so arrays made before stay valid. Fresh pages
cost 80 times as much as warm ones, so segments are used again: arrays have a lease
(`pipeflow.tensors`), and its end frees the segment.
"""

import errno
import math
import mmap
import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeflow import system
from pipeflow.executor.workers import anonymous_files
from pipeflow.saving.functions import dumps_value
from pipeflow.tensors import Block, array_in

FIRST_SIZE = 1 << 16
_ALIGNMENT = 64
OWN_BELOW = 4096  # a small array that the user keeps should not keep the memory of a chunk of images
_SPILL = 1 << 14  # tables beyond this size travel in the segment instead of in the message
_UNSEEN = 1 << 20  # bytes that may be reserved without a look at the free memory: a look takes a millisecond
_since_look = 0


def available_memory() -> int | None:
    """Bytes that can be reserved now, by the kernel and the limits of cgroups; None if the system does not say."""
    lines = system.lines_of("/proc/meminfo")
    if not lines:
        return None
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)
    limits = [x for x in (free, *map(_room_in_cgroup, _cgroup_folders())) if x is not None]
    return min(limits, default=None)


def _cgroup_folders() -> Iterable[Path]:
    """The files with the memory limits of this process: both versions of cgroups, inside a container or outside."""
    for line in system.lines_of("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            root = Path("/sys/fs/cgroup", controllers)
            yield root
            if path != "/":
                yield root / path.lstrip("/")


def _room_in_cgroup(folder: Path) -> int | None:
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            most = int((folder / limit).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            cached = int(statistics.get("total_inactive_file", statistics.get("inactive_file", 0)))
            return max(0, most - int((folder / usage).read_text()) + cached)
        except (OSError, ValueError):  # no such file here, or "max": no limit
            continue
    return None


def reserve(descriptor: int, start: int, end: int) -> None:
    """Reserves the bytes from start to end, so that writing them cannot fail; an error says how many were needed."""
    global _since_look  # threads may lose a count: then the next look is a little later
    needed = end - start
    text = f"worker processes need {needed} more bytes of shared memory ({end} in one block)"
    _since_look += needed
    if _since_look > _UNSEEN:
        _since_look = 0
        available = available_memory()
        if available is not None and needed > available:
            raise MemoryError(f"{text}, and {available} are available: use smaller chunks or batches, or fewer workers")
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, start, needed)
        else:
            for at in range(start, end, 1 << 20):
                os.pwrite(descriptor, bytes(min(1 << 20, end - at)), at)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        raise MemoryError(f"{text}, which the system refuses: {error.strerror}") from error


class Segment:
    """A block of shared memory known by its number in both processes and by its descriptor."""

    def __init__(self, number: int, descriptor: int | None = None, size: int = FIRST_SIZE) -> None:
        self.number = number
        if descriptor is None:
            self.descriptor = anonymous_files.anonymous_file("pipeflow")
            self._finalizer = weakref.finalize(self, os.close, self.descriptor)
            reserve(self.descriptor, 0, size)
            anonymous_files.forbid_shortening(self.descriptor)
        else:
            self.descriptor = descriptor
            self._finalizer = weakref.finalize(self, os.close, descriptor)
        self._finalizer.atexit = False
        self.size = 0
        self.retired = False  # True if a worker still refers to it: it must not be used again
        self.remap(size)

    def remap(self, size: int) -> None:
        """Maps the segment at its new size if it grew; older mappings exist as long as arrays in them."""
        if size > self.size:
            self.size = size
            self.map = anonymous_files.mapped(self.descriptor, size)
            self.flat = np.frombuffer(self.map, np.uint8)
            self.address: int = self.flat.__array_interface__["data"][0]

    def ensure(self, size: int) -> None:
        """Grows the segment to at least `size` bytes; the other side learns the new size from the next message."""
        if size > self.size:
            page = mmap.PAGESIZE
            size = -(-max(size, self.size * 3 // 2) // page) * page
            reserve(self.descriptor, self.size, size)
            self.remap(size)

    def lease(self, home: "deque[Block]") -> np.ndarray:
        """All its bytes as an array; when that and all arrays made from it are gone, `home` gets the segment back."""
        return array_in(Block("shared", self.size, self.address, (self, self.map)), home, (self.size,))

    def close(self) -> None:
        """Closes the descriptor; mappings and arrays stay valid."""
        self._finalizer()


class Unfilled(NamedTuple):
    """An array that is made in shared memory directly, by `fill(array)`, and is not copied."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: Callable[[np.ndarray], Any]


class Placed(NamedTuple):
    """An array that is in the segment already, at `offset`."""

    array: np.ndarray
    offset: int

    def first(self, count: int) -> "Placed":
        """Its first rows."""
        return Placed(self.array[:count], self.offset)


class FillsRoom:
    """The base of functions whose first argument is `SegmentWriter.room`: they write large results to shared memory directly."""


_NESTED = frozenset((np.ndarray, tuple, list, Unfilled, Placed))


class PackedTable(NamedTuple):
    """A table of values in a segment: its pickle, or the place of the pickle in the segment."""

    table: bytes | None
    start: int
    length: int


class SegmentWriter:
    """Writes values into a segment from its beginning: the bytes of arrays, and pickles of other objects.

    An entry of the table is `(offset, dtype, shape)` for an array, `(is_tuple, entries)` for a tuple or list with
    arrays in it, and `(value,)` for anything else.
    """

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.end = 0

    def put(self, value: Any) -> tuple[Any, ...]:
        """Writes a value and returns its entry."""
        kind = type(value)
        if kind is np.ndarray:
            dtype = value.dtype
            if dtype.hasobject:
                return (value.copy(),)  # the function may write to it again before the table is pickled
            shape = value.shape
            offset = self._lay(value)
            return offset, name_of(dtype), shape
        if kind is Unfilled:
            size = math.prod(value.shape) * value.dtype.itemsize
            offset = self._take(size)
            value.fill(np.ndarray(value.shape, value.dtype, self.segment.flat, offset))
            return offset, name_of(value.dtype), value.shape
        if kind is Placed:
            return value.offset, name_of(value.array.dtype), value.array.shape
        if (kind is tuple or kind is list) and not _NESTED.isdisjoint(map(type, value)):
            return kind is tuple, [self.put(x) for x in value]
        return (value,)

    def room(self, shape: tuple[int, ...], dtype: np.dtype) -> Placed:
        """Memory for an array that is a result: the caller fills it, then puts it."""
        offset = self._take(math.prod(shape) * dtype.itemsize)
        return Placed(np.ndarray(shape, dtype, self.segment.flat, offset), offset)

    def pack(self, content: Any) -> PackedTable:
        """Pickles a table; a long one goes into the segment too, so that messages stay short."""
        data = dumps_value(content)
        if len(data) <= _SPILL:
            return PackedTable(data, 0, 0)
        start = self._take(len(data))
        self.segment.flat[start : start + len(data)] = np.frombuffer(data, np.uint8)
        return PackedTable(None, start, len(data))

    def _lay(self, array: np.ndarray) -> int:
        """Copies an array into the segment and returns its offset."""
        offset = self._take(array.nbytes)
        np.ndarray(array.shape, array.dtype, self.segment.flat, offset)[...] = array
        return offset

    def _take(self, size: int) -> int:
        start = self.end
        end = start + size
        if end > self.segment.size:
            self.segment.ensure(end)
        self.end = (end + _ALIGNMENT - 1) & -_ALIGNMENT
        return min(start, self.segment.size)


class Region(SegmentWriter):
    """Shared memory for the inputs of workers. Arrays made in it are sent without a copy, others are copied into it.

    Several threads may take memory from it at once. It grows by a new mapping of the same segment; the segment is free
    again when the region, all its arrays and all holders of `lease` are gone.
    """

    def __init__(self, home: "Recycler", size: int = 0) -> None:
        super().__init__(home.take(size))
        self.lease = self.segment.lease(home.free)
        self._mappings = [(self.segment.address, self.segment.size)]
        self._lock = threading.Lock()
        self._filled = False

    def take(self, nbytes: int) -> np.ndarray:
        """``nbytes`` bytes as uint8."""
        with self._lock:
            self._filled = True
            start = super()._take(nbytes)
            if self.segment.address != self._mappings[-1][0]:
                self._mappings.append((self.segment.address, self.segment.size))
                mapping = Block("shared", self.segment.size, self.segment.address, (self.lease, self.segment.map))
                self.lease = array_in(mapping, deque(maxlen=0), (mapping.nbytes,))
            return self.lease[start : start + nbytes]

    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """An uninitialised array; an array of Python objects is on the heap."""
        dtype = np.dtype(dtype)
        if dtype.hasobject:
            return np.empty(shape, object)
        count = 1
        for extent in shape:
            count *= int(extent)
        return self.take(count * dtype.itemsize).view(dtype).reshape(shape)

    def offset_of(self, array: np.ndarray) -> int | None:
        """The offset of an array in the segment; None if it is in other memory or not contiguous."""
        if not self._filled or not array.flags.c_contiguous:
            return None
        at = array.__array_interface__["data"][0]
        for address, size in self._mappings:
            if address <= at and at + array.nbytes <= address + size:
                return at - address
        return None

    def dense(self, array: np.ndarray) -> int:
        """The offsets of the samples of an array in the segment."""
        offset = self.offset_of(array)
        return self._lay(array) if offset is None else offset

    def _lay(self, array: np.ndarray) -> int:
        offset = self.offset_of(array)
        if offset is None:
            with self._lock:
                offset = super()._take(array.nbytes)
                flat = self.segment.flat
            np.ndarray(array.shape, array.dtype, flat, offset)[...] = array
        return offset


def unpack(packed: PackedTable, segment: Segment) -> Any:
    """Reads the table that `Writer.pack` wrote."""
    if packed.table is not None:
        return pickle.loads(packed.table)
    return pickle.loads(memoryview(segment.map)[packed.start : packed.start + packed.length])


def read(entry: tuple[Any, ...] | None, flat: np.ndarray, own_below: int = 0) -> Any:
    """The value of an entry, None if there is none. Arrays are views of `flat`, read-only if it is; small ones are copies."""
    if entry is None:
        return None
    if len(entry) == 3:
        array: np.ndarray = np.ndarray(entry[2], entry[1], flat, entry[0])
        return array.copy() if array.nbytes < own_below else array
    if len(entry) == 1:
        return entry[0]
    values = [read(x, flat, own_below) for x in entry[1]]
    return tuple(values) if entry[0] else values


def read_columns(count: int, columns: Sequence[tuple[bool | None, Any]], flat: np.ndarray) -> list[tuple[Any, ...]]:
    """The samples of a chunk whose inputs came one by one: dense arrays, lists of entries, or (None) plain values."""
    lists = []
    for dense, content in columns:
        if dense is None:
            lists.append(content)
        elif not dense:
            lists.append([read(entry, flat) for entry in content])
        else:
            array = read(content, flat)
            lists.append(array if array.ndim > 1 else [array[index, ...] for index in range(count)])
    return list(zip(*lists))


def name_of(dtype: np.dtype) -> Any:
    """The short name of a dtype if it has a complete one, else the dtype itself."""
    return dtype.str if dtype.isbuiltin == 1 or dtype.kind in "SUmM" else dtype


class Recycler:
    """Free segments of one kind; taking and returning them is safe in any thread and in finalisers."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)
        self.free: deque[Block] = deque()
        self.dead: deque[int] = deque()  # numbers of segments that will not be used again
        self.made: weakref.WeakSet[Segment] = weakref.WeakSet()

    def give_back(self, segment: Segment) -> None:
        self.free.append(Block("shared", segment.size, segment.address, (segment, segment.map)))

    def take(self, size: int = 0) -> Segment:
        """The segment that was returned last, because its pages are warm; a new one if there is none."""
        while True:
            try:
                segment: Segment = self.free.pop().owner[0]
            except IndexError:
                segment = Segment(next(self._numbers), size=max(size, FIRST_SIZE))
                self.made.add(segment)
            if not segment.retired:
                segment.ensure(size)
                return segment
            self.dead.append(segment.number)
            segment.close()

    def close(self) -> None:
        """Frees the unused segments; leased ones are freed when their lease ends."""
        while self.free:
            self.free.pop().owner[0].close()
