"""Clocks of a run: wall time and processor time of each thread, read at the beginning and the end of a task.

A task is a chunk of samples or a whole batch, so the clocks cost two microseconds a task. Steps of one stage are measured apart
if a sample takes long enough, and always during ``Pipeline.measure``. Then a ``GilProbe`` also measures which step keeps the
interpreter.
"""

import hashlib
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any

from pipeflow import system, timing
from pipeflow.compile.plan import Plan, Stage, Step
from pipeflow.declare import find
from pipeflow.errors import function_name
from pipeflow.executor.figures import WAITS, Statistics, StepFigures
from pipeflow.executor.settings import Settings, available_cpus

BRIEF_SECONDS = 50e-6  # shorter tasks count as busy all the time: reading the thread's clock would take too long
STEP_CLOCK_MIN_SECONDS = (
    50e-6  # a step of this many seconds a sample is measured apart: its clocks cost about one percent
)
PROBE_SECONDS = 20e-3  # the shortest measurement of a probe: the interpreter changes hands every 5 ms
PROBE_MOST_SECONDS = 100e-3  # the longest one
PROBED_SECONDS = 0.5  # of all measurements of a step
RECENT = 16  # the minimum of ready batches is taken over so many batches


class Clock:
    """Wall and processor seconds of a stage or a step; the owner adds to it under a lock."""

    __slots__ = ("brief", "busy", "calls", "probed", "seconds", "waited")

    def __init__(self) -> None:
        self.brief = False
        self.reset()

    def reset(self) -> None:
        """Starts at zero."""
        self.seconds = self.busy = self.probed = self.waited = 0.0
        self.calls = 0

    def add(self, seconds: float, busy: float, calls: int = 1) -> None:
        """Counts a call, or several."""
        self.seconds += seconds
        self.busy += busy
        self.calls += calls
        self.brief = seconds < BRIEF_SECONDS * calls

    def kept(self) -> float | None:
        """The share of the time that the step kept the interpreter: a probe waited so long. None without a probe."""
        return self.waited / self.probed if self.probed else None


class Lap:
    """The beginning of a thread's task, by both clocks."""

    __slots__ = ("begun", "processor")

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """The thread has finished waiting."""
        self.begun = timing.wall()
        self.processor: float | None = None

    def enter(self, stage: Clock) -> None:
        """A task begins; if it follows another one, it begins at the end of that."""
        if self.processor is None and not stage.brief:
            self.processor = timing.processor()

    def leave(self, stage: Clock) -> None:
        """The task is over. The code is inlined here because it runs for every task."""
        now = timing.wall()
        seconds = busy = now - self.begun
        self.begun = now
        if self.processor is not None:
            if stage.brief:
                self.processor = None
            else:
                processor = timing.processor()
                busy = processor - self.processor
                self.processor = processor
        stage.seconds += seconds
        stage.busy += busy
        stage.calls += 1
        stage.brief = seconds < BRIEF_SECONDS


class GilProbe:
    """A thread that competes for the interpreter lock while a step runs. The time that it waits is lock time of the step.

    It works without the lock, and takes it between two pieces of work. Its time has three parts: it is on a processor, it
    is ready without one (the system counts that), or it waits for the lock. A measurement begins with a call of the step.
    It takes PROBE_SECONDS to PROBE_MOST_SECONDS, and ends with a call.
    """

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._on: Clock | None = None
        self._begun = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="pipeflow-probe", daemon=True)
        self._thread.start()

    def begin(self, clock: Clock) -> None:
        """A call of the step begins. So does a measurement, unless one runs or this step has been measured for long enough."""
        if self._on is None and clock.probed < PROBED_SECONDS and not self._closed:
            self._begun = timing.wall()
            self._on = clock
            self._go.release()

    def end(self, clock: Clock) -> None:
        """A call of the step is over. The measurement ends with it if it was long enough."""
        if self._on is clock and timing.wall() - self._begun >= PROBE_SECONDS:
            self._on = None

    def close(self) -> None:
        """Ends the thread."""
        self._closed = True
        self._on = None
        self._go.release()
        self._thread.join()

    def _serve(self) -> None:
        while not self._closed:
            self._go.acquire()
            clock = self._on
            if clock is not None:
                self._measure(clock)
                if self._on is clock:
                    self._on = None

    def _measure(self, clock: Clock) -> None:
        # Long enough (0.1 ms) for the step to take the interpreter back in the meantime: a probe that comes and goes within a
        # microsecond would find it free many times before the other thread is awake.
        work = bytes(128 << 10)
        queued = queued_seconds([self._thread])
        begun, own = timing.wall(), timing.processor()
        seconds = 0.0
        while self._on is clock and not self._closed and seconds < PROBE_MOST_SECONDS:
            hashlib.sha256(work)
            seconds = timing.wall() - begun
        waited = seconds - (timing.processor() - own) - (queued_seconds([self._thread]) - queued)
        clock.probed += seconds
        clock.waited += max(0.0, waited)


def queued_seconds(threads: Sequence[threading.Thread]) -> float:
    """Seconds that threads were ready to run without a processor, as Linux counts them; 0 on other systems."""
    total = 0
    for thread in threads:
        for line in system.lines_of(f"/proc/self/task/{thread.native_id}/schedstat"):
            total += int(line.split()[1])
    return total / 1e9


class Measures:
    """The clocks of one executor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stages = [Clock() for _ in plan.stages]
        self.probe: GilProbe | None = None
        self.begin([])

    def begin(self, threads: Sequence[threading.Thread]) -> None:
        """Starts again from zero."""
        for clock in self.stages:
            clock.reset()
        self.began = self.last = timing.wall()
        self.waited = 0.0
        self.waits = [0] * (len(WAITS) + 1)
        self.batches = self.samples = 0
        self.peak = 0
        self._ready: deque[int] = deque(maxlen=RECENT)
        self._queued = {thread.native_id: queued_seconds([thread]) for thread in threads}

    def delivered(self, asked: float, ready: int, samples: int) -> None:
        """Counts a delivered batch.

        ``asked`` is the time of the call, ``ready`` the number of batches finished at that time.
        """
        now = self.last = timing.wall()
        self.waited += now - asked
        self.waits[bisect_left(WAITS, now - asked)] += 1
        self.batches += 1
        self.samples += samples
        self._ready.append(ready)

    def statistics(
        self, parts: Sequence[Sequence[Any]], settings: Settings, threads: Sequence[threading.Thread]
    ) -> Statistics:
        """The measured times as plain figures; ``parts`` are the bound steps of each stage, which may have clocks."""
        steps: list[StepFigures] = []
        for clock, stage, bound in zip(self.stages, self.plan.stages, parts):
            steps += _of_stage(self.plan, stage, clock, bound, self.last - self.began) if stage.steps else []
        queued = sum(queued_seconds([thread]) - self._queued.get(thread.native_id, 0.0) for thread in threads)
        workers = settings.py_num_workers if any(step.role == "processes" for step in steps) else 0
        ready = min(self._ready) if len(self._ready) == RECENT else None
        return Statistics(
            self.last - self.began,
            self.waited,
            self.batches,
            self.samples,
            settings.threads,
            available_cpus(),
            settings.depth,
            workers,
            settings.synchronous,
            bool(self.plan.differentiable()),
            self.peak,
            ready,
            queued,
            tuple(steps),
            tuple(self.waits),
        )


def _of_stage(plan: Plan, stage: Stage, clock: Clock, bound: Sequence[Any], elapsed: float) -> list[StepFigures]:
    """The figures of a stage, step by step if the steps were measured apart."""
    role: Any = {"source": "source", "processes": "processes"}.get(stage.kind, "serial" if stage.ordered else "pool")
    clocks = [item.clock for item in bound]
    if stage.kind == "processes":
        return [_figures(plan, stage.steps[0], role, bound[0].worker_clock(), bound[0].largest)]
    if len(stage.steps) == 1:
        kept, largest = (clocks[0].kept(), bound[0].largest) if bound else (0.0, ())
        return [_figures(plan, stage.steps[0], role, clock, largest, kept, elapsed)]
    if len(clocks) == len(stage.steps) and sum(item.seconds for item in clocks) >= 0.5 * clock.seconds:
        return [
            _figures(plan, step, role, item.clock, item.largest, item.clock.kept(), elapsed)
            for step, item in zip(stage.steps, bound)
        ]
    title = " + ".join(dict.fromkeys(step.title for step in stage.steps))
    unknown = any(step.user_code for step in stage.steps)
    names = " + ".join(step.name for step in stage.steps)
    return [StepFigures(title, role, clock.seconds, clock.busy, None if unknown else 0.0, name=names)]


def _figures(
    plan: Plan,
    step: Step,
    role: Any,
    clock: Clock,
    largest: Sequence[int],
    kept: float | None = 0.0,
    elapsed: float = 0.0,
) -> StepFigures:
    constants = {name: plan.constant(value) for name, value in step.constants}
    function = next((constants[name] for name in ("function", "func", "source") if callable(constants.get(name))), None)
    named = "" if function is None else f" of {function_name(function)}"
    kept = kept if step.user_code else 0.0
    kept = None if kept is None else min(clock.busy, kept * elapsed)
    return StepFigures(
        step.title + named,
        role,
        clock.seconds,
        clock.busy,
        kept,
        step.user_code,
        _ways(step, constants),
        step.hint,
        tuple(largest),
        "" if step.origin is None else str(step.origin),
        step.name,
    )


def _ways(step: Step, constants: dict[str, Any]) -> tuple[str, ...]:
    """The other ways in which the step could run, by the arguments of its operator."""
    op = find(step.op)
    if "parallel" not in op.arguments or constants.get("differentiable"):
        return ()
    if op.factory is not None:
        singly = constants.get("batch") is False and callable(constants.get("source"))
        return ("parallel",) if singly and not constants.get("parallel") else ()
    if constants.get("batch_processing"):
        return ("processes",)
    return ("threads", "processes", "jit") if "jit" in op.arguments else ("threads", "processes")
