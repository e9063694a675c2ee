"""What a reader knows about files at URLs: their versions, the open archives, and the local folder of their parts.

Each reader has a view of its own, so a pipeline that is built later sees a file that has changed. While a reader reads, its view
is the current one of the thread.
"""

import hashlib
import os
import threading
import warnings
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

from pipeflow.declare import bytes_of, parameters
from pipeflow.saving.extents import Version, version_of
from pipeflow.saving.parts import KeptParts

CACHE = parameters(
    cache=(
        str,
        None,
        "folder of this machine that keeps what was read from URLs, for later epochs, other processes and later runs",
    ),
    cache_bytes=(Any, None, 'limit of the size of that folder, such as "500MB"; default: "10GB"'),
)
_MOST = "10GB"


class Known(NamedTuple):
    """A file at a URL."""

    size: int
    version: str  # "" if the server states none

    @property
    def of_parts(self) -> Version:
        """The version, as the folder of parts compares it."""
        return version_of(self.size, self.version)


class RemoteView:
    """The files at URLs as one reader sees them."""

    def __init__(self, parts: KeptParts | None = None) -> None:
        self.parts = parts
        self.known: dict[str, Known] = {}
        self.fresh: set[int] = set()  # file systems of fsspec whose lists of files are not older than this view
        self.archives: dict[tuple[int, str], Any] = {}  # open archives, by process and URL
        self.lock = threading.Lock()
        self._compared: set[bytes] = set()  # digests of the URLs of whole files that were compared with the server
        self._warned = False

    def compared(self, url: str) -> bool:
        """True if this reader has compared the whole file with its server."""
        return _short(url) in self._compared

    def has_compared(self, url: str) -> None:
        """Notes that a whole file is as on the server."""
        self._compared.add(_short(url))

    def without_version(self, url: str) -> None:
        """Warns once that files cannot be kept."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{url} is not kept in the cache: its server states no version of it (no ETag and no time of change)",
                stacklevel=2,
            )


def _short(url: str) -> bytes:
    return hashlib.blake2b(os.fsencode(url), digest_size=8).digest()


OUTSIDE = RemoteView()  # for reading outside of readers
_current: ContextVar[RemoteView] = ContextVar("pipeflow_view", default=OUTSIDE)
current = _current.get
use = _current.set  # for threads that belong to one reader


class using:
    """Makes a view the current one, in a ``with`` block."""

    __slots__ = ("_before", "_view")

    def __init__(self, view: RemoteView) -> None:
        self._view = view

    def __enter__(self) -> None:
        self._before: Token[RemoteView] = _current.set(self._view)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._before)


_latest: dict[tuple[Any, Any], RemoteView] = {}  # the newest view of each folder and limit


def opened(cache: str | None, cache_bytes: Any) -> RemoteView:
    """A new view with the folder of these arguments of a reader."""
    if cache is None and cache_bytes is not None:
        raise ValueError("cache_bytes is the limit of a folder: give the folder with cache=")
    if cache is not None:
        if not cache:
            raise ValueError("cache is the path of a folder, got an empty text")
        cache = os.path.expanduser(cache)
    most = bytes_of("cache_bytes", _MOST if cache_bytes is None else cache_bytes)
    view = _latest[cache, cache_bytes] = RemoteView(None if cache is None else KeptParts(cache, most))
    return view


def latest(cache: str | None, cache_bytes: Any) -> RemoteView:
    """The newest view with the folder of these arguments, for an operator that reads the files of a reader."""
    return _latest.get((cache and os.path.expanduser(cache), cache_bytes), OUTSIDE)
