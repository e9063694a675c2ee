"""Reads files at URLs: http and https by connections of its own (`connection.py`), everything else by fsspec.

Connections are kept open between requests. A request is tried again if it fails for a reason that may be temporary: a broken or
slow connection, a body that ends early, a busy server. The pause before it doubles each time and varies at random. A request
that takes longer than nearly all others is sent a second time (`hedges.py`). A file that changes while it is read is an error.
Readers with a cache keep what was read in a folder (`view.py`).
"""

import atexit
import base64
import contextlib
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
from pipeflow.operators.readers.view import Known, current

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
# What file systems of fsspec state about the version of a file, by their names.
_FACTS = """
    ETag etag e_tag md5Hash md5 generation VersionId version_id sha sha256 blob_id lfs CRC crc header_offset date_time
    mtime LastModified last_modified modified updated timeModified created
"""


class _Again(Exception):
    """A failure that may not happen at the next try."""


def is_url(path: str) -> bool:
    """True if a path is a URL."""
    return "://" in path and _SCHEME.match(path) is not None


def read_whole(url: str) -> np.ndarray:
    """The bytes of a file."""
    view = current()
    parts = view.parts
    if parts is None:
        return _whole(url)[1]
    found = parts.whole(url)
    if found is not None:
        version, data = found
        if view.compared(url) or _stated_now(url).of_parts == version:
            view.has_compared(url)
            parts.counts.add(hits=1, bytes_found=len(data))
            return data
    known, data = _whole(url, versioned=True)
    parts.counts.add(misses=1, bytes_read=len(data))
    if known.version:
        parts.keep(url, known.of_parts, 0, data)
        view.has_compared(url)
    else:
        view.without_version(url)
    return data


def _whole(url: str, versioned: bool = False) -> tuple[Known, np.ndarray]:
    """The bytes of a file, and what is known about it: for a file system of fsspec only its size, unless ``versioned``."""
    if _is_http(url):
        answer = _tried(url, lambda: _answered(url, None))
        return Known(len(answer.body), _version(answer.headers)), answer.body
    known = _info(url) if versioned else None
    data = _array(_tried(url, lambda: _by_fsspec(url, "cat_file")))
    if known is not None and known.size != len(data):
        raise BadData(f"{url} has changed while it was read: it had {known.size} bytes, and has {len(data)}")
    return known or Known(len(data), ""), data


def _stated_now(url: str) -> Known:
    """What the server says about a file, if possible without sending it."""
    known = current().known.get(url)
    if known is not None:
        return known
    if not _is_http(url):
        return _info(url)
    with contextlib.suppress(OSError):  # some servers only answer requests for data
        answer = _tried(url, lambda: _answered(url, None, 1, method="HEAD"))
        size = answer.headers.get("content-length", "")
        if size.isdecimal():
            return Known(int(size), _version(answer.headers))
    return _tried(url, lambda: _range(url, 0, 1))[0]


def read_part(url: str, offset: int, length: int) -> np.ndarray:
    """`length` bytes of a file."""
    view = current()
    known = view.known.get(url)
    if known is None and (not _is_http(url) or offset < 0 or length <= 0 or view.parts is not None):
        size_of_url(url)
        known = view.known[url]
    if known is not None:
        _check_inside(url, offset, length, known)
        if not length:
            return np.empty(0, np.uint8)
    if view.parts is None or known is None:
        return _part(url, offset, length)
    if not known.version:
        view.without_version(url)
        return _part(url, offset, length)
    return view.parts.read(url, known.of_parts, offset, length, lambda begin, count: _part(url, begin, count))


def _part(url: str, offset: int, length: int) -> np.ndarray:
    """`length` bytes of a file, from its server."""
    if not _is_http(url):
        data = _array(_tried(url, lambda: _by_fsspec(url, "cat_file", start=offset, end=offset + length)))
    else:
        found, data = _tried(url, lambda: _range(url, offset, length))
        known = current().known
        if url not in known:  # the answer has the size too
            _check_inside(url, offset, length, known.setdefault(url, found))
    if len(data) != length:
        raise BadData(f"{url} became shorter while it was read: {len(data)} of {length} bytes at {offset}")
    return data


def _check_inside(url: str, offset: int, length: int, known: Known) -> None:
    if offset < 0 or length < 0 or offset + length > known.size:
        raise BadData(f"{url}: bytes {offset} to {offset + length} are needed, but the file has {known.size}")


def size_of_url(url: str) -> int:
    """The size of a file; it is requested once."""
    known = current().known.get(url)
    if known is None:
        known = _tried(url, lambda: _range(url, 0, 1))[0] if _is_http(url) else _info(url)
        current().known[url] = known
    return known.size


def stated(url: str) -> str:
    """The URL with the size and version of its file, if a request has shown them."""
    known = current().known.get(url)
    return url if known is None else f"{url} {known.size} {known.version}"


def matching(url: str) -> list[str]:
    """The URLs that a pattern matches."""
    if _is_http(url):
        raise ValueError(f"{url}: a server of http cannot say which files it has: name them, or use {{000..127}}")
    filesystem, path = _filesystem(url)
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


def _info(url: str) -> Known:
    """What a file system of fsspec states about a file."""
    info = _tried(url, lambda: _by_fsspec(url, "info"))
    return Known(int(info["size"]), "; ".join(f"{name} {info[name]}" for name in _FACTS.split() if info.get(name)))


def _place(url: str) -> tuple[Any, str]:
    """The file system of fsspec that has the file of a URL, and the path in it."""
    member, chain, archive = url.partition("::")
    if not chain or not member.startswith("zip://"):
        return _filesystem(url)
    filesystem = _zip_file(archive)
    return filesystem, filesystem._strip_protocol(member)


def _filesystem(url: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and the path in it. Lists of files that an earlier reader got are forgotten."""
    filesystem, path = optional("fsspec.core:url_to_fs", f"reading {url}", "fsspec")(url)
    view = current()
    if id(filesystem) not in view.fresh:
        view.fresh.add(id(filesystem))
        filesystem.invalidate_cache()
    return filesystem, path


def _zip_file(archive: str) -> Any:
    """An open zip file. fsspec keeps none, and would read the list of all members again for each of them.

    A forked process opens it again, because two processes would share the place in the file.
    """
    view, place = current(), (os.getpid(), archive)
    with view.lock:
        if place not in view.archives:
            if is_url(archive):
                _filesystem(archive)
            view.archives[place] = optional("fsspec.core:url_to_fs", f"reading {archive}", "fsspec")(
                f"zip://::{archive}"
            )[0]
        return view.archives[place]


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
    version = _version(headers)
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
    known = current().known.get(url)
    if known is not None and known != found:
        raise BadData(f"{url} has changed while it was read: it had {known.size} bytes, and has {found.size}")
    return found, body


def _version(headers: dict[str, str]) -> str:
    """What the headers of an answer state about the version of a file."""
    return headers.get("etag") or headers.get("last-modified") or ""


def _answered(url: str, part: str | None, length: int | None = None, method: str = "GET") -> Answer:
    """The first answer to a request, which is sent again if it takes unusually long."""
    size = None if length is None else length.bit_length() // 2  # requests of similar sizes take equally long
    return _hedges.fastest((_address(url).host, size), lambda attempt: _answer(url, part, attempt, method))


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


def _answer(url: str, part: str | None, attempt: Attempt, method: str) -> Answer:
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
            answer = connection.get(address.target, part, method)
        except (OSError, BrokenAnswer) as error:
            connection.close()
            raise _Again(f"{type(error).__name__}: {error}") from error
        if attempt.release() and connection.reusable:
            with _lock:
                _idle.setdefault(place, []).append(connection)
        else:
            connection.close()
        if answer.status in (200, 206):
            if method == "GET":
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
