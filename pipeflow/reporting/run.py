"""Runs a pipeline alone for a while, and measures it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow import timing
from pipeflow.errors import InvalidState
from pipeflow.executor.figures import Statistics

WARM = 2  # this number of batches after the first one is not counted either


@dataclass(frozen=True)
class Run:
    """The figures of one run."""

    statistics: Statistics
    laps: np.ndarray  # seconds from batch to batch
    sizes: np.ndarray  # bytes of memory after each batch
    first: float  # seconds until the first batch
    samples: int
    cpu: float  # processors that were busy, on average

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / max(float(self.laps.sum()), 1e-9)

    @property
    def memory(self) -> int:
        """Bytes of memory at the end."""
        return int(self.sizes[-1])

    @property
    def grown(self) -> int:
        """Bytes of memory at the end that were not there after the first batches."""
        return max(0, self.memory - int(self.sizes[0]))

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        steps = [
            {"name": step.name, "operator": step.title, "seconds": step.seconds, "busy": step.busy, "where": step.where}
            for step in self.statistics.steps
        ]
        return {
            "samples_per_second": self.rate,
            "batches": len(self.laps),
            "samples": self.samples,
            "batch_seconds": {"p50": self.quantile(0.5), "p99": self.quantile(0.99), "first": self.first},
            "processors_busy": self.cpu,
            "memory_bytes": self.memory,
            "memory_grown_bytes": self.grown,
            "threads": self.statistics.threads,
            "steps": steps,
        }

    def quantile(self, share: float) -> float:
        """The time from batch to batch that was not exceeded in this share of the batches."""
        return float(np.quantile(self.laps, share))


def measured(pipe: Any, batches: int, seconds: float, step: Callable[[], object] = lambda: None) -> Run:
    """Runs this number of batches, or as many as fit into the seconds; after an epoch's end the next one begins."""
    refuse_fed(pipe)
    begun = timing.wall()
    next_batch(pipe)
    first = timing.wall() - begun
    for _ in range(WARM):
        next_batch(pipe)
    laps: list[float] = []
    sizes = [memory()]
    samples = 0
    with pipe.measure():
        cpu, begun = processor_time(), timing.wall()
        last = begun
        while len(laps) < batches and (last - begun < seconds or len(laps) < 3):
            samples += len(next_batch(pipe)[0])
            now = timing.wall()
            laps.append(now - last)
            last = now
            sizes.append(memory())
            step()
        busy = (processor_time() - cpu) / max(last - begun, 1e-9)
    return Run(pipe.statistics(), np.array(laps), np.array(sizes), first, samples, busy)


def refuse_fed(pipe: Any) -> None:
    """Raises an error for a pipeline that gets its data from ``feed_input``."""
    fed = pipe.fed_inputs()
    if fed:
        raise InvalidState(
            f"the input {fed[0]!r} of this pipeline is fed by the program that runs it, so it cannot be run alone"
        )


def next_batch(pipe: Any) -> Any:
    """The next batch; after the end of an epoch the next one begins."""
    try:
        return pipe.run()
    except StopIteration:
        pipe.reset()
    try:
        return pipe.run()
    except StopIteration:
        raise InvalidState("this pipeline has no data: its first batch is the end of the epoch") from None


def processor_time() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def memory() -> int:
    """The bytes of memory of the process; 0 if the system does not report them."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def load() -> float:
    """The average number of programs that needed a processor during the last minute; 0 if the system does not report
    it.
    """
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0
