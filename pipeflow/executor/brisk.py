"""Quick batches for a caller that does nothing else: it makes them itself.

To hand a batch from one thread to another costs up to 0.1 ms: the other processor must wake, and has none of the data in its
caches. If a caller comes back at once for the next batch, that is more than a batch of a few numbers takes, and nothing is
gained, because the caller only waits. So after some such batches the caller makes them, for as long as that is faster. With code
of the user it does this only if the code shows that nothing can notice the thread, or a second call after an interrupt.
"""

from collections.abc import Sequence
from math import inf

from pipeflow.executor.runners.base import BoundStep, StageRunner
from pipeflow.executor.runners.source import SourceStep
from pipeflow.executor.settings import Settings

MOST_SECONDS = 1e-3  # from one batch to the next, on average
OWN_SECONDS = 2e-4  # of them in the caller's own code
# Batches until the other way is tried, at least: threads are slow at first, until the system has spread them over the processors.
# And batches of a trial of the caller. The loop may get as many as are made ahead at once, and then wait.
ENOUGH, TRIAL = 32, 16
SLOW = 4  # each slow batch counts as so many quick ones
MOST_SLOW = 8  # a program may be interrupted now and then
MOST_BATCHES = 4096  # as above, after ways that were not faster


class Brisk:
    """Chooses who makes the batches: the caller, or threads. The executor follows ``by_caller`` when no batch is in flight."""

    def __init__(self, ahead: int = 0) -> None:
        """``ahead``: the number of batches that threads make ahead."""
        self.by_caller = False
        self._ahead = ahead
        self._skip = 0  # batches that were made in the other way
        self._periods: list[float] = []  # seconds from one batch to the next
        self._slow = 0  # grows with slow batches and falls with quick ones
        self._needed, self._trial = max(ENOUGH, 2 * ahead), max(TRIAL, 2 * ahead)
        self._tried = True  # False until the caller was compared with threads
        self._with_threads = inf

    @classmethod
    def of(cls, settings: Settings, stages: Sequence[StageRunner]) -> "Brisk | None":
        """None if the batches must be made by threads."""
        if settings.synchronous:
            return None
        if any(runner.meets or runner.strands > 1 for runner in stages):
            return None
        steps = [item for runner in stages for item in runner.steps]
        return None if any(_stays_in_threads(item) for item in steps) else cls(settings.depth)

    def delivered(self, own: float, period: float) -> None:
        """Counts a batch: the seconds since the last one, and those of them that passed until the caller came for it."""
        if own > OWN_SECONDS or period > MOST_SECONDS * (1 if self.by_caller else max(1, self._ahead)):
            self._slow += SLOW
            if self._slow > MOST_SLOW:
                self._slow = MOST_SLOW
                self._periods.clear()
                self._use(by_caller=False)
            return
        self._slow = max(0, self._slow - 1)
        if self._skip > 0:
            self._skip -= 1
            return
        self._periods.append(period)
        if len(self._periods) < (self._needed if self._tried else self._trial):
            return
        # The mean, without one that may be an accident: with threads, some batches come at once, and others after a wait.
        typical = (sum(self._periods) - max(self._periods)) / (len(self._periods) - 1)
        self._periods.clear()
        self._tried = True
        if not self.by_caller:
            self._with_threads = typical
            self._use(by_caller=typical <= MOST_SECONDS)
        elif typical > self._with_threads:  # several threads share the work
            self._needed = min(2 * self._needed, MOST_BATCHES)
            self._use(by_caller=False)

    def end_trial(self) -> None:
        """Threads go on if the caller was not compared with them yet: a measurement is of the way that pipelines usually take."""
        if not self._tried:
            self._use(by_caller=False)

    def _use(self, by_caller: bool) -> None:
        if by_caller is not self.by_caller:
            self.by_caller, self._tried, self._skip = by_caller, not by_caller, self._ahead + 1
            self._periods.clear()


def _stays_in_threads(item: BoundStep) -> bool:
    """True if the code of a step may notice the thread that runs it."""
    if isinstance(item, SourceStep):
        return not item.op.fetches and not item.source.repeats
    return item.step.role == "processes" or (item.has_user_code and not item.repeats)
