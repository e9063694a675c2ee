"""Parts of a file on a server, requested before they are read.

A library that reads a file itself, like pyarrow, gets a Python file object. The parts that it will certainly read are requested
at once, in pieces of several megabytes on several connections. The file object waits for the piece that is read.
"""

import threading
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from pipeflow.operators.readers.ahead import Span, merged
from pipeflow.operators.readers.files import read_range
from pipeflow.operators.readers.remote import RemoteFile
from pipeflow.operators.readers.view import current, use

THREADS = 16  # requests at a time
LONGEST = 1 << 22  # bytes of a request: longer parts are read on several connections at once


class Piece:
    """Some bytes of a file that have been requested."""

    __slots__ = ("begin", "end", "future")

    def __init__(self, begin: int, end: int, future: "Future[np.ndarray]") -> None:
        self.begin, self.end, self.future = begin, end, future


class Requests:
    """The threads that request pieces; they start with the first request."""

    def __init__(self) -> None:
        self._view = current()  # that of the reader
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def begin(self, spans: Iterable[Span]) -> list[Piece]:
        """Requests parts of one file. Neighbouring parts are joined, and long ones are cut into several pieces."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, "pipeflow reading ahead", use, (self._view,))
                weakref.finalize(self, self._threads.shutdown, wait=False, cancel_futures=True)
        pieces = []
        for path, begin, length in sorted(set(merged(spans).values())):
            for start in range(begin, begin + length, LONGEST):
                end = min(start + LONGEST, begin + length)
                pieces.append(Piece(start, end, self._threads.submit(read_range, path, start, end - start)))
        return pieces


class FileOfPieces(RemoteFile):
    """A file at a URL of which some pieces have been requested; other places are read when they are needed."""

    def __init__(self, url: str, pieces: Sequence[Piece]) -> None:
        super().__init__(url)
        self._pieces = pieces

    def readinto(self, target: Any) -> int:
        """Reads at most as many bytes as there is room for."""
        wanted = memoryview(target).cast("B")
        for piece in self._pieces:
            if piece.begin <= self._place < piece.end:
                data = piece.future.result()[self._place - piece.begin :][: len(wanted)]
                wanted[: len(data)] = data.data
                self._place += len(data)
                return len(data)
        following = min((x.begin for x in self._pieces if x.begin > self._place), default=self.size)
        return super().readinto(wanted[: max(0, following - self._place)])
