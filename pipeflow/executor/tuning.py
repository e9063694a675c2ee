"""Chooses the number of threads, of batches made ahead, and of callers of functions while a pipeline runs.

The rules:

1. It begins with the defaults: a thread for each processor, two batches ahead, and functions with parallel="auto" on one thread
   at a time: this is as fast as parallel="serial".
2. It measures a first window of FIRST batches, then windows of WINDOW batches, and longer ones if the batches are brief. If
   the times in the first window differ little, so that their mean has an error of at most EXACT, later windows may end after
   SHORTEST batches: they miss no burst. The first batches after a change are not counted.
3. If the loop does not wait for its batches, nothing is changed.
4. Else it tries one change after another: functions with parallel="auto" on all threads, or on one at a time again (those
   that keep the interpreter disturb each other); twice as many threads; twice as many batches ahead; half as many threads
   more; fewer threads; four times as many batches ahead; this together with the first. A change that cannot help is not tried:
   what the threads did in the window shows it (``Effort``). It keeps a change if batches come at least WORTH times as often.
   If the difference is less than DOUBT times the error of both means, it measures both settings in turn, and the new one must
   be better again, twice if the speed of the machine changes (``_drift``). Fewer threads are kept if all these windows together
   are 1 % faster. If single batches take BURSTS times as long as most, more batches ahead are tried first. When it keeps a
   change, it looks for changes from there.
5. It is settled when no change is left, and at the latest after LONGEST batches.
6. After that it measures one window after REST batches, then after twice as many each time, up to LONGEST_REST. If the loop
   waits and the batches take SLOWER times as long as before, it begins again.
7. If the memory of the pipeline exceeds its budget, fewer batches are made ahead, at any time. A number of batches that would
   exceed it is not tried.

No setting changes the result of any batch. The clock is read by the caller, once a batch.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from pipeflow.executor.figures import NOT_THE_BOTTLENECK, ExposedWait, in_ms
from pipeflow.executor.measuring import Effort
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.settings import Settings, available_cpus

log = logging.getLogger("pipeflow")
FIRST = 16
WINDOW = 8
SHORTEST = 4
BRIEF = (8e-3, 16), (5e-4, 24)  # seconds of a batch, and the batches of a window if it takes less
EXACT = 0.01
LEAST_ERROR = 0.02  # of a mean: the speed of a machine changes from one window to the next
EQUAL = 0.99  # fewer threads are kept if batches take at most this part of the time: they leave more to the program
BURSTS = 3.0  # if a batch takes so many times as long as most, more batches ahead are tried first
DOUBT = 2.0
UNSTEADY = (
    0.03  # if the halves of a window differ by more than this, as a rule, a doubted change must be better twice again
)
LONGEST = 200
REST, LONGEST_REST = 256, 8192
WORTH = 1.03
SLOWER = 1.5
MOST_THREADS = 32
MOST_AHEAD = 16
FULL = 0.9  # a share of the time: threads, processors or a stage that are at work for longer have no time left
OCCUPIED = 0.7  # share of the time that threads have work, if more of them may do more
COMPUTING = (
    0.75  # share of the time that threads are on a processor, if they do not wait; and processors of a busy process
)
ALONE = 1.2  # processors for a thread that does the work of others too: what they lose by taking turns is not work
_WITH_IT = 2  # batches in memory beyond those made ahead: the one that the loop has, and the one before


class Chosen(NamedTuple):
    """The settings that a tuner changes."""

    threads: int
    depth: int  # batches made ahead
    alone: bool = False  # only one thread at a time calls functions with parallel="auto"


@dataclass
class _Doubted:
    """A change that is measured in turn with the earlier settings, and its seconds from batch to batch in each window."""

    change: Chosen
    paces: list[float]
    earlier: list[float]  # the same of the earlier settings


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
    ) -> None:
        self.threads, self.depth, self.alone = max(threads, least_threads), depth, tunes_alone
        self.most = self.threads  # the largest number of threads so far
        self._tunes_threads, self._tunes_depth, self._tunes_alone = tunes_threads, tunes_depth, tunes_alone
        self._memory = memory
        self._least = least_threads
        self._processors, self._look = processors, look
        self.settled = False
        self.reason = "not measured yet"
        self.changes = 0
        self._batches = 0  # the number of batches since tuning began
        self._skip = WINDOW // 2  # batches that are not counted: they were made before the change
        self._begin: float | None = None
        self._count, self._waited = 0, 0.0
        self._times: list[float] = []  # seconds from batch to batch, in this window
        self._last = 0.0
        self._before: Effort | None = None  # at the beginning of the window
        self._work: Effort | None = None  # in a window with the best settings; None: not known
        self._best: float | None = None  # seconds from batch to batch
        self._error = 0.0  # of that
        self._steady = False  # True if the times of batches differ little
        self._bursts = False  # True if some batches take far longer than most
        self._halves: list[float] = []  # of each window the logarithm of the ratio of the times of its halves
        self._kept = self.chosen  # the best settings so far
        self._seen: set[Chosen] = set()  # settings that were tried
        self._doubted: _Doubted | None = None  # a change that is measured again
        self._reserved = 0
        self._rest = REST

    @property
    def chosen(self) -> Chosen:
        """The present settings."""
        return Chosen(self.threads, self.depth, self.alone)

    @classmethod
    def of(
        cls, settings: Settings, stages: Sequence[StageRunner], on_device: bool, look: Callable[[], Effort]
    ) -> "Tuner | None":
        """The tuner of a pipeline; None if all its settings are fixed. The memory of a device has a fixed number of batches."""
        depth = "prefetch_queue_depth" in settings.automatic and not on_device
        threads = "num_threads" in settings.automatic
        alone = settings.threads > 1 and any(runner.alone_if_better for runner in stages)
        if settings.synchronous or not (threads or depth or alone):
            return None
        strands = max((runner.strands for runner in stages if runner.per_sample), default=1)
        return cls(
            settings.threads, settings.depth, threads, depth, settings.memory, strands, alone, available_cpus(), look
        )

    def rests(self) -> bool:
        """Counts a batch for which nothing is to be done: the settings are settled, and no memory is counted; else False."""
        if not self.settled or self._skip <= 0 or self._memory is not None:
            return False
        self._skip -= 1
        return True

    def delivered(self, now: float, asked: float, reserved: int) -> bool:
        """Counts a batch: the time, that of the call for it, and the bytes of the pipeline's memory. True after a change."""
        before = self.chosen
        self._batches += 1
        self._reserved = reserved
        self._keep_budget()
        if self._skip > 0:
            self._skip -= 1
        elif self._begin is None:
            self._begin = now
            self._before = None if self.settled or self._look is None else self._look()
        else:
            self._count += 1
            self._waited += max(0.0, now - asked)
            self._times.append(now - self._last)
            if self._is_whole():
                self._judge(ExposedWait(self._count, now - self._begin, self._waited))
        self._last = now
        if not self.settled and self._batches >= LONGEST:
            self._settle(f"the best settings that were tried in {LONGEST} batches")
        changed = before != self.chosen
        self.changes += changed
        return changed

    def _is_whole(self) -> bool:
        """True if the window has enough batches."""
        if self.settled:
            return self._count == WINDOW
        least = max((batches for seconds, batches in BRIEF if sum(self._times) < seconds * self._count), default=WINDOW)
        if self._best is None:
            return self._count >= max(FIRST, least)
        return self._count >= least or (self._steady and self._count == SHORTEST and self._error_of_mean() <= EXACT)

    def _error_of_mean(self) -> float:
        """The standard error of the mean time, as a part of it."""
        count = len(self._times)
        mean = sum(self._times) / count
        squares = sum((each - mean) ** 2 for each in self._times)
        return math.sqrt(squares / (count - 1) / count) / mean if mean > 0 else 0.0

    def _drift(self) -> float:
        """By how much the speed changes from one half of a window to the other, as a rule, though the settings are the same."""
        return math.sqrt(sum(each * each for each in self._halves) / max(1, len(self._halves)))

    def _judge(self, window: ExposedWait) -> None:
        error, work = self._error_of_mean(), None
        half = len(self._times) // 2
        first, second = median(self._times[:half]), median(self._times[-half:])  # without rare bursts
        if first > 0 and second > 0:
            self._halves.append(math.log(second / first))
        if self._best is None:
            self._steady = error <= EXACT
            self._bursts = max(self._times) > BURSTS * median(self._times)
        if self._before is not None and self._look is not None and window.seconds > 0:
            work = self._look().since(self._before, window.seconds)
            work = None if min(work) < 0 else work  # the clocks began again
        self._start_window()
        pace = window.seconds / window.steps
        if self.settled:
            self._rest = min(2 * self._rest, LONGEST_REST)
            self._skip = self._rest
            if self._best is not None and window.is_bottleneck and pace > SLOWER * self._best:
                self.settled, self._batches, self._best = False, 0, None
                self._skip = 0
            return
        if self._best is None:
            self._best, self._error, self._seen, self._work = pace, error, {self._kept}, work
            if not window.is_bottleneck:
                return self._settle(
                    f"{NOT_THE_BOTTLENECK}: the loop waits {window.share:.1%} of a step of {in_ms(pace)}"
                )
        elif not self._decide(pace, error, work):
            return
        elif self._kept == self.chosen and not window.is_bottleneck:
            return self._settle(f"{NOT_THE_BOTTLENECK} with these: the loop waits {window.share:.1%} of a step")
        self._try_next()

    def _decide(self, pace: float, error: float, work: Effort | None) -> bool:
        """Keeps or reverts the change that was measured; False if it must be measured again."""
        assert self._best is not None
        if self._doubted is not None and self.chosen != self._doubted.change:  # the earlier setting was measured again
            self._doubted.earlier.append(pace)
            self._best, self._error = pace, error
            if self._is_worse(self._doubted.paces[-1], pace):
                self._doubted = None
                return True
            self._use(self._doubted.change)
            return False
        doubted = self._doubted or _Doubted(self.chosen, [], [self._best])
        fewer = doubted.change.threads < self._kept.threads
        doubted.paces.append(pace)
        if self._is_worse(pace, self._best):
            self._doubted = None
            self._use(self._kept)
            return True
        doubt = max(LEAST_ERROR, self._drift(), math.hypot(error, self._error)) * DOUBT
        clear = not fewer and self._best / pace - 1 >= doubt
        wanted = 3 if self._drift() > UNSTEADY else 2
        if len(doubted.paces) < (1 if clear and self._doubted is None else wanted):
            self._doubted = doubted
            self._use(self._kept)
            return False
        self._doubted = None
        pace = sum(doubted.paces) / len(doubted.paces)
        if fewer and pace > EQUAL * sum(doubted.earlier) / len(doubted.earlier):
            self._use(self._kept)
            return True
        self._best, self._error, self._kept, self._work = pace, error, doubted.change, work
        return True

    def _is_worse(self, pace: float, earlier: float) -> bool:
        """True if a change is given up after one window. With fewer threads, all windows together decide, unless it is clear."""
        assert self._doubted is not None or self.chosen != self._kept
        change = self._doubted.change if self._doubted is not None else self.chosen
        if change.threads < self._kept.threads:
            return pace > (EQUAL + DOUBT * self._drift()) * earlier
        return pace * WORTH > earlier

    def _try_next(self) -> None:
        following = next((each for each in self._changes() if each not in self._seen and self._may_help(each)), None)
        if following is None:
            assert self._best is not None
            return self._settle(
                f"a batch every {in_ms(self._best)}; neither other threads nor more batches ahead were better"
            )
        self._seen.add(following)
        return self._use(following)

    def _may_help(self, change: Chosen) -> bool:
        return self._work is None or _can_help(self._work, change, self._kept, self._processors)

    def _changes(self) -> Iterator[Chosen]:
        """The settings to try from the best ones so far."""
        threads, depth, alone = self._kept
        deeper = Chosen(threads, min(4 * depth, MOST_AHEAD), alone)
        if self._bursts and self._tunes_depth and self._fits(deeper.depth):
            yield deeper
        if self._tunes_threads and self._work is not None and self._work.busy <= ALONE:
            yield Chosen(self._least, depth, alone)
        if self._tunes_alone:
            yield self._kept._replace(alone=not alone)
        more = [(2 * threads, depth), (threads, 2 * depth), (threads + (threads + 1) // 2, depth)]
        other = [(threads // 2, depth), (threads * 3 // 4, depth), (threads, 4 * depth)]
        for wanted, ahead in more + other if self._work is None else [*more[:2], other[0], other[2]]:
            change = Chosen(min(max(wanted, self._least), MOST_THREADS), min(ahead, MOST_AHEAD), alone)
            if self._tunes_threads if change.depth == depth else self._tunes_depth and self._fits(change.depth):
                yield change
        if self._tunes_alone and self._tunes_depth and self._fits(4 * depth):  # a thread that is free reads ahead
            yield Chosen(threads, min(4 * depth, MOST_AHEAD), not alone)

    def _use(self, chosen: Chosen) -> None:
        if chosen != self.chosen:
            self._skip = max(chosen.depth, self.depth) + 1
        self.threads, self.depth, self.alone = chosen
        self.most = max(self.most, self.threads)

    def _settle(self, reason: str) -> None:
        self._use(self._kept)
        self._doubted = None
        self.settled, self.reason = True, reason
        self._skip = self._rest = REST
        self._start_window()
        log.info("%s", self)

    def _start_window(self) -> None:
        self._begin, self._count, self._waited = None, 0, 0.0
        self._times.clear()

    def _fits(self, depth: int) -> bool:
        if self._memory is None:
            return True
        return self._reserved * (depth + _WITH_IT) <= self._memory * (self.depth + _WITH_IT)

    def _keep_budget(self) -> None:
        if self._memory is None or not self._tunes_depth or self._reserved <= self._memory or self.depth == 1:
            return
        self._kept = self._kept._replace(depth=max(1, self.depth // 2))
        self._doubted = None
        self._use(self.chosen._replace(depth=self._kept.depth))
        self.reason = f"more batches ahead would need more than memory={self._memory}"

    def __str__(self) -> str:
        return f"num_threads={self.threads}, prefetch_queue_depth={self.depth}: {self.reason}"


def _can_help(work: Effort, change: Chosen, kept: Chosen, processors: float) -> bool:
    """False if a change of the settings, at which the threads did this work, cannot make batches come more often."""
    saturated = work.used >= FULL * processors
    ordered = max(work.ordered, work.alone) if kept.alone else work.ordered
    if change.threads < kept.threads:  # they may disturb each other, if they compute, and fewer can do the same work
        return work.used >= COMPUTING and work.busy <= change.threads * ALONE
    if change.threads > kept.threads:
        computing = kept.threads >= processors and work.busy > COMPUTING * work.inside
        return not (saturated or computing) and work.inside >= OCCUPIED * kept.threads and ordered < FULL
    if change.alone != kept.alone:
        return kept.threads > 1
    return work.inside < FULL * kept.threads and ordered < FULL
