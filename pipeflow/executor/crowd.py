"""How many threads work at the same time: not more than there are processors, as long as they compute.

Threads that take turns on a processor disturb each other: with four or eight threads on two processors pictures are decoded a
fifth more slowly than with two. So a pipeline that has more threads than processors lets only as many work as there are
processors, while its steps are on a processor for at least COMPUTING of their time. If they wait for longer (for data, for a
file), all threads work. Then the limit is tried again after some batches, in case only other programs made them wait.
"""

from collections.abc import Callable, Sequence
from math import inf

from pipeflow.executor.measuring import Effort
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.settings import Settings, available_cpus

COMPUTING = 0.75
LEAST = 2  # threads that always work
WINDOW = 8  # batches, and seconds, of a window
WINDOW_SECONDS = 0.02
PAUSE = 64  # batches until the limit is tried again; each time twice as many
LONGEST_PAUSE = 8192
STUCK_SECONDS = 1.0  # if no batch is ready for so long, all threads work


class Crowd:
    """The number of threads that may work now."""

    def __init__(self, threads: int, processors: int, look: Callable[[], Effort]) -> None:
        self.most = threads
        self.threads, self._limit, self._look = threads, max(LEAST, processors), look
        self._before: Effort | None = None  # at the beginning of a window
        self._since = 0.0
        self._count = 0  # batches until the window ends; below zero until it begins
        self._pause = PAUSE

    @classmethod
    def of(cls, settings: Settings, stages: Sequence[StageRunner], look: Callable[[], Effort]) -> "Crowd | None":
        """None if there are no more threads than processors, or functions that may wait for each other."""
        if settings.threads <= LEAST or settings.synchronous or "num_threads" in settings.automatic:
            return None
        processors = available_cpus()
        if settings.threads <= processors or any(runner.meets or runner.strands > 1 for runner in stages):
            return None
        return cls(settings.threads, processors, look)

    @property
    def limited(self) -> bool:
        """True if not all threads may work."""
        return self.threads < self.most

    def delivered(self, now: float) -> bool:
        """Counts a batch; True if the number of threads has changed."""
        self._count += 1
        if self._count < 0:
            return False
        if self._before is None:
            self._before, self._since, self._count = self._look(), now, 0
            return False
        if self._count < WINDOW or now - self._since < WINDOW_SECONDS:
            return False
        work = self._look().since(self._before, now - self._since)
        self._before, before = None, self.threads
        self._count = -WINDOW // 2  # the next batches may have been made with another number
        if self.limited and work.busy < COMPUTING * work.inside:
            self.lift()
        elif not self.limited and work.busy >= self._limit / 2:
            self.threads = self._limit
        elif not self.limited:
            self._count = -PAUSE
        return self.threads != before

    def patience(self, given: float | None) -> float | None:
        """The longest time to wait for a batch until all threads work."""
        return min(given or inf, STUCK_SECONDS) if self.limited else given

    def lift(self) -> int:
        """Lets all threads work for a while; returns their number."""
        if self.limited:
            self.threads, self._before = self.most, None
            self._count, self._pause = -self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return self.threads
