"""A timeline of a run: the work of each thread, with its batch.

A trace is added to an executor from outside, so an executor without a trace has no cost. An event costs two readings of
the clock and one append; ``pipeflow.watching.perfetto`` writes them to a file.
"""

import os
import threading
import weakref
from collections import deque
from functools import partial
from typing import Any, NamedTuple

from pipeflow import timing

MOST = 200_000  # events that are kept: about 30 MB of JSON
LOOP = "the loop"


class Span(NamedTuple):
    """A span of time in which a thread worked on a stage of a batch, a loop waited for a batch, worker processes had a
    batch, or one of them worked on a chunk of it.
    """

    kind: str  # "stage", "wait", "away" or "worker"
    pipeline: int
    stage: int
    batch: int  # -1: not known, in a worker process that reads ahead
    first: int  # the first sample of the batch; ``end`` is the one after the last
    end: int
    thread: int  # of a worker process: its number, negative
    begun: float
    ended: float


class Trace:
    """Collects the events of executors."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.begun = timing.wall()
        self._stamped = timing.stamp()
        self.events: deque[tuple[Any, ...]] = deque()  # tuples with the fields of Span
        self.names: dict[int, str] = {}  # of threads
        self.stages: list[list[str]] = []  # for each executor: short descriptions of its stages

    def over(self, executor: Any) -> None:
        """Records the work of an executor from now on."""
        number = len(self.stages)
        self.stages.append([_title(stage) for stage in executor.plan.stages])
        outside = [stage.kind == "processes" for stage in executor.plan.stages]
        sent: dict[tuple[int, int], float] = {}  # when a batch went to the worker processes, by batch and stage
        ref, perform, take = weakref.ref(executor), type(executor).perform, type(executor).take

        events, names, wall, here = self.events, self.names, timing.wall, threading.get_ident
        keep = events.append

        def traced_perform(
            task: Any, arena: Any, lap: Any
        ) -> Any:  # it appends plain tuples: a Span would double the cost
            batch, begin, end = task.batch, task.begin, task.end
            stage, index, begun = batch.stage, batch.index, wall()
            if outside[stage] and len(events) < MOST:  # it runs twice: the batch is sent, and it has returned
                left = sent.pop((index, stage), None)
                if left is None:
                    sent[index, stage] = begun
                else:
                    keep(("away", number, stage, index, 0, batch.size, 0, left, begun))
            following = perform(ref(), task, arena, lap)
            if len(events) < MOST:
                thread = here()
                if thread not in names:
                    names[thread] = threading.current_thread().name
                keep(("stage", number, stage, index, begin, end, thread, begun, wall()))
            return following

        def traced_take(handing: Any, ahead: int = 0, first: int = 0) -> Any:
            begun = wall()
            delivered = take(ref(), handing, ahead, first)
            if self.has_room():
                names[here()] = LOOP
                keep(("wait", number, 0, delivered.index, 0, delivered.size, here(), begun, wall()))
            return delivered

        executor.perform, executor.take = traced_perform, traced_take
        executor.stays = False  # each call of ``perform`` is for one stage
        if executor.crew.workers is not None:
            executor.crew.workers.watch(partial(self._in_worker, number))

    def _in_worker(self, number: int, job: Any, process: int, done: Any) -> None:
        """Records a chunk that a worker process has run."""
        if not self.has_room():
            return
        if -process not in self.names:
            self.names[-process] = f"worker {process}"
        if job.mark is None:
            batch, stage = -1, self._named_stage(number, job.registered.task.name)
        else:
            batch, stage = job.mark
        begun = self.begun + (done.began - self._stamped) * 1e-9
        self.events.append(
            ("worker", number, stage, batch, 0, job.count, -process, begun, begun + done.nanoseconds * 1e-9)
        )

    def _named_stage(self, number: int, name: str) -> int:
        """The number of a title that is not one of a stage, such as a source that reads ahead."""
        titles = self.stages[number]
        if name not in titles:
            titles.append(name)
        return titles.index(name)

    def has_room(self) -> bool:
        """True if there is room for another event."""
        return len(self.events) < MOST

    def spans(self) -> list[Span]:
        """The events so far, in the order in which they ended."""
        return [Span(*event) for event in self.events]


def _title(stage: Any) -> str:
    """A short description of a stage."""
    titles = list(dict.fromkeys(step.title.removeprefix("fn.") for step in stage.steps))
    return " + ".join(titles[:3]) + (f" + {len(titles) - 3} more" if len(titles) > 3 else "")
