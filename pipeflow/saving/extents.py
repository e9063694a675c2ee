"""The files of a folder of parts (`parts.py`): 4 MB of a file of a server, as far as they are kept.

An extent has a head (digests of the name and the version of the file, the size of the file, the number of the extent), a table,
and pages of 4 kB in the order in which they came. The table has the place and the checksum of each page. A page is written
before its entry in the table. If a process is killed, at most some bytes are left that no entry names.
"""

import contextlib
import errno
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeflow import timing

PAGE = 1 << 12
EXTENT = 1 << 22
_HEAD = struct.Struct("<8s16s16sQI")  # mark, digests of name and version, size of the file, number of the extent
_SUM = struct.Struct("<I")
_TABLE = _HEAD.size + _SUM.size  # the place of the table
_ENTRY = np.dtype([("place", "<u4"), ("sum", "<u4")])  # place 0: the page is absent
_MARK = b"pfparts1"


class Version(NamedTuple):
    """A version of a file: its size, and a digest of what the server states about it."""

    size: int
    digest: bytes


def version_of(size: int, stated: str) -> Version:
    """The version of a file of this size about which the server states this."""
    return Version(size, digest_of(f"{size} {stated}"))


def digest_of(text: str) -> bytes:
    """16 bytes that are different for every text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _weights() -> np.ndarray:
    """An odd number for each word of a page, by the mixing function of SplitMix64."""
    found = np.arange(1, PAGE // 8 + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ found >> np.uint64(shift)) * np.uint64(factor)
    return (found ^ found >> np.uint64(31)) | np.uint64(1)


_WEIGHTS = _weights()


def sums_of(data: np.ndarray) -> np.ndarray:
    """The checksums of the pages of some bytes: the high half of the weighted sum of the words of each.

    It takes a fifth of the time of a CRC, and all pages are one call, in which other threads run.
    """
    whole = len(data) // PAGE
    found = np.empty(-(-len(data) // PAGE), np.uint64)
    found[:whole] = data[: whole * PAGE].view("<u8").reshape(-1, PAGE // 8) @ _WEIGHTS
    if whole < len(found):
        last = np.zeros(PAGE, np.uint8)
        last[: len(data) - whole * PAGE] = data[whole * PAGE :]
        found[whole] = last.view("<u8") @ _WEIGHTS
    return (found + np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)).astype(np.uint32)  # not 0 for a page of zeros


def size_of_new(version: Version, number: int) -> int:
    """The bytes of an extent without pages."""
    return _TABLE + _ENTRY.itemsize * _pages(version.size, number)


def _pages(size: int, number: int) -> int:
    return max(0, -(-min(EXTENT, size - number * EXTENT) // PAGE))


class Extent:
    """An open extent. Close it by ``with``."""

    def __init__(self, descriptor: int, version: Version, number: int, table: np.ndarray) -> None:
        self._descriptor, self.version, self._table = descriptor, version, table
        self._begin = number * EXTENT

    @classmethod
    def opened(cls, path: Path, name: str, number: int, flags: int = os.O_RDONLY) -> "Extent | None":
        """The extent of a file at a path; None if there is none, or a damaged one."""
        try:
            descriptor = os.open(path, flags)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            start = os.pread(descriptor, _TABLE + _ENTRY.itemsize * (EXTENT // PAGE), 0)
            if len(start) >= _TABLE and _SUM.unpack_from(start, _HEAD.size)[0] == zlib.crc32(start[: _HEAD.size]):
                mark, named, version, size, own = _HEAD.unpack_from(start)
                count = _pages(size, own)
                whole = len(start) >= _TABLE + _ENTRY.itemsize * count
                if (mark, named, own) == (_MARK, digest_of(name), number) and whole:
                    table = np.frombuffer(start, _ENTRY, count, _TABLE).copy()
                    return cls(descriptor, Version(size, version), number, table)
        os.close(descriptor)
        return None

    @classmethod
    def made(cls, path: Path, name: str, version: Version, number: int) -> "Extent":
        """A new extent without pages, in place of another one at the path."""
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        table = np.zeros(_pages(version.size, number), _ENTRY)
        head = _HEAD.pack(_MARK, digest_of(name), version.digest, version.size, number)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        found = cls(descriptor, version, number, table)
        try:
            found._write([head + _SUM.pack(zlib.crc32(head)) + table.tobytes()], 0)
        except OSError:
            os.close(descriptor)
            raise
        return found

    def __enter__(self) -> "Extent":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def used(self) -> None:
        """Notes that the extent was used now."""
        now = timing.date()
        with contextlib.suppress(OSError):
            os.utime(self._descriptor, ns=(now, now))

    def fill(self, begin: int, data: np.ndarray, absent: np.ndarray) -> None:
        """Fills ``data``, the bytes of the file from ``begin`` on, as far as they are kept. ``absent`` has an element for each
        page of ``data``; it becomes False for the pages that were found.
        """
        first = begin // PAGE
        end = begin + len(data)
        low, high = max(begin, self._begin), min(end, self._begin + EXTENT)
        for run in self._runs(low // PAGE, -(-high // PAGE)):
            start, stop = run[0] * PAGE, min((run[-1] + 1) * PAGE, self.version.size)
            inside = begin <= start and stop <= end
            target = data[start - begin : stop - begin] if inside else np.empty(stop - start, np.uint8)
            place = int(self._table["place"][run[0] - self._begin // PAGE])
            if not self._read(target, place):
                continue
            right = sums_of(target) == self._table["sum"][run[0] - self._begin // PAGE :][: len(run)]
            absent[run[0] - first : run[-1] + 1 - first] = ~right
            if not inside:
                start, stop, shift = max(start, begin), min(stop, end), start
                data[start - begin : stop - begin] = target[start - shift : stop - shift]

    def _runs(self, first: int, end: int) -> Iterator[np.ndarray]:
        """The numbers of pages that are kept, those together that are neighbours in the extent too."""
        places = self._table["place"][first - self._begin // PAGE : end - self._begin // PAGE].astype(np.int64)
        found = np.flatnonzero(places)
        if len(found):
            apart = (np.diff(found) > 1) | (np.diff(places[found]) != PAGE)
            yield from np.split(found + first, np.flatnonzero(apart) + 1)

    def _read(self, target: np.ndarray, place: int) -> bool:
        done = 0
        while done < len(target):
            count = os.preadv(self._descriptor, [target[done:].data], place + done)
            if not count:
                return False
            done += count
        return True

    def lacks(self, begin: int, sums: np.ndarray) -> np.ndarray:
        """The numbers of the pages from ``begin`` on that are absent or have other checksums than these."""
        table = self._table[(begin - self._begin) // PAGE :][: len(sums)]
        return np.flatnonzero((table["place"] == 0) | (table["sum"] != sums))

    def write(self, begin: int, data: np.ndarray, sums: np.ndarray, wanted: np.ndarray) -> None:
        """Adds those pages of ``data``, the bytes from ``begin`` on, that have these numbers."""
        if not len(wanted):
            return
        end = max(os.fstat(self._descriptor).st_size, _TABLE + self._table.nbytes)
        view = np.ascontiguousarray(data).data
        runs = np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1)
        self._write([view[run[0] * PAGE : (run[-1] + 1) * PAGE] for run in runs], end)
        pages = wanted + (begin - self._begin) // PAGE
        lengths = np.minimum(PAGE, len(data) - wanted * PAGE)
        self._table["place"][pages] = end + np.cumsum(lengths) - lengths
        self._table["sum"][pages] = sums[wanted]
        low, high = int(pages[0]), int(pages[-1]) + 1
        os.pwrite(self._descriptor, self._table[low:high].tobytes(), _TABLE + _ENTRY.itemsize * low)

    def _write(self, parts: list[bytes] | list[memoryview], place: int) -> None:
        if os.pwritev(self._descriptor, parts, place) < sum(map(len, parts)):
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, place)
            raise OSError(errno.ENOSPC, "the disk is full")
