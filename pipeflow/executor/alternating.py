"""How much more processor time does work take if all threads work, and how long does it wait if only one does?

Threads share caches, memory, the interpreter, perhaps a core. After its probe, ``Pipeline.measure`` lets one thread and all
threads work in turn, for short times, so that a change of the machine's speed affects both alike. A model needs both to predict
other numbers of threads: work that waits only next to other threads waits for these, and more threads do not hide that.
"""

from collections.abc import Sequence
from statistics import median

from pipeflow.executor.clocks import Clock

PHASES = 10  # half of them with one thread
ENOUGH_PAIRS = 2  # of these, if measuring ends before
PHASE_SECONDS = 0.02
PHASE_BATCHES = 3
LONGEST_SECONDS = 1.0  # it ends early if batches take long
MOST = 3.0


class Alternation:
    """One thread and all threads in turn. The caller has the executor's lock during every call."""

    def __init__(self, clocks: Sequence[Clock], threads: int, depth: int) -> None:
        self.threads = 1
        self.over = False
        self._clocks, self._most, self._skipped = clocks, threads, depth + 1
        self._count = -self._skipped  # batches of a phase; below zero those that were made before it
        self._begun = self._first = 0.0
        # For each phase the work of each stage, by the number of threads: processor seconds of a sample, and seconds of waiting.
        self._work: dict[int, list[list[tuple[float, float]]]] = {1: [], threads: []}

    def delivered(self, now: float) -> bool:
        """Counts a batch; True if the number of threads has changed."""
        self._first = self._first or now
        self._count += 1
        if self._count == 0:
            self._begun = now
            for clock in self._clocks:
                if clock.tasks is not None:
                    clock.tasks.clear()
        if self._count < PHASE_BATCHES or now - self._begun < PHASE_SECONDS:
            return False
        self._work[self.threads].append([_work_of(clock) for clock in self._clocks])
        self.threads, self._count = self._most + 1 - self.threads, -self._skipped
        phases = sum(map(len, self._work.values()))
        if phases % 2 == 0 and (phases >= PHASES or now - self._first > LONGEST_SECONDS):
            self.over, self.threads = True, self._most
        return True

    @property
    def pairs(self) -> int:
        """The number of phases with one thread that have a phase with all threads next to them."""
        return min(map(len, self._work.values()))

    def ratios(self) -> list[float | None]:
        """For each stage its processor time with all threads, as a multiple of that with one; None without work."""
        found: list[float | None] = []
        for place in range(len(self._clocks)):
            ratios = [all_[0] / one[0] for one, all_ in self._pairs(place) if one[0] > 0 and all_[0] > 0]
            found.append(min(max(1.0, median(ratios)), MOST) if ratios else None)
        return found

    def waits(self) -> list[float | None]:
        """For each stage the waiting of one thread for a sample, as a share of that with all threads; None without waiting."""
        found: list[float | None] = []
        for place in range(len(self._clocks)):
            one, all_ = (median(row[1] for row in rows) for rows in zip(*self._pairs(place), strict=True))
            found.append(min(one / all_, 1.0) if all_ > 0 else None)
        return found

    def _pairs(self, place: int) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """The work of a stage with one thread and with all, for each pair of phases."""
        return [(one[place], all_[place]) for one, all_ in zip(self._work[1], self._work[self._most])]


def _work_of(clock: Clock) -> tuple[float, float]:
    """Processor seconds of a sample, and seconds of waiting."""
    rows = tuple(clock.tasks or ())
    samples = max(1, sum(row[1] or 1 for row in rows))
    return sum(row[3] for row in rows) / samples, sum(max(0.0, row[2] - row[3]) for row in rows) / samples
