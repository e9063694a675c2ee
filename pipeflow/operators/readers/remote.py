"""Reads files at URLs: http and https by connections of its own (`connection.py`), everything else by fsspec.

Connections are kept open between requests. A request is tried again if it fails for a reason that may be temporary: a broken or
slow connection, a body that ends early, a busy server. The pause before it doubles each time and varies at random. A request
that takes longer than nearly all others is sent a second time (`hedges.py`). A file that changes while it is read is an error.
"""

import atexit
import base64
import hashlib
import io
import os
import random
import re
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

import numpy as np

from pipeflow.errors import BadData, optional
from pipeflow.operators.readers.connection import Answer, BrokenAnswer, Connection
from pipeflow.operators.readers.hedges import Attempt, Hedges

T = TypeVar("T")

TRIES = 6
PAUSE = 0.2  # seconds before the second try
TIMEOUT = 60.0  # seconds without an answer
_BUSY = (408, 429, 500, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_BLOCK = 1 << 16  # bytes of the first request of a file that is read from start to end; each next one is twice as long
_LARGEST_BLOCK = 1 << 23
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PLACE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

_idle: dict[
    tuple[int, str, str], list[Connection]
] = {}  # connections between two requests, by process, scheme and host
_lock = threading.Lock()
_hedges = Hedges()
_known: dict[str, "Known"] = {}  # sizes and other facts of files, by URL


class Known(NamedTuple):
    """A file at a URL."""

    size: int
    version: str  # "" if the server states none


class _Again(Exception):
    """A failure that may not happen at the next try."""


def is_url(path: str) -> bool:
    """True if a path is a URL."""
    return "://" in path and _SCHEME.match(path) is not None


def read_whole(url: str) -> np.ndarray:
    """The bytes of a file."""
    if not _is_http(url):
        return _array(_tried(url, lambda: _by_fsspec(url, "cat_file")))
    return _tried(url, lambda: _answered(url, None).body)


def read_part(url: str, offset: int, length: int) -> np.ndarray:
    """`length` bytes of a file."""
    known = _known.get(url)
    if known is None and (not _is_http(url) or offset < 0 or length <= 0):
        size_of_url(url)
        known = _known[url]
    if known is not None:
        _check_inside(url, offset, length, known)
        if not length:
            return np.empty(0, np.uint8)
    if not _is_http(url):
        data = _array(_tried(url, lambda: _by_fsspec(url, "cat_file", start=offset, end=offset + length)))
    else:
        found, data = _tried(url, lambda: _range(url, offset, length))
        if known is None:  # the answer has the size too
            _check_inside(url, offset, length, _known.setdefault(url, found))
    if len(data) != length:
        raise BadData(f"{url} became shorter while it was read: {len(data)} of {length} bytes at {offset}")
    return data


def _check_inside(url: str, offset: int, length: int, known: Known) -> None:
    if offset < 0 or length < 0 or offset + length > known.size:
        raise BadData(f"{url}: bytes {offset} to {offset + length} are needed, but the file has {known.size}")


def size_of_url(url: str) -> int:
    """The size of a file; it is requested once."""
    known = _known.get(url)
    if known is None:
        if _is_http(url):
            known = _tried(url, lambda: _range(url, 0, 1))[0]
        else:
            known = Known(int(_tried(url, lambda: _by_fsspec(url, "size"))), "")
        _known[url] = known
    return known.size


def stated(url: str) -> str:
    """The URL with the size and version of its file, if a request has shown them."""
    known = _known.get(url)
    return url if known is None else f"{url} {known.size} {known.version}"


def matching(url: str) -> list[str]:
    """The URLs that a pattern matches."""
    if _is_http(url):
        raise ValueError(f"{url}: a server of http cannot say which files it has: name them, or use {{000..127}}")
    filesystem, path = optional("fsspec.core:url_to_fs", f"reading {url}", "fsspec")(url)
    first, chain, archive = url.partition("::")
    if chain:  # the pattern is for members of an archive
        scheme = first.partition("://")[0]
        return sorted(f"{scheme}://{found}::{archive}" for found in filesystem.glob(path))
    return sorted(filesystem.unstrip_protocol(found) for found in filesystem.glob(path))


class RemoteFile(io.RawIOBase):
    """A file at a URL for reading from start to end. It reads ahead, with larger requests as long as the reads are
    consecutive.
    """

    def __init__(self, url: str) -> None:
        self.url, self.size = url, size_of_url(url)
        self._place = 0
        self._begin, self._data = 0, np.empty(0, np.uint8)
        self._ahead = _BLOCK

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a place."""
        self._place = offset + (0, self._place, self.size)[whence]
        return self._place

    def readinto(self, target: Any) -> int:
        """Reads up to as many bytes as there is room for."""
        wanted = memoryview(target).cast("B")
        inside = self._place - self._begin
        if not 0 <= inside < len(self._data):
            length = min(max(len(wanted), self._ahead), self.size - self._place)
            if length <= 0 or not len(wanted):
                return 0
            straight_on = self._place == self._begin + len(self._data)
            self._ahead = min(2 * self._ahead, _LARGEST_BLOCK) if straight_on else _BLOCK
            self._begin, self._data, inside = self._place, read_part(self.url, self._place, length), 0
        count = min(len(wanted), len(self._data) - inside)
        wanted[:count] = self._data[inside : inside + count].data
        self._place += count
        return count

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, fewer at the end."""
        left = max(0, self.size - self._place)
        found = bytearray(left if size is None or size < 0 else min(size, left))
        done = 0
        while done < len(found):
            count = self.readinto(memoryview(found)[done:])
            if not count:
                raise EOFError(f"{self.url} gave nothing from byte {self._place} on, and has {self.size}")
            done += count
        return bytes(found)


def _is_http(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def _array(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), np.uint8)


def _by_fsspec(url: str, method: str, **arguments: Any) -> Any:
    try:
        filesystem, path = _place(url)
        return getattr(filesystem, method)(path, **arguments)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except OSError as error:
        raise _Again(str(error)) from error


def _place(url: str) -> tuple[Any, str]:
    """The file system of fsspec that has the file of a URL, and the path in it."""
    member, chain, archive = url.partition("::")
    if not chain or not member.startswith("zip://"):
        return optional("fsspec.core:url_to_fs", f"reading {url}", "fsspec")(url)
    filesystem = _zip_file(os.getpid(), archive)
    return filesystem, filesystem._strip_protocol(member)


@lru_cache(maxsize=16)
def _zip_file(process: int, archive: str) -> Any:
    """An open zip file. fsspec keeps none, and would read the list of all members again for each of them.

    A forked process opens it again, because two processes would share the place in the file.
    """
    del process
    return optional("fsspec.core:url_to_fs", f"reading {archive}", "fsspec")(f"zip://::{archive}")[0]


def _tried(url: str, read: Callable[[], T]) -> T:
    """The result of a call. A failure that may be temporary is tried again."""
    for number in range(TRIES):
        try:
            return read()
        except _Again as error:
            if number == TRIES - 1:
                raise OSError(f"{url}: {error} ({TRIES} tries)") from error.__cause__
            time.sleep(PAUSE * 2**number * random.uniform(0.5, 1.5))
    raise AssertionError("there is a last try")


def _range(url: str, offset: int, length: int) -> tuple[Known, np.ndarray]:
    """The facts about a file that the answer states, and some bytes of the file: fewer at its end."""
    _, _, headers, body = _answered(url, f"bytes={offset}-{offset + length - 1}", length)
    version = headers.get("etag") or headers.get("last-modified") or ""
    stated = headers.get("content-range", "")
    place = _PLACE.fullmatch(stated)
    if place is None:
        if stated.startswith("bytes */") and stated[8:].isdecimal():  # the file ends before these bytes
            return Known(int(stated[8:]), version), np.empty(0, np.uint8)
        if offset:
            raise BadData(f"{url}: the server does not send parts of files, and the bytes from {offset} on are needed")
        found, body = Known(len(body), version), body[:length]
    else:
        begin, end, size = map(int, place.groups())
        if begin != offset or end - begin + 1 != len(body):
            raise _Again(f"the server gave bytes {begin} to {end} in place of {length} at {offset}")
        found = Known(size, version)
    known = _known.get(url)
    if known is not None and known != found:
        raise BadData(f"{url} has changed while it was read: it had {known.size} bytes, and has {found.size}")
    return found, body


def _answered(url: str, part: str | None, length: int | None = None) -> Answer:
    """The first answer to a request, which is sent again if it takes unusually long."""
    size = None if length is None else length.bit_length() // 2  # requests of similar sizes take equally long
    return _hedges.fastest((_address(url).host, size), lambda attempt: _answer(url, part, attempt))


class Address(NamedTuple):
    """The parts of a URL that a request needs."""

    scheme: str
    host: str
    target: str


@lru_cache(maxsize=4096)
def _address(url: str) -> Address:
    found = urlsplit(url)
    target = (found.path or "/") + (f"?{found.query}" if found.query else "")
    return Address(found.scheme.lower(), found.netloc.rpartition("@")[2], target)


def _answer(url: str, part: str | None, attempt: Attempt) -> Answer:
    """The answer to a request, after redirections."""
    here = url
    for _ in range(10):
        address = _address(here)
        place = os.getpid(), address.scheme, address.host
        connection = _connection(*place)
        try:
            if connection.sock is None:
                connection.connect()
            attempt.own(connection)
            answer = connection.get(address.target, part)
        except (OSError, BrokenAnswer) as error:
            connection.close()
            raise _Again(f"{type(error).__name__}: {error}") from error
        if attempt.release() and connection.reusable:
            with _lock:
                _idle.setdefault(place, []).append(connection)
        else:
            connection.close()
        if answer.status in (200, 206):
            _check_sums(answer)
            return answer
        if answer.status == 416:
            return answer
        if answer.status in _REDIRECTS and "location" in answer.headers:
            here = urljoin(here, answer.headers["location"])
            if not _is_http(here):
                raise OSError(f"{url}: the server redirects to {here[:200]!r}, which is not an http URL")
            continue
        if answer.status in _BUSY:
            raise _Again(f"the server answers {answer.status} {answer.reason}")
        kind = {404: FileNotFoundError, 410: FileNotFoundError, 401: PermissionError, 403: PermissionError}
        raise kind.get(answer.status, OSError)(f"{url}: the server answers {answer.status} {answer.reason}")
    raise OSError(f"{url}: more than 10 redirections")


def _check_sums(answer: Answer) -> None:
    """Compares a whole body with the checksums that the server states."""
    if answer.status != 200:
        return
    sums = [answer.headers.get("content-md5", "")]
    sums += [
        part.strip()[4:] for part in answer.headers.get("x-goog-hash", "").split(",") if part.strip()[:4] == "md5="
    ]
    for text in filter(None, sums):
        if base64.b64decode(text) != hashlib.md5(answer.body.data, usedforsecurity=False).digest():
            raise _Again("the checksum of the received data differs from the one that the server sent")


def _connection(process: int, scheme: str, host: str) -> Connection:
    """A connection to a server that nothing else uses."""
    with _lock:
        kept = _idle.get((process, scheme, host))  # not those of the process that this one was forked from
        if kept:
            return kept.pop()
    return Connection(scheme, host, TIMEOUT)


@atexit.register
def close_connections() -> None:
    """Closes the connections that are not in use."""
    with _lock:
        kept = [connection for one in _idle.values() for connection in one]
        _idle.clear()
    for connection in kept:
        connection.close()
