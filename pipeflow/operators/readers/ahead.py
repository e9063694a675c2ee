"""Reads samples from a server before the pipeline's threads need them.

A thread that waits for a server uses no processor time, so many of them can wait at once. The batches after the present one are
known in advance, so their samples are requested too, while there is room. If a reader says where the bytes of its samples are,
samples that are next to each other are read with one request, even if they belong to different batches.
"""

import copy
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pipeflow.declare import Request
from pipeflow.operators.readers.files import read_range
from pipeflow.operators.readers.order import Sampler
from pipeflow.operators.readers.view import RemoteView, current, use, using

T = TypeVar("T")

THREADS = 128  # requests at a time
INDEXES = 16  # files whose indexes are made at a time
AHEAD = 1 << 26  # bytes that are requested before they are needed
SAMPLES = 4096  # samples that are requested before they are needed, if they can share requests
ALONE = 512  # the same, if they cannot share requests
NEXT_EPOCH = 0.125  # the share of these limits for the next epoch, which may never be read
PIECE = 1 << 20  # the longest request that several samples share
GAP = 1 << 15  # two samples with fewer bytes than this between them are read with one request
FIRST = 1 << 18  # the assumed size of a sample, until one has been read
_BATCHES = 8  # a sample that no step takes (a cache has it) is kept for this number of batches

Span = tuple[str, int, int]  # the path of a file, the first byte, the number of bytes


@dataclass(slots=True)
class _PlannedBatch:
    """A batch that is requested before its turn."""

    indices: np.ndarray
    size: float  # the share of the room ahead that the batch takes
    ends: bool  # True if an epoch ends with it


@dataclass(slots=True)
class _Announced:
    """A sample that is being read: alone, or as parts of the pieces in which it is."""

    batch: int
    alone: Future[tuple[Any, ...]] | None = None
    parts: list[tuple[Future[np.ndarray], int, int]] = field(default_factory=list)  # piece, first byte in it, length


def of_each(read: Callable[..., T], *columns: Sequence[Any], far: bool) -> Iterator[T]:
    """The results of a function for each file, in order. For files on a server it runs for several files at the same time."""
    if not far:
        yield from map(read, *columns)
        return
    with ThreadPoolExecutor(INDEXES, "pipeflow reading indexes", use, (current(),)) as threads:
        yield from threads.map(read, *columns)


class ReadAhead:
    """Reads the samples of later batches on its own threads.

    ``samples`` is a reader's object with ``fetch``. It may have ``spans(index)``, which returns where the bytes of a sample are,
    and ``assembled(index, parts)``, which makes the sample from these bytes. If the spans are None, the sample is fetched alone.
    If they are empty, it is read only when it is taken.
    """

    def __init__(self, samples: Any, view_of: Callable[[int], RemoteView]) -> None:
        self._samples, self._view_of = samples, view_of
        self._spans: Callable[[int], Sequence[Span] | None] = getattr(samples, "spans", lambda _: None)
        self._threads = ThreadPoolExecutor(THREADS, "pipeflow reading ahead")
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[_Announced]] = {}
        self._planned: deque[_PlannedBatch] = deque()
        self._scout: Sampler | None = None
        self._wanted: Any = None  # the size of batches and the way to end epochs that the scout uses
        self._ahead = self._beyond = 0.0  # room of the planned batches, and of those after the end of an epoch
        self._at_end = False  # True if the last batch was the end of its epoch
        self._batch = 0  # the number of batches that have been announced
        self._served: deque[tuple[int, list[int]]] = deque()
        self._mean = float(FIRST)
        self._untaken = False  # True if no sample of an old batch has been taken: a cache has them all
        weakref.finalize(self, self._threads.shutdown, wait=False, cancel_futures=True)

    def serve(self, indices: np.ndarray, sampler: Sampler, request: Request) -> None:
        """Begins to read the samples of a batch that was just taken from the sampler, and those of the next batches."""
        wanted = request.batch_size, request.ending
        if self._planned and wanted == self._wanted and np.array_equal(self._planned[0].indices, indices):
            planned = self._planned.popleft()
            self._ahead -= planned.size
            recount, self._at_end = self._at_end or planned.ends, planned.ends
            if recount:
                self._count_beyond()
            begun = []
        else:
            self.forget()
            self._scout, self._wanted = copy.copy(sampler), wanted
            self._at_end = sampler.ended
            begun = [_PlannedBatch(indices, self._size(indices), sampler.ended)]
        if not self._untaken:
            self._announce([*begun, *self._scouted(request)])
        self._drop_old(indices)

    def _scouted(self, request: Request) -> list[_PlannedBatch]:
        """The next batches for which there is room. There are none until a quarter of the room is free: then more neighbours are
        read together.
        """
        found: list[_PlannedBatch] = []
        if self._scout is None or self._ahead > 0.75 or not self._scout.order.foreseeable:
            return found
        beyond = self._at_end or any(x.ends for x in self._planned)
        while self._ahead < 1 and (not beyond or self._beyond < NEXT_EPOCH):
            indices = self._scout.take(request.batch_size, request.ending).index
            planned = _PlannedBatch(indices, self._size(indices), self._scout.ended)
            found.append(planned)
            self._planned.append(planned)
            self._ahead += planned.size
            self._beyond += planned.size if beyond else 0
            beyond = beyond or planned.ends
        return found

    def _count_beyond(self) -> None:
        """The room of the planned batches after the end of the present epoch."""
        self._beyond, beyond = 0.0, self._at_end
        for planned in self._planned:
            self._beyond += planned.size if beyond else 0
            beyond = beyond or planned.ends

    def _size(self, indices: np.ndarray) -> float:
        """The share of the room ahead that a batch takes."""
        size, alone, places = 0, 0, indices.tolist()
        for index in places:
            spans = self._spans(index)
            if spans is None:
                alone += 1
            else:
                size += sum(length for _, _, length in spans)
        together = max(size / AHEAD, (len(places) - alone) / SAMPLES)
        return together + alone * max(self._mean / AHEAD, 1 / ALONE)

    def _announce(self, batches: Sequence[_PlannedBatch]) -> None:
        """Begins to read the samples of batches, in the order in which they will be needed; neighbours are read together."""
        read: list[tuple[int, _Announced, Sequence[Span] | None]] = []
        for planned in batches:
            self._batch += 1
            read += [(index, _Announced(self._batch), self._spans(index)) for index in planned.indices.tolist()]
        pieces = merged(span for _, _, spans in read for span in spans or ())
        begun: dict[Span, Future[np.ndarray]] = {}
        for index, sample, spans in read:
            if spans is None:
                sample.alone = self._threads.submit(_within, self._view_of(index), self._samples.fetch, index)
            for span in spans or ():
                piece = pieces[span]
                if piece not in begun:
                    begun[piece] = self._threads.submit(_within, self._view_of(index), read_range, *piece)
                sample.parts.append((begun[piece], span[1] - piece[1], span[2]))
        with self._lock:
            for index, sample, _ in read:
                self._waiting.setdefault(index, deque()).append(sample)

    def _dropped(self, batch: int, indices: list[int]) -> int:
        """Forgets these samples up to a batch, and returns their number. The caller holds the lock."""
        dropped = 0
        for index in indices:
            found = self._waiting.get(index)
            while found and found[0].batch <= batch:
                sample = found.popleft()
                dropped += 1
                if sample.alone is not None:
                    sample.alone.cancel()
            if found is not None and not found:
                del self._waiting[index]
        return dropped

    def _drop_old(self, indices: np.ndarray) -> None:
        """Forgets the samples of an old batch that have not been taken."""
        self._served.append((self._batch - len(self._planned), indices.tolist()))
        if len(self._served) <= _BATCHES:
            return
        batch, old = self._served.popleft()
        with self._lock:
            dropped = self._dropped(batch, old)
        if dropped >= len(old) and not self._untaken:
            self.forget()
            self._untaken = True

    def take(self, index: int) -> tuple[Any, ...]:
        """Waits for a sample and returns it."""
        with self._lock:
            found = self._waiting.get(index)
            sample = found.popleft() if found else None
            if found is not None and not found:
                del self._waiting[index]
        self._untaken = False
        if sample is None or (sample.alone.cancelled() if sample.alone is not None else not sample.parts):
            return self._samples.fetch(index)
        if sample.alone is not None:
            values = sample.alone.result()
            self._mean += 0.05 * (sum(value.nbytes for value in values) - self._mean)
            return values
        try:
            parts = [_part(piece.result(), begin, length) for piece, begin, length in sample.parts]
        except (Exception, CancelledError):
            return self._samples.fetch(index)  # the sample may be good; if it is not, this error is about its own bytes
        return self._samples.assembled(index, parts)

    def forget(self) -> None:
        """Drops all announced samples, because other batches come next."""
        with self._lock:
            for found in self._waiting.values():
                for sample in found:
                    for future in [sample.alone, *(piece for piece, _, _ in sample.parts)]:
                        if future is not None:
                            future.cancel()
            self._waiting.clear()
        self._planned.clear()
        self._served.clear()
        self._scout = None
        self._ahead = self._beyond = 0.0


def _within(view: RemoteView, read: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call that reads files with a view of them."""
    with using(view):
        return read(*arguments)


def _part(piece: np.ndarray, begin: int, length: int) -> np.ndarray:
    """Some bytes of a piece, as a copy: else a sample that the user keeps would keep the whole piece."""
    return piece if len(piece) == length else piece[begin : begin + length].copy()


def merged(spans: Iterable[Span]) -> dict[Span, Span]:
    """The piece of a file in which each span is read. Neighbours share a piece, up to a length."""
    pieces: dict[Span, Span] = {}
    together: list[Span] = []
    end = 0

    def close() -> None:
        if together:
            path, begin, _ = together[0]
            pieces.update(dict.fromkeys(together, (path, begin, end - begin)))
            together.clear()

    for span in sorted(set(spans)):
        path, begin, length = span
        if together:
            first = together[0]
            if path != first[0] or begin > end + GAP or max(end, begin + length) > first[1] + PIECE:
                close()
        end = max(end, begin + length) if together else begin + length
        together.append(span)
    close()
    return pieces
