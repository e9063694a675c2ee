"""The common parts of readers: lists of paths that need little memory, and safe reading of bytes."""

import fnmatch
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from pipeflow.declare import ByteArrays, Room
from pipeflow.errors import BadData
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.places import expanded

# The names of image files.
IMAGES = (
    "*.jpg", "*.jpeg", "*.png", "*.bmp", "*.tif", "*.tiff", "*.pnm", "*.ppm", "*.pgm", "*.pbm", "*.jp2", "*.webp",
)  # fmt: skip


class Paths(Sequence[str]):
    """Many strings in one block of bytes, each with a zero at its end. A million Python strings would take 100 MB in every
    forked worker. Relative paths are joined to ``root``.
    """

    def __init__(self, paths: Iterable[str], root: str | None = None) -> None:
        given = list(paths) if root else paths
        encoded = [os.fsencode(joined(root, path)) for path in given]
        root_length = len(os.path.join(root, "")) if root else 0
        self._root_lengths = (
            np.fromiter((root_length * is_relative(path) for path in given), np.int32) if root else None
        )
        self._begins = np.cumsum([0, *(len(item) + 1 for item in encoded)], dtype=np.int64)
        self._bytes = np.frombuffer(bytearray(b"\0".join([*encoded, b""])), np.uint8)
        self._reading: Any = None

    def __len__(self) -> int:
        return len(self._begins) - 1

    def __getitem__(self, index: Any) -> str:
        begin, end = int(self._begins[index]), int(self._begins[index + 1]) - 1
        return os.fsdecode(self._bytes[begin:end].tobytes())

    def short(self, index: int) -> str:
        """A path as it was given: without the root."""
        return self[index] if self._root_lengths is None else self[index][self._root_lengths[index] :]

    def addresses(self, indices: np.ndarray) -> np.ndarray | None:
        """The addresses of some of these paths in memory, for compiled code; None if it cannot read all files."""
        if not kernels.whole_files.ready() or not self._ends_at_zeros:
            return None
        return self._begins[indices] + self._bytes.__array_interface__["data"][0]

    @cached_property
    def _ends_at_zeros(self) -> bool:
        """True if no path has a zero in it."""
        return np.count_nonzero(self._bytes == 0) == len(self)

    def read_files(self, indices: np.ndarray, room: Room) -> ByteArrays | None:
        """The bytes of some of these files, read in one call. Files with a negative size have to be read by ``read_file``; None
        if all have.

        ``room`` returns memory. It works only for files of this machine, and only after the compiler has been loaded.
        """
        if not kernels.whole_files.ready():
            return None
        if self._reading is None:
            self._reading = kernels.whole_files.Reading(OPEN_FLAGS)
        return ByteArrays(*self._reading.read(self._bytes, self._begins[indices], self._begins[indices + 1] - 1, room))


# With O_NONBLOCK, open does not wait for the other end of a pipe. O_BINARY exists only on Windows.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str) -> Any:
    """Opens a regular file for unbuffered reading. Other files are refused: a pipe would block, and a device would not end."""
    if remote.is_url(path):
        return remote.RemoteFile(path)
    descriptor, _ = _open(path)
    return os.fdopen(descriptor, "rb", buffering=0)


def _open(path: str) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file and its status. The caller closes it."""
    if "\0" in path:
        raise BadData(f"the path {path!r} has a zero in it")
    descriptor = os.open(path, OPEN_FLAGS)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise BadData(f"{path} is not a regular file")
    return descriptor, status


def read_file(path: str) -> np.ndarray:
    """The bytes of a whole file. It uses system calls directly: file objects took as long as the reading itself."""
    if remote.is_url(path):
        return remote.read_whole(path)
    if not hasattr(os, "readv"):
        with open_regular(path) as file:
            return read_into(file, path, 0, size_of(file))
    descriptor, status = _open(path)
    try:
        length = status.st_size
        array = np.empty(length, np.uint8)
        done = os.readv(descriptor, [array.data]) if length else 0
        while done < length:
            count = os.readv(descriptor, [array[done:].data])
            if not count:
                raise BadData(f"{path} became shorter while it was read: {done} of {length} bytes")
            done += count
        return array
    finally:
        os.close(descriptor)


def read_range(path: str, offset: int, length: int) -> np.ndarray:
    """`length` bytes of a file. If the file is shorter, it raises BadData before it allocates memory."""
    if remote.is_url(path):
        return remote.read_part(path, offset, length)
    with open_regular(path) as file:
        size = size_of(file)
        if offset < 0 or length < 0 or offset + length > size:
            raise BadData(f"{path}: bytes {offset} to {offset + length} are needed, but the file has {size}")
        return read_into(file, path, offset, length)


def stated(paths: Iterable[str]) -> list[str]:
    """Paths of files; a URL with the size and version of its file, if they are known."""
    return [remote.stated(path) if remote.is_url(path) else path for path in paths]


def size_of(file: Any) -> int:
    """The size of a file that ``open_regular`` has opened."""
    return file.size if isinstance(file, remote.RemoteFile) else os.fstat(file.fileno()).st_size


def size_at(path: str) -> int:
    """The size of a file at a path or URL."""
    return remote.size_of_url(path) if remote.is_url(path) else os.stat(path).st_size


def read_into(file: Any, path: str, offset: int, length: int) -> np.ndarray:
    """Reads exactly `length` bytes at `offset` of an open unbuffered file."""
    array = np.empty(length, np.uint8)
    view = memoryview(array.data)
    if offset:
        file.seek(offset)
    done = 0
    while done < length:
        count = file.readinto(view[done:])
        if not count:
            raise BadData(f"{path} became shorter while it was read: {done} of {length} bytes")
        done += count
    return array


def matcher(patterns: Sequence[str], case_sensitive: bool) -> re.Pattern[str]:
    """A compiled pattern that matches if any of the glob patterns matches."""
    joined = "|".join(fnmatch.translate(pattern) for pattern in patterns)
    return re.compile(joined, 0 if case_sensitive else re.IGNORECASE)


def read_lines(path: str) -> list[tuple[int, str]]:
    """The non-empty lines of a text file with their numbers."""
    try:
        with io.TextIOWrapper(io.BufferedReader(open_regular(path)), encoding="utf-8-sig") as file:
            lines = [(number, line.rstrip("\n")) for number, line in enumerate(file, 1) if line.strip()]
    except UnicodeDecodeError as error:
        raise BadData(f"{path} is not a text file: {error}") from None
    for number, line in lines:
        if "\0" in line:
            raise BadData(f"{path}:{number}: a line of text has no zero in it, got {line[:80]!r}")
    return lines


class Listing:
    """The line and file that name each sample of a reader, for error messages."""

    def __init__(self, file: str, lines: Iterable[int]) -> None:
        self._file = file
        self._lines = np.fromiter(lines, np.int64)

    @contextmanager
    def naming(self, index: int) -> Iterator[None]:
        """Adds the line to errors of the sample."""
        try:
            yield
        except Exception as error:
            error.add_note(f"listed in {self._file}:{self._lines[index]}")
            raise


class Listed(Sequence[str]):
    """Paths of files: given, listed in a text file, or found in a folder by a pattern."""

    def __init__(self, file_root: str | None, files: Any, file_list: str | None, file_filter: str) -> None:
        one_source_of_files(file_list, files, file_root)
        self._listing: Listing | None = None
        if files is not None:
            found = expanded(files, "files", file_root)
        elif file_list is not None:
            lines = read_lines(file_list)
            found = [line.strip() for _, line in lines]
            self._listing = Listing(file_list, (number for number, _ in lines))
            file_root = os.path.dirname(file_list) if file_root is None else file_root
        else:
            assert file_root is not None
            found = _discovered(file_root, file_filter)
        if not found:
            kind = file_filter.removeprefix("*")
            kind = kind if kind.startswith(".") else repr(file_filter)
            raise BadData(f"no {kind} files found in {file_list or file_root or 'the empty list files'}")
        self._paths = Paths(found, file_root)
        self.far = any(map(remote.is_url, found))

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: Any) -> str:
        return self._paths[index]

    def short(self, index: int) -> str:
        """A path as it was given: without the root."""
        return self._paths.short(index)

    @contextmanager
    def naming(self, index: int) -> Iterator[None]:
        """Adds the line of the list, if there is one, to errors of the file."""
        if self._listing is None:
            yield
            return
        with self._listing.naming(index):
            yield


def _discovered(root: str, pattern: str) -> list[str]:
    wanted = matcher([pattern], True)
    found = []

    def refuse(error: OSError) -> None:
        raise error

    for folder, _, files in os.walk(root, onerror=refuse):
        found += [os.path.relpath(os.path.join(folder, name), root) for name in files if wanted.match(name)]
    return sorted(found)


def one_source_of_files(file_list: Any, files: Any, file_root: Any) -> None:
    """Raises an error unless one of `file_list` and `files` is given, or `file_root` alone."""
    if file_list is not None and files is not None:
        raise ValueError("file paths can be given by 'files' or by 'file_list', but not by both")
    if file_list is None and files is None and file_root is None:
        raise ValueError("one of 'file_root', 'files' and 'file_list' is required")


def joined(root: str | None, path: str) -> str:
    """A path relative to the root, if there is one."""
    return os.path.join(root, path) if root and is_relative(path) else path


def is_relative(path: str) -> bool:
    """True if a path is relative to a root."""
    return not os.path.isabs(path) and not remote.is_url(path)
