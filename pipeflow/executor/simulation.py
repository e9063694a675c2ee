"""The executor simulated event by event, with the measured times of its parts.

There is no randomness: equal figures give equal results. Words:

- A *part* is a stage of the plan: its work for a batch is done by one thread (`source`, `serial`), by the pool's threads, which
  share the samples (`pool`), or by worker processes (`processes`).
- A second of work has three shares: it *holds* the interpreter, computes *free* of it, or *waits* without a processor.
- Work that runs at the same time shares the processors and the interpreter. Each unit gets the same amount of processor time, and
  none gets more than it can use.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pipeflow.executor.chunks import SAMPLES, chunk_size

SIMULATED = 48  # batches that are counted
WORKER_CHUNK_SECONDS = 8e-3  # the same for a worker process
MORE_AHEAD = 2  # batches ahead for worker processes, as in the executor
# The time that work loses if work on all other processors, outside the interpreter, uses caches and memory. Measured on machines
# with two processors.
NEIGHBOURS = 0.06
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

    def scaled(self, factor: float) -> "Workload":
        """The same workload with all seconds multiplied by a factor."""
        result = Workload(())
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
    chunk_seconds: tuple[float, float] = SAMPLES  # limits of the work that a thread takes at once
    chunk_cost: float = (
        0.0  # seconds for a chunk, which the work does not include; in this process with the interpreter held
    )
    meets: bool = False  # its functions may wait for each other
    handing: float = 0.0  # seconds for a batch in which the interpreter is handed over, which the work does not include

    def work(self, batch: int, begin: float = 0.0, end: float = 1.0) -> Work:
        """The work on the samples from one share of a batch to another."""
        return self._work(*self.workload.between(batch, begin, end), end - begin)

    def _work(self, seconds: float, on_processor: float, share: float) -> Work:
        handing = self.handing * share
        waits = max(0.0, seconds - on_processor) * self.waits + handing
        busy = max(0.0, min(on_processor, seconds)) * self.busy  # the clocks of brief work may go back a little
        return busy + waits, busy, self.held * busy + handing

    @property
    def mean(self) -> Work:
        """The work on a batch."""
        return self._work(self.workload.seconds, self.workload.busy, 1.0)


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
    loop_waits: float = 1.0  # factor of the loop's time without a processor, as that of a part
    contention: float = 0.0  # what work loses when it takes the interpreter from other work
    switching: float = 0.0  # what it loses with each turn if it takes turns on a processor


class _SimulatedBatch:
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

    def __init__(
        self, kind: str, work: Work, memory: float, batch: "_SimulatedBatch | None" = None, share: float = 0.0
    ) -> None:
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


def _set_rates(units: Sequence[_Unit], scene: Scene) -> None:
    processors, others, contention = scene.processors, scene.others, scene.contention
    wanted = sum(unit.load for unit in units)
    if others > 0 and wanted > 0:
        # Other programs keep the processors they use, unless the system divides them between programs.
        processors = max(processors - others, processors * wanted / (wanted + others))
    held, all_held = _share([unit.held for unit in units], 1.0), sum(unit.held for unit in units)
    for unit in units:
        unit.rate = 1.0 if unit.held <= held else held / unit.held
        taken = 4 * unit.held * (1 - unit.held)  # work that always holds the interpreter rarely takes it
        unit.rate /= 1 + contention * taken * min(1.0, all_held - unit.held)
    wanted = sum(unit.load * unit.rate for unit in units)
    load = _share([unit.load * unit.rate for unit in units], processors)
    switching = 1 + scene.switching * max(0.0, wanted / processors - 1)
    neighbours = NEIGHBOURS * max(0.0, 1 - 1 / max(1.0, min(wanted, processors)))
    for unit in units:
        if unit.load * unit.rate > load:
            unit.rate = load / unit.load
        unit.rate /= 1 + unit.load * (switching - 1) + unit.memory * neighbours


@dataclass
class Simulated:
    """The counts of a simulation, for each batch."""

    pace: float = 0.0
    inside: list[float] = field(
        default_factory=list
    )  # seconds that each part took, summed over its threads; last the loop


class Simulation:
    """One run of a scene."""

    def __init__(self, scene: Scene, counted: int = SIMULATED) -> None:
        self.scene = scene
        self.now = 0.0
        self.units: list[_Unit] = []
        self.ring: list[_SimulatedBatch] = []
        self.jobs: deque[tuple[_SimulatedBatch, float, Work]] = deque()  # chunks for worker processes
        self._idle_threads, self._idle_workers = (1 if scene.synchronous else scene.threads), max(1, scene.workers)
        self._scheduled = self._delivered = 0
        self._waiting = True  # the loop waits for a batch
        self._more = MORE_AHEAD if any(part.role == "processes" for part in scene.parts) else 0
        period = max([len(scene.loop), *(len(part.workload) for part in scene.parts)])
        self.first = 2 * scene.depth + self._more + 4
        self.last = self.first + period * max(1, round(counted / period))
        self.inside = [0.0] * (len(scene.parts) + 1)

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
        _set_rates(self.units, self.scene)
        step = min(unit.left / unit.rate for unit in self.units)
        self.now += step
        left = []
        over = []
        for unit in self.units:
            unit.left -= step * unit.rate
            self.inside[-1 if unit.batch is None else unit.batch.stage] += step
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
            seconds = busy + scene.loop_waits * max(0.0, seconds - busy)
            self._delivered += 1
            self._waiting = False
            self.units.append(_Unit("loop", (seconds, busy, scene.loop_held * busy), 1 - scene.loop_held))
        ahead = 0 if scene.synchronous else scene.depth - 1
        if self._waiting:
            ahead += 1
        if ahead > 1:
            ahead += self._more
        while len(self.ring) < ahead:
            self.ring.append(_SimulatedBatch(self._scheduled))
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

    def _claim_chunk(self, batch: _SimulatedBatch, part: Part) -> None:
        size, threads = self.scene.batch_size, 1 if self.scene.synchronous else self.scene.threads
        left = max(1, round((1 - batch.cursor) * size))
        in_work = sum(other.stage < len(self.scene.parts) for other in self.ring)
        samples = chunk_size(left, threads, max(part.mean[0] / size, 1e-9), part.chunk_seconds, in_work)
        end = min(1.0, batch.cursor + samples / size)
        end = 1.0 if end > 1 - 0.5 / size else end
        seconds, busy, held = part.work(batch.number, batch.cursor, end)
        work = seconds + part.chunk_cost, busy + part.chunk_cost, held + part.chunk_cost
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

    def _send(self, batch: _SimulatedBatch, part: Part) -> None:
        size, workers = self.scene.batch_size, max(1, self.scene.workers)
        share = -(-size // workers)
        rounds = max(1, round(share * part.mean[0] / size / WORKER_CHUNK_SECONDS))
        chunk = max(1.0, -(-share // rounds)) / size
        begin = 0.0
        while begin < 1 - 1e-9:
            end = min(1.0, begin + chunk)
            end = 1.0 if end > 1 - 0.5 / size else end
            seconds, busy, _ = part.work(batch.number, begin, end)
            work = (seconds + part.chunk_cost, busy + part.chunk_cost, 0.0)
            self.jobs.append((batch, end - begin, work))
            begin = end
