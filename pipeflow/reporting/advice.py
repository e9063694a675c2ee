"""Advice from measured figures: the step that limits a pipeline, and the changes that would help, with their gain.

This module computes advice from figures; it does not run, read or change a pipeline. Words:

- A step is *busy* while it is on a processor, and *waits* while it is not (for data, for a processor, for the GIL). It *keeps
  the interpreter* while it holds the GIL, so that no other thread of the process can run Python code.
- The *pace* is the time from batch to batch. The pace after a change is predicted by a simulation of the executor with the
  measured times (``executor/simulation.py``).
- The step that *bounds* the pipeline is the one that makes the pipeline fastest if it takes a little less time. A step that
  only waits for others makes no difference.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pipeflow.errors import count_of
from pipeflow.executor.figures import NOT_THE_BOTTLENECK, STARVED_SHARE, Statistics, StepFigures, in_ms
from pipeflow.executor.model import Changes, Model, Prediction

# Shares of the time from batch to batch, and factors between two paces.
LOOP_FED_SHARE = 0.1  # if a loop waits less than this, its pipeline does not limit it
SATURATED_SHARE = 0.75  # a part that works longer than this sets the pace
MIN_GAIN = 1.15  # advice is given only if the gain is at least this
ENOUGH = 1.03  # of the best pace: the smallest number of threads or batches with it is proposed
GIL_BOUND_SHARE = 0.35  # of its busy time: a function that keeps the interpreter longer cannot share it
COMPUTING_SHARE = 0.3  # of its time: a function that is busy for less than this mostly waits
SMALL_SHARE = 0.05  # of the time: less is not worth a word
MOST_THREADS = 32
WAYS = {
    "serial": "serial",
    "threads": "pool",
    "processes": "processes",
}  # values of ``parallel`` and the roles of such steps
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
    if waited >= STARVED_SHARE:
        found += _starved(Model(run))
    elif waited < LOOP_FED_SHARE:
        found += _fed(Model(run))
    return [*found, *_too_many_threads(run), *_hints(run)]


def predicted(
    model: Model,
    *,
    num_threads: int | None = None,
    prefetch_queue_depth: int | None = None,
    py_num_workers: int | None = None,
    batch_size: int | None = None,
    parallel: "str | Mapping[str, str] | None" = None,
    jit: bool | Collection[str] = False,
    spared: Collection[str] = (),
    kept: str = "",
) -> Prediction:
    """The speed of a measured pipeline with other settings.

    ``parallel`` is for all its functions, or by their titles or names; ``jit`` for all or by their names. The steps named by
    ``spared`` do not run, because a cache keeps the samples of ``kept``, which is one of them.
    """
    ways: dict[int, str] = {}
    for place, step in enumerate(model.run.steps):
        way = parallel.get(step.name, parallel.get(step.title)) if isinstance(parallel, Mapping) else parallel
        if way is not None and step.python and (way == "serial" or way in step.ways or step.role == WAYS[way]):
            ways[place] = way
        if "jit" in step.ways and (jit is True or (jit and step.name in jit)):
            ways[place] = "jit"
    if any(way == "processes" for way in ways.values()) and py_num_workers is None:
        py_num_workers = max(1, model.run.workers)
    places = frozenset(place for place, step in enumerate(model.run.steps) if step.name in spared)
    read = next((place for place, step in enumerate(model.run.steps) if kept and step.name == kept), None)
    given = num_threads, py_num_workers, prefetch_queue_depth, batch_size
    return model.predict(Changes(*given, ways=ways, spared=places, kept=read))


# ----------------------------------------------------------------------------------------------------
# Predictions


def _in_processes(model: Model, place: int) -> Changes:
    """The step in as many worker processes as there are processors, or in those that there are."""
    return Changes(workers=max(model.run.workers, model.run.processors), ways={place: "processes"})


def _on_threads(model: Model, place: int, way: str = "threads") -> Changes:
    """The step on all threads, at least one for each processor; "jit": without the interpreter."""
    return Changes(threads=max(model.run.threads, model.run.processors), ways={place: way})


def keeps_interpreter(run: Statistics, step: StepFigures) -> bool:
    """True if a step is known to keep the interpreter most of the time."""
    # On several threads it mostly waits for itself; on a machine with other work it also waits for a processor.
    own = max(step.busy, min(step.seconds, run.seconds) - (run.queued or 0.0))
    return step.kept is not None and step.busy >= COMPUTING_SHARE * own and step.kept >= GIL_BOUND_SHARE * step.busy


# ----------------------------------------------------------------------------------------------------
# A loop that waits


def _starved(model: Model) -> Iterator[Advice]:
    run = model.run
    if run.synchronous:
        yield from _synchronous(model)
        return
    place = _bounding(model)
    if place is None:
        yield from [*_prefetch_small(model)] or _uneven(model)
        return
    step = run.steps[place]
    yield _bound(run, step)
    if step.role == "source":
        yield from _source(model, place)
    elif step.role == "processes":
        yield from _few_workers(model, step)
    elif step.python and keeps_interpreter(run, step):
        yield from _keeps_interpreter(model, place)
        return  # more threads would only wait for the interpreter
    elif step.role == "serial":
        yield from _one_after_another(model, place)
    yield from _few_threads(model)


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
    kept = f", holding the GIL for {in_ms(spent['gil'])} of that" if step.kept else ""
    return Advice(
        "bound",
        f"{step.title}{_at(step)} limits the speed: it takes {in_ms(spent['in it'])} for a batch{over.get(step.role, '')}, and a "
        f"batch comes every {in_ms(run.pace)} (busy {in_ms(spent['busy'])}{kept}; waiting {in_ms(spent['waits'])})",
        step.title,
        figures=spent,
    )


def _bounding(model: Model) -> int | None:
    """The place of the step that sets the pace; None if no thread, no worker and not the interpreter is always at work."""
    run = model.run
    serial = [step for step in run.steps if step.role in ("source", "serial")]
    inside = [step for step in run.steps if step.role != "processes"]
    outside = [step for step in run.steps if step.role == "processes"]
    keeping = [step for step in inside if keeps_interpreter(run, step)]
    saturated = (
        max((step.seconds for step in serial), default=0.0) >= SATURATED_SHARE * run.seconds
        or sum(step.seconds for step in outside) >= SATURATED_SHARE * run.seconds * max(1, run.workers)
        or sum(step.seconds for step in inside) >= SATURATED_SHARE * run.seconds * run.threads
        or sum(step.busy for step in keeping) >= SATURATED_SHARE * run.seconds
    )
    return model.limits()[0][1] if saturated and run.steps else None


def _synchronous(model: Model) -> Iterator[Advice]:
    run = model.run
    inside = run.per_batch(run.work)
    if run.steps:
        yield _bound(run, max(run.steps, key=lambda step: step.seconds))
    if run.one_at_a_time:
        return
    estimate = model.predict(Changes(synchronous=False)).pace
    gain = run.pace / estimate
    if gain >= MIN_GAIN:
        yield Advice(
            "synchronous",
            f"the loop waits while each batch is made, for {in_ms(inside)}. With exec_async=True and exec_pipelined=True (the "
            f"defaults) batches are made ahead, one every {in_ms(estimate)} instead of {in_ms(run.pace)}: {_times(gain)}",
            gain=gain,
            figures={"pace": run.pace, "pipeline": inside, "estimate": estimate},
        )


def _prefetch_small(model: Model) -> Iterator[Advice]:
    run = model.run
    wanted, estimate = _enough(
        {depth: model.predict(Changes(depth=depth)).pace for depth in (2 * run.depth, 4 * run.depth)}
    )
    gain = run.pace / estimate
    if gain >= MIN_GAIN:
        yield Advice(
            "prefetch_small",
            f"prefetch_queue_depth={run.depth} is too small: the loop waits {in_ms(run.per_batch(run.waited))} for a batch, "
            f"although no step and no thread works all the time. {wanted} would give a batch every {in_ms(estimate)} instead of "
            f"{in_ms(run.pace)}: {_times(gain)}",
            gain=gain,
            figures={"pace": run.pace, "waited": run.per_batch(run.waited), "depth": run.depth, "estimate": estimate},
        )


def _uneven(model: Model) -> Iterator[Advice]:
    """The step whose speed matters most, if nothing is always at work, and more batches ahead would not help."""
    run = model.run
    if not run.steps:
        return
    step = run.steps[model.limits()[0][1]]
    yield Advice(
        "bound",
        f"the loop waits {in_ms(run.per_batch(run.waited))} for a batch, although no step and no thread works all the time, and "
        f"more batches ahead would hardly help. The step that matters most is {step.title}{_at(step)}: it takes "
        f"{in_ms(run.per_batch(step.seconds))} for a batch",
        step.title,
        figures={"pace": run.pace, "waited": run.per_batch(run.waited), "in it": run.per_batch(step.seconds)},
    )


def _enough(paces: Mapping[int, float]) -> tuple[int, float]:
    """The smallest number with nearly the best pace, and that pace."""
    best = min(paces.values())
    return next((number, pace) for number, pace in sorted(paces.items()) if pace <= ENOUGH * best)


def _keeps_interpreter(model: Model, place: int) -> Iterator[Advice]:
    run, step = model.run, model.run.steps[place]
    idle = _idle(run)
    share = (step.kept or 0.0) / max(step.busy, 1e-9)
    if step.role == "serial":
        meanwhile = _while_idle(run)
    else:
        held = step.busy / max(step.seconds, 1e-9)
        meanwhile = f", so the threads that call it wait for each other, {1 - held:.0%} of their time in it"
    changed = _in_processes(model, place)
    estimate = model.predict(changed).pace
    gain = run.pace / estimate
    compiled = model.predict(_on_threads(model, place, "jit")).pace if "jit" in step.ways else run.pace
    jit = run.pace / compiled
    text = f"{step.title} holds the GIL for {share:.0%} of its busy time{meanwhile}."
    if "processes" in step.ways and gain >= MIN_GAIN:
        text += (
            f' parallel="processes" with py_num_workers={changed.workers} would give a batch every {in_ms(estimate)} '
            f"instead of {in_ms(run.pace)}: {_times(gain)}."
        )
    if jit >= MIN_GAIN:
        threads = count_of(max(run.threads, run.processors), "thread")
        text += (
            f" jit=True would run it on {threads} without the GIL, if Numba can compile it: {_times(jit)}, and more "
            "because compiled code is faster."
        )
    gains = [gain] * ("processes" in step.ways) + [jit] * ("jit" in step.ways)
    if max(gains, default=0.0) >= MIN_GAIN:
        figures = {"pace": run.pace, "kept": share, "idle": idle, "processes": estimate}
        if "jit" in step.ways:
            figures["jit"] = compiled
        yield Advice("gil", text, step.title, max(gains), figures)


def _one_after_another(model: Model, place: int) -> Iterator[Advice]:
    """A serial function that may leave the interpreter free."""
    run, step = model.run, model.run.steps[place]
    unknown = step.kept is None and step.busy >= COMPUTING_SHARE * step.seconds
    workers = max(run.workers, run.processors)
    more = "" if run.threads >= run.processors else f" with num_threads={run.processors}"
    ways = {
        "threads": (f'parallel="threads"{more}', _on_threads(model, place)),
        "processes": (f'parallel="processes" with py_num_workers={workers}', _in_processes(model, place)),
        "jit": (f"jit=True{more}, if Numba can compile it", _on_threads(model, place, "jit")),
    }
    if unknown:  # it may leave the interpreter free: the best case
        ways["threads"] = (ways["threads"][0], ways["jit"][1])
    wanted = ["threads"] if not unknown and "threads" in step.ways else ["threads", "processes", "jit"]
    gains = {}
    for way in wanted:
        if way in step.ways:
            name, change = ways[way]
            gains[name] = run.pace / model.predict(change).pace
    gains = {name: gain for name, gain in gains.items() if gain >= MIN_GAIN}
    if not gains:
        return
    given = "; or ".join(
        f"{name}, a batch every {in_ms(run.pace / gain)} instead of {in_ms(run.pace)} ({_times(gain)})"
        for name, gain in gains.items()
    )
    why = f"it is busy {step.busy / max(step.seconds, 1e-9):.0%} of its time"
    if step.kept is not None:
        why += f" and holds the GIL for {step.kept / max(step.busy, 1e-9):.0%} of that"
    ask = (
        (
            " Threads help only if it releases the GIL, as NumPy does on large arrays: run it inside `with "
            "pipe.measure():` to find out."
        )
        if unknown
        else ""
    )
    yield Advice(
        "serial",
        f"{step.title} is called for one sample after another{_while_idle(run)} ({why}). If its calls do not "
        f"depend on each other, this would help: {given}.{ask}",
        step.title,
        max(gains.values()),
        {"pace": run.pace, "idle": _idle(run), **{name: run.pace / gain for name, gain in gains.items()}},
    )


def _source(model: Model, place: int) -> Iterator[Advice]:
    run, step = model.run, model.run.steps[place]
    if "parallel" not in step.ways:
        return
    changed = _in_processes(model, place)
    estimate = model.predict(changed).pace
    gain = run.pace / estimate
    if gain >= MIN_GAIN:
        yield Advice(
            "source",
            f"{step.title} calls its source for one sample after another, {in_ms(run.per_batch(step.seconds))} for a batch. "
            f"parallel=True would call it in worker processes, and with py_num_workers={changed.workers} give a batch every "
            f"{in_ms(estimate)} instead of {in_ms(run.pace)}: {_times(gain)}",
            step.title,
            gain,
            {"pace": run.pace, "in it": run.per_batch(step.seconds), "estimate": estimate},
        )


def _few_workers(model: Model, step: StepFigures) -> Iterator[Advice]:
    run = model.run
    if run.workers >= run.processors:
        return
    estimate = model.predict(Changes(workers=run.processors)).pace
    gain = run.pace / estimate
    if gain >= MIN_GAIN:
        yield Advice(
            "workers_few",
            f"py_num_workers={run.workers} is too small: the workers run {step.title} all the time, and there are "
            f"{run.processors} processors. py_num_workers={run.processors} would give a batch every {in_ms(estimate)} "
            f"instead of {in_ms(run.pace)}: {_times(gain)}",
            step.title,
            gain,
            {"pace": run.pace, "workers": run.workers, "processors": run.processors, "estimate": estimate},
        )


def _few_threads(model: Model) -> Iterator[Advice]:
    run = model.run
    inside = sum(step.seconds for step in run.steps if step.role != "processes")
    occupied = inside / max(run.seconds * run.threads, 1e-9)
    at_once = min(MOST_THREADS, int(run.depth * run.samples / max(run.batches, 1)))  # samples in flight
    tried = {run.processors, *(run.threads << power for power in range(1, 6)), at_once}
    paces = {number: model.predict(Changes(threads=number)).pace for number in tried if run.threads < number <= at_once}
    if occupied < SATURATED_SHARE or not paces:
        return
    wanted, estimate = _enough(paces)
    gain = run.pace / estimate
    if gain < MIN_GAIN:
        return
    busy = sum(step.busy for step in run.steps if step.role != "processes") / max(inside, 1e-9)
    yield Advice(
        "threads_few",
        f"num_threads={run.threads} is too small: the threads have work {min(occupied, 1.0):.0%} of the time, and are on a "
        f"processor for {busy:.0%} of that; there are {run.processors} processors. num_threads={wanted} would give a batch "
        f"every {in_ms(estimate)} instead of {in_ms(run.pace)}: {_times(gain)}",
        gain=gain,
        figures={"pace": run.pace, "occupied": occupied, "busy": busy, "threads": wanted, "estimate": estimate},
    )


# ----------------------------------------------------------------------------------------------------
# A loop that does not wait, and settings that are too large or too small for any loop


def _fed(model: Model) -> Iterator[Advice]:
    run = model.run
    own = run.per_batch(run.seconds - run.waited)
    possible = model.predict(Changes(loop=0.0)).pace
    waits = run.exposed_wait
    if not run.synchronous and not waits.is_bottleneck:
        yield Advice(
            "consumer",
            f"{NOT_THE_BOTTLENECK}: the loop itself takes {in_ms(own)} for a batch, and waits "
            f"{in_ms(run.per_batch(run.waited))} ({waits.share:.1%} of a step); the pipeline could give a batch "
            f"every {in_ms(possible)}. A faster pipeline would not help",
            figures={"pace": run.pace, "loop": own, "waited": run.per_batch(run.waited), "pipeline": possible},
        )
    if run.ready is not None and run.depth >= 4 and run.ready >= 2:
        enough = max(2, run.depth - run.ready + 1)
        if enough < run.depth:
            yield Advice(
                "prefetch_large",
                f"prefetch_queue_depth={run.depth} is larger than needed: when the loop took a batch, at least {run.ready} "
                f"were ready. {enough} is enough, with {count_of(run.depth - enough, 'batch', 'batches')} less in memory",
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
            f"num_threads={run.threads} is too large for {count_of(run.processors, 'processor')}: threads with work waited "
            f"for a processor {queued:.0%} of the time. num_threads={run.processors} is enough",
            figures={"threads": run.threads, "processors": run.processors, "queued": queued},
        )
    elif run.peak and run.peak <= run.threads // 2 and run.waited < STARVED_SHARE * run.seconds:
        enough = max(run.peak, 1)
        yield Advice(
            "threads_many",
            f"num_threads={run.threads} is larger than needed: at most {run.peak} had work at the same time, on average "
            f"{seconds / max(run.seconds, 1e-9):.1f}. num_threads={enough} is enough",
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
                    f"{largest} bytes. With {largest}, the memory of all batches is allocated at the beginning",
                    step.title,
                    figures={"hint": hint, "largest": largest},
                )


def _idle(run: Statistics) -> float:
    """The share of the time in which the pool's threads have nothing to do."""
    inside = sum(step.seconds for step in run.steps if step.role != "processes")
    return max(0.0, 1 - inside / max(run.seconds * run.threads, 1e-9))


def _while_idle(run: Statistics) -> str:
    """``, while the 4 threads of the pipeline are idle 75% of the time``; "" if they are hardly ever idle."""
    idle = _idle(run)
    threads = "the thread of the pipeline is" if run.threads == 1 else f"the {run.threads} threads of the pipeline are"
    return f", while {threads} idle {idle:.0%} of the time" if idle >= SMALL_SHARE else ""


def _at(step: StepFigures) -> str:
    return f" at {step.where}" if step.where else ""


def _times(gain: float) -> str:
    return f"{gain:.1f} times as many batches"


__all__ = ["Advice", "Statistics", "StepFigures", "advise", "predicted"]
