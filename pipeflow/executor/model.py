"""A model of a run: how often batches would come with other settings, by ``simulation.py``.

Waiting that the simulation of the measured run explains (for a processor, for the interpreter) is not part of the work. What
remains unexplained in that run is a factor for all predictions. No prediction needs more processors than there are.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from pipeflow.executor.brisk import MOST_SECONDS
from pipeflow.executor.crowd import COMPUTING
from pipeflow.executor.figures import StageFigures, Statistics, StepFigures, in_ms
from pipeflow.executor.simulation import NEIGHBOURS, Part, Scene, Simulated, Simulation, Workload

BRIEF = (
    1e-3  # seconds from batch to batch: for quicker batches, the clocks of the measurement take a good part of the time
)
REPEATED = 64  # the last measured batches, which are repeated in turn: more of them predict nothing better
SENDING_SECONDS = 4e-4  # of a thread for a batch that goes to worker processes and comes back
WORKER_SECONDS = 1e-5, 5e-11  # of a worker process for each sample that it gets, and for each byte
UNEXPLAINED = 0.5, 5.0  # limits of the factor for what the simulation of the measured run does not explain
QUEUED_SHARE = 0.25  # if threads wait for a processor this share of the time, they get no more processors
REACHED = 0.98  # of the processors: no program keeps them busy all the time; the measured one may have done better
EXPLAINED = 0.05  # share of the time of a part: a smaller difference is not fitted
FITTING = 6  # simulations of the measured run to find out how much of the waiting they explain
# The time that work loses if it takes the interpreter from other work, and with each turn on a processor. These are for runs that
# do not show it.
CONTENTION, SWITCHING = 0.3, 0.09
MOST_CONTENTION, MOST_SWITCHING = 4.0, 2.0
CALL_SECONDS = 2e-6  # for each sample if a function is not called in a loop over the batch, in the interpreter
CHUNK_SECONDS = 1e-5  # the same for a chunk of samples
WORKER_CHUNK_COST = 1e-4  # the same if a worker process gets it
# The time that threads lose when they hand the interpreter over, measured on machines with two processors: a function that
# gives it back waits for it after each sample, and each call of an operator takes longer because the caches are cold.
HANDOVER_SECONDS = 2e-5
HANDOFF_SECONDS = 1.6e-5
# The part of the speed that threads which compute without the interpreter lose with each doubling of their number beyond the
# processors, if they only call functions, and if they also run operators.
TURNS, TURNS_OF_OPERATORS = 0.12, 0.45
RELEASES = 0.9  # share of its processor time: a function that keeps the interpreter for longer does not give it back
# For a sample of 100 kB that a cache keeps: on a processor, and of that with the interpreter held.
KEPT_SECONDS = 3e-5, 2e-5
PYTHON_SECONDS = 6e-6  # for each sample and step of an operator, with the interpreter held, if this was not measured


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
        self._loop_waits = 1.0
        self._known: dict[object, Prediction] = {}
        self.factor = 1.0
        self._plain = 1.0  # the part of the time that batches take without the clocks of the measurement
        if run.unmeasured is not None and run.pace < BRIEF:
            self._plain = min(1.0, run.unmeasured / run.pace)
        self._keeping = 0.0  # share of the other processor time of Python functions that also keeps the interpreter
        self._contention, self._switching = CONTENTION, SWITCHING
        self._overhead = 0.0  # processor seconds of this process for a batch, outside of all steps and the loop
        if run.used and not run.synchronous:
            inside = sum(step.busy for step in run.steps if step.role != "processes")
            loops = sum(busy for _, busy in run.loops) / max(1, len(run.loops))
            self._overhead = max(0.0, run.per_batch(run.used - inside) - loops)
        self._threads = run.threads
        self._threads = self._at_work(run.threads, self._parts(Changes())[0])  # those that worked at the same time
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
            pace = self._pace(scene, self._plain)
            if self._by_caller(changes) and pace > MOST_SECONDS:
                scene = self._scene(changes := replace(changes, synchronous=False))
                pace = self._pace(scene, 1.0)
            most = max(2, round(self.run.processors))
            # They also compute if they take turns. One thread has only the waits that more threads hide, none for other threads.
            if scene.threads > most and self._computes(parts := self._parts(changes, 1)[0]):
                fewer = self.predict(replace(changes, threads=most)).pace
                pace = max(pace, fewer * (1 + self._turns(parts) * math.log2(scene.threads / most)))
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

    def _pace(self, scene: Scene, plain: float) -> float:
        """Seconds of a batch. ``plain``: the part of them without the clocks of the measurement."""
        return max(plain * Simulation(scene).run().pace * self.factor, self._least(scene))

    def _turns(self, parts: Sequence[Part]) -> float:
        """The part of the speed that is lost with each doubling of the threads, because they take turns on the processors.

        A thread that has the interpreter and loses its processor stops the others. One that waits for the interpreter takes no
        processor from it. Operators take the interpreter several times for a sample.
        """
        inside = [part.mean for part in parts if part.role != "processes"]
        held = sum(work[2] for work in inside) / max(sum(work[1] for work in inside), 1e-9)
        operators = any(step.role == "pool" and not step.python for step in self.run.steps)
        return (1 - held) * (TURNS_OF_OPERATORS if operators else TURNS)

    def _least(self, scene: Scene) -> float:
        """The least time for a batch: its processor time divided by as many processors as a program gets."""
        busy = sum(part.mean[1] * self._slower(part) for part in scene.parts) + scene.loop.busy + self._overhead
        steps = self.run.steps
        outside = sum(step.busy for step in steps if step.role == "processes")
        reached = max(self.run.used + outside, sum(step.busy for step in steps)) / max(self.run.seconds, 1e-9)
        usable = max(1.0, min(self.run.processors, max(REACHED * self.run.processors, reached)))
        return max(busy / usable, 1e-9)

    def _slower(self, part: Part) -> float:
        """The factor of the processor time of a part if all processors work, and share caches and memory."""
        if not self.run.used:
            return 1.0
        working = max(1.0, self.run.used / max(self.run.seconds, 1e-9))
        all_, measured = (
            NEIGHBOURS * part.memory * (1 - 1 / count) for count in (max(working, self.run.processors), working)
        )
        return (1 + all_) / (1 + measured)

    def _fit(self) -> None:
        """Finds the part of the waiting that the simulation explains, and the part that it does not explain."""
        run = self.run
        if not run.steps:
            return
        waiting = sum(step.waited for step in run.steps if step.role != "processes")
        most = 1.0 - min(1.0, (run.queued or 0.0) / waiting) if waiting > 0 else 1.0
        # From none upwards: if threads that wait for each other explain all of it, nothing else is assumed.
        self._waits = [1.0 if step.role == "processes" else 0.0 for step in run.steps]
        self._loop_waits = 0.0
        parts, places = self._parts(Changes())
        scene = self._scene(Changes())
        simulated = Simulation(scene).run()
        works = [*((part.role, part.workload) for part in parts), ("loop", scene.loop)]
        tried = [0.0] * len(works)  # the share that was added last, 0 once a part is settled
        for _ in range(FITTING):
            for number, ((role, work), inside) in enumerate(zip(works, simulated.inside)):
                waits, missing = work.seconds - work.busy, work.seconds - inside
                settled = role == "processes" or waits <= 1e-9 or abs(missing) <= EXPLAINED * work.seconds
                tried[number] = 0.0 if settled else missing / waits
            if not any(tried):
                break
            before, waits_before = simulated, (list(self._waits), self._loop_waits)
            for number, share in enumerate(tried[:-1]):
                for place in places[number]:
                    self._waits[place] = min(most, max(0.0, self._waits[place] + share))
            self._loop_waits = min(1.0, max(0.0, self._loop_waits + tried[-1]))
            added = sum(share * (work.seconds - work.busy) for share, (_, work) in zip(tried, works))
            simulated = Simulation(self._scene(Changes())).run()
            if sum(simulated.inside) - sum(before.inside) < 0.2 * added:
                (self._waits, self._loop_waits), simulated = waits_before, before
                break  # they wait for each other: more changes nothing
        simulated = self._fit_interpreter(simulated)
        simulated = self._fit_loss("_contention", CONTENTION, MOST_CONTENTION, simulated)
        simulated = self._fit_loss("_switching", SWITCHING, MOST_SWITCHING, simulated)
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

    def _fit_loss(self, name: str, usual: float, most: float, simulated: Simulated) -> Simulated:
        """If the simulated pace is not the measured one, threads lose more or less than usual by taking the interpreter or the
        processors from each other.
        """
        low, high = 0.0, most
        for _ in range(FITTING):
            if abs(simulated.pace - self.run.pace) <= EXPLAINED * self.run.pace:
                break
            before = getattr(self, name)
            low, high = (before, high) if simulated.pace < self.run.pace else (low, before)
            setattr(self, name, (low + high) / 2)
            found = Simulation(self._scene(Changes())).run()
            if abs(found.pace - simulated.pace) < 0.01 * EXPLAINED * simulated.pace:
                setattr(self, name, usual)  # this run has none
                break
            simulated = found
        return simulated

    def _scene(self, changes: Changes) -> Scene:
        run = self.run

        def chosen(new: int | None, old: int) -> int:
            return old if new is None else new

        by_caller = self._by_caller(changes)
        threads = run.threads if by_caller else chosen(changes.threads, run.threads)
        parts, _ = self._parts(changes)
        threads = self._at_work(threads, parts)
        if threads != self._threads:
            parts, _ = self._parts(changes, threads)
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
            threads,
            chosen(changes.workers, run.workers),
            chosen(changes.depth, run.depth),
            max(size, 1),
            self._processors(),
            min(run.others, run.processors),
            run.synchronous or by_caller if changes.synchronous is None else changes.synchronous,
            contention=self._contention,
            switching=self._switching,
            loop_waits=self._loop_waits,
        )

    def _by_caller(self, changes: Changes) -> bool:
        """True if the caller still makes the batches itself; it cannot if functions are called on threads or in processes."""
        moved = any(way in ("threads", "processes") for way in changes.ways.values())
        return self.run.by_caller and changes.synchronous is None and not moved

    def _at_work(self, threads: int, parts: Sequence[Part]) -> int:
        """The number of threads that work at the same time (``executor/crowd.py``)."""
        most = max(2, round(self.run.processors))
        return most if threads > most and self._computes(parts) and not any(part.meets for part in parts) else threads

    def _computes(self, parts: Sequence[Part]) -> bool:
        """True if the threads are on a processor most of the time."""
        inside = [part.mean for part in parts if part.role != "processes"]
        busy, seconds = sum(work[1] for work in inside), sum(work[0] for work in inside)
        most, processors = (
            max(2, round(self.run.processors)),
            self.run.processors,
        )  # these also have the work of other programs
        return busy * min(1.0, processors / (most + self.run.others)) >= COMPUTING * seconds

    def _processors(self) -> float:
        """The number of processors that the threads got when they wanted more; all processors if they never waited for one."""
        run = self.run
        queued = (run.queued or 0.0) / max(run.seconds * run.threads, 1e-9)
        if queued < QUEUED_SHARE:
            return run.processors
        got = sum(step.busy for step in run.steps if step.role != "processes") / max(run.seconds, 1e-9)
        return min(run.processors, max(got / min(queued, 1.0), 0.01))

    def _parts(self, changes: Changes, threads: int = 0) -> tuple[list[Part], list[list[int]]]:
        """The parts with some steps in another way and on other threads, and the steps of each part."""
        run, parts, places = self.run, [], []
        stages = [*(run.stages or _stages_of(run))]
        for stage, following in zip_longest(stages, stages[1:]):
            if following is not None and stage.joined_with(following, changes.ways):
                place, speed = stage.steps[0], 1 / (1 - stage.storing)
                changes = replace(changes, speeds={**changes.speeds, place: changes.speeds.get(place, 1.0) * speed})
            workload = Workload(stage.batches[-REPEATED:])
            for role, members in _by_role(stage.role, stage.steps, changes.ways):
                part = self._part(stage, workload, role, members, changes, threads or self._threads)
                parts.append(part)
                places.append(members)
        return parts, places

    def _part(
        self, stage: StageFigures, workload: Workload, role: str, members: Sequence[int], changes: Changes, threads: int
    ) -> Part:
        run = self.run
        all_busy = sum(run.steps[place].busy for place in stage.steps)
        all_waits = sum(run.steps[place].waited for place in stage.steps)
        busy = waits = held = kept = handing = 0.0
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
                if threads > 1 and changes.ways.get(place) != "jit" and self._held(step) < RELEASES * step.busy:
                    handing += run.per_batch(HANDOVER_SECONDS * run.samples)
            if role == "processes" and step.role != "processes":
                each, byte = WORKER_SECONDS
                busy += each * run.samples + byte * step.moved * run.batches
            kept += self._held(step) / speed
            if changes.ways.get(place) != "jit":
                held += self._held(step) / speed
        # If the caller makes the batches, no other thread works: there was nothing to compare.
        crowding, alone = (None, None) if run.by_caller else (stage.crowding, stage.alone)
        if alone is not None and waits > 0:
            # What waits only next to other threads waits for these: with more threads for longer, alone not at all.
            own = min(1.0, alone * all_waits / waits)
            waits *= own + (1 - own) * (threads - 1) / max(1, self._threads - 1)
        if crowding is not None:
            factor = crowding ** (_crowd(threads, self._threads) - 1)
            busy, held, kept = busy * factor, held * factor, kept * factor
        elif role == stage.role == "pool" and threads != self._threads and busy > 0:
            share = min(1.0, held / busy)
            factor = self._handing(members, busy, share, threads) / self._handing(members, busy, share, self._threads)
            busy, held, kept = busy * factor, held * factor, kept * factor
        moved = role == "pool" and stage.role != "pool" and any(run.steps[place].python for place in members)
        new = SENDING_SECONDS if role == "processes" and not stage.sending else stage.sending
        return Part(
            role,
            workload,
            busy / all_busy if all_busy > 0 else 0.0,
            waits / all_waits if all_waits > 0 else 0.0,
            min(1.0, held / busy) if busy > 0 else 0.0,
            new,
            0.0 if crowding is not None else 1.0 - min(1.0, kept / busy) if busy > 0 else 0.0,
            # A function that has been called in order may wait for another sample.
            (0.0, stage.chunk_seconds[1]) if moved else stage.chunk_seconds,
            0.0 if role == stage.role else {"pool": CHUNK_SECONDS, "processes": WORKER_CHUNK_COST}.get(role, 0.0),
            moved or stage.meets,
            handing,
        )

    def _handing(self, members: Sequence[int], busy: float, share: float, threads: int) -> float:
        """The factor of the time of operators that take the interpreter from each other; functions of the user rarely do."""
        calls = sum(not self.run.steps[place].python for place in members) * self.run.samples
        return 1 + HANDOFF_SECONDS * calls / busy * math.log2(1 + share * (threads - 1))

    def _held(self, step: StepFigures) -> float:
        """Seconds that a step keeps the interpreter; a function for which this was not measured keeps it all the time."""
        if step.kept is not None:
            kept = min(step.kept, step.busy)
            return kept + self._keeping * (step.busy - kept) if step.python else kept
        return step.busy if step.python else min(step.busy, PYTHON_SECONDS * self.run.samples)


def _crowd(threads: int, measured: int) -> float:
    """Which part of the measured crowding some threads have: none for one thread, all for as many as were measured, or more."""
    return min(1.0, math.log2(threads) / math.log2(measured)) if measured > 1 else 1.0


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
