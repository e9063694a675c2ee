"""The work of the threads: their tasks, and the way of a batch through the stages.

Kernels use the caches, and then a line of Python takes several times as long as in a loop. So a thread that has moved a batch to
its next stage goes on with it, if that is the oldest work, without looking through all batches.
"""

import threading
from collections.abc import Sequence

from pipeflow.backends.cpu import Arena
from pipeflow.executor.ahead import MadeAhead
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.claims import Task
from pipeflow.executor.clocks import Lap, Measures, passed
from pipeflow.executor.failures import Failures
from pipeflow.executor.reports import RunReports
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.runners.column import ColumnStep
from pipeflow.executor.watch import Watch


class ThreadWork(RunReports):
    """An executor, as its threads see it."""

    stages: list[StageRunner]
    columns: Sequence[Sequence[ColumnStep]]  # the steps that are computed before each stage
    ahead: MadeAhead | None
    failures: Failures
    measures: Measures
    watch: Watch
    synchronous: bool
    stays = True  # a thread goes on with its batch in the next stage
    _by_caller: bool
    _dropping: bool
    _lock: threading.Lock
    _tasks: dict[int, Task]

    def claim(self, last: bool = False) -> Task | None:
        """Takes the oldest work that no thread has; with ``last`` only strands that running ones may wait for."""
        if self._claims.room <= 0 and not self.synchronous:
            return None
        if self._by_caller:
            return None
        task = self._claims.claim(last)
        if task is None:
            return None
        if len(self._tasks) > self.measures.peak:
            self.measures.peak = len(self._tasks)
        if self.crew.idle:
            self._wake_next()
        return task

    def _wake_next(self) -> None:
        """If there is more work, each thread that takes some wakes the next. Looking costs a tenth of waking for nothing."""
        if self._claims.room > 0 and self._claims.oldest() is not None:
            self.crew.wake(self._claims.room)

    def perform(self, task: Task, arena: Arena, lap: Lap) -> Task | None:
        """Does one task, and those of the following stages that it goes on with; the arena and the marks belong to the calling
        thread. Returns the next task of a thread of the crew.
        """
        batch, thread = task.batch, threading.get_ident()
        while True:
            waits = False  # the worker processes have the batch and return it
            stage = batch.stage
            runner, clock = self.stages[stage], self.measures.stages[stage]
            if lap.processor is None:
                lap.enter(clock)
            if self.watch.numbers:
                self.watch.begin(thread)
            read = not stage and self.ahead is not None and self.ahead.hand_over(batch)
            try:
                if task.strand >= 0:
                    runner.run_strand(batch, task.begin, task.end, arena, task.strand)
                elif not read:
                    waits = runner.run(batch, task.begin, task.end, arena)
            except Exception as error:
                batch.fail(error, runner.blamed)
            except BaseException as error:
                if self.synchronous:
                    raise  # an interrupt, or SystemExit out of user code: the next call makes the batch again
                batch.fail(error, None)
            task.over = True
            if runner.per_sample:  # other threads may have other samples of it
                with self._lock:
                    batch.pending -= task.end - task.begin
                    finished = not batch.pending and not batch.done
            else:
                finished = not waits and not batch.done
            if finished:
                self._advance(batch)
            with self._lock:
                if self._tasks.get(thread) is not task:  # it was given up: another thread has replaced this one
                    return None
                if read:
                    passed(clock, batch.index)
                else:
                    lap.leave(clock, batch.index, task.end - task.begin)
                idle = self.synchronous or self.crew.closing or len(self.crew.threads) > self.crew.size
                if finished and not (idle or batch.done) and self.stays and self._claims.goes_on(task):
                    if self.crew.idle:
                        self._wake_next()
                    continue
                del self._tasks[thread]
                if self.crew.callers and (batch.done or (self._dropping and not self._tasks)):
                    self.crew.finished()
                # No other thread is woken for new work: this one claims work now, and wakes others if there is more.
                return None if idle else self.claim()

    def _advance(self, batch: BatchRun) -> None:
        """Moves a batch that has finished a stage to the next one that has work for it."""
        stage = batch.stage
        following = stage + 1
        over = batch.ended
        try:
            if over:
                self._end_of_epoch(batch)
            else:
                if batch.error is None:
                    self.stages[stage].finish(batch)
                if batch.failures and self.failures.active:
                    self.failures.settle(batch, stage)
                given = False
                if not stage and batch.error is None:
                    given = self.ahead is not None and self.ahead.give(batch)
                    if not given:
                        self._compute_columns(batch, 0)
                over = batch.error is not None or bool(batch.failures) or following == len(self.stages)
                if over and batch.hidden and batch.error is None and not batch.failures:
                    self.failures.hide(batch)
                if not over and self.columns[following] and not given:
                    self._compute_columns(batch, following)
                    over = batch.error is not None
                if not over:
                    self.stages[following].enter(batch)
        except Exception as error:
            batch.fail(error, None)
            over = True
        with self._lock:
            if batch.done:  # it was given up because a function did not return
                return
            if over:
                self._end(batch)
                return
            runner = self.stages[following]
            batch.cursor = 0
            batch.claimed = False
            batch.pending = batch.size * runner.strands if runner.per_sample else 0
            batch.stage = following
            empty = runner.per_sample and not batch.size
        if empty:
            self._advance(batch)

    def _end(self, batch: BatchRun) -> None:
        """Marks a batch as over."""
        batch.done = True
        if self._claims.parted is batch:
            self._claims.parted = None  # its strands are not waited for any more
        batch.region = None
        batch.stage = len(self.stages)

    def _end_of_epoch(self, batch: BatchRun) -> None:
        """A source has no more data: batches that were scheduled after this one are dropped."""
        with self._lock:
            self.course.ended = True
            self._drop_after(batch)  # no loop in this block: see `_fill`

    def _drop_after(self, batch: BatchRun) -> None:
        while self._ring and self._ring[-1].index > batch.index:
            self._ring.pop()

    def _compute_columns(self, batch: BatchRun, stage: int) -> None:
        for item in self.columns[stage]:
            try:
                item.run(batch, self.pool)
            except Exception as error:
                return batch.fail(error, item.step)
