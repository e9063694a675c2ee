"""Sends a request a second time if it takes unusually long.

A request that has not ended after the 99th percentile of the earlier ones of its size is sent again on another connection. The
first good answer is used, and the other connection is closed. At most one request in twenty is sent twice, so a server that has
become slow for all requests gets little more work.
"""

import contextlib
import heapq
import itertools
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pipeflow import timing

T = TypeVar("T")

SEEN = 50  # answers that are needed for a percentile
_KEPT = 500  # answers of a kind that are remembered
_SHARE = 0.05  # the share of the requests that may be sent twice
_TICK = 0.005  # seconds between two looks at the requests; a look at each would take more time than it saves
_MOST = 5.0  # the most second requests at once, after many requests that needed none


class Latencies:
    """The times that the last requests of one kind took."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self._count = 0
        self._limit: float | None = None

    def add(self, seconds: float) -> None:
        """Adds the time of an answer."""
        self._seconds.append(seconds)
        self._count += 1
        if self._count >= SEEN and self._count % 16 == SEEN % 16:
            ordered = sorted(self._seconds)
            self._limit = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]

    @property
    def limit(self) -> float | None:
        """The 99th percentile; None before enough answers have been seen."""
        return self._limit


class Budget:
    """The number of requests that may still be sent twice: a share of all requests."""

    def __init__(self) -> None:
        self._left = 1.0
        self._lock = threading.Lock()

    def earn(self) -> None:
        """Counts a request."""
        with self._lock:
            self._left = min(_MOST, self._left + _SHARE)

    def spend(self) -> bool:
        """True if a request may be sent twice now; then it is counted."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Attempt:
    """One of the requests of a race; it owns a connection while it uses it."""

    def __init__(self, race: "Race[Any]") -> None:
        self._race = race
        self._connection: Any = None

    def own(self, connection: Any) -> None:
        """Remembers the connection, so that it can be closed if another request is answered first."""
        with self._race.lock:
            self._connection = connection
            if self._race.over:
                self.close()

    def release(self) -> bool:
        """Ends the use of the connection; False if it has been closed."""
        with self._race.lock:
            kept, self._connection = self._connection is not None, None
            return kept

    def close(self) -> None:
        """Closes the connection, which ends a read in another thread. The caller holds the lock."""
        connection, self._connection = self._connection, None
        # To close a socket does not wake a thread that reads from it; a shutdown does.
        sock = None if connection is None else connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # it may be closed already
                sock.shutdown(socket.SHUT_RDWR)


class Race(Generic[T]):
    """A request that may be sent twice."""

    def __init__(self, send: Callable[[Attempt], T], budget: Budget) -> None:
        self._send, self._budget = send, budget
        self.lock = threading.Lock()
        self.over = False
        self._attempts: list[Attempt] = []
        self._running = 0
        self._answers: list[T] = []
        self._errors: list[BaseException] = []
        self._ended: threading.Event | None = None  # made with the second request: most races have only one request

    def run(self) -> None:
        """Sends the request, in the calling thread."""
        attempt = Attempt(self)
        with self.lock:
            if self.over:
                return
            self._attempts.append(attempt)
            self._running += 1
        try:
            found: tuple[Any, BaseException | None] = (self._send(attempt), None)
        except BaseException as error:
            found = None, error
        with self.lock:
            self._running -= 1
            if self.over:
                return
            answer, problem = found
            if problem is None:
                self._answers.append(answer)
            else:
                self._errors.append(problem)
            self.over = problem is None or not self._running
            if self.over:
                for other in self._attempts:
                    if other is not attempt:
                        other.close()
                if self._ended is not None:
                    self._ended.set()

    def again(self) -> None:
        """Sends the request a second time in a thread of its own, if this is allowed and the race has not ended."""
        if not self.over and self._budget.spend():
            with self.lock:
                self._ended = threading.Event()
                if self.over:
                    self._ended.set()
            threading.Thread(target=self.run, name="pipeflow second request", daemon=True).start()

    def result(self) -> T:
        """The first good answer; the first error if there is none."""
        with self.lock:
            ended = None if self.over else self._ended
        if ended is not None:
            ended.wait()
        if self._answers:
            return self._answers[0]
        raise self._errors[0]


class _Resender:
    """One thread that sends requests a second time when their time has come."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._due: list[tuple[float, int, Race[Any]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="pipeflow slow requests", daemon=True).start()

    def add(self, seconds: float, race: Race[Any]) -> None:
        """Plans to send a request again if it has not ended after some seconds."""
        with self._changed:
            heapq.heappush(self._due, (timing.wall() + seconds, next(self._numbers), race))
            if self._due[0][2] is race:  # the thread waits for a later one, or for the first
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._due and self._due[0][2].over:
                    heapq.heappop(self._due)
                left = self._due[0][0] - timing.wall() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(None if left is None else max(left, _TICK))
                    continue
                race = heapq.heappop(self._due)[2]
            race.again()


class Hedges:
    """The requests of this process: the times that they took, and the number that may be sent twice."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.latencies: dict[Any, Latencies] = {}
        self._resender: _Resender | None = None
        self._lock = threading.Lock()

    def fastest(self, kind: Any, send: Callable[[Attempt], T]) -> T:
        """The answer to a request that changes nothing on the server. Requests of one `kind` take equally long."""
        known = self.latencies.get(kind) or self.latencies.setdefault(kind, Latencies())
        self.budget.earn()
        race = Race(send, self.budget)
        began, limit = timing.wall(), known.limit
        if limit is not None:
            self._running().add(limit, race)
        race.run()
        answer = race.result()
        known.add(timing.wall() - began)
        return answer

    def _running(self) -> _Resender:
        with self._lock:
            if self._resender is None or self._resender.process != os.getpid():  # threads do not survive a fork
                self._resender = _Resender()
            return self._resender
