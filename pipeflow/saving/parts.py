"""Parts of files of a server, kept in a folder that several processes read and write at the same time.

The parts are in extents (`extents.py`). Reading needs no lock, and a page with a wrong checksum counts as absent. Another
version of a file replaces the extents of the old one.

Only one process at a time writes. It first adds the bytes to the sum in the file `bytes`, and makes room by removing the extents
that were not used for the longest time. To find them, it looks at all files and adds up their sizes: this also mends what killed
processes have left. A process never waits long for another one: if it does not get the lock, the part is not kept.
"""

import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pipeflow import system
from pipeflow.saving.extents import EXTENT, PAGE, Extent, Version, digest_of, size_of_new, sums_of
from pipeflow.saving.folders import own_folder

NEAR = 32  # if fewer pages than this are between two absent ones, they are read again with them
TRIES = 10  # to get the lock; the pauses double, and take a second together
_PAUSE = 0.001
_PATIENCE = 10.0  # seconds; a thread that a fork has lost never releases its lock
_NAME = re.compile(r"[0-9a-f]{30}-[0-9a-f]+")
_LEAST = 64  # extents whose time of last use is remembered, at least


class PartCounts:
    """Numbers of reads and bytes since the folder was opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(("hits", "misses", "bytes_found", "bytes_read", "bytes_kept", "bytes_not_kept"), 0)

    def add(self, **numbers: int) -> None:
        """Adds to the sums of these names."""
        with self._lock:
            for name, number in numbers.items():
                self._sums[name] += number

    def sums(self) -> dict[str, int]:
        """All sums by name."""
        with self._lock:
            return dict(self._sums)


class KeptParts:
    """A folder of parts of files, by the names and versions of the files. Together they take at most ``most`` bytes."""

    def __init__(self, folder: str, most: int) -> None:
        self.folder, self.most = Path(folder) / "remote", most
        self.counts = PartCounts()
        self._mutex = threading.Lock()
        self._oldest: deque[tuple[int, Path]] = deque()  # extents with the times of their last use
        own_folder(self.folder)
        with self._alone() as alone, contextlib.suppress(OSError):  # it may only be readable
            if alone:
                self._make_room(0)

    # Reading.

    def whole(self, name: str) -> tuple[Version, np.ndarray] | None:
        """A whole file with its version, if all of it is kept. It counts as found only if the caller says so."""
        first = Extent.opened(self._path(name, 0), name, 0)
        if first is None:
            return None
        with first:
            version = first.version
        data = np.empty(version.size, np.uint8)
        return None if self._absent(name, version, 0, data).any() else (version, data)

    def read(
        self, name: str, version: Version, begin: int, length: int, fetch: Callable[[int, int], np.ndarray]
    ) -> np.ndarray:
        """Some bytes of a file. ``fetch(begin, length)`` reads what is not kept."""
        data = np.empty(length, np.uint8)
        absent = np.flatnonzero(self._absent(name, version, begin, data)) + begin // PAGE
        if not len(absent):
            self.counts.add(hits=1, bytes_found=length)
            return data
        read = 0
        for run in np.split(absent, np.flatnonzero(np.diff(absent) > NEAR) + 1):
            first, end = int(run[0]) * PAGE, min((int(run[-1]) + 1) * PAGE, version.size)
            found = fetch(first, end - first)
            read += len(found)
            low, high = max(first, begin), min(end, begin + length)
            data[low - begin : high - begin] = found[low - first : high - first]
            self.keep(name, version, first, found)
        self.counts.add(misses=1, bytes_found=max(0, length - read), bytes_read=read)
        return data

    def _absent(self, name: str, version: Version, begin: int, data: np.ndarray) -> np.ndarray:
        """Fills ``data`` with the bytes from ``begin`` on, as far as they are kept; True for each page that is absent."""
        end = begin + len(data)
        absent = np.ones(-(-end // PAGE) - begin // PAGE if len(data) else 0, bool)
        for number in range(begin // EXTENT, -(-end // EXTENT)):
            extent = Extent.opened(self._path(name, number), name, number)
            if extent is not None:
                with extent:
                    if extent.version == version:
                        extent.fill(begin, data, absent)
                        extent.used()
        return absent

    def _path(self, name: str, number: int) -> Path:
        digest = digest_of(name).hex()
        return self.folder / digest[:2] / f"{digest[2:]}-{number:x}"

    # Writing.

    def keep(self, name: str, version: Version, begin: int, data: np.ndarray) -> None:
        """Keeps bytes, if there is room for them. They begin with a page, and end with a page or with the file."""
        end, kept = begin + len(data), 0
        for number in range(begin // EXTENT, max(-(-end // EXTENT), begin // EXTENT + 1)):
            low, high = max(begin, number * EXTENT), min(end, (number + 1) * EXTENT)
            with (
                self._alone() as alone,
                contextlib.suppress(OSError),
            ):  # the disk is full, or the folder is only readable
                if alone:
                    kept += self._put(name, version, number, low, data[low - begin : high - begin])
        self.counts.add(bytes_kept=kept, bytes_not_kept=len(data) - kept)

    def _put(self, name: str, version: Version, number: int, begin: int, data: np.ndarray) -> int:
        """Writes pages of one extent; returns the number of bytes that are kept now."""
        path, sums = self._path(name, number), sums_of(data)
        everything, new = np.arange(len(sums)), size_of_new(version, number)
        if new + len(data) > self.most:
            return 0
        extent = Extent.opened(path, name, number, os.O_RDWR)
        with extent or contextlib.nullcontext():
            if extent is not None and extent.version == version:
                wanted = extent.lacks(begin, sums)
                if self._make_room(int(np.minimum(PAGE, len(data) - wanted * PAGE).sum()), besides=path):
                    extent.write(begin, data, sums, wanted)
                    extent.used()
                    return len(data)
        # There is no such extent, or it is of another version, or it has no room for more bytes.
        self._remove(path)
        if not self._make_room(new + len(data)):
            return 0
        with Extent.made(path, name, version, number) as extent:
            extent.write(begin, data, sums, everything)
            extent.used()
        return len(data)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """True while no other thread and no other process writes; False if the others do not end in time."""
        if not self._mutex.acquire(timeout=_PATIENCE):
            yield False
            return
        try:
            with contextlib.ExitStack() as opened:
                yield self._locked(opened)
        finally:
            self._mutex.release()

    def _locked(self, opened: contextlib.ExitStack) -> bool:
        try:
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        opened.callback(os.close, descriptor)
        for number in range(TRIES):
            if system.lock(descriptor):
                # Else a child that was forked in the meantime would keep the lock.
                opened.callback(system.unlock, descriptor)
                return True
            time.sleep(_PAUSE * 2**number)
        return False

    # Room.

    def _make_room(self, needed: int, besides: Path | None = None) -> bool:
        """Removes extents until there is room for more bytes, and counts these. False if this is impossible."""
        taken, new = self._taken(), False
        while taken + needed > self.most:
            if not self._oldest:
                if new:
                    self._note(taken)
                    return False
                taken, new = self._look(), True
                continue
            used, path = self._oldest.popleft()
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path != besides and status.st_mtime_ns == used:
                    path.unlink()
                    taken, new = taken - status.st_size, False
        self._note(taken + needed)
        return True

    def _look(self) -> int:
        """Finds the extents that were not used for the longest time; returns the bytes of all."""
        found, taken = [], 0
        for folder in self.folder.iterdir():
            if len(folder.name) == 2:
                for entry in os.scandir(folder):
                    with contextlib.suppress(OSError):  # another process removes it
                        if _NAME.fullmatch(entry.name):
                            status = entry.stat()
                            taken += status.st_size
                            found.append((status.st_mtime_ns, Path(entry.path)))
        found.sort()
        self._oldest.extend(found[: max(_LEAST, len(found) // 4)])
        return taken

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_size
            path.unlink()
            self._note(self._taken() - size)

    def _taken(self) -> int:
        """The bytes of all extents, as they were counted."""
        try:
            found = (self.folder / "bytes").read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) == 8:
            return int.from_bytes(found, "little")
        self._oldest.clear()
        return self._look()

    def _note(self, taken: int) -> None:
        descriptor = os.open(self.folder / "bytes", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(descriptor, max(0, taken).to_bytes(8, "little"), 0)
        finally:
            os.close(descriptor)
