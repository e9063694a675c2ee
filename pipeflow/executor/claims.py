"""Claims of threads on the batches in flight: the oldest work that no thread has."""

import threading
from collections import deque
from dataclasses import dataclass

from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.base import StageRunner


@dataclass
class Task:
    """The work that a thread has claimed: samples ``begin`` to ``end`` of a batch in its stage, or the whole batch."""

    batch: BatchRun
    begin: int
    end: int
    strand: int = -1  # the number of the strand, if the strands of the stage are different tasks
    over: bool = False  # True if its samples are done: it now works on the whole batch, or on rows that are made again


class Claims:
    """The tasks of the threads. The caller has the executor's lock during every call."""

    def __init__(self, ring: deque[BatchRun], stages: list[StageRunner], threads: int) -> None:
        self._ring = ring
        self._stages = stages
        self.threads = threads
        self.alone = False  # in a stage with functions that have parallel="auto", only one thread works at a time
        self.tasks: dict[int, Task] = {}  # thread -> its task
        self.parted: BatchRun | None = None  # its chunk has strands that are not claimed: a thread may wait for them

    @property
    def room(self) -> int:
        """The number of further threads that may work. Others are not woken: for nothing they would take the interpreter."""
        return self.threads - len(self.tasks)

    def claim(self, last: bool = False) -> Task | None:
        """Takes the oldest work that no thread has; with ``last`` only strands that running ones may wait for."""
        batch = self.parted if last else self.oldest()
        if batch is None:
            return None
        begin, end, strand = 0, 0, -1
        runner = self._stages[batch.stage]
        if not runner.per_sample:
            batch.claimed = True
        elif runner.strands > 1:
            begin, end, strand = self._strand(batch, runner)
        else:
            begin = batch.cursor
            threads = 1 if self._alone(runner) else self.threads
            batch.cursor = end = self._end(batch, runner, threads)
        task = self.tasks[threading.get_ident()] = Task(batch, begin, end, strand)
        return task

    def goes_on(self, task: Task) -> bool:
        """Gives the task of this thread, which has moved its batch to another stage and not to the end, work in that stage, if it
        is the oldest that no thread has. False if the thread has to look for work.
        """
        batch = task.batch
        if self.parted is not None or len(self.tasks) > self.threads:
            return False
        for other in self._ring:
            if other is batch:
                break
            if not other.done:
                return False
        else:
            return False  # it was dropped
        runner = self._stages[batch.stage]
        if batch.claimed or runner.waits or runner.strands > 1 or (self.alone and runner.alone_if_better):
            return False
        begin = end = 0
        if runner.per_sample:
            begin = batch.cursor
            if begin == batch.size:  # another thread was faster
                return False
            batch.cursor = end = self._end(batch, runner, self.threads)
        else:
            batch.claimed = True
        task.begin, task.end, task.strand, task.over = begin, end, -1, False
        return True

    def _strand(self, batch: BatchRun, runner: StageRunner) -> tuple[int, int, int]:
        """The next strand of a chunk of samples. Until all of them are claimed, no thread takes other work.

        So if there are as many threads as strands, the strands of the oldest chunk all run, and none waits forever.
        """
        if not batch.strand:
            begin = batch.cursor
            batch.chunk = begin, self._end(batch, runner, self.threads)
        (begin, end), strand = batch.chunk, batch.strand
        batch.strand = (strand + 1) % runner.strands
        self.parted = batch if batch.strand else None
        if not batch.strand:
            batch.cursor = end
        return begin, end, strand

    def oldest(self) -> BatchRun | None:
        """The batch with the oldest work that no thread has."""
        if self.parted is not None:
            return self.parted
        passed = len(self._stages)  # no earlier batch is before this stage
        waiting = None  # the oldest batch that must wait for something: a thread waits for it if there is no other work
        for batch in self._ring:
            if batch.done:
                continue
            runner = self._stages[batch.stage]
            if runner.per_sample:
                if batch.cursor < batch.size and not (self._alone(runner) and self._busy(batch.stage)):
                    return batch
            elif not batch.claimed and (not runner.ordered or passed > batch.stage):
                if not runner.waits or runner.ready(batch):
                    return batch
                waiting = waiting or batch
            passed = min(passed, batch.stage)
        return waiting

    def _end(self, batch: BatchRun, runner: StageRunner, threads: int) -> int:
        """The end of the chunk that begins with the first sample that no thread has."""
        in_work = 1 if threads == 1 else sum([not other.done for other in self._ring])  # only several threads need it
        return min(batch.cursor + runner.chunk(batch.size - batch.cursor, threads, in_work), batch.size)

    def _alone(self, runner: StageRunner) -> bool:
        """True if only one thread at a time may work in a stage."""
        return self.alone and runner.alone_if_better

    def _busy(self, stage: int) -> bool:
        """True if a thread works in a stage."""
        return any(task.batch.stage == stage and not task.over for task in self.tasks.values())
