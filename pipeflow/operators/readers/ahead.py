"""Reads samples from a server before the pipeline's threads need them.

A thread that waits for a server uses no processor time, so many of them can wait at once.
"""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

THREADS = 32  # requests at a time
_BATCHES = 8  # announced batches that are kept; samples that are never taken, as a cache has them, are dropped


class ReadAhead:
    """Reads the samples of announced batches on its own threads."""

    def __init__(self, fetch: Callable[[int], tuple[Any, ...]]) -> None:
        self._fetch = fetch
        self._threads = ThreadPoolExecutor(THREADS, "pipeflow reading ahead")
        self._waiting: OrderedDict[int, deque[Future[tuple[Any, ...]]]] = OrderedDict()
        self._lock = threading.Lock()
        weakref.finalize(self, self._threads.shutdown, wait=False, cancel_futures=True)

    def expect(self, indices: Sequence[int]) -> None:
        """Begins to read the samples of a batch."""
        with self._lock:
            self._forget(_BATCHES * len(indices))
            for index in indices:
                self._waiting.setdefault(index, deque()).append(self._threads.submit(self._fetch, index))

    def _forget(self, most: int) -> None:
        while len(self._waiting) > most:
            for future in self._waiting.popitem(last=False)[1]:
                future.cancel()

    def take(self, index: int) -> tuple[Any, ...]:
        """Waits for a sample and returns it."""
        with self._lock:
            found = self._waiting.get(index)
            future = found.popleft() if found else None
            if found is not None and not found:
                del self._waiting[index]
        return self._fetch(index) if future is None or future.cancelled() else future.result()

    def forget(self) -> None:
        """Drops all announced samples, because other batches come next."""
        with self._lock:
            for futures in self._waiting.values():
                for future in futures:
                    future.cancel()
            self._waiting.clear()
