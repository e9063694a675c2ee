"""Clocks of a run: wall time and processor time of each thread, read at the beginning and the end of a task.

A task is a chunk of samples or a whole batch, so the clocks cost two microseconds a task. Steps of one stage have their own
clocks if a sample takes long enough, and always during ``Pipeline.measure``. Then a ``GilProbe`` also measures which step keeps
the interpreter.
"""

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import nan
from typing import Any

import numpy as np

from pipeflow import system, timing
from pipeflow.declare import find
from pipeflow.errors import function_name
from pipeflow.executor.figures import WAITS, StageFigures, Statistics, StepFigures
from pipeflow.executor.settings import Settings, available_cpus
from pipeflow.plan import Plan, Stage, Step

NO_WAITS = np.zeros(len(WAITS) + 1, np.int64)
BRIEF_SECONDS = 100e-6  # shorter tasks count as busy all the time: after kernels the thread's clock takes 5 to 20 us
STEP_CLOCK_MIN_SECONDS = 50e-6  # a step that takes longer for a sample has its own clock: this costs about one percent
PROBE_SECONDS = 20e-3  # the shortest measurement of a probe: the interpreter changes hands every 5 ms
PROBE_MOST_SECONDS = 100e-3  # the longest measurement of a probe
PROBED_SECONDS = 0.06  # seconds of all measurements of a step
PROBING_SECONDS = 0.4  # after that a probe needs no processor any more, and the measurement of the times begins again
PAUSE_SECONDS = 0.1  # of a loop between two batches, as for a validation
RECENT_ENDS = 16, 128  # the least and the most deliveries for the pace of the last batches
RECENT = 16  # the minimum of ready batches is taken over so many batches
KEPT_TASKS = 1024  # tasks of a stage whose work is kept, to simulate a run
LEAST_OTHERS = 0.05  # processors; the system counts in steps of 10 ms
KEPT_LOOPS = 256  # the loop's own times from batch to batch
MOST_STORING = 0.9  # of the time of a function, as a share


class Clock:
    """Wall and processor seconds of a stage or a step; the owner adds to it under a lock."""

    __slots__ = ("brief", "busy", "calls", "probed", "seconds", "tasks", "waited")

    def __init__(self) -> None:
        self.brief = False
        self.tasks: deque[tuple[int, int, float, float]] | None = None
        self.reset()

    def reset(self) -> None:
        """Starts at zero."""
        self.seconds = self.busy = self.probed = self.waited = 0.0
        self.calls = 0
        if self.tasks is not None:
            self.tasks.clear()

    def add(self, seconds: float, busy: float, calls: int = 1) -> None:
        """Counts a call, or several."""
        self.seconds += seconds
        self.busy += busy
        self.calls += calls
        self.brief = seconds < BRIEF_SECONDS * calls

    def kept(self) -> float | None:
        """The share of the time in which a probe waited for the interpreter because the step kept it. None without a probe."""
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
        """A task begins. If it follows another task directly, its time begins at the end of that task."""
        if self.processor is None and not stage.brief:
            self.processor = timing.processor()

    def leave(self, stage: Clock, batch: int = 0, samples: int = 0) -> None:
        """The task, some samples of a batch, is over. The code is inlined here because it runs for every task."""
        now = timing.wall()
        seconds = busy = now - self.begun
        self.begun = now
        if self.processor is not None:
            if stage.brief:
                self.processor += seconds
            else:
                processor = timing.processor()
                busy = processor - self.processor
                self.processor = processor
        stage.seconds += seconds
        stage.busy += busy
        stage.calls += 1
        stage.brief = seconds < BRIEF_SECONDS
        if stage.tasks is not None:
            stage.tasks.append((batch, samples, seconds, busy))


def passed(stage: Clock, batch: int) -> None:
    """Notes that a batch passed a stage that had no work for it."""
    stage.calls += 1
    if stage.tasks is not None:
        stage.tasks.append((batch, 0, 0.0, 0.0))


class SampleLaps:
    """The times of the samples of a batch, for a function that is called for one after another."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float]] = []  # of each call: seconds, and seconds on a processor

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, measured. The thread's clock is not read after brief calls, as by ``Lap``."""
        rows, wall, processor = self._rows, timing.wall, timing.processor
        read, brief = processor(), 0.0  # the thread's clock, and the time of brief calls since then

        def timed(*args: Any, **named: Any) -> Any:
            nonlocal read, brief
            begun = wall()
            result = function(*args, **named)
            seconds = busy = wall() - begun
            if seconds < BRIEF_SECONDS:
                brief += seconds
            else:
                now = processor()
                busy = min(seconds, max(0.0, now - read - brief))
                read, brief = now, 0.0
            rows.append((seconds, busy))
            return result

        return timed

    def merged(self) -> list[tuple[int, float, float]]:
        """Neighbours that took about the same time together: samples, seconds, and seconds on a processor."""
        found: list[tuple[int, float, float]] = []
        for seconds, busy in self._rows:
            if found:
                count, before, processor = found[-1]
                short, long = sorted((seconds, before / count))
                if long <= 2 * short + BRIEF_SECONDS:
                    found[-1] = count + 1, before + seconds, processor + busy
                    continue
            found.append((1, seconds, busy))
        return found


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
        self._first = timing.wall()
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

    @property
    def over(self) -> bool:
        """True if it has measured for long enough and starts no other measurement."""
        if self._on is None and timing.wall() - self._first >= PROBING_SECONDS:
            self._closed = True
        return self._closed and self._on is None

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


def seconds_of_others() -> float | None:
    """Seconds that other processes had the processors that this one may use; None if the system does not count them."""
    busy = system.busy_seconds()
    return None if busy is None else busy - timing.process()


def _course_of(
    clock: Clock, steps: Sequence[StepFigures], places: tuple[int, ...], batches: int, apart: Clock | None
) -> StageFigures:
    """The work of a stage on single batches; the first and the last one may not be complete.

    ``apart`` is the clock of the only step, which may have measured the samples of a batch.
    """
    role = steps[0].role
    if role == "processes":
        each = max(1, batches)
        return StageFigures(
            role, places, (((1, steps[0].seconds / each, steps[0].busy / each),),), clock.seconds / each
        )
    found: dict[int, list[tuple[int, float, float]]] = {}
    for batch, samples, seconds, busy in tuple(clock.tasks or ()):
        found.setdefault(batch, []).append((samples or 1, seconds, busy))
    samples_of: dict[int, list[tuple[int, float, float]]] = {}
    for batch, samples, seconds, busy in tuple((apart and apart.tasks) or ()):
        samples_of.setdefault(batch, []).append((samples, seconds, busy))
    inside = calls = 0.0  # processor seconds of these batches, and of the calls in them
    for batch, rows in samples_of.items():
        if len(found.get(batch, ())) == 1:
            inside, calls = inside + found[batch][0][2], calls + sum(row[2] for row in rows)
            found[batch] = _completed(rows, found[batch][0])
    whole = sorted(found)[1:-1] or sorted(found)
    if not whole:  # all batches were made before
        each = max(1, batches)
        return StageFigures(role, places, (((1, clock.seconds / each, clock.busy / each),),))
    storing = min(max(0.0, 1 - calls / inside), MOST_STORING) if inside > 0 else 0.0
    return StageFigures(role, places, tuple(tuple(found[batch]) for batch in whole), storing=storing)


def _completed(rows: list[tuple[int, float, float]], whole: tuple[int, float, float]) -> list[tuple[int, float, float]]:
    """The times of the samples of a batch, with the rest of its time divided among them."""
    samples, seconds, busy = (sum(row[i] for row in rows) for i in range(3))
    rest, work = max(0.0, whole[1] - seconds) / samples, max(0.0, whole[2] - busy) / samples
    return [(count, first + rest * count, second + work * count) for count, first, second in rows]


class Measures:
    """The clocks of one executor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stages = [Clock() for _ in plan.stages]
        for clock in self.stages:
            clock.tasks = deque(maxlen=KEPT_TASKS)
        self.probe: GilProbe | None = None
        self.crowding: list[float | None] = [None] * len(self.stages)  # of each stage (``alternating.py``)
        self.alone = self.crowding
        self._threads: Sequence[threading.Thread] = ()
        self._reset()

    def begin(self, threads: Sequence[threading.Thread]) -> None:
        """Starts again from zero, with the first batch or later."""
        self._threads = threads
        self._reset()

    def _reset(self) -> None:
        for clock in self.stages:
            clock.reset()
        self.began = self.last = timing.wall()
        self.brief = False  # True if the loop took so little time that its thread's clock is not read
        self.peak = 0
        self._rows: list[tuple[float, ...]] = []  # the deliveries that were not added to the sums below
        self._before: tuple[float, float, int] | None = None  # the end of the last delivery in them, and its thread
        self._waited = 0.0
        self._waits = NO_WAITS
        self._batches = self._samples = 0
        self._ready: deque[int] = deque(maxlen=RECENT)
        self._loops: deque[tuple[float, float]] = deque(maxlen=KEPT_LOOPS)
        self._process = timing.process()
        self._others: float | None = None
        self._queued: dict[int | None, float] = {}
        self._looked = self.began  # when the system was asked for the two above
        self._most_rows = 1

    def _look(self) -> None:
        """Asks the system what it has counted so far. This can take as long as a small batch, because the threads use the
        interpreter at the same time. So the first batch, for which a program waits, is delivered before.
        """
        self._looked = self.last
        self._others = seconds_of_others()
        self._queued = {thread.native_id: queued_seconds([thread]) for thread in self._threads}

    @property
    def batches(self) -> int:
        """The number of delivered batches."""
        return self._batches + len(self._rows)

    def recent_pace(self) -> float | None:
        """Seconds from batch to batch of the last deliveries, without pauses of the loop; None if there were few."""
        least, most = RECENT_ENDS
        rows = self._rows[-most:]
        periods = [row[1] - before[1] for before, row in pairwise(rows) if row[0] - before[1] < PAUSE_SECONDS]
        return sum(periods) / len(periods) if len(periods) + 1 >= least else None

    def loop_clock(self) -> float:
        """The caller's processor time when it calls for a batch or gets it; NaN if the loop took very little time before."""
        return nan if self.brief else timing.processor()

    def delivered(self, asked: float, ready: int, samples: int, used: float = nan) -> None:
        """Notes a delivered batch.

        ``asked`` is the time of the call, ``ready`` the number of batches finished at that time, ``used`` what
        ``loop_clock`` returned then. Many deliveries are added up at once, which takes a fifth of the time.
        """
        self.brief = asked - self.last < BRIEF_SECONDS
        got = nan if self.brief else timing.processor()
        self.last = now = timing.wall()
        self._rows.append((asked, now, used, got, ready, samples, threading.get_ident()))
        if len(self._rows) >= self._most_rows:
            if self._most_rows == 1:
                self._look()
            self._most_rows = KEPT_LOOPS
            self._add_up()

    def _add_up(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        asked, now, used, got, ready, samples, thread = np.array(rows).T
        waits = now - asked
        self._waited += float(waits.sum())
        self._waits = self._waits + np.bincount(np.searchsorted(WAITS, waits), minlength=len(WAITS) + 1)
        self._batches += len(rows)
        self._samples += int(samples.sum())
        self._ready.extend(ready[-RECENT:].astype(int).tolist())
        # The loop's own times. Its processor time counts if it was read at both ends; else it was busy all the time.
        before = np.array([self._before or (nan, nan, nan), *zip(now, got, thread)]).T
        own = asked - before[0, :-1]
        busy = np.clip(used - before[1, :-1], 0.0, own)
        busy = np.where(np.isnan(busy), own, busy)
        same = before[2, :-1] == thread
        self._loops.extend(zip(own[same].tolist(), busy[same].tolist()))
        self._before = now[-1], got[-1], thread[-1]

    def statistics(self, runners: Sequence[Any], settings: Settings, threads: Sequence[threading.Thread]) -> Statistics:
        """The measured times as plain figures; ``runners`` are those of the stages, whose bound steps may have clocks."""
        self._add_up()
        steps: list[StepFigures] = []
        stages: list[StageFigures] = []
        elapsed = self.last - self.began
        turns = zip(self.crowding, self.alone)
        following = [*self.plan.stages[1:], None]
        for clock, stage, after, runner, (crowding, alone) in zip(
            self.stages, self.plan.stages, following, runners, turns
        ):
            found = _of_stage(self.plan, stage, clock, runner.steps, elapsed) if stage.steps else []
            if found:
                places = tuple(range(len(steps), len(steps) + len(found)))
                apart = runner.steps[0].clock if len(runner.steps) == 1 else None
                course = _course_of(clock, found, places, self.batches, apart)
                joins = course.storing > 0 and after is not None and _only_reads(self.plan, after, stage)
                stages.append(
                    replace(
                        course,
                        chunk_seconds=runner.chunk_seconds,
                        meets=runner.meets,
                        crowding=crowding,
                        alone=alone,
                        storing=course.storing if joins else 0.0,
                    )
                )
            steps += found
        queued = 0.0
        if self.batches:
            queued = sum(queued_seconds([thread]) - self._queued.get(thread.native_id, 0.0) for thread in threads)
        workers = settings.py_num_workers if any(step.role == "processes" for step in steps) else 0
        ready = min(self._ready) if len(self._ready) == RECENT else None
        return Statistics(
            self.last - self.began,
            self._waited,
            self._batches,
            self._samples,
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
            tuple(self._waits.tolist()),
            tuple(stages),
            tuple(self._loops),
            self._processors_of_others(steps),
            timing.process() - self._process,
        )

    def _processors_of_others(self, steps: Sequence[StepFigures]) -> float:
        """The average number of processors that other programs used."""
        now = seconds_of_others()
        elapsed = self.last - self._looked
        if now is None or self._others is None or elapsed <= 0:
            return 0.0
        whole = self.last - self.began
        workers = sum(step.busy for step in steps if step.role == "processes") * elapsed / whole
        found = (now - self._others - workers) / elapsed
        return found if found >= LEAST_OTHERS else 0.0


def _only_reads(plan: Plan, reader: Stage, stage: Stage) -> bool:
    """True if no other step, and no loop, reads the results of a stage."""
    made = {slot for step in stage.steps for slot in step.outputs}
    return made.isdisjoint(plan.read_outside([*stage.steps, *reader.steps]))


def _of_stage(plan: Plan, stage: Stage, clock: Clock, bound: Sequence[Any], elapsed: float) -> list[StepFigures]:
    """The figures of a stage, step by step if the steps were measured apart."""
    role: Any = {"source": "source", "processes": "processes"}.get(stage.kind, "serial" if stage.ordered else "pool")
    clocks = [item.clock for item in bound]
    if stage.kind == "processes":
        return [_figures(plan, stage.steps[0], role, bound[0].worker_clock(), bound[0].largest, 0.0)]
    shares = [share for item in clocks if (share := item.kept()) is not None]
    kept = max(shares) * min(elapsed, clock.seconds) if shares else None
    if len(stage.steps) == 1:
        largest = bound[0].largest if bound else ()
        figures = _figures(plan, stage.steps[0], role, clock, largest, kept)
        return [replace(figures, moved=bound[0].moved if bound else 0)]
    measured = sum(item.seconds for item in clocks)
    if len(clocks) == len(stage.steps) and measured >= 0.5 * clock.seconds:
        parts = _divided(kept, [step.user_code for step in stage.steps], [item.busy for item in clocks])
        return [
            _figures(plan, step, role, item.clock, item.largest, part)
            for step, item, part in zip(stage.steps, bound, parts)
        ]
    title = " + ".join(dict.fromkeys(step.title for step in stage.steps))
    names = " + ".join(step.name for step in stage.steps)
    kept = None if kept is None else min(clock.busy, kept)
    return [StepFigures(title, role, clock.seconds, clock.busy, kept, name=names)]


def _divided(kept: float | None, users: Sequence[bool], busy: Sequence[float]) -> list[float | None]:
    """Divides the seconds in which the interpreter was kept among the steps of a stage: first the functions of the user."""
    if kept is None:
        return [None] * len(busy)
    parts: list[float | None] = [0.0] * len(busy)
    for wanted in (True, False):
        seconds = sum(each for each, user in zip(busy, users) if user is wanted)
        share = min(1.0, kept / seconds) if seconds > 0 else 0.0
        for place, (each, user) in enumerate(zip(busy, users)):
            if user is wanted:
                parts[place] = share * each
        kept = max(0.0, kept - seconds)
    return parts


def _figures(
    plan: Plan, step: Step, role: Any, clock: Clock, largest: Sequence[int], kept: float | None
) -> StepFigures:
    constants = {name: plan.constant(value) for name, value in step.constants}
    function = next((constants[name] for name in ("function", "func", "source") if callable(constants.get(name))), None)
    named = "" if function is None else f" of {function_name(function)}"
    return StepFigures(
        step.title + named,
        role,
        clock.seconds,
        clock.busy,
        None if kept is None else min(clock.busy, kept),
        step.user_code or function is not None,
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
