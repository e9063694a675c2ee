"""Batches that the user feeds to fn.external_source by ``feed_input``."""

import threading
from collections import deque
from dataclasses import replace

from pipeflow.declare import Feed
from pipeflow.errors import NothingFed


class FedInput:
    """Batches given by the user, first in first out."""

    def __init__(self, repeat_last: bool, blocking: bool) -> None:
        self._repeat_last = repeat_last
        self._blocking = blocking
        self._queue: deque[Feed] = deque()
        self._last: Feed | None = None
        self._arrived = threading.Condition()
        self._closed = False

    def close(self) -> None:
        """Releases a thread that waits for data."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()

    def available(self) -> float:
        """The number of batches that are available without waiting."""
        return float("inf") if self._repeat_last and (self._last or self._queue) else len(self._queue)

    def put(self, feed: Feed) -> None:
        """Queues a batch."""
        with self._arrived:
            self._queue.append(feed)
            self._arrived.notify()

    def _wait(self) -> None:
        while self._blocking and not self.available() and not self._closed:
            self._arrived.wait()

    def get(self) -> Feed:
        """The next batch. If there is none, it raises an error; with ``blocking`` it waits."""
        with self._arrived:
            self._wait()
            if self._queue:
                self._last = self._queue.popleft()
            elif not (self._repeat_last and self._last is not None):
                raise NothingFed(
                    "no data was fed to this external_source: call feed_input() before run(), or give it a source"
                )
            assert self._last is not None
            return self._last if not self._repeat_last else _shared(self._last)


def _shared(feed: Feed) -> Feed:
    """The batch, marked as not owned by the pipeline: it may be returned again, so nothing may change it."""
    return replace(feed, owned=False)
