"""A timeline of a run: the work of each thread, with its batch.

A trace is added to an executor from outside, so an executor without a trace has no cost. An event costs two readings of
the clock and one append; ``pipeflow.watching.perfetto`` writes them to a file.
"""

import os
import threading
import weakref
from collections import deque
from typing import Any, NamedTuple

from pipeflow import timing

MOST = 200_000  # events that are kept: about 30 MB of JSON
LOOP = "the loop"


class Span(NamedTuple):
    """A span of time in which a thread worked on a stage of a batch, a loop waited for a batch, or worker processes had
    a batch.
    """

    kind: str  # "stage", "wait" or "away"
    pipeline: int
    stage: int
    batch: int
    first: int  # the first sample of the batch; ``end`` is the one after the last
    end: int
    thread: int
    begun: float
    ended: float


class Trace:
    """Collects the events of executors."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.begun = timing.wall()
        self.events: deque[tuple[Any, ...]] = deque()  # tuples with the fields of Event
        self.names: dict[int, str] = {}  # of threads
        self.stages: list[list[str]] = []  # for each executor: short descriptions of its stages

    def over(self, executor: Any) -> None:
        """Records the work of an executor from now on."""
        number = len(self.stages)
        self.stages.append([_title(stage) for stage in executor.plan.stages])
        outside = [stage.kind == "processes" for stage in executor.plan.stages]
        sent: dict[int, tuple[int, float]] = {}  # batch -> (stage, when it went to the worker processes)
        ref, perform, take = weakref.ref(executor), type(executor).perform, type(executor).take

        events, names, wall, here = self.events, self.names, timing.wall, threading.get_ident
        keep = events.append

        def traced_perform(
            task: Any, arena: Any, lap: Any
        ) -> None:  # it appends plain tuples: an Event would double the cost
            batch, begin, end = task.batch, task.begin, task.end
            stage, index, begun = batch.stage, batch.index, wall()
            if outside[stage]:
                sent[index] = stage, begun
            elif index in sent and self.has_room():
                keep(("away", number, sent[index][0], index, 0, batch.size, 0, sent.pop(index)[1], begun))
            perform(ref(), task, arena, lap)
            if len(events) < MOST:
                thread = here()
                if thread not in names:
                    names[thread] = threading.current_thread().name
                keep(("stage", number, stage, index, begin, end, thread, begun, wall()))

        def traced_take(handing: Any, ahead: int = 0, first: int = 0) -> Any:
            begun = wall()
            delivered = take(ref(), handing, ahead, first)
            if self.has_room():
                names[here()] = LOOP
                keep(("wait", number, 0, delivered.index, 0, delivered.size, here(), begun, wall()))
            return delivered

        executor.perform, executor.take = traced_perform, traced_take

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
