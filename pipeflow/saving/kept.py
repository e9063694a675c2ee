"""Samples that are kept for later epochs, in files that several processes read and write at the same time.

A cache is a folder. Each process that writes has two files of its own there, and only appends to them: the samples, and an
index. The index has a line of fixed size for each sample, with a checksum. The line is written after the sample, so after a
crash an unfinished sample has no line, and no process finds it. A process compares the checksum when it first reads the sample.
From time to time every process reads the new lines in the indexes of the others.

The files of a cache in memory are in the memory file system of the machine. The last process that uses them removes
them, and the next process that makes a cache removes the files of killed processes.
"""

import contextlib
import hashlib
import json
import os
import shutil
import struct
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeflow import system
from pipeflow.saving.folders import own_folder

# sample, offset, bytes of its description, bytes of its data, their checksum, the digest of its sources
_LINE = struct.Struct("<QQIQIQ")
_SUM = struct.Struct("<I")
LINE = _LINE.size + _SUM.size
_ENTRY = np.dtype(
    [
        ("file", "u2"),
        ("about", "u4"),
        ("sum", "u4"),
        ("known", "?"),
        ("kind", "u4"),  # 0 until the sample is read and checked, then 1 + the place of its shape, type and layout
        ("offset", "u8"),
        ("data", "u8"),
        ("made_of", "u8"),
    ]
)
Described = tuple[tuple[int, ...], np.dtype, str]  # shape, type and layout of a sample
_LOOK_AFTER = 256  # after so many samples that were not found, the files of other processes are read again
_MOST_PARTS = 10_000_000  # parts of a constant that are compared: enough for a complete list of paths
_SHARE = 64  # a process adds up the size of all files again after it has written 1/64 of the limit


class Kept:
    """A folder of samples, by their numbers."""

    def __init__(self, folder: Path, count: int, most: int | None, *, in_memory: bool = False) -> None:
        self._home, self._most, self._in_memory = folder.parent, most, in_memory
        self._lock = threading.Lock()
        self._entries = np.zeros(count, _ENTRY)
        self._kinds: list[Described] = []  # most samples of a dataset have one of few shapes
        self._kind_of: dict[Described, int] = {}  # 1 + the place of each
        self._files: list[tuple[str, int]] = []  # name and descriptor of the samples
        self._read: dict[str, int] = {}  # name -> the number of bytes of its index that are known
        self._missed = 0
        self._room = 0  # bytes that may be written before the sizes of the files are added up again
        self._full = False
        self._pid = os.getpid()
        self._own: tuple[int, int, int] | None = None  # number of the own file, descriptors of samples and index
        self._end = 0  # the end of the own file
        self.folder = folder
        if in_memory:  # every user can write to the parent folder, so another user may have made this folder, or a link
            system.private_folder(self._home)
        else:
            own_folder(self._home)
        with _alone(self._home):
            if in_memory:
                for other in self._others():
                    _removed_if_unused(other)
            folder.mkdir(mode=0o700, exist_ok=True)
            self._used = os.open(folder / "used", os.O_RDWR | os.O_CREAT, 0o600)
            os.utime(self._used)
            system.lock_shared(self._used)
        self._opened: list[int] = [self._used]
        self._finalizer = weakref.finalize(self, _close, self._opened, folder if in_memory else None, self._pid)
        self.look()

    def close(self) -> None:
        """Closes the files; those of a cache in memory are removed if no other process has them open."""
        self._finalizer()

    # Reading.

    def find(self, number: int, made_of: int) -> Described | None:
        """Shape, type and layout of a kept sample, if it was made from the same sources; else None."""
        entry = self._entries[number]
        if not entry["known"]:
            self._missed += 1
            if self._missed < _LOOK_AFTER:
                return None
            self.look()
            if not entry["known"]:
                return None
        if entry["made_of"] != made_of:
            return None
        if not entry["kind"]:
            descriptor = self._files[entry["file"]][1]
            about = os.pread(descriptor, int(entry["about"]), int(entry["offset"]))
            data = os.pread(descriptor, int(entry["data"]), int(entry["offset"] + entry["about"]))
            try:
                if zlib.crc32(data, zlib.crc32(about)) != entry["sum"]:
                    raise ValueError("the checksum is wrong")
                shape, dtype, layout = json.loads(about)
                entry["kind"] = self._number_of((tuple(shape), np.dtype(dtype), layout))
            except (ValueError, TypeError):
                entry["known"] = False  # it is damaged, so it will be made and kept again
                return None
        return self._kinds[entry["kind"] - 1]

    def _number_of(self, described: Described) -> int:
        """1 + the place of a shape, type and layout; a new place for new ones."""
        if described not in self._kind_of:
            with self._lock:
                if described not in self._kind_of:
                    self._kinds.append(described)
                    self._kind_of[described] = len(self._kinds)
        return self._kind_of[described]

    def read(self, number: int, target: np.ndarray) -> None:
        """A sample that ``find`` has found, into an array of that shape and type."""
        entry = self._entries[number]
        descriptor, offset = self._files[entry["file"]][1], int(entry["offset"] + entry["about"])
        if target.flags.c_contiguous:
            view = target.reshape(-1).view(np.uint8).data if target.nbytes else memoryview(b"")
            done = 0
            while done < len(view):
                count = os.preadv(descriptor, [view[done:]], offset + done)
                if not count:
                    raise OSError(f"{self.folder} became shorter while it was read")
                done += count
        else:
            target[...] = np.frombuffer(os.pread(descriptor, target.nbytes, offset), target.dtype).reshape(target.shape)

    def look(self) -> None:
        """Reads the lines that other processes have added to their indexes."""
        with self._lock:
            self._missed = 0
            for path in sorted(self.folder.glob("*.index")):
                name = path.stem
                if self._own is not None and name == self._files[self._own[0]][0]:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    self._take(name, path)

    def _take(self, name: str, path: Path) -> None:
        begun = self._read.get(name, 0)
        with open(path, "rb") as file:
            file.seek(begun)
            lines = file.read()
        if name not in self._read:
            descriptor = os.open(path.with_suffix(".samples"), os.O_RDONLY)
            self._opened.append(descriptor)
            self._files.append((name, descriptor))
        number = next(n for n, (known, _) in enumerate(self._files) if known == name)
        size = os.fstat(self._files[number][1]).st_size
        place = 0
        while place + LINE <= len(lines):
            line = lines[place : place + LINE]
            sample, offset, about, data, total, made_of = _LINE.unpack_from(line)
            fits = sample < len(self._entries) and offset + about + data <= size
            if _SUM.unpack_from(line, _LINE.size)[0] != zlib.crc32(line[: _LINE.size]) or not fits:
                break  # an incomplete or damaged line: the lines after it are not used
            self._entries[sample] = (number, about, total, True, 0, offset, data, made_of)
            place += LINE
        self._read[name] = begun + place

    # Writing.

    def keep(self, number: int, made_of: int, sample: np.ndarray, layout: str) -> bool:
        """Keeps a sample; False if there is no room for it."""
        if self._full or os.getpid() != self._pid or sample.dtype.hasobject:
            return False
        about = json.dumps([sample.shape, sample.dtype.str, layout]).encode()
        data = np.ascontiguousarray(sample).reshape(-1).view(np.uint8).data if sample.nbytes else memoryview(b"")
        total = zlib.crc32(data, zlib.crc32(about))
        size = len(about) + len(data)
        kind = self._number_of((sample.shape, sample.dtype, layout))
        with self._lock:
            if not self._has_room(size):
                self._full = True
                return False
            file, samples, index = self._own or self._begun()
            try:
                written = os.pwritev(samples, [about, data], self._end)
                if written < size:
                    raise OSError("the disk is full")
                line = _LINE.pack(number, self._end, len(about), len(data), total, made_of)
                if os.write(index, line + _SUM.pack(zlib.crc32(line))) < LINE:
                    raise OSError("the disk is full")
            except OSError:
                self._full = True
                return False
            self._entries[number] = (file, len(about), total, True, kind, self._end, len(data), made_of)
            self._end += size
            self._room -= size + LINE
        return True

    def _begun(self) -> tuple[int, int, int]:
        descriptor, path = tempfile.mkstemp(".samples", f"{self._pid}-", self.folder)
        name = Path(path).stem
        index = os.open(self.folder / f"{name}.index", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._opened += [descriptor, index]
        self._files.append((name, descriptor))
        self._own = len(self._files) - 1, descriptor, index
        return self._own

    def _has_room(self, size: int) -> bool:
        if self._most is None or size + LINE <= self._room:
            return True
        left = self._most - _size_of(self._home if not self._in_memory else self.folder)
        if left < size + LINE and not self._in_memory:
            with _alone(self._home):
                for other in self._others():
                    if left >= max(size + LINE, self._most // _SHARE):
                        break
                    freed = _size_of(other)
                    if _removed_if_unused(other):
                        left += freed
        self._room = max(0, min(left, max(size + LINE, self._most // _SHARE)))
        return size + LINE <= self._room

    def _others(self) -> list[Path]:
        """The other caches of the same home, least recently used first."""
        found = [(x.stat().st_mtime_ns, x.parent) for x in self._home.glob("*/used") if x.parent != self.folder]
        return [folder for _, folder in sorted(found)]


def memory_home() -> Path:
    """The folder of caches in memory: each user has one in the memory file system."""
    base = Path("/dev/shm")
    return (base if base.is_dir() else Path(tempfile.gettempdir())) / f"pipeflow-cache-{system.user()}"


_holding: set[int] = set()  # the threads inside `_alone`
_left: list[Path] = []  # caches in memory that the garbage collector has closed inside `_alone`


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """While this context is open, no other thread and no other process opens or removes caches of this home."""
    thread = threading.get_ident()
    descriptor = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    _holding.add(thread)
    try:
        system.wait_for_lock(descriptor)
        yield
    finally:
        system.unlock(descriptor)  # else a child that was forked in the meantime would keep the lock
        os.close(descriptor)
        _holding.discard(thread)
        with contextlib.suppress(IndexError):
            while True:
                _remove(_left.pop())


def _remove(folder: Path) -> None:
    """Removes a cache in memory that this process has closed, unless another process has it open."""
    with contextlib.suppress(OSError), _alone(folder.parent):
        _removed_if_unused(folder)


def _removed_if_unused(folder: Path) -> bool:
    """Removes a cache that no process has open."""
    try:
        descriptor = os.open(folder / "used", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        if not system.lock(descriptor):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(descriptor)


def _close(opened: list[int], volatile: Path | None, pid: int) -> None:
    for descriptor in opened:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    if volatile is None or os.getpid() != pid:
        return
    if threading.get_ident() in _holding:  # the collector runs inside `_alone`: the thread would wait for itself
        _left.append(volatile)
    else:
        _remove(volatile)


def _size_of(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += path.stat().st_size if path.suffix in (".samples", ".index") else 0
    return size


def made_of(text: str) -> int:
    """The sources of a sample as a number. For a file, the number also depends on its size and the time of its last change."""
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(text)
        text = f"{text}\0{status.st_size}\0{status.st_mtime_ns}"
    first = zlib.crc32(text.encode("utf-8", "surrogateescape"))
    return first << 32 | zlib.crc32(text[::-1].encode("utf-8", "surrogateescape"), first)


def contents(value: Any) -> str | None:
    """A constant as text, which is equal only for equal values; None for an object that is not data."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.dtype, np.number)):
        return repr(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        value = [*sorted(value.items(), key=repr)]
    if isinstance(value, (list, tuple)) and len(value) <= _MOST_PARTS:
        parts = [contents(item) for item in value]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    return repr(value) if hasattr(value, "__members__") or type(value).__module__.startswith("pipeflow.") else None
