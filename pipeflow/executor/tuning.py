"""Chooses the number of threads, of batches made ahead, and of callers of functions while a pipeline runs.

The rules:

1. It begins with the defaults: a thread for each processor, two batches ahead, and functions with parallel="auto" on one thread
   at a time: this is as fast as parallel="serial".
2. It measures a first window of FIRST batches, or of WINDOW if these take SLOW_SECONDS; then windows of WINDOW batches, or of
   SHORTEST if the times of batches differ so little that their mean has an error of at most EXACT, or if all of them take SLOWER
   times as long as before. If single batches take BURSTS times as long as most, windows have whole periods of these bursts. The
   first batches after a change are not counted.
3. If the loop does not wait for its batches, nothing is changed.
4. Else up to RIVALS changes are measured in turn with the kept settings: more batches ahead first, if there are bursts; one
   thread instead of several that keep the interpreter, also with twice as many batches ahead: the loop, which waits up to 5 ms
   for the interpreter, then takes several at once; two threads with more batches ahead, if nearly all of the work is
   that of one stage (``in_order``): the second thread does the other work; functions with parallel="auto" on all threads, or one
   at a time again; twice as many threads, four times if they wait; twice as many batches ahead, four times if they wait; fewer
   threads. A change that cannot help is not tried: what the threads did in the window shows it (``Effort``), or earlier windows
   do: fewer threads are not tried if a number between was SLOWER times as slow, nor one thread at a time if this was as slow,
   and was always at work.
5. A window is compared only with windows of the kept settings right before and after it, because the speed of a machine
   changes. A change that is clearly worse is given up, one that is clearly better is kept, and the others are measured again,
   until their mean is clear or the batches are used up. Clear is a difference that is large compared with those of windows
   with equal settings. When a change is kept, others are tried from there.
6. It is settled when no change is left, and at the latest after LONGEST batches. If batches take less than BRIEF, it is settled
   after the first window: with one thread if the threads mostly take the interpreter from each other, else as it began.
7. Changes that were not compared for long enough, and the settings that it began with, are then compared in windows of
   REVIEW_SECONDS. This is a review: the kept settings are used meanwhile, for so many batches between two windows with others
   that these cost at most REVIEW_COST of the time. A pause of the loop, and the batches that were made in it, do not count.
8. After that it measures one window after REST batches, then after twice as many each time, up to LONGEST_REST. If the loop
   waits and the batches of OTHERS windows take SLOWER times as long as before, or as short (a cache is full), it begins again.
   One such window may be an accident: processors are slow for a second now and then.
9. If other code takes over the work of a step (``StageRunner.takeovers``), everything measured before is forgotten, and it
   begins again with rule 1. This is a fact, not a guess from times: the stages report it. If it was not settled yet, the batches
   before count, up to half of LONGEST: most takeovers come early, and it is then settled LONGEST batches after the beginning.
10. If the memory of the pipeline exceeds its budget, fewer batches are made ahead. A number that would exceed it is not tried.

No setting changes the result of any batch. The clock is read by the caller, once a batch.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from pipeflow.executor.chosen import ALONE, BRIEF, COMPUTING, FEW_AHEAD, FULL, Chosen, can_help, in_order, rival_of
from pipeflow.executor.contest import (
    MOST_WINDOWS,
    OBVIOUS,
    USE_DIFFERS,
    Contest,
    Rival,
    Usual,
    WindowLevel,
    error_of_mean,
)
from pipeflow.executor.figures import NOT_THE_BOTTLENECK, ExposedWait, in_ms
from pipeflow.executor.measuring import Effort
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.settings import Settings, available_cpus

log = logging.getLogger("pipeflow")
FIRST = 16
WINDOW = 8
FIRST_SECONDS = 0.01  # the first window takes as long, unless it has six times as many batches
SLOW_SECONDS = 0.1  # the first window has WINDOW batches if they take as long
REVIEW_SECONDS = 0.04  # of a window after the settings are settled: threads hand the interpreter over every 5 ms
REVIEW_COST = 0.01  # share of the time that other settings may cost then
REVIEW_CREDIT = 0.02  # seconds that they may cost before
REVIEW_WINDOWS = 12  # of a change
SHORTEST = 4
EXACT = 0.01  # the error of a mean of brief windows
DIFFER, BURSTS_DIFFER = 0.08, 0.1  # what windows with equal settings differ by, until some were measured; with bursts
BURSTS = 3.0  # if a batch takes so many times as long as most, more batches ahead are tried first
RIVALS = 4  # changes that are measured in the same rounds
LONGEST = 200
REST, LONGEST_REST = 256, 8192
SLOWER = 1.5
PAUSE, PAUSE_SECONDS = 8, 0.05  # batches, and seconds, of a pause of the loop: it validates, or saves its state
OTHERS = 2
SOON = 32  # batches until the second of these windows, if batches are quicker
MOST_THREADS, MOST_AHEAD = 32, 16
WAITING = 0.25  # share of their time that threads are on a processor, if far more of them may do more
_WITH_IT = 2  # batches in memory beyond those made ahead: the one that the loop has, and the one before


class _TunedWindow(NamedTuple):
    """What was measured in a window."""

    pace: float  # seconds from batch to batch
    work: Effort | None  # None: not known
    wait: ExposedWait


class Tuner:
    """The settings, and what is known about them."""

    def __init__(
        self,
        threads: int,
        depth: int,
        tunes_threads: bool,
        tunes_depth: bool,
        memory: int | None = None,
        least_threads: int = 1,
        tunes_alone: bool = False,
        processors: int = 1,
        look: "Callable[[], Effort] | None" = None,
        whole: bool = True,
        takeovers: "Callable[[], int]" = int,
    ) -> None:
        """``whole`` is False if other processes do a part of the work, which ``look`` does not see. ``takeovers`` returns another
        number when other code has taken over the work of a step.
        """
        self.threads, self.depth, self.alone = max(threads, least_threads), depth, tunes_alone
        self.most = self.threads  # the largest number of threads so far
        self._tunes_threads, self._tunes_depth, self._tunes_alone = tunes_threads, tunes_depth, tunes_alone
        self._memory = memory
        self._least = least_threads
        self._processors, self._look, self._whole = processors, look, whole
        self._takeovers, self._code = takeovers, takeovers()
        self.settled = False
        self.reason = "not measured yet"
        self.changes = 0
        self._batches = 0  # the number of batches since tuning began, or since the settings were settled
        self._skip = WINDOW // 2  # batches that are not counted: they were made before the change
        self._begin: float | None = None
        self._count, self._waited = 0, 0.0
        self._times: list[float] = []  # seconds from batch to batch, in this window,
        self._own: list[float] = []  # and those of them that the loop took itself
        self._last = 0.0
        self._before: Effort | None = None  # at the beginning of the window
        self._best: float | None = None  # seconds from batch to batch with the best settings so far
        self._latest: dict[Chosen, _TunedWindow] = {}  # the last window with each of the settings
        self._steady = False  # True if the times of batches differ little
        self._bursts = False  # True if some batches take far longer than most
        self._window = WINDOW  # the batches of a window
        self._usual, self._usual_use = Usual(), Usual(USE_DIFFERS)
        self._kept = self._first = self.chosen  # the best settings so far, and those that it began with
        self.reviewing = False  # True if it is settled and still compares settings
        self._doubtful = False  # True if a change was kept without a clear difference
        self._left: list[Rival[Chosen]] = []  # changes of the kept settings that are not clearly worse
        self._now = self._owed = 0.0  # seconds: owed are those that other settings cost in the review
        self._hidden = 0  # batches of the window that are not counted, because they were made while the loop paused
        self._even = FIRST  # batches since a pause: a loop whose steps are often long does not pause
        self._seen: set[Chosen] = set()  # settings that were tried
        self._contest: Contest[Chosen] | None = None  # of changes that are measured in turn
        self._reserved = 0
        self._rest = self._first_rest = REST  # the first grows each time that it begins again
        self._others = (
            0  # windows in turn whose batches took far longer, or far less long, than with the chosen settings
        )

    @property
    def chosen(self) -> Chosen:
        """The present settings."""
        return Chosen(self.threads, self.depth, self.alone)

    @property
    def kept(self) -> Chosen:
        """The present settings, or in a review those that others are compared with."""
        return self._kept if self.reviewing else self.chosen

    @classmethod
    def of(
        cls, settings: Settings, stages: Sequence[StageRunner], on_device: bool, look: Callable[[], Effort], whole: bool
    ) -> "Tuner | None":
        """The tuner of a pipeline; None if all its settings are fixed. The memory of a device has a fixed number of batches."""
        depth = "prefetch_queue_depth" in settings.automatic and not on_device
        threads = "num_threads" in settings.automatic
        alone = settings.threads > 1 and any(runner.alone_if_better for runner in stages)
        if settings.synchronous or not (threads or depth or alone):
            return None
        strands = max((runner.strands for runner in stages if runner.per_sample), default=1)
        return cls(
            settings.threads,
            settings.depth,
            threads,
            depth,
            settings.memory,
            strands,
            alone,
            available_cpus(),
            look,
            whole,
            lambda: sum([runner.takeovers() for runner in stages]),
        )

    def rests(self) -> bool:
        """Counts a batch for which nothing is to be done: the settings are settled, and no memory is counted; else False."""
        if not self.settled or self._skip <= 0 or self._memory is not None or self._takeovers() != self._code:
            return False
        self._skip, self._batches = self._skip - 1, self._batches + 1
        return True

    def delivered(self, now: float, asked: float, reserved: int) -> bool:
        """Counts a batch: the time, that of the call for it, and the bytes of the pipeline's memory. True after a change."""
        before, self._now = self.chosen, now
        self._batches += 1
        self._reserved = reserved
        self._keep_budget()
        if (code := self._takeovers()) != self._code:
            self._code = code
            self._forget()
        if self._skip > 0:
            self._skip -= 1
        elif self._begin is None:
            self._begin = now
            resting = self.settled and not self.reviewing
            self._before = None if resting or self._look is None else self._look()
        elif self._is_hidden(asked - self._last):
            self._begin += now - self._last
        else:
            self._count += 1
            self._waited += max(0.0, now - asked)
            self._times.append(now - self._last)
            self._own.append(asked - self._last)
            if self._is_whole():
                self._judge(ExposedWait(self._count, now - self._begin, self._waited))
        self._last = now
        if not self.settled and self._batches >= LONGEST:
            if self._contest is not None:
                self._contest.end()
                if self._contest.winner is not None:
                    self._keep_winner()
                    self._left = self._rivals()
                else:
                    self._left += self._contest.left()
            self._settle(f"the best settings that were tried in {LONGEST} batches")
        changed = before != self.chosen
        self.changes += changed
        return changed

    def _is_hidden(self, own: float) -> bool:
        """True if a batch came after a pause of the loop, or was made in it: the loop took ``own`` seconds before it."""
        usual = self._best or (median(self._times) if self._times else math.inf)
        self._even += 1
        if own > max(PAUSE_SECONDS, PAUSE * usual):
            if self._even > WINDOW:
                self._hidden = self.depth + 2
                self._before = None  # the process may have done other work
            self._even = 0
        self._hidden -= self._hidden > 0
        return self._hidden > 0

    def _is_whole(self) -> bool:
        """True if the window has enough batches."""
        if self.reviewing:
            length = self._length_with(self.depth)
            return self._count % length == 0 and self._now - (self._begin or 0.0) >= REVIEW_SECONDS
        if self.settled:
            return self._count == WINDOW
        if self._best is None:  # one long batch in FIRST may be an accident
            lasted = self._now - (self._begin or 0.0)
            if self._count == WINDOW and lasted >= SLOW_SECONDS and not self._long():
                return True
            long = lasted >= FIRST_SECONDS or self._count >= 6 * FIRST
            return long and self._count >= FIRST and (self._count >= 2 * FIRST or len(self._long()) != 1)
        if self._count >= self._length_with(self.depth):
            return True
        return self._count == SHORTEST and (
            (self._steady and error_of_mean(self._times) <= EXACT) or self._is_far_slower()
        )

    def _is_far_slower(self) -> bool:
        """True if even the quickest batch of the window took far longer than those with the kept settings."""
        return not self._bursts and self._best is not None and min(self._times) > SLOWER * self._best

    def _length_with(self, depth: int) -> int:
        """The batches of a window. If many are made ahead, the loop may get several at once, and then wait for long."""
        return self._window if depth <= FEW_AHEAD else self._window * math.ceil(2 * depth / self._window)

    def _long(self) -> list[int]:
        """The places of the batches that took far longer than most."""
        limit = BURSTS * median(self._times)
        return [place for place, each in enumerate(self._times) if each > limit]

    def _judge(self, window: ExposedWait) -> None:
        work, times = None, list(self._times)
        if self._best is None:
            self._look_at_first(times)
        if not self._bursts:
            if self.depth <= FEW_AHEAD:  # a batch that takes very long is an accident, if not the loop took so long
                limit = BURSTS * median(times)
                times = [min(each, max(limit, own)) for each, own in zip(times, self._own)]
            half, limit = len(times) // 2, BURSTS * self._usual.value  # with more ahead the first ones come at once
            difference = math.log(max(sum(times[-half:]), 1e-9) / max(sum(times[:half]), 1e-9))
            self._usual.add(min(max(difference, -limit), limit))
        if self._before is not None and self._look is not None and window.seconds > 0:
            work = self._look().since(self._before, window.seconds)
            work = None if min(work) < 0 else work  # the clocks began again
        self._start_window()
        pace = max(sum(times) / len(times), 1e-9)
        if self.settled and not self.reviewing:
            self._rest = min(2 * self._rest, LONGEST_REST)
            self._skip = self._rest
            if self._best is not None and window.is_bottleneck and self._is_other(pace):
                # Slow batches may be an accident that lasts for a second; quick ones are none, but were perhaps made ahead.
                self._others, self._skip = self._others + 1, REST if pace > self._best else SOON
            else:
                self._others = 0
            if self._others == OTHERS:
                self._begin_again()
            return
        self._latest[self.chosen] = _TunedWindow(pace, work, window)
        level = WindowLevel.of(pace, work.used if work is not None and self._whole else None)
        if self.reviewing:
            return self._review(level, window)
        if self._contest is not None:
            self._contest.measured(level)
            if self._contest.winner is not None and self._keep():
                return None
        elif self._best is None:
            self._best, self._seen = pace, {self._kept}
            if not window.is_bottleneck:
                return self._settle(
                    f"{NOT_THE_BOTTLENECK}: the loop waits {window.share:.1%} of a step of {in_ms(pace)}"
                )
            if pace < BRIEF:
                return self._settle_briefly(work)
        return self._try_next()

    def _is_other(self, pace: float) -> bool:
        """True if the batches take far longer than when the settings were chosen, or far less long."""
        best = self._best or pace
        return not best / SLOWER < pace < SLOWER * best

    def _begin_again(self) -> None:
        self.settled, self._batches, self._best, self._others = False, 0, None, 0
        self._skip, self._owed = 0, 0.0
        self._first_rest = min(2 * self._first_rest, LONGEST_REST)
        self._latest.clear()

    def _forget(self) -> None:
        """Begins as with a new pipeline: other code does the work now. Batches that were made ahead are not counted."""
        rest, self.reason = self._first_rest, "not measured yet: other code does the work now"
        used = 0 if self.settled else min(self._batches, LONGEST // 2)
        self._begin_again()
        self._first_rest, self._batches = rest, used
        self._contest, self._left, self.reviewing, self._doubtful = None, [], False, False
        depth = max(self.depth, self._first.depth)
        self._use(self._first)
        self._kept, self._skip = self._first, max(depth + 1, WINDOW // 2)
        self._start_window()

    def _settle_briefly(self, work: Effort | None) -> None:
        """Settles after the first window. Threads that take the interpreter from each other are slower than one."""
        brief, first = f"a batch takes less than {in_ms(BRIEF)}", self._latest[self._kept]
        if self._tunes_threads and self._takes_turns(work):
            self._kept, self._doubtful = self._kept._replace(threads=self._least), True
            brief += ", and the threads take the interpreter from each other"
        self._latest[self._kept] = first
        self._left = self._rivals()
        self._settle(brief)

    def _rivals(self) -> list[Rival[Chosen]]:
        """The changes to try from the kept settings."""
        changes = [each for each in self._changes() if each not in self._seen and self._may_help(each)]
        return [self._rival(each) for each in [*dict.fromkeys(changes)][:RIVALS]]

    def _rival(self, change: Chosen) -> Rival[Chosen]:
        window = self._latest.get(self._kept)  # None if the budget of memory has just changed the settings
        turns = window.work if window is not None and self._takes_turns(window.work) else None
        return rival_of(change, self._kept, turns, window.pace if window is not None else 0.0)

    def _takes_turns(self, work: Effort | None) -> bool:
        """True if the threads together do the work of one, probably because they take the interpreter from each other."""
        return work is not None and self._whole and FULL <= work.wanted <= ALONE

    def _review(self, level: WindowLevel, window: ExposedWait) -> None:
        """Counts a window of the review, and goes on with the next one."""
        contest = self._contest
        assert contest is not None
        contest.measured(level)
        kept = self._latest[self._kept].pace
        if self.chosen == self._kept and not window.is_bottleneck:
            return self._settle(
                f"{NOT_THE_BOTTLENECK}: the loop waits {window.share:.1%} of a step of {in_ms(kept)}", False
            )
        if self.chosen != self._kept:
            batches = window.steps + self.depth + self._kept.depth + 2
            self._owed += batches * max(0.0, self._latest[self.chosen].pace - kept)
        rest = 0
        if contest.between and contest.winner is None:
            free = REVIEW_CREDIT + REVIEW_COST * self._batches * kept
            rest = math.ceil(max(0.0, self._owed - free) / REVIEW_COST / kept)
            if rest:
                contest.pause()
        following = contest.following(lambda _: True)
        if following is not None:
            self._seen.add(following)
            self._use(following)
            self._skip = max(self._skip, rest)
            return
        self.reviewing, winner = False, contest.winner
        if winner is not None:
            self._keep_winner()
            self._left = self._rivals()
        pace = self._latest[self._kept].pace
        if not self._is_other(pace):
            self._best = pace
        reason = f"a batch every {in_ms(pace)}; neither other threads nor more batches ahead were better"
        self._settle(reason, winner is not None)

    def _look_at_first(self, times: Sequence[float]) -> None:
        """Finds out how regular the times of batches are."""
        self._steady = error_of_mean(self._times) <= EXACT
        places = self._long()
        self._bursts, self._window = len(places) > 1, WINDOW if sum(times) > BRIEF * len(times) else 2 * WINDOW
        if self._bursts:
            steps = {after - before for before, after in pairwise(places)}
            period = steps.pop() if len(steps) == 1 else FIRST
            self._window = period * math.ceil(WINDOW / period)
        self._usual, self._usual_use = Usual(), Usual(USE_DIFFERS)
        self._usual.add(BURSTS_DIFFER if self._bursts else max(DIFFER, 1.4 * error_of_mean(self._times)))

    def _keep(self) -> bool:
        """Keeps the winner of the contest; True if the settings are settled with it."""
        found = self._keep_winner()
        if not found.wait.is_bottleneck:
            self._settle(f"{NOT_THE_BOTTLENECK} with these: the loop waits {found.wait.share:.1%} of a step")
        return self.settled

    def _keep_winner(self) -> _TunedWindow:
        """Keeps the winner of the contest; returns the last window with it."""
        contest = self._contest
        assert contest is not None
        assert contest.winner is not None
        clear = contest.winner.leads and contest.winner.beyond(self._usual.value, self._usual_use.value) > OBVIOUS
        self._doubtful = self._doubtful or not clear
        self._kept, self._contest, self._left = contest.winner.setting, None, []
        found = self._latest[self._kept]
        self._best = found.pace
        return found

    def _try_next(self) -> None:
        """Measures the next setting of the contest, or of a new one from the settings that won."""
        assert self._best is not None
        while True:
            if self._contest is None:
                rivals = self._rivals()
                if not rivals:
                    return self._settle(
                        f"a batch every {in_ms(self._best)}; neither other threads nor more batches ahead were better"
                    )
                before = self._latest[self._kept]
                used = None if before.work is None or not self._whole else before.work.used
                level = WindowLevel.of(before.pace, used) if self.chosen == self._kept else None
                self._contest = Contest(self._kept, rivals, level, self._usual, self._usual_use, MOST_WINDOWS)
            following = self._contest.following(self._has_time)
            if following is not None:
                self._seen.add(following)
                return self._use(following)
            won = self._contest.winner is not None
            tried = all(rival.leads or rival.given_up for rival in self._contest.rivals)
            if not won:
                self._left += self._contest.left()
            elif self._keep():
                return None
            self._contest = None
            if not (won or tried):
                return self._settle(f"the best settings that were tried in {self._batches} batches")

    def _has_time(self, settings: Sequence[Chosen]) -> bool:
        """True if windows with these settings, one after another, end before the batches for tuning are used up."""
        needed, before = 0, self.chosen
        for setting in settings:
            needed += SHORTEST + 1 if self._steady else self._length_with(setting.depth) + 1
            needed += max(before.depth, setting.depth) + 1 if setting != before else 0
            before = setting
        return self._batches + needed <= LONGEST

    def _may_help(self, change: Chosen) -> bool:
        pace, work, _ = self._latest[self._kept]
        if any(self._shows_worse(earlier, window, change) for earlier, window in self._latest.items()):
            return False
        share = COMPUTING if self._whole else COMPUTING / 2
        return work is None or can_help(work, pace, change, self._kept, self._processors, share)

    def _shows_worse(self, earlier: Chosen, window: _TunedWindow, change: Chosen) -> bool:
        """True if a window with earlier settings, which were far slower than the kept ones, tells that a change is slower too."""
        kept = self._kept
        if self._bursts or window.pace < SLOWER * self._latest[kept].pace:
            return False
        if change.alone and not kept.alone:  # one thread at a time was always at work: no thread can help it
            full = window.work is not None and window.work.alone >= FULL
            return full and earlier.alone and earlier.threads <= change.threads
        alike = earlier.alone == change.alone == kept.alone or change.threads == 1
        return alike and change.threads <= earlier.threads < kept.threads

    def _changes(self) -> Iterator[Chosen]:
        """The settings to try from the best ones so far."""
        threads, depth, alone = self._kept
        pace, work, _ = self._latest[self._kept]
        waiting = work is not None and work.computing + work.queued < WAITING * work.inside
        far = (4 * depth, 2 * depth) if self._bursts or waiting or work is None else (2 * depth,)
        ahead = next((each for each in far if self._fits(min(each, MOST_AHEAD))), depth)
        deeper = self._kept._replace(depth=min(ahead, MOST_AHEAD) if self._tunes_depth else depth)
        if self._bursts:
            yield deeper
        if self._tunes_threads and work is not None:
            if self._takes_turns(work) and self._tunes_depth and self._fits(2 * depth):
                beside = in_order(work, pace, self._kept)
                yield Chosen(2 if beside else self._least, min(2 * depth, MOST_AHEAD), alone)
            if work.computing <= ALONE or self._takes_turns(work):
                yield self._kept._replace(threads=self._least)
        if self._tunes_alone:
            if alone and waiting and self._tunes_threads:
                yield self._with(4 * threads)._replace(alone=False)
            yield self._kept._replace(alone=not alone)
        if self._tunes_threads:
            if waiting:
                yield self._with(4 * threads)
            yield self._with(2 * threads)
        yield deeper
        if self._tunes_threads:
            yield self._with(threads // 2)
            yield self._with(2 * threads)._replace(depth=deeper.depth)
            if work is None:
                yield self._with(threads + (threads + 1) // 2)
                yield self._with(threads * 3 // 4)
        if self._tunes_depth and self._fits(min(2 * depth, MOST_AHEAD)):
            yield self._kept._replace(depth=min(2 * depth, MOST_AHEAD))
        if self._tunes_alone and self._tunes_threads and alone and threads == 1:
            yield self._with(2)._replace(alone=False)
        if self._tunes_alone:  # a thread that is free reads ahead
            yield deeper._replace(alone=not alone)

    def _with(self, threads: int) -> Chosen:
        return self._kept._replace(threads=min(max(threads, self._least), MOST_THREADS))

    def _use(self, chosen: Chosen) -> None:
        if chosen != self.chosen:
            self._skip = max(chosen.depth, self.depth) + (2 if self.settled else 1)
        self.threads, self.depth, self.alone = chosen
        self.most = max(self.most, self.threads)

    def _settle(self, reason: str, news: bool = True) -> None:
        """Uses the kept settings from now on, and compares them with changes that were not clear; ``news`` are logged."""
        self._use(self._kept)
        self._batches = self._batches if self.settled else 0  # from now on: they say what a review may cost
        self.settled, self.reason = True, reason
        rivals = [replace(rival, leads=[], uses=[], given_up=False) for rival in self._left]
        if self._doubtful and self._kept != self._first and all(rival.setting != self._first for rival in rivals):
            rivals.append(replace(self._rival(self._first), worth=0.0))
        self._left, self._doubtful = [], False
        self.reviewing = bool(rivals)
        self._contest = None
        if rivals:
            self._contest = Contest(self._kept, rivals, None, self._usual, self._usual_use, REVIEW_WINDOWS)
            self._contest.following(lambda _: True)  # a window of the kept settings comes first
        else:
            self._skip = self._rest = self._first_rest
        self._start_window()
        if news:
            log.info("%s", self)

    def interrupt(self) -> None:
        """Begins the present window again: callers make the batches now, or threads do so again."""
        self._start_window()

    def _start_window(self) -> None:
        self._begin, self._count, self._waited, self._hidden = None, 0, 0.0, 0
        self._times.clear()
        self._own.clear()

    def _fits(self, depth: int) -> bool:
        if self._memory is None:
            return True
        return self._reserved * (depth + _WITH_IT) <= self._memory * (self.depth + _WITH_IT)

    def _keep_budget(self) -> None:
        if self._memory is None or not self._tunes_depth or self._reserved <= self._memory or self.depth == 1:
            return
        self._kept = self._kept._replace(depth=min(self._kept.depth, max(1, self.depth // 2)))
        self._contest, self._best, self.reviewing = None, None if not self.settled else self._best, False
        self._use(self._kept)  # not another setting that was being compared
        self._start_window()
        self.reason = f"more batches ahead would need more than memory={self._memory}"

    def __str__(self) -> str:
        return f"num_threads={self.kept.threads}, prefetch_queue_depth={self.kept.depth}: {self.reason}"
