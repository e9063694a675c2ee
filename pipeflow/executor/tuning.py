"""Chooses the number of threads and of batches made ahead while a pipeline runs.

The rules:

1. It begins with the defaults: a thread for each processor, two batches ahead.
2. It counts windows of WINDOW batches; the first batches after a change are left out.
3. If the loop does not wait for its batches, nothing is changed.
4. Else it tries one change after another: more threads, fewer threads, more batches ahead. A change with which batches come
   WORTH times as often is kept, and tried again; any other is taken back.
5. It is settled when no change is left, and at the latest after LONGEST batches.
6. After that it looks at one window in every REST batches. If the loop waits and the batches have become SLOWER times as slow, it
   begins again.
7. If the memory of the pipeline exceeds its budget, fewer batches are made ahead, at any time. A number of batches that would
   exceed it is not tried.

Neither setting changes the result of any batch. The clock is read by the caller, once a batch.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from pipeflow.executor.figures import NOT_THE_BOTTLENECK, ExposedWait, in_ms
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.settings import Settings

log = logging.getLogger("pipeflow")
WINDOW = 8
LONGEST = 200
REST = 256
WORTH = 1.05
SLOWER = 1.5
MOST_THREADS = 32
MOST_AHEAD = 16
_WITH_IT = 2  # batches in memory beyond those made ahead: the one that the loop has, and the one before


class Tuner:
    """The two numbers, and what is known about them."""

    def __init__(
        self,
        threads: int,
        depth: int,
        tunes_threads: bool,
        tunes_depth: bool,
        memory: int | None = None,
        least_threads: int = 1,
    ) -> None:
        self.threads, self.depth = max(threads, least_threads), depth
        self.most = self.threads  # the largest number of threads so far
        self._tunes_threads, self._tunes_depth = tunes_threads, tunes_depth
        self._memory = memory
        self._least = least_threads
        self.settled = False
        self.reason = "not measured yet"
        self.changes = 0
        self._batches = 0  # since tuning began
        self._skip = WINDOW // 2  # batches that are not counted: they were made before the change
        self._begin: float | None = None
        self._count, self._waited = 0, 0.0
        self._best: float | None = None  # seconds from batch to batch
        self._kept = (self.threads, depth)  # the best settings so far
        self._moves: Iterator[tuple[int, int]] = iter(())
        self._reserved = 0

    @classmethod
    def of(cls, settings: Settings, stages: Sequence[StageRunner], on_device: bool) -> "Tuner | None":
        """The tuner of a pipeline; None if all its settings are fixed. The memory of a device has a fixed number of batches."""
        depth = "prefetch_queue_depth" in settings.automatic and not on_device
        threads = "num_threads" in settings.automatic
        if settings.synchronous or not (threads or depth):
            return None
        strands = [runner.strands for runner in stages if runner.per_sample]
        return cls(settings.threads, settings.depth, threads, depth, settings.memory, max(strands, default=1))

    def delivered(self, now: float, asked: float, reserved: int) -> bool:
        """Counts a batch: the time, that of the call for it, and the bytes of the pipeline's memory. True after a change."""
        before = self.threads, self.depth
        self._batches += 1
        self._reserved = reserved
        self._keep_budget()
        if self._skip > 0:
            self._skip -= 1
        elif self._begin is None:
            self._begin = now
        else:
            self._count += 1
            self._waited += max(0.0, now - asked)
            if self._count == WINDOW:
                self._judge(ExposedWait(WINDOW, now - self._begin, self._waited))
        if not self.settled and self._batches >= LONGEST:
            self._settle(f"the best of what was tried in {LONGEST} batches")
        changed = before != (self.threads, self.depth)
        self.changes += changed
        return changed

    def _judge(self, window: ExposedWait) -> None:
        self._begin, self._count, self._waited = None, 0, 0.0
        pace = window.seconds / window.steps
        if self.settled:
            self._skip = REST
            if self._best is not None and window.is_bottleneck and pace > SLOWER * self._best:
                self.settled, self._batches, self._best = False, 0, None
                self._skip = 0
            return
        if self._best is None:
            self._best = pace
            if not window.is_bottleneck:
                return self._settle(
                    f"{NOT_THE_BOTTLENECK}: the loop waits {window.share:.1%} of a step of {in_ms(pace)}"
                )
            self._moves = self._changes()
        elif pace * WORTH <= self._best:
            self._best, self._kept = pace, (self.threads, self.depth)
            if not window.is_bottleneck:
                return self._settle(f"{NOT_THE_BOTTLENECK} with these: the loop waits {window.share:.1%} of a step")
        else:
            self._use(*self._kept)
        following = next(self._moves, None)
        if following is None:
            return self._settle(
                f"a batch every {in_ms(self._best)}; neither other threads nor more batches ahead were better"
            )
        return self._use(*following)

    def _changes(self) -> Iterator[tuple[int, int]]:
        """The settings to try. Each kind of change is repeated as long as it is kept."""
        more: list[tuple[bool, Callable[[int, int], tuple[int, int]]]] = [
            (self._tunes_threads, lambda threads, depth: (min(2 * threads, MOST_THREADS), depth)),
            (self._tunes_threads, lambda threads, depth: (max(threads // 2, self._least), depth)),
            (self._tunes_depth, lambda threads, depth: (threads, min(2 * depth, MOST_AHEAD))),
        ]
        for allowed, change in more:
            while allowed:
                tried = change(*self._kept)
                if tried == self._kept or not self._fits(tried[1]):
                    break
                yield tried
                if self._kept != tried:
                    break

    def _use(self, threads: int, depth: int) -> None:
        if (threads, depth) != (self.threads, self.depth):
            self._skip = max(depth, self.depth) + 1
        self.threads, self.depth, self.most = threads, depth, max(self.most, threads)

    def _settle(self, reason: str) -> None:
        self._use(*self._kept)
        self.settled, self.reason = True, reason
        self._skip = REST
        self._begin, self._count, self._waited = None, 0, 0.0
        log.info("%s", self)

    def _fits(self, depth: int) -> bool:
        if self._memory is None:
            return True
        return self._reserved * (depth + _WITH_IT) <= self._memory * (self.depth + _WITH_IT)

    def _keep_budget(self) -> None:
        if self._memory is None or not self._tunes_depth or self._reserved <= self._memory or self.depth == 1:
            return
        self._kept = (self._kept[0], max(1, self.depth // 2))
        self._use(self.threads, self._kept[1])
        self.reason = f"more batches ahead would need more than memory={self._memory}"

    def __str__(self) -> str:
        return f"num_threads={self.threads}, prefetch_queue_depth={self.depth}: {self.reason}"
