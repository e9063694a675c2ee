"""Reads batches in the caller or in threads; `processes.py` has the worker processes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from pipeflow.loading.walks import BatchItems
from pipeflow.loading.work import InlineJoining, ItemReader, Read, frame_of


class PendingBatch(Protocol):
    """A batch that is being read."""

    def result(self) -> Read: ...

    def cancel(self) -> Any: ...


class Inline:
    """Reads a batch when its result is taken, in the thread of the caller."""

    ahead = 0

    def __init__(self, reader: ItemReader) -> None:
        self._reader = reader
        self._join = InlineJoining(frame_of(reader.frame))

    def submit(self, wanted: BatchItems) -> PendingBatch:
        """Returns a batch that is read when its result is taken."""
        return _Later(lambda: self._reader.run(wanted, self._join))

    def close(self, wait: bool = True) -> None:
        """Does nothing."""


class _Later:
    def __init__(self, read: Callable[[], Read]) -> None:
        self._read = read

    def result(self) -> Read:
        return self._read()

    def cancel(self) -> None:
        pass


class Threads:
    """Reads several batches at the same time, each in one thread. A stream is read by one thread only."""

    def __init__(self, reader: ItemReader, count: int, prefetch: int, timeout: float | None) -> None:
        self.ahead = count * prefetch
        self._reader, self._timeout = reader, timeout
        self._join = InlineJoining(frame_of(reader.frame))
        self._threads = ThreadPoolExecutor(1 if reader.stream else count, "pipeflow loader")

    def submit(self, wanted: BatchItems) -> PendingBatch:
        """A batch that is being read."""
        return _InThread(self._threads.submit(self._reader.run, wanted, self._join), self._timeout)

    def close(self, wait: bool = True) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=wait, cancel_futures=True)


class _InThread:
    def __init__(self, future: "Future[Read]", timeout: float | None) -> None:
        self._future, self._timeout = future, timeout

    def result(self) -> Read:
        try:
            return self._future.result(self._timeout)
        except TimeoutError as error:
            if self._future.done():
                raise  # an exception of the user's code
            raise TimeoutError(f"a batch was not read within timeout={self._timeout:g} s") from error

    def cancel(self) -> None:
        self._future.cancel()
