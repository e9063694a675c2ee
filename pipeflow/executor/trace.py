"""What ran when, on which thread, for which batch.

A trace is put over an executor from outside, so that one without a trace pays nothing. An event costs two readings of the
clock and one append; ``pipeflow.perfetto`` writes them down.
"""

import os
import threading
import weakref
from collections import deque
from typing import Any, NamedTuple

from pipeflow import timing

MOST = 200_000  # events that are kept: about 30 MB of JSON
LOOP = "the loop"


class Event(NamedTuple):
    """A span of time in which a thread worked at a stage of a batch, waited for one, or was elsewhere."""

    kind: str  # "stage", "wait" or "away"
    pipeline: int
    stage: int
    batch: int
    samples: tuple[int, int]
    thread: int
    begun: float
    ended: float


class Trace:
    """Collects the events of executors."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.begun = timing.wall()
        self.events: deque[Event] = deque()
        self.names: dict[int, str] = {}  # of threads
        self.stages: list[list[str]] = []  # of each executor: what its stages do

    def over(self, executor: Any) -> None:
        """Records from now on what an executor does."""
        number = len(self.stages)
        self.stages.append([_title(stage) for stage in executor.plan.stages])
        outside = [stage.kind == "processes" for stage in executor.plan.stages]
        sent: dict[int, tuple[int, float]] = {}  # batch -> (stage, when it went to the worker processes)
        ref, perform, take = weakref.ref(executor), type(executor).perform, type(executor).take

        def traced_perform(task: Any, arena: Any, lap: Any) -> None:
            batch, stage, samples = task.batch, task.batch.stage, (task.begin, task.end)
            begun = timing.wall()
            away = sent.pop(batch.index, None)
            if away is not None:
                self.add(Event("away", number, away[0], batch.index, (0, batch.size), 0, away[1], begun))
            perform(ref(), task, arena, lap)
            ended = timing.wall()
            if outside[stage]:
                sent[batch.index] = stage, ended
            self.add(Event("stage", number, stage, batch.index, samples, threading.get_ident(), begun, ended))

        def traced_take(handing: Any, ahead: int = 0) -> Any:
            begun = timing.wall()
            delivered = take(ref(), handing, ahead)
            ended = timing.wall()
            self.add(
                Event("wait", number, 0, delivered.index, (0, delivered.size), threading.get_ident(), begun, ended)
            )
            return delivered

        executor.perform, executor.take = traced_perform, traced_take

    def add(self, event: Event) -> None:
        """Keeps an event while there is room."""
        if len(self.events) < MOST:
            if event.thread not in self.names:
                name = threading.current_thread().name
                self.names[event.thread] = LOOP if event.kind == "wait" else name
            self.events.append(event)


def _title(stage: Any) -> str:
    """What a stage does, in a few words."""
    titles = list(dict.fromkeys(step.title.removeprefix("fn.") for step in stage.steps))
    return " + ".join(titles[:3]) + (f" + {len(titles) - 3} more" if len(titles) > 3 else "")
