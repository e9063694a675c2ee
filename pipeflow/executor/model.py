"""A model of a run: how often batches would come with other settings.

The executor is simulated event by event with the measured times of its parts. There is no randomness: equal figures give equal
predictions. Words:

- A *part* is a stage of the plan: its work for a batch is done by one thread (`source`, `serial`), by the pool's threads, which
  share the samples (`pool`), or by worker processes (`processes`).
- A second of work has three shares: it *holds* the interpreter, computes *free* of it, or *waits* without a processor.
- Work that runs at the same time shares the processors and the interpreter. Each unit gets the same amount of processor time, and
  none gets more than it can use.

Waiting that the simulation of the measured run explains (for a processor, for the interpreter) is not part of the work. What
remains unexplained in that run is a factor for all predictions. No prediction needs more processors than there are.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from pipeflow.executor.figures import StageFigures, Statistics, StepFigures, in_ms

SIMULATED = 48  # batches that are counted
REPEATED = 64  # the last measured batches, which are repeated in turn: more of them predict nothing better
CHUNK_SECONDS = 2e-3  # of the samples that a thread takes at once, as in the executor
WORKER_CHUNK_SECONDS = 8e-3  # the same for a worker process
SENDING_SECONDS = 4e-4  # of a thread for a batch that goes to worker processes and comes back
WORKER_CHUNK_COST = 2e-4  # of a worker process for a chunk
MORE_AHEAD = 2  # batches ahead for worker processes, as in the executor
UNEXPLAINED = 0.5, 5.0  # limits of the factor for what the simulation of the measured run does not explain
QUEUED_SHARE = 0.25  # if threads wait for a processor this share of the time, they get no more processors
EXPLAINED = 0.05  # share of the time of a part: a smaller difference is not fitted
FITTING = 6  # simulations of the measured run to find out how much of the waiting they explain
# The time that work loses, measured on machines with two processors: for each turn if it takes turns on a processor; and if work
# on all other processors, outside the interpreter, uses caches and memory.
SWITCHING = 0.09
NEIGHBOURS = 0.16
CONTENTION = 0.3  # if the measured run does not show it
MOST_CONTENTION = 4.0
CALL_SECONDS = 5e-6  # for each sample if a function is not called in a loop over the batch, in the interpreter
KEPT_SECONDS = (
    8e-5,
    3e-5,
)  # for a sample of 100 kB that a cache keeps: on a processor, and of that with the interpreter held
PYTHON_SECONDS = 6e-6  # for each sample and step of an operator, with the interpreter held, if this was not measured
Work = tuple[float, float, float]  # seconds: all, of that on a processor, of that with the interpreter held


class Workload:
    """The work of a part from the first to the last sample of each measured batch, which are repeated in turn."""

    def __init__(self, batches: Sequence[Sequence[tuple[float, float, float]]]) -> None:
        """For each batch its chunks: samples, seconds, and seconds on a processor."""
        self._batches = []
        for chunks in batches:
            samples = sum(chunk[0] for chunk in chunks) or 1
            self._batches.append(
                [[0.0, *accumulate(chunk[i] / (samples, 1, 1)[i] for chunk in chunks)] for i in range(3)]
            )
        self.seconds, self.busy = (
            sum(workload[i][-1] for workload in self._batches) / max(1, len(self._batches)) for i in (1, 2)
        )

    def __len__(self) -> int:
        return len(self._batches)

    def scaled(self, factor: float) -> "Course":
        """The same course with all seconds multiplied by a factor."""
        result = Course(())
        result._batches = [[x[0], *([factor * y for y in row] for row in x[1:])] for x in self._batches]
        result.seconds, result.busy = factor * self.seconds, factor * self.busy
        return result

    def between(self, batch: int, begin: float, end: float) -> tuple[float, float]:
        """Seconds, and seconds on a processor, of the samples from one share of a batch to another."""
        workload = self._batches[batch % len(self._batches)]
        if begin <= 0 and end >= 1:
            return workload[1][-1], workload[2][-1]
        (one, busy), (other, until) = _at(workload, begin), _at(workload, end)
        return other - one, until - busy


def _at(workload: Sequence[Sequence[float]], place: float) -> tuple[float, float]:
    places, seconds, busy = workload
    after = min(max(bisect_right(places, place), 1), len(places) - 1)
    width = places[after] - places[after - 1]
    share = (place - places[after - 1]) / width if width > 0 else 1.0
    return (
        seconds[after - 1] + share * (seconds[after] - seconds[after - 1]),
        busy[after - 1] + share * (busy[after] - busy[after - 1]),
    )


@dataclass(frozen=True)
class Part:
    """A stage as it is simulated."""

    role: str
    workload: Workload
    busy: float = 1.0  # factor of its processor time
    waits: float = 1.0  # factor of its time without a processor: the part that other threads do not explain
    held: float = 0.0  # share of its processor time
    sending: float = 0.0  # seconds of a thread for a batch that worker processes compute
    memory: float = 1.0  # share of its processor time that other work slows down: the part outside the interpreter

    def work(self, batch: int, begin: float = 0.0, end: float = 1.0) -> Work:
        """The work on the samples from one share of a batch to another."""
        return self._work(*self.workload.between(batch, begin, end))

    def _work(self, seconds: float, on_processor: float) -> Work:
        waits = max(0.0, seconds - on_processor) * self.waits
        busy = min(on_processor, seconds) * self.busy
        return busy + waits, busy, self.held * busy

    @property
    def mean(self) -> Work:
        """The work on a batch."""
        return self._work(self.workload.seconds, self.workload.busy)


@dataclass(frozen=True)
class Scene:
    """Everything that a simulation needs to know."""

    parts: tuple[Part, ...]
    loop: Workload  # the consumer's own time from batch to batch
    threads: int
    workers: int
    depth: int
    batch_size: float
    processors: float
    others: float = 0.0  # processors that other programs use
    synchronous: bool = False
    loop_held: float = 0.0
    contention: float = 0.0  # what work loses when it takes the interpreter from other work


class _Batch:
    __slots__ = ("claimed", "cursor", "left", "number", "stage")

    def __init__(self, number: int) -> None:
        self.number = number
        self.stage = 0
        self.enter()

    def enter(self) -> None:
        self.cursor, self.left, self.claimed = 0.0, 1.0, False


class _Unit:
    """Work in progress, by a thread, a worker process or the loop."""

    __slots__ = ("batch", "held", "kind", "left", "load", "memory", "rate", "share")

    def __init__(self, kind: str, work: Work, memory: float, batch: "_Batch | None" = None, share: float = 0.0) -> None:
        self.kind, self.batch, self.share = kind, batch, share
        seconds, busy, held = work
        self.left = max(seconds, 1e-9)
        self.load, self.held = busy / self.left, held / self.left
        self.memory = memory * self.load
        self.rate = 1.0


def _share(wanted: Sequence[float], capacity: float) -> float:
    """The most that each gets if they share a capacity evenly; infinite if there is enough for all."""
    if sum(wanted) <= capacity + 1e-12:
        return float("inf")
    left, count = capacity, len(wanted)
    for one in sorted(wanted):
        if one * count > left:
            break
        left -= one
        count -= 1
    return left / count


def _set_rates(units: Sequence[_Unit], processors: float, others: float, contention: float) -> None:
    if others > 0:  # other programs keep the processors they use, unless the system divides them between programs
        wanted = sum(unit.load for unit in units)
        processors = max(processors - others, processors * wanted / (wanted + others) if wanted else 0.0)
    held, all_held = _share([unit.held for unit in units], 1.0), sum(unit.held for unit in units)
    for unit in units:
        unit.rate = 1.0 if unit.held <= held else held / unit.held
        taken = 4 * unit.held * (1 - unit.held)  # work that always holds the interpreter rarely takes it
        unit.rate /= 1 + contention * taken * min(1.0, all_held - unit.held)
    wanted = sum(unit.load * unit.rate for unit in units)
    load = _share([unit.load * unit.rate for unit in units], processors)
    switching = 1 + SWITCHING * max(0.0, wanted / processors - 1)
    neighbours = NEIGHBOURS * max(0.0, 1 - 1 / max(1.0, min(wanted, processors)))
    for unit in units:
        if unit.load * unit.rate > load:
            unit.rate = load / unit.load
        unit.rate /= 1 + unit.load * (switching - 1) + unit.memory * neighbours


@dataclass
class Outcome:
    """The counts of a simulation, for each batch."""

    pace: float = 0.0
    inside: list[float] = field(default_factory=list)  # seconds that each part took, summed over its threads


class Simulation:
    """One run of a scene."""

    def __init__(self, scene: Scene, counted: int = SIMULATED) -> None:
        self.scene = scene
        self.now = 0.0
        self.units: list[_Unit] = []
        self.ring: list[_Batch] = []
        self.jobs: deque[tuple[_Batch, float, Work]] = deque()  # chunks for worker processes
        self._idle_threads, self._idle_workers = (1 if scene.synchronous else scene.threads), max(1, scene.workers)
        self._scheduled = self._delivered = 0
        self._waiting = True  # the loop waits for a batch
        self._more = MORE_AHEAD if any(part.role == "processes" for part in scene.parts) else 0
        period = max([len(scene.loop), *(len(part.workload) for part in scene.parts)])
        self.first = 2 * scene.depth + self._more + 4
        self.last = self.first + period * max(1, round(counted / period))
        self.inside = [0.0] * len(scene.parts)

    def run(self) -> Simulated:
        """Simulates until enough batches are delivered."""
        begun, at_first = 0.0, list(self.inside)
        while True:
            before = self._delivered
            self._assign()
            if self._delivered != before:
                if self._delivered == self.first:
                    begun, at_first = self.now, list(self.inside)
                elif self._delivered == self.last:
                    break
            self._pass()
        count = self.last - self.first
        return Simulated((self.now - begun) / count, [(b - a) / count for a, b in zip(at_first, self.inside)])

    def _pass(self) -> None:
        """Advances the time until the next unit of work is done."""
        _set_rates(self.units, self.scene.processors, self.scene.others, self.scene.contention)
        step = min(unit.left / unit.rate for unit in self.units)
        self.now += step
        left = []
        over = []
        for unit in self.units:
            unit.left -= step * unit.rate
            if unit.batch is not None:
                self.inside[unit.batch.stage] += step
            if unit.left <= 1e-12:
                over.append(unit)
            else:
                left.append(unit)
        self.units = left
        for unit in over:
            self._end(unit)

    def _assign(self) -> None:
        scene = self.scene
        if self._waiting and self.ring and self.ring[0].stage == len(scene.parts):
            self.ring.pop(0)
            seconds, busy = scene.loop.between(self._delivered, 0.0, 1.0)
            self._delivered += 1
            self._waiting = False
            self.units.append(_Unit("loop", (seconds, busy, scene.loop_held * busy), 1 - scene.loop_held))
        ahead = 0 if scene.synchronous else scene.depth - 1
        if self._waiting:
            ahead += 1
        if ahead > 1:
            ahead += self._more
        while len(self.ring) < ahead:
            self.ring.append(_Batch(self._scheduled))
            self._scheduled += 1
        while self._idle_threads and self._claim():
            self._idle_threads -= 1
        while self._idle_workers and self.jobs:
            batch, share, work = self.jobs.popleft()
            self._idle_workers -= 1
            memory = scene.parts[batch.stage].memory
            self.units.append(_Unit("worker", work, memory, batch, share))

    def _claim(self) -> bool:
        """Lets a thread take the oldest work."""
        parts = self.scene.parts
        passed = len(parts)
        for batch in self.ring:
            if batch.stage == len(parts):
                continue
            part = parts[batch.stage]
            if part.role == "pool":
                if batch.cursor < 1 - 1e-9:
                    self._claim_chunk(batch, part)
                    return True
            elif not batch.claimed and (part.role == "processes" or passed > batch.stage):
                batch.claimed = True
                sending = part.sending
                work = (sending, sending, sending) if part.role == "processes" else part.work(batch.number)
                self.units.append(_Unit("thread", work, part.memory, batch, 1.0))
                return True
            passed = min(passed, batch.stage)
        return False

    def _claim_chunk(self, batch: _Batch, part: Part) -> None:
        left, threads = 1 - batch.cursor, 1 if self.scene.synchronous else self.scene.threads
        worth = CHUNK_SECONDS / max(part.mean[0], 1e-9) + 1 / self.scene.batch_size
        share = min(worth, left / (2 * threads) + 1e-9 if threads > 1 else left)
        samples = max(1, round(share * self.scene.batch_size))
        end = min(1.0, batch.cursor + samples / self.scene.batch_size)
        end = 1.0 if end > 1 - 0.5 / self.scene.batch_size else end
        work = part.work(batch.number, batch.cursor, end)
        self.units.append(_Unit("thread", work, part.memory, batch, end - batch.cursor))
        batch.cursor = end

    def _end(self, unit: _Unit) -> None:
        batch = unit.batch
        if batch is None:
            self._waiting = True
            return
        part = self.scene.parts[batch.stage]
        if unit.kind == "worker":
            self._idle_workers += 1
            batch.left -= unit.share
        else:
            self._idle_threads += 1
            if part.role == "processes":
                self._send(batch, part)
                return
            batch.left -= unit.share
        if batch.left <= 1e-9:
            batch.stage += 1
            batch.enter()

    def _send(self, batch: _Batch, part: Part) -> None:
        size, workers = self.scene.batch_size, max(1, self.scene.workers)
        share = -(-size // workers)
        rounds = max(1, round(share * part.mean[0] / size / WORKER_CHUNK_SECONDS))
        chunk = max(1.0, -(-share // rounds)) / size
        begin = 0.0
        while begin < 1 - 1e-9:
            end = min(1.0, begin + chunk)
            end = 1.0 if end > 1 - 0.5 / size else end
            seconds, busy, _ = part.work(batch.number, begin, end)
            work = (seconds + WORKER_CHUNK_COST, busy + WORKER_CHUNK_COST, 0.0)
            self.jobs.append((batch, end - begin, work))
            begin = end


@dataclass(frozen=True)
class Changes:
    """Other settings than those of the measured run; None: the same. Steps are given by their places in ``Statistics.steps``."""

    threads: int | None = None
    workers: int | None = None
    depth: int | None = None
    batch_size: int | None = None
    synchronous: bool | None = None
    ways: Mapping[int, str] = field(default_factory=dict)  # "serial", "threads", "processes" or "jit"
    speeds: Mapping[int, float] = field(default_factory=dict)  # the factor by which a step is faster
    spared: frozenset[int] = frozenset()  # steps that do not run because a cache keeps their results
    kept: int | None = None  # the one of these whose samples the cache keeps: they are read instead
    loop: float = 1.0  # factor of the loop's own time


@dataclass(frozen=True)
class Prediction:
    """The expected speed."""

    pace: float  # seconds from batch to batch
    samples_per_second: float

    def __str__(self) -> str:
        return f"a batch every {in_ms(self.pace)}, {self.samples_per_second:.4g} samples/s"


class Model:
    """What is known from one measured run, and the predictions that follow from it."""

    def __init__(self, run: Statistics) -> None:
        self.run = run
        self._waits = [1.0] * len(run.steps)
        self._known: dict[object, Prediction] = {}
        self.factor = 1.0
        self._keeping = 0.0  # share of the other processor time of Python functions that also keeps the interpreter
        self._contention = CONTENTION
        self._overhead = 0.0  # processor seconds of this process for a batch, outside of all steps and the loop
        if run.used and not run.synchronous:
            inside = sum(step.busy for step in run.steps if step.role != "processes")
            loops = sum(busy for _, busy in run.loops) / max(1, len(run.loops))
            self._overhead = max(0.0, run.per_batch(run.used - inside) - loops)
        self._fit()

    def predict(self, changes: Changes = Changes()) -> Prediction:
        """The speed with other settings."""
        key = (
            changes.threads, changes.workers, changes.depth, changes.batch_size, changes.synchronous,
            tuple(sorted(changes.ways.items())), tuple(sorted(changes.speeds.items())), changes.spared, changes.kept,
            changes.loop,
        )  # fmt: skip
        if key not in self._known:
            scene = self._scene(changes)
            pace = max(Simulation(scene).run().pace * self.factor, self._least(scene))
            self._known[key] = Prediction(pace, scene.batch_size / pace)
        return self._known[key]

    def limits(self) -> list[tuple[float, int]]:
        """For each step the time from batch to batch that would be saved if it were a fifth faster; the largest first."""
        pace = self.predict().pace
        saved = []
        for place in range(len(self.run.steps)):
            faster = self.predict(Changes(speeds={place: 1.25})).pace
            saved.append((pace - faster, place))
        return sorted(saved, key=lambda pair: (-pair[0], -self.run.steps[pair[1]].busy))

    def _least(self, scene: Scene) -> float:
        """The least time for a batch: its processor time divided by all processors."""
        busy = sum(part.mean[1] for part in scene.parts) + scene.loop.busy + self._overhead
        return max(busy / max(self.run.processors, 1), 1e-9)

    def _fit(self) -> None:
        """Finds the part of the waiting that the simulation explains, and the part that it does not explain."""
        run = self.run
        if not run.steps:
            return
        waiting = sum(step.waited for step in run.steps if step.role != "processes")
        most = 1.0 - min(1.0, (run.queued or 0.0) / waiting) if waiting > 0 else 1.0
        # From none upwards: if threads that wait for each other explain all of it, nothing else is assumed.
        self._waits = [1.0 if step.role == "processes" else 0.0 for step in run.steps]
        parts, places = self._parts(Changes())
        simulated = Simulation(self._scene(Changes())).run()
        tried = dict.fromkeys(range(len(parts)), 0.0)  # the share that was added last, 0 once a part is settled
        for _ in range(FITTING):
            for number, (part, inside) in enumerate(zip(parts, simulated.inside)):
                waits, missing = part.workload.seconds - part.workload.busy, part.workload.seconds - inside
                settled = part.role == "processes" or waits <= 1e-9 or abs(missing) <= EXPLAINED * part.workload.seconds
                tried[number] = 0.0 if settled else missing / waits
            if not any(tried.values()):
                break
            before, waits_before = simulated, list(self._waits)
            added = 0.0
            for number, share in tried.items():
                added += share * (parts[number].workload.seconds - parts[number].workload.busy)
                for place in places[number]:
                    self._waits[place] = min(most, max(0.0, self._waits[place] + share))
            simulated = Simulation(self._scene(Changes())).run()
            if sum(simulated.inside) - sum(before.inside) < 0.2 * added:
                self._waits, simulated = waits_before, before  # the threads wait for each other: more changes nothing
                break
        simulated = self._fit_contention(self._fit_interpreter(simulated))
        if run.batches and simulated.pace > 0:
            self.factor = min(max(run.pace / simulated.pace, UNEXPLAINED[0]), UNEXPLAINED[1])

    def _fit_interpreter(self, simulated: Simulated) -> Simulated:
        """If batches came more slowly than simulated, functions probably keep the interpreter for longer than a probe saw.

        A probe that waits between two functions cannot distinguish them.
        """
        run = self.run
        users = [step for step in run.steps if step.python and step.role != "processes"]
        if len(users) < 2 or simulated.pace >= (1 - EXPLAINED) * run.pace:
            return simulated
        low, high, found = 0.0, 1.0, simulated
        for _ in range(FITTING - 1):
            self._keeping = (low + high) / 2 if found is not simulated else 1.0
            found = Simulation(self._scene(Changes())).run()
            low, high = (self._keeping, high) if found.pace < run.pace else (low, self._keeping)
        return found

    def _fit_contention(self, simulated: Simulated) -> Simulated:
        """If the simulated pace is not the measured one, threads lose more or less by taking the interpreter from each other."""
        low, high = 0.0, MOST_CONTENTION
        for _ in range(FITTING):
            if abs(simulated.pace - self.run.pace) <= EXPLAINED * self.run.pace:
                break
            before = self._contention
            low, high = (before, high) if simulated.pace < self.run.pace else (low, before)
            self._contention = (low + high) / 2
            found = Simulation(self._scene(Changes())).run()
            if abs(found.pace - simulated.pace) < 0.01 * EXPLAINED * simulated.pace:
                self._contention = CONTENTION  # this run has none
                break
            simulated = found
        return simulated

    def _scene(self, changes: Changes) -> Scene:
        run = self.run

        def chosen(new: int | None, old: int) -> int:
            return old if new is None else new

        parts, _ = self._parts(changes)
        measured = run.samples / max(run.batches, 1)
        size = measured if changes.batch_size is None else changes.batch_size
        own = run.per_batch(max(0.0, run.seconds - run.waited))
        loop = Workload([[(1, seconds, busy)] for seconds, busy in run.loops[-REPEATED:] or [(own, 0.0)]])
        if changes.loop != 1:
            loop = loop.scaled(changes.loop)
        if size != measured:
            ratio = size / max(measured, 1e-9)
            parts = [replace(part, workload=part.workload.scaled(ratio)) for part in parts]
        return Scene(
            tuple(parts),
            loop,
            chosen(changes.threads, run.threads),
            chosen(changes.workers, run.workers),
            chosen(changes.depth, run.depth),
            max(size, 1),
            self._processors(),
            min(run.others, run.processors),
            run.synchronous if changes.synchronous is None else changes.synchronous,
            contention=self._contention,
        )

    def _processors(self) -> float:
        """The number of processors that the threads got when they wanted more; all processors if they never waited for one."""
        run = self.run
        queued = (run.queued or 0.0) / max(run.seconds * run.threads, 1e-9)
        if queued < QUEUED_SHARE:
            return run.processors
        got = sum(step.busy for step in run.steps if step.role != "processes") / max(run.seconds, 1e-9)
        return min(run.processors, max(got / min(queued, 1.0), 0.01))

    def _parts(self, changes: Changes) -> tuple[list[Part], list[list[int]]]:
        """The parts with some steps in another way, and the steps of each part."""
        run, parts, places = self.run, [], []
        for stage in run.stages or _stages_of(run):
            workload = Workload(stage.batches[-REPEATED:])
            for role, members in _by_role(stage.role, stage.steps, changes.ways):
                parts.append(self._part(workload, role, stage.steps, members, changes, stage.sending))
                places.append(members)
        return parts, places

    def _part(
        self,
        workload: Workload,
        role: str,
        steps: Sequence[int],
        members: Sequence[int],
        changes: Changes,
        sending: float,
    ) -> Part:
        run = self.run
        all_busy = sum(run.steps[place].busy for place in steps)
        all_waits = sum(run.steps[place].waited for place in steps)
        busy = waits = held = kept = 0.0
        for place in members:
            step = run.steps[place]
            if place == changes.kept:
                read, reading = (seconds * run.samples for seconds in KEPT_SECONDS)
                busy, held, kept = busy + read, held + reading, kept + reading
            if place in changes.spared:
                continue
            speed = changes.speeds.get(place, 1.0)
            busy += step.busy / speed
            waits += step.waited * self._waits[place] / speed
            if role == "pool" and step.role == "serial":
                apart = CALL_SECONDS * run.samples
                busy, held, kept = busy + apart, held + apart, kept + apart
            kept += self._held(step) / speed
            if changes.ways.get(place) != "jit":
                held += self._held(step) / speed
        new = SENDING_SECONDS if role == "processes" and not sending else sending
        return Part(
            role,
            workload,
            busy / all_busy if all_busy > 0 else 0.0,
            waits / all_waits if all_waits > 0 else 0.0,
            min(1.0, held / busy) if busy > 0 else 0.0,
            new,
            1.0 - min(1.0, kept / busy) if busy > 0 else 0.0,
        )

    def _held(self, step: StepFigures) -> float:
        """Seconds that a step keeps the interpreter; a function for which this was not measured keeps it all the time."""
        if step.kept is not None:
            kept = min(step.kept, step.busy)
            return kept + self._keeping * (step.busy - kept) if step.python else kept
        return step.busy if step.python else min(step.busy, PYTHON_SECONDS * self.run.samples)


def _by_role(role: str, steps: Sequence[int], ways: Mapping[int, str]) -> Iterator[tuple[str, list[int]]]:
    """The steps of a stage, divided where one of them runs in another way."""
    roles = {"threads": "pool", "jit": "pool", "processes": "processes", "serial": "serial"}
    members: list[int] = []
    current = role
    for place in steps:
        own = roles.get(ways.get(place, ""), role)
        if members and own != current:
            yield current, members
            members = []
        current = own
        members.append(place)
    if members:
        yield current, members


def _stages_of(run: Statistics) -> Iterable[StageFigures]:
    """A stage for each step, with equal times for all batches; for figures without the times of single batches."""
    for place, step in enumerate(run.steps):
        work = (max(1, round(run.samples / max(run.batches, 1))), run.per_batch(step.seconds), run.per_batch(step.busy))
        yield StageFigures(step.role, (place,), ((work,),))
