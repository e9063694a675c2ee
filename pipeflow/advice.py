"""Advice from measured figures: the step that limits a pipeline, and the changes that would help, with their gain.

This module computes advice from figures; it does not run, read or change a pipeline. Words:

- A step is *busy* while it is on a processor, *waits* while it is not (for data, for a processor, for the interpreter), and
  *keeps the interpreter* (Python's global lock, the GIL) while no other thread of the process could run Python code.
- The *pace* is the time from batch to batch. The slowest part sets it: the loop itself, a step that takes one batch
  after another, the threads, the workers, the interpreter or the processors. To estimate a change, the same pace is
  computed from changed figures: it is the best case, because the cost of the change itself is not included.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pipeflow.errors import count_of
from pipeflow.executor.figures import NOT_THE_BOTTLENECK, Statistics, StepFigures, in_ms

# Shares of the time from batch to batch, and factors between two paces.
LOOP_STARVED_SHARE = 0.2  # if a loop waits longer than this, its pipeline limits it
LOOP_FED_SHARE = 0.1  # if a loop waits less than this, its pipeline does not limit it
SATURATED_SHARE = 0.75  # a part that works longer than this sets the pace
PIPELINE_WAITS_SHARE = 0.5  # a pipeline whose possible pace is at most this share of the loop's waits for the loop
MIN_GAIN = 1.15  # advice is given only if the gain is at least this
GIL_BOUND_SHARE = 0.35  # of its busy time: a function that keeps the interpreter longer cannot share it
COMPUTING_SHARE = 0.3  # of its time: a function that is busy for less than this mostly waits
MOST_THREADS = 32
Kind = Literal[
    "bound",
    "gil",
    "serial",
    "source",
    "threads_few",
    "threads_many",
    "workers_few",
    "prefetch_small",
    "prefetch_large",
    "synchronous",
    "hint",
    "consumer",
]


@dataclass(frozen=True)
class Advice:
    """One finding: its kind, the step it is about, the gain of the change, and the figures that it is computed from."""

    kind: Kind
    text: str
    step: str = ""
    gain: float | None = None  # times as many batches, at best
    figures: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


def advise(run: Statistics) -> list[Advice]:
    """The advice that follows from the figures, the most important first; none for a balanced pipeline."""
    found: list[Advice] = []
    waited = run.waited / max(run.seconds, 1e-9)
    if waited >= LOOP_STARVED_SHARE:
        found += _starved(run)
    elif waited < LOOP_FED_SHARE:
        found += _fed(run)
    return [*found, *_too_many_threads(run), *_hints(run)]


# ----------------------------------------------------------------------------------------------------
# The formula of all estimates


def limits(run: Statistics) -> dict[str, float]:
    """For each part that could set the pace, the shortest pace that this part allows."""
    inside = [step for step in run.steps if step.role != "processes"]
    outside = [step for step in run.steps if step.role == "processes"]
    work = sum(step.seconds for step in inside)
    found = {
        "loop": run.seconds - run.waited,
        "one after another": max((step.seconds for step in inside if step.role != "pool"), default=0.0),
        "threads": work / run.threads,
        "interpreter": sum(step.kept or 0.0 for step in inside),
        "workers": sum(step.seconds for step in outside) / max(1, run.workers),
        "processors": sum(step.busy for step in run.steps) / run.processors,
    }
    if run.synchronous:
        found["loop"] += work
    return {name: run.per_batch(seconds) for name, seconds in found.items()}


def best_pace(run: Statistics) -> float:
    """The shortest pace that these figures allow."""
    return max(limits(run).values())


def _with_step(run: Statistics, old: StepFigures, new: StepFigures, **changes: int) -> Statistics:
    return replace(run, steps=tuple(new if step is old else step for step in run.steps), **changes)  # type: ignore[arg-type]


def in_processes(run: Statistics, step: StepFigures) -> Statistics:
    """The figures with the step in as many worker processes as there are processors."""
    changed = replace(step, role="processes", seconds=_alone(run, step), kept=0.0)
    return _with_step(run, step, changed, workers=max(run.workers, run.processors))


def on_threads(run: Statistics, step: StepFigures, free: bool = False) -> Statistics:
    """The figures with the step on all threads; ``free``: it does not need the interpreter, like compiled code."""
    own = _alone(run, step) if free else step.seconds
    changed = replace(step, role="pool", seconds=own, kept=0.0 if free else step.kept)
    return _with_step(run, step, changed, threads=max(run.threads, run.processors))


def _alone(run: Statistics, step: StepFigures) -> float:
    """The step's seconds on one thread: time in which several threads wait for the interpreter is counted once."""
    return min(step.seconds, run.seconds) if keeps_interpreter(run, step) else step.seconds


def keeps_interpreter(run: Statistics, step: StepFigures) -> bool:
    """True if a step is known to keep the interpreter most of the time."""
    # On several threads it mostly waits for itself; on a machine with other work it also waits for a processor.
    own = max(step.busy, min(step.seconds, run.seconds) - (run.queued or 0.0))
    return step.kept is not None and step.busy >= COMPUTING_SHARE * own and step.kept >= GIL_BOUND_SHARE * step.busy


# ----------------------------------------------------------------------------------------------------
# A loop that waits


def _starved(run: Statistics) -> Iterator[Advice]:
    if run.synchronous:
        yield from _synchronous(run)
        return
    step = _bounding(run)
    if step is None:
        yield from _prefetch_small(run)
        return
    yield _bound(run, step)
    if step.role == "source":
        yield from _source(run, step)
    elif step.role == "processes":
        yield from _few_workers(run, step)
    elif step.python and keeps_interpreter(run, step):
        yield from _keeps_interpreter(run, step)
        return  # more threads would only wait for the interpreter
    elif step.role == "serial":
        yield from _one_after_another(run, step)
    yield from _few_threads(run)


def _bound(run: Statistics, step: StepFigures) -> Advice:
    """The step that sets the pace, and the parts of its time."""
    spent = {
        "pace": run.pace,
        "in it": run.per_batch(step.seconds),
        "busy": run.per_batch(step.busy),
        "waits": run.per_batch(step.waited),
    }
    if step.kept is not None:
        spent["gil"] = run.per_batch(step.kept)
    over = {"pool": f" on {count_of(run.threads, 'thread')}", "processes": f" in {count_of(run.workers, 'worker')}"}
    kept = f", {in_ms(spent['gil'])} of that with the interpreter kept from others" if step.kept else ""
    return Advice(
        "bound",
        f"{step.title}{_at(step)} bounds the pipeline: {in_ms(spent['in it'])} a batch{over.get(step.role, '')}, where one comes "
        f"every {in_ms(run.pace)} (busy {in_ms(spent['busy'])}{kept}; waiting {in_ms(spent['waits'])})",
        step.title,
        figures=spent,
    )


def _bounding(run: Statistics) -> StepFigures | None:
    """The step that sets the pace: a serial one that is always busy, or the largest of a pool that is always busy."""
    serial = [step for step in run.steps if step.role in ("source", "serial")]
    inside = [step for step in run.steps if step.role != "processes"]
    outside = [step for step in run.steps if step.role == "processes"]

    def largest(steps: Sequence[StepFigures]) -> StepFigures:
        return max(steps, key=lambda step: step.seconds)

    if serial and largest(serial).seconds >= SATURATED_SHARE * run.seconds:
        return largest(serial)
    if outside and sum(step.seconds for step in outside) >= SATURATED_SHARE * run.seconds * max(1, run.workers):
        return largest(outside)
    if inside and sum(step.seconds for step in inside) >= SATURATED_SHARE * run.seconds * run.threads:
        return largest(inside)
    keeping = [step for step in inside if keeps_interpreter(run, step)]
    if (
        sum(step.busy for step in keeping) >= SATURATED_SHARE * run.seconds
    ):  # the interpreter is never free for another thread
        return largest(keeping)
    return None


def _synchronous(run: Statistics) -> Iterator[Advice]:
    inside = run.per_batch(run.work)
    if run.steps:
        yield _bound(run, max(run.steps, key=lambda step: step.seconds))
    if run.one_at_a_time:
        return
    ahead = replace(run, synchronous=False)
    gain = run.pace / best_pace(ahead)
    if gain >= MIN_GAIN:
        yield Advice(
            "synchronous",
            f"batches are made while the loop waits, {in_ms(inside)} each: with exec_async=True and exec_pipelined=True (the "
            f"defaults) they are made ahead, one every {in_ms(best_pace(ahead))} instead of {in_ms(run.pace)}: {_times(gain)}",
            gain=gain,
            figures={"pace": run.pace, "pipeline": inside, "estimate": best_pace(ahead)},
        )


def _prefetch_small(run: Statistics) -> Iterator[Advice]:
    estimate = best_pace(run)
    gain = run.pace / max(estimate, 1e-9)
    if gain >= MIN_GAIN:
        wanted = max(2, 2 * run.depth)
        yield Advice(
            "prefetch_small",
            f"prefetch_queue_depth={run.depth} is too small: the loop waits {in_ms(run.per_batch(run.waited))} a batch while "
            f"no step and no thread is at work all the time. With {wanted} it would be down to {in_ms(estimate)} a batch from "
            f"{in_ms(run.pace)}: {_times(gain)}",
            gain=gain,
            figures={"pace": run.pace, "waited": run.per_batch(run.waited), "depth": run.depth, "estimate": estimate},
        )


def _keeps_interpreter(run: Statistics, step: StepFigures) -> Iterator[Advice]:
    idle = _idle(run)
    share = (step.kept or 0.0) / max(step.busy, 1e-9)
    if step.role == "serial":
        meanwhile = f"while the pool's {count_of(run.threads, 'thread')} idle {idle:.0%} of the time"
    else:
        held = step.busy / max(step.seconds, 1e-9)
        meanwhile = f"so that the threads it is called on wait for each other: {1 - held:.0%} of the time spent in it is waiting"
    changed = in_processes(run, step)
    gain = run.pace / best_pace(changed)
    jit = run.pace / best_pace(on_threads(run, step, free=True)) if "jit" in step.ways else 0.0
    text = (
        f"{step.title} keeps Python's interpreter (the GIL) to itself {share:.0%} of the time it computes, {meanwhile}."
    )
    if "processes" in step.ways and gain >= MIN_GAIN:
        text += (
            f' parallel="processes" with py_num_workers={changed.workers} would give a batch every {in_ms(best_pace(changed))} '
            f"instead of {in_ms(run.pace)}: {_times(gain)}."
        )
    if jit >= MIN_GAIN:
        threads = count_of(max(run.threads, run.processors), "thread")
        text += (
            f" jit=True, where Numba can compile it, would run it on {threads} without the interpreter: {_times(jit)}, and more "
            "by what compiling itself saves."
        )
    gains = [gain] * ("processes" in step.ways) + [jit] * ("jit" in step.ways)
    if max(gains, default=0.0) >= MIN_GAIN:
        figures = {"pace": run.pace, "kept": share, "idle": idle, "processes": best_pace(changed)}
        if jit:
            figures["jit"] = run.pace / jit
        yield Advice("gil", text, step.title, max(gains), figures)


def _one_after_another(run: Statistics, step: StepFigures) -> Iterator[Advice]:
    """A serial function that may leave the interpreter free."""
    unknown = step.kept is None and step.busy >= COMPUTING_SHARE * step.seconds
    workers = max(run.workers, run.processors)
    more = "" if run.threads >= run.processors else f" with num_threads={run.processors}"
    ways = {
        "threads": (f'parallel="threads"{more}', lambda: on_threads(run, step)),
        "processes": (f'parallel="processes" with py_num_workers={workers}', lambda: in_processes(run, step)),
        "jit": (f"jit=True{more}", lambda: on_threads(run, step, free=True)),
    }
    wanted = ["threads"] if not unknown and "threads" in step.ways else ["threads", "processes", "jit"]
    gains = {}
    for way in wanted:
        if way in step.ways:
            name, change = ways[way]
            gains[name] = run.pace / best_pace(change())
    gains = {name: gain for name, gain in gains.items() if gain >= MIN_GAIN}
    if not gains:
        return
    given = ", ".join(
        f"{name} a batch every {in_ms(run.pace / gain)} instead of {in_ms(run.pace)} ({_times(gain)})"
        for name, gain in gains.items()
    )
    why = f"it is busy {step.busy / max(step.seconds, 1e-9):.0%} of its time"
    if step.kept is not None:
        why += f" and keeps the interpreter {step.kept / max(step.busy, 1e-9):.0%} of that"
    ask = (
        (
            " Threads help only if it leaves the interpreter free, as NumPy does in large arrays: run it inside `with "
            "pipe.measure():` to know."
        )
        if unknown
        else ""
    )
    yield Advice(
        "serial",
        f"{step.title} is called one sample after another while the pool's {count_of(run.threads, 'thread')} idle "
        f"{_idle(run):.0%} of the time ({why}). If its calls do not depend on each other, this would give: {given}.{ask}",
        step.title,
        max(gains.values()),
        {"pace": run.pace, "idle": _idle(run), **{name: run.pace / gain for name, gain in gains.items()}},
    )


def _source(run: Statistics, step: StepFigures) -> Iterator[Advice]:
    if "parallel" not in step.ways:
        return
    changed = in_processes(run, step)
    gain = run.pace / best_pace(changed)
    if gain >= MIN_GAIN:
        yield Advice(
            "source",
            f"{step.title} asks its source for one sample after another, {in_ms(run.per_batch(step.seconds))} a batch. "
            f"parallel=True asks in worker processes: with py_num_workers={changed.workers} a batch every "
            f"{in_ms(best_pace(changed))} instead of {in_ms(run.pace)}: {_times(gain)}",
            step.title,
            gain,
            {"pace": run.pace, "in it": run.per_batch(step.seconds), "estimate": best_pace(changed)},
        )


def _few_workers(run: Statistics, step: StepFigures) -> Iterator[Advice]:
    changed = replace(run, workers=run.processors)
    gain = run.pace / best_pace(changed)
    if run.workers < run.processors and gain >= MIN_GAIN:
        yield Advice(
            "workers_few",
            f"py_num_workers={run.workers} is too few: {step.title} is at work in the workers all the time, and there are "
            f"{run.processors} processors. py_num_workers={run.processors} would give a batch every {in_ms(best_pace(changed))} "
            f"instead of {in_ms(run.pace)}: {_times(gain)}",
            step.title,
            gain,
            {"pace": run.pace, "workers": run.workers, "processors": run.processors, "estimate": best_pace(changed)},
        )


def _few_threads(run: Statistics) -> Iterator[Advice]:
    inside = sum(step.seconds for step in run.steps if step.role != "processes")
    occupied = inside / max(run.seconds * run.threads, 1e-9)
    if occupied < SATURATED_SHARE:
        return
    queued = min(run.queued or 0.0, inside)  # more threads do not help threads that wait for a processor
    own = inside - queued
    others = {name: pace for name, pace in limits(run).items() if name != "threads"}
    at_once = int(run.depth * run.samples / max(run.batches, 1))  # samples in flight
    wanted = min(MOST_THREADS, at_once, math.ceil(run.per_batch(own) / max(*others.values(), 1e-9) - 1e-6))
    estimate = max(*others.values(), run.per_batch(own) / max(wanted, 1) + run.per_batch(queued) / run.threads)
    gain = run.pace / max(estimate, 1e-9)
    if wanted <= run.threads or gain < MIN_GAIN:
        return
    busy = sum(step.busy for step in run.steps if step.role != "processes") / max(inside, 1e-9)
    yield Advice(
        "threads_few",
        f"num_threads={run.threads} is too few: the threads are at work {min(occupied, 1.0):.0%} of the time and on a "
        f"processor {busy:.0%} of that; there are {run.processors} processors. num_threads={wanted} would give a batch every "
        f"{in_ms(estimate)} instead of {in_ms(run.pace)}: {_times(gain)}",
        gain=gain,
        figures={"pace": run.pace, "occupied": occupied, "busy": busy, "threads": wanted, "estimate": estimate},
    )


# ----------------------------------------------------------------------------------------------------
# A loop that does not wait, and settings that are too large or too small for any loop


def _fed(run: Statistics) -> Iterator[Advice]:
    own = run.per_batch(run.seconds - run.waited)
    possible = max(pace for name, pace in limits(run).items() if name != "loop")
    waits = run.exposed_wait
    if not run.synchronous and (not waits.is_bottleneck or possible <= PIPELINE_WAITS_SHARE * run.pace):
        yield Advice(
            "consumer",
            f"{NOT_THE_BOTTLENECK}: the loop takes {in_ms(own)} a batch of its own and waits "
            f"{in_ms(run.per_batch(run.waited))} ({waits.share:.1%} of a step); the pipeline could give one "
            f"every {in_ms(possible)}. Nothing in the pipeline would make it faster",
            figures={"pace": run.pace, "loop": own, "waited": run.per_batch(run.waited), "pipeline": possible},
        )
    if run.ready is not None and run.depth >= 4 and run.ready >= 2:
        enough = max(2, run.depth - run.ready + 1)
        if enough < run.depth:
            yield Advice(
                "prefetch_large",
                f"prefetch_queue_depth={run.depth} is more than is used: whenever a batch was asked for, at least {run.ready} "
                f"stood ready. {enough} would do the same with {count_of(run.depth - enough, 'batch', 'batches')} less in memory",
                figures={"depth": run.depth, "ready": run.ready, "enough": enough},
            )


def _too_many_threads(run: Statistics) -> Iterator[Advice]:
    if run.threads <= run.processors or run.synchronous:
        return
    inside = [step for step in run.steps if step.role != "processes"]
    seconds, busy = sum(step.seconds for step in inside), sum(step.busy for step in inside)
    queued = (run.queued or 0.0) / max(seconds, 1e-9)
    if (
        queued >= 0.25
        and seconds >= SATURATED_SHARE * run.seconds * run.processors
        and busy >= SATURATED_SHARE * (seconds - (run.queued or 0.0))
    ):
        yield Advice(
            "threads_many",
            f"num_threads={run.threads} is too many for {count_of(run.processors, 'processor')}: threads that had work waited "
            f"for a processor {queued:.0%} of the time. num_threads={run.processors} does the same work with less switching",
            figures={"threads": run.threads, "processors": run.processors, "queued": queued},
        )
    elif run.peak and run.peak <= run.threads // 2 and run.waited < LOOP_STARVED_SHARE * run.seconds:
        enough = max(run.peak, 1)
        yield Advice(
            "threads_many",
            f"num_threads={run.threads} is more than is used: never more than {run.peak} had work at the same time, on average "
            f"{seconds / max(run.seconds, 1e-9):.1f}. num_threads={enough} would do the same",
            figures={"threads": run.threads, "peak": run.peak, "mean": seconds / max(run.seconds, 1e-9)},
        )


def _hints(run: Statistics) -> Iterator[Advice]:
    for step in run.steps:
        for output, (hint, largest) in enumerate(zip(step.hint, step.largest)):
            if 0 < hint < largest:
                where = f" for output {output}" if len(step.hint) > 1 else ""
                yield Advice(
                    "hint",
                    f"bytes_per_sample_hint={hint} of {step.title}{_at(step)} is too small{where}: its largest sample has "
                    f"{largest} bytes. With {largest} the memory of all batches in flight is there from the start",
                    step.title,
                    figures={"hint": hint, "largest": largest},
                )


def _idle(run: Statistics) -> float:
    """The share of the time in which the pool's threads have nothing to do."""
    inside = sum(step.seconds for step in run.steps if step.role != "processes")
    return max(0.0, 1 - inside / max(run.seconds * run.threads, 1e-9))


def _at(step: StepFigures) -> str:
    return f" at {step.where}" if step.where else ""


def _times(gain: float) -> str:
    return f"{gain:.1f} times as many batches"


__all__ = ["Advice", "Statistics", "StepFigures", "advise", "best_pace", "limits"]
