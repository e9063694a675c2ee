"""Which of several changes is better than the kept settings: a comparison in turns, on a machine whose speed changes.

A window is compared only with the windows of the kept settings right before and after it. Its `lead` is the logarithm of how many
times as often batches came in it. Nothing here reads a clock or knows what a setting is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")  # settings

LEAST = 0.01  # the usual difference of two windows with equal settings is at least this
TOGETHER = 2  # changes between two windows of the kept settings
OBVIOUS = 3.0  # a lead of so many times the usual difference decides after one window
HOPELESS = 0.7  # a mean lead that is so many standard errors too small is given up
SURE = 1.5  # one that is so much larger than it must be is enough
LIKELY = 0.5  # the same when there is no time for more windows
MOST_WINDOWS = 8  # of a change
FORGOTTEN = 0.9  # the weight of an earlier difference, as a part of that of the next one


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
    leads: list[float] = field(default_factory=list)
    given_up: bool = False

    @property
    def lead(self) -> float:
        """The mean of its windows."""
        return sum(self.leads) / len(self.leads) if self.leads else 0.0

    def beyond(self, usual: float) -> float:
        """By how many standard errors it is better than it must be."""
        return (self.lead - self.worth) * math.sqrt(len(self.leads)) / usual


class Contest(Generic[S]):
    """Rivals of the kept settings; `following` is the setting to measure next, and `winner` the one to keep."""

    def __init__(self, kept: S, changes: Sequence[tuple[S, float]], pace: float | None, usual: Usual) -> None:
        self.kept, self.usual = kept, usual
        self.rivals = [Rival(setting, worth) for setting, worth in changes]
        self.winner: Rival[S] | None = None
        self._before = None if pace is None else math.log(pace)  # of the last window with the kept settings
        self._since: list[tuple[Rival[S], float]] = []  # windows after it, in their order
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

    def measured(self, pace: float) -> None:
        """Counts a window with the setting that ``following`` returned."""
        level, current = math.log(pace), self._current
        if self._before is None:
            self._before = level
            return
        if current is not None:
            self._since.append((current, level))
            self._judge_first(current, self._before - level)
            return
        for place, (rival, found) in enumerate(self._since, 1):
            between = place / (len(self._since) + 1)
            rival.leads.append((1 - between) * self._before + between * level - found)
        if self._since:
            self.usual.add((level - self._before) / math.sqrt(2 if len(self._since) > 1 else 1))
        self._before = level
        self._since.clear()
        self._judge()

    def end(self) -> None:
        """There is no time for more."""
        for rival, found in self._since:
            rival.leads.append((self._before or 0.0) - found)
        self._since.clear()
        if self.winner is None:
            self._end()

    def _left(self) -> list[Rival[S]]:
        return [rival for rival in self.rivals if not rival.given_up]

    def _judge_first(self, rival: Rival[S], lead: float) -> None:
        if rival.leads:
            return
        if lead - rival.worth > OBVIOUS * self.usual.value:
            rival.leads.append(lead)
            self.winner = rival
        elif rival.worth - lead > OBVIOUS * self.usual.value:
            rival.given_up = True

    def _judge(self) -> None:
        usual = self.usual.value
        for rival in self._left():
            if rival.leads and (rival.beyond(usual) < -HOPELESS or len(rival.leads) >= MOST_WINDOWS):
                rival.given_up = rival.beyond(usual) <= 0
        if self._waiting:
            return
        best = max(self._left(), key=lambda rival: rival.lead, default=None)
        if best is not None and best.leads and best.beyond(usual) > SURE:
            self.winner = best

    def _end(self) -> None:
        """The best of those that are probably better."""
        likely = [rival for rival in self.rivals if rival.leads and rival.beyond(self.usual.value) > LIKELY]
        self.winner = max(likely, key=lambda rival: rival.lead, default=None)
