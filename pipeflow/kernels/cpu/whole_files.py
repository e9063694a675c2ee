"""Reads several whole files in one call, without the interpreter: the system's functions are called by their addresses.

A file is opened, its type, size and bytes are read, and it is closed, before the next one is opened. A file is not read if it
does not exist, is not a regular file, is very large or becomes shorter. The caller then reads it in the usual way, and finds the
error.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import dispatcher
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeflow.kernels.cpu.jit import kept, kernel, types_of

LARGEST = 1 << 26  # the caller reads files of more bytes
UNREAD = -1
ALIGNMENT = 64
FIRST = 1 << 17  # the assumed size of a file, until one has been read

# Numbers and places of the system call statx, which are the same on all processors.
_OF_DESCRIPTOR, _TYPE_AND_SIZE = 0x1000, 0x1 | 0x200
_KIND_AT, _SIZE_AT, STATUS = 28, 40, 256
_KIND, _REGULAR = 0xF000, 0x8000

_INT64 = ir.IntType(64)


@intrinsic
def _system(_typing: Any, function: Any, one: Any, two: Any, three: Any, four: Any, five: Any) -> Any:
    """Calls the C function at an address and returns its result. Arguments that it does not have are in registers that it does
    not read.
    """
    del function, one, two, three, four, five

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_INT64, [_INT64] * 5)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(*[types.int64] * 6), generate


@kernel
def open_file(functions, flags, path, nothing, status, described):
    """Opens a file; returns its descriptor and its size, which are negative if it cannot be opened or is no regular file.

    `path` is the address of a path that ends with a zero, `nothing` that of an empty one, `described` that of `status`.
    """
    file = np.int64(np.int32(_system(functions[0], path, flags, 0, 0, 0)))
    size = np.int64(UNREAD)
    if file >= 0 and np.int32(_system(functions[1], file, nothing, _OF_DESCRIPTOR, _TYPE_AND_SIZE, described)) == 0:
        kind = np.int64(status[_KIND_AT]) | np.int64(status[_KIND_AT + 1]) << 8
        if kind & _KIND == _REGULAR:
            size = np.int64(0)
            for i in range(8):
                size = size << 8 | np.int64(status[_SIZE_AT + 7 - i])
    return file, size


@kernel
def fill_from_file(functions, file, memory, size):
    """Reads bytes of an open file to an address; returns True if it has so many."""
    done = np.int64(0)
    while done < size:
        count = _system(functions[2], file, memory + done, size - done, 0, 0)
        if count <= 0:
            break
        done += count
    return done == size


@kernel
def read_files(functions, flags, paths, path, begins, ends, first, memory, room, status, described, places, sizes):
    """Reads the files from `first` on into memory of `room` bytes; returns the first file without room, and its size.

    `paths` has the paths, each with a zero at its end; `path` is its address. `described` is the address of `status`.
    """
    used = 0
    for number in range(first, len(begins)):
        sizes[number] = UNREAD
        begin, end = begins[number], ends[number]
        if begin < 0 or end >= len(paths) or paths[end] != 0:
            continue
        whole = True
        for i in range(begin, end):
            whole = whole and paths[i] != 0
        if not whole:
            continue
        file, size = open_file(functions, flags, path + begin, path + end, status, described)
        if file < 0:
            continue
        if used + size > room and size <= LARGEST:
            _system(functions[3], file, 0, 0, 0, 0)
            return number, size
        if 0 <= size <= LARGEST and fill_from_file(functions, file, memory + used, size):
            places[number], sizes[number] = used, size
            used += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        _system(functions[3], file, 0, 0, 0, 0)
    return len(begins), 0


@kernel
def read_one(opens, describes, reads, closes, flags, path, memory, room, status, described):
    """Reads a file to an address with room for so many bytes; returns its size. If that is negative, or larger than the room, it
    was not read. The first arguments are the addresses of the system's functions.
    """
    functions = (opens, describes, reads, closes)
    status[0] = 0
    file, size = open_file(functions, flags, path, described, status, described)
    if file >= 0:
        if 0 <= size <= room and not fill_from_file(functions, file, memory, size):
            size = np.int64(UNREAD)
        _system(functions[3], file, 0, 0, 0, 0)
    return size


@kernel
def read_path(opens, describes, reads, closes, flags, path, memory):
    """`read_one` for a path as bytes, with or without zeros at its end. No URL is read, and no path with a zero in it."""
    end = len(path)
    while end > 0 and path[end - 1] == 0:
        end -= 1
    name = np.zeros(end + 1, np.uint8)
    for i in range(end):
        colon = path[i] == 58 and i + 2 < end and path[i + 1] == 47 and path[i + 2] == 47
        if path[i] == 0 or colon:
            return np.int64(UNREAD)
        name[i] = path[i]
    status = np.empty(STATUS, np.uint8)
    return _read_named(opens, describes, reads, closes, flags, name, memory, status)


@kernel
def _read_named(opens, describes, reads, closes, flags, name, memory, status):
    """Gets arrays, which are not freed before it returns, in place of their addresses."""
    data, room = memory.ctypes.data, len(memory)
    described = status.ctypes.data
    return read_one(opens, describes, reads, closes, flags, name.ctypes.data, data, room, status, described)


@cache
def functions() -> tuple[int, ...] | None:
    """The addresses of open, statx, read and close; None on a system that lacks one of them."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    if ctypes.sizeof(ctypes.c_void_p) != 8 or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    names = "open", "statx", "read", "close"
    if not all(hasattr(library, name) for name in names):
        return None
    return tuple([ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names])


def own_kernels() -> list[tuple[dispatcher.Dispatcher, tuple[types.Type, ...]]]:
    """The kernels, with the types of their arguments."""
    block, numbers = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    fixed = (1, 1, 1, 1), 1, block, 1, numbers, numbers, 1, 1, 1, block, 1, numbers, numbers
    return [(read_files, types_of(*fixed)), (read_one, types_of(1, 1, 1, 1, 1, 1, 1, 1, block, 1))]


@cache
def reader() -> Callable[..., tuple[int, int]]:
    """The machine code of `read_files`."""
    compiled, signature = own_kernels()[0]
    compiled.compile(signature)
    return compiled.overloads[signature].entry_point


@cache
def _compiled() -> bool:
    return all(kept(*one) for one in own_kernels())


def ready() -> bool:
    """True if this system has the functions, and the kernel is compiled."""
    return functions() is not None and _compiled()


def loaded() -> bool:
    """True if the kernel for several files is in memory."""
    return bool(read_files.signatures)


def load() -> None:
    """Reads the kernel for several files from the disk, or compiles it."""
    if functions() is not None:
        reader()


Whole = Callable[[NDArray[np.uint8]], NDArray[np.uint8] | None]


def reading(compute: Callable[..., int], known: tuple[int, ...], flags: int) -> Whole:
    """`read_path` for many calls: a function of a path, which returns the bytes of the file, or None if the caller must read it.

    The memory is as large as the last files, so most files are read into their own array.
    """
    room, empty = FIRST, np.empty

    def read(path: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        nonlocal room
        memory = empty(room, np.uint8)
        size = compute(*known, flags, path, memory)
        if size > room and size <= LARGEST:
            memory = empty(size, np.uint8)
            size = compute(*known, flags, path, memory)
        if not 0 <= size <= len(memory):
            return None
        room = size
        return memory if size == len(memory) else memory[:size].copy()

    return read


class Reading:
    """Reads files, and keeps their mean size to choose the memory."""

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self._mean = float(FIRST)

    def read(
        self,
        paths: NDArray[np.uint8],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
        room: Callable[[int], NDArray[np.uint8]],
    ) -> tuple[list[NDArray[np.uint8]], list[int], NDArray[np.int64], NDArray[np.int64]]:
        """Reads the files whose paths begin and end at these places: blocks of memory, the first file in each block, and the
        place and size of each file. A negative size is that of a file that the caller must read. `room` returns memory.
        """
        count = len(begins)
        places, sizes = np.zeros(count, np.int64), np.empty(count, np.int64)
        status = np.zeros(STATUS, np.uint8)
        blocks: list[NDArray[np.uint8]] = []
        firsts: list[int] = []
        begin, least = 0, 0
        while begin < count:
            memory = room(max(least, min(int(1.25 * self._mean * (count - begin)), LARGEST)))
            blocks.append(memory)
            firsts.append(begin)
            begin, least = reader()(
                functions(),
                self._flags,
                paths,
                _address(paths),
                begins,
                ends,
                begin,
                _address(memory),
                len(memory),
                status,
                _address(status),
                places,
                sizes,
            )
        read = sizes[sizes >= 0]
        if len(read):
            self._mean = 0.8 * self._mean + 0.2 * (float(read.sum()) / len(read) + ALIGNMENT)
        return blocks, firsts, places, sizes


def _address(array: NDArray) -> int:
    return array.__array_interface__["data"][0]
