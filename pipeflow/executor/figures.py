"""The figures of a run: times, waits and bytes, a row for each step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pipeflow.errors import count_of
from pipeflow.executor import chunks

WAITS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # seconds: waits for a batch are counted in these classes
# A loop whose input is not its bottleneck waits for a batch at most this share of its time, or at most this long and not
# for a large share. No pipeline could make such a loop noticeably faster.
FED_SHARE = 0.02
FED_SECONDS = 50e-6
FED_SECONDS_SHARE = 0.1
STARVED_SHARE = 0.2  # if a loop waits for a larger share of its time, advice says why; else little can be gained
ENOUGH_BATCHES = 8  # batches after a probe until their figures are used
Role = Literal["source", "serial", "pool", "processes"]


@dataclass(frozen=True)
class StepFigures:
    """The cost of one step, or of a stage whose steps were not measured apart; seconds are sums over threads."""

    title: str
    role: Role  # sources and serial steps take one batch after another; the others share the pool or the workers
    seconds: float
    busy: float
    kept: float | None = (
        None  # the part of the busy time in which other threads could not get the interpreter; None: not measured
    )
    python: bool = False
    ways: tuple[str, ...] = ()  # the other ways to run the step: "threads", "processes", "jit", "parallel"
    hint: tuple[int, ...] = ()
    largest: tuple[int, ...] = ()  # bytes of the largest sample of each output that has a hint
    where: str = ""
    name: str = ""  # the name of the node
    moved: int = 0  # bytes of the inputs and outputs of a batch, which worker processes would get and return

    @property
    def waited(self) -> float:
        """Seconds in the step without a processor."""
        return max(0.0, self.seconds - self.busy)


@dataclass(frozen=True)
class StageFigures:
    """The work of a stage, batch by batch: for each chunk its samples, its seconds, and its seconds on a processor."""

    role: Role
    steps: tuple[int, ...]  # their places in ``Statistics.steps``
    batches: tuple[tuple[tuple[int, float, float], ...], ...]
    sending: float = 0.0  # seconds of a thread for a batch that is sent to worker processes
    chunk_seconds: tuple[float, float] = chunks.SAMPLES  # limits of the work that a thread takes at once
    meets: bool = False  # its functions may wait for each other: so all threads work
    crowding: float | None = None  # its processor time with all threads, as a multiple of that with one, if measured
    alone: float | None = None  # how long one thread waits for a sample, as a share of that with all, if measured
    storing: float = (
        0.0  # the share of its processor time in which results are stored, if only the next stage reads them
    )

    def joined_with(self, following: "StageFigures", ways: Mapping[int, str]) -> bool:
        """True if both functions, called on threads, are one stage: the second one reads the results of the first at once."""
        return bool(self.storing) and all(ways.get(place) == "threads" for place in (*self.steps, *following.steps))


@dataclass(frozen=True)
class CacheFigures:
    """The use of the folder in which a reader keeps what it read from URLs, since the pipeline was built."""

    name: str  # of the reader's node
    hits: int  # reads that needed no data from a server
    misses: int
    bytes_found: int
    bytes_read: int  # from servers
    bytes_kept: int
    bytes_not_kept: int  # too large for the folder, the disk was full, or other processes were writing

    def __str__(self) -> str:
        parts = f"{_megabytes(self.bytes_found)} found, {_megabytes(self.bytes_read)} read from servers"
        lost = f", {_megabytes(self.bytes_not_kept)} not kept" if self.bytes_not_kept else ""
        return f"cache of {self.name}: {self.hits} hits, {count_of(self.misses, 'miss', 'misses')}; {parts}{lost}"


@dataclass(frozen=True)
class Statistics:
    """The figures of a run; print it for a table."""

    seconds: float
    waited: float  # seconds of these in which the loop waited for batches
    batches: int
    samples: int
    threads: int
    processors: int
    depth: int = 2
    workers: int = 0
    synchronous: bool = False
    one_at_a_time: bool = False  # differentiable functions require it
    peak: int = 0  # the most threads that worked at the same time
    ready: int | None = None  # the minimum of finished batches at a call for one
    queued: float | None = None  # seconds that threads had work but no processor
    steps: tuple[StepFigures, ...] = ()
    waits: tuple[int, ...] = ()  # the numbers of waits up to each of WAITS, and of longer ones
    stages: tuple[StageFigures, ...] = ()
    loops: tuple[tuple[float, float], ...] = ()  # the loop's own time from batch to batch: seconds, and on a processor
    others: float = 0.0  # the average number of processors that other programs used
    used: float = 0.0  # processor seconds of this process
    caches: tuple[CacheFigures, ...] = ()  # of the readers that keep what they read from URLs
    by_caller: bool = False  # the loop's thread made the batches itself (``brisk.py``)
    unmeasured: float | None = None  # seconds from batch to batch just before, without the clocks of the measurement

    @property
    def work(self) -> float:
        """The seconds of all steps together."""
        return sum(step.seconds for step in self.steps)

    @property
    def slowest_first(self) -> list[StepFigures]:
        """The steps, the one with the most seconds first."""
        return sorted(self.steps, key=lambda step: -step.seconds)

    @property
    def pace(self) -> float:
        """Seconds from batch to batch."""
        return self.seconds / max(1, self.batches)

    @property
    def exposed_wait(self) -> "ExposedWait":
        """The time that the loop waited for batches."""
        return ExposedWait(self.batches, self.seconds, self.waited)

    def per_batch(self, seconds: float) -> float:
        """A sum of seconds divided by the number of batches."""
        return seconds / max(1, self.batches)

    def __str__(self) -> str:
        own, waited = self.per_batch(self.seconds - self.waited), self.per_batch(self.waited)
        lines = [
            f"{count_of(self.batches, 'batch', 'batches')}, one every {in_ms(self.pace)}: the loop itself {in_ms(own)}, waiting "
            f"{in_ms(waited)}; {self.samples / max(self.seconds, 1e-9):.0f} samples/s",
            f"{'ms a batch':>30} {'in it':>9} {'busy':>9} {'waits':>9} {'GIL':>9}",
        ]
        for step in self.steps:
            numbers = [step.seconds, step.busy, step.waited]
            cells = [f"{1e3 * self.per_batch(number):9.3f}" for number in numbers]
            cells.append(" " * 8 + "?" if step.kept is None else f"{1e3 * self.per_batch(step.kept):9.3f}")
            lines.append(f"{step.title:>30} {' '.join(cells)}")
        return "\n".join([*lines, *map(str, self.caches)])


@dataclass(frozen=True)
class ExposedWait:
    """The time that a loop waited for batches, as a part of its steps; ``str()`` says whether the input limits the loop."""

    steps: int
    seconds: float
    waited: float

    def __add__(self, other: "ExposedWait") -> "ExposedWait":
        return ExposedWait(self.steps + other.steps, self.seconds + other.seconds, self.waited + other.waited)

    @property
    def share(self) -> float:
        """The share of a step that is waiting for a batch."""
        return self.waited / self.seconds if self.seconds > 0 else 0.0

    @property
    def is_bottleneck(self) -> bool:
        """True if a faster input could make the loop noticeably faster."""
        short = self.waited <= FED_SECONDS * self.steps and self.share <= FED_SECONDS_SHARE
        return self.share > FED_SHARE and not short

    def __str__(self) -> str:
        if not self.steps:
            return "no step has been measured"
        each = f"{in_ms(self.waited / self.steps)} of {in_ms(self.seconds / self.steps)} a step"
        end = NOT_THE_BOTTLENECK
        if self.is_bottleneck:
            end = f"without it the loop would be {1 / (1 - self.share):.2f} times as fast"
            if self.share >= STARVED_SHARE:
                end = "the input limits this loop: pipe.advice() says why"
        return f"exposed wait {self.share:.1%} ({each}): {end}"


NOT_THE_BOTTLENECK = "the input is not your bottleneck"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.3g} MB"


def in_ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"
