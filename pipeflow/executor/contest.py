"""Which of several changes is better than the kept settings: a comparison in turns, on a machine whose speed changes.

A window is compared only with the windows of the kept settings right before and after it. Its `lead` is the logarithm of how many
times as often batches came in it. The speed of a processor may differ by a tenth from one window to the next; the number of
processors that work differs far less. So if this number is known, only a part of the lead is taken from the times of batches:

    lead = logarithm of the ratio of processors + what a batch needs less of them

The second term is near zero for most changes, and is estimated with this in mind (``SPARES``). With more threads a batch needs
no less processor time; with more batches ahead it needs a little less, because threads wait and wake less often. Nothing here
reads a clock or knows what a setting is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S")  # settings

LEAST = 0.01  # the usual difference of two windows with equal settings is at least this
TOGETHER = 2  # changes between two windows of the kept settings
OBVIOUS = 3.0  # a lead of so many times the usual difference decides after one window
HOPELESS = 0.7  # a lead that is so many standard errors too small is given up
SURE = 1.5  # one that is so much larger than it must be is enough
DOUBTFUL = 2.0  # one that is by fewer standard errors too small may be an accident
LIKELY = 0.5  # the same when there is no time for more windows
MOST_WINDOWS = 8  # of a change
FORGOTTEN = 0.9  # the weight of an earlier difference, as a part of that of the next one
SPARES = 0.1  # the usual logarithm of what a batch needs more or less of the processors after a change of threads,
SPARES_AHEAD = 0.05  # and of the batches made ahead
USE_DIFFERS = 0.02  # the usual difference of the processors at work in two windows with equal settings is at least this
IDLE = 0.3  # processors: if fewer work, batches wait for something else, and only their times count


class WindowLevel(NamedTuple):
    """What was measured in a window, as logarithms."""

    pace: float  # seconds of a batch
    use: float | None = None  # processors at work; None: not known, or so few that it says nothing

    @classmethod
    def of(cls, pace: float, used: float | None) -> "WindowLevel":
        """``used`` processors were at work."""
        return cls(math.log(pace), None if used is None or used < IDLE else math.log(used))


def error_of_mean(times: Sequence[float]) -> float:
    """The standard error of the mean time, as a part of it."""
    count, mean = len(times), sum(times) / len(times)
    squares = sum((each - mean) ** 2 for each in times)
    return math.sqrt(squares / (count - 1) / count) / mean if mean > 0 else 0.0


class Usual:
    """The usual difference of two windows with equal settings."""

    def __init__(self, least: float = LEAST) -> None:
        self.least = least
        self._squares = self._weight = 0.0

    def add(self, difference: float) -> None:
        """Counts a difference of logarithms."""
        self._squares = FORGOTTEN * self._squares + difference * difference
        self._weight = FORGOTTEN * self._weight + 1

    @property
    def value(self) -> float:
        """The root of the mean square."""
        return max(self.least, math.sqrt(self._squares / self._weight) if self._weight else 0.0)


@dataclass
class Rival(Generic[S]):
    """A change, and how it did."""

    setting: S
    worth: float  # the lead from which it is worth while
    spares: float = SPARES
    adds: bool = False  # it adds threads, so a batch does not need less of the processors
    expects: float = 0.0  # the logarithm of what a batch probably needs less of them
    sure: float = SURE  # so many standard errors decide
    leads: list[float] = field(default_factory=list)  # by the times of batches
    uses: list[float] = field(default_factory=list)  # by the processors at work, of the same windows if they are known
    given_up: bool = False

    @property
    def lead(self) -> float:
        """The mean of its windows."""
        return sum(self.leads) / len(self.leads) if self.leads else 0.0

    def estimate(self, usual: float, usual_use: float) -> tuple[float, float]:
        """The lead, and its standard error."""
        count = len(self.leads)
        if len(self.uses) < count:
            return self.lead, usual / math.sqrt(count)
        use = sum(self.uses) / count
        weight = 1 / (1 + usual**2 / (count * self.spares**2))
        spared = self.expects + weight * (self.lead - use - self.expects)
        error = math.sqrt(usual_use**2 / count + (1 - weight) * self.spares**2)
        return use + (min(0.0, spared) if self.adds else spared), error

    def beyond(self, usual: float, usual_use: float) -> float:
        """By how many standard errors it is better than it must be."""
        lead, error = self.estimate(usual, usual_use)
        return (lead - self.worth) / error


class Contest(Generic[S]):
    """Rivals of the kept settings; `following` is the setting to measure next, and `winner` the one to keep."""

    def __init__(
        self,
        kept: S,
        rivals: Sequence[Rival[S]],
        before: WindowLevel | None,
        usual: Usual,
        usual_use: Usual,
        most: int = MOST_WINDOWS,
    ) -> None:
        self.kept, self.usual, self.usual_use = kept, usual, usual_use
        self.rivals = rivals
        self.winner: Rival[S] | None = None
        self._most = most
        self._before = before  # of the last window with the kept settings
        self._since: list[tuple[Rival[S], WindowLevel]] = []  # windows after it, in their order
        self._group: list[Rival[S] | None] = []  # what is to be measured; None: the kept settings
        self._waiting: list[Rival[S]] = list(self.rivals)  # the rivals of this round after the group
        self._current: Rival[S] | None = None

    def following(self, enough: Callable[[Sequence[S]], bool]) -> S | None:
        """The next setting to measure, None if the contest is over; ``enough`` tells if there is time for several windows."""
        if self.winner is not None:
            return None
        if self._before is None:
            self._current = None
            return self.kept
        if not self._group:
            self._waiting = self._waiting or sorted(self._left(), key=lambda rival: -rival.lead)
            group = [rival for rival in self._waiting if not rival.given_up][:TOGETHER]
            while group and not enough([*(rival.setting for rival in group), self.kept]):
                group.pop()
            if not group:
                self._end()
                return None
            self._waiting = self._waiting[self._waiting.index(group[-1]) + 1 :]
            self._group = [*group, None]
        self._current = self._group.pop(0)
        return self.kept if self._current is None else self._current.setting

    @property
    def between(self) -> bool:
        """True between two groups of windows: a pause does no harm, if the kept settings are measured after it."""
        return not self._group

    def pause(self) -> None:
        """The next window is a new one with the kept settings."""
        self._before = None

    def measured(self, level: WindowLevel) -> None:
        """Counts a window with the setting that ``following`` returned."""
        current = self._current
        if self._before is None:
            self._before = level
            return
        if current is not None:
            self._since.append((current, level))
            self._judge_first(current, level)
            return
        for place, (rival, found) in enumerate(self._since, 1):
            self._count(rival, found, level, place / (len(self._since) + 1))
        if self._since:
            parts = math.sqrt(2 if len(self._since) > 1 else 1)
            self.usual.add((level.pace - self._before.pace) / parts)
            if level.use is not None and self._before.use is not None:
                self.usual_use.add((level.use - self._before.use) / parts)
        self._before = level
        self._since.clear()
        self._judge()

    def end(self) -> None:
        """There is no time for more."""
        for rival, found in self._since:
            if self._before is not None:
                self._count(rival, found, self._before, 0.0)
        self._since.clear()
        if self.winner is None:
            self._end()

    def left(self) -> list[Rival[S]]:
        """The rivals that are not clearly worse."""
        return [rival for rival in self.rivals if self._may_be_better(rival)]

    def _may_be_better(self, rival: Rival[S]) -> bool:
        return self._beyond(rival) > -DOUBTFUL if rival.leads else not rival.given_up

    def _count(self, rival: Rival[S], found: WindowLevel, after: WindowLevel, share: float) -> None:
        """Counts a window of a rival, a ``share`` of the way from the window of the kept settings before it to that after it."""
        before = self._before
        assert before is not None
        rival.leads.append((1 - share) * before.pace + share * after.pace - found.pace)
        if before.use is not None and after.use is not None and found.use is not None:
            rival.uses.append(found.use - (1 - share) * before.use - share * after.use)

    def _beyond(self, rival: Rival[S]) -> float:
        return rival.beyond(self.usual.value, self.usual_use.value)

    def _left(self) -> list[Rival[S]]:
        return [rival for rival in self.rivals if not rival.given_up]

    def _judge_first(self, rival: Rival[S], level: WindowLevel) -> None:
        if rival.leads:
            return
        assert self._before is not None
        self._count(rival, level, self._before, 0.0)
        beyond = self._beyond(rival)
        if beyond > OBVIOUS:
            self.winner = rival
            return
        rival.given_up = beyond < -OBVIOUS
        rival.leads.clear()
        rival.uses.clear()

    def _judge(self) -> None:
        for rival in self._left():
            if rival.leads and (self._beyond(rival) < -HOPELESS or len(rival.leads) >= self._most):
                rival.given_up = self._beyond(rival) <= 0 or len(rival.leads) >= 2 * self._most
        if self._waiting:
            return
        measured = [rival for rival in self._left() if rival.leads]
        best = max(measured, key=lambda rival: self._lead(rival), default=None)
        if best is not None and self._beyond(best) > best.sure:
            self.winner = best

    def _lead(self, rival: Rival[S]) -> float:
        return rival.estimate(self.usual.value, self.usual_use.value)[0]

    def _end(self) -> None:
        """The best of those that are probably better."""
        likely = [rival for rival in self.rivals if rival.leads and self._beyond(rival) > LIKELY]
        self.winner = max(likely, key=self._lead, default=None)
