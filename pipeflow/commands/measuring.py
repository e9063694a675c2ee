"""Running a pipeline for a while with nothing else to do, and what that cost."""

import argparse
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow import timing
from pipeflow.commands.result import Refused
from pipeflow.commands.screen import Progress
from pipeflow.commands.target import positive
from pipeflow.executor.figures import Statistics
from pipeflow.pipeline import Pipeline

WARM = 2  # batches that are not counted, besides the first


@dataclass(frozen=True)
class Run:
    """What was measured of one run."""

    statistics: Statistics
    laps: np.ndarray  # seconds from batch to batch
    first: float  # seconds until the first batch
    samples: int
    cpu: float  # processors that were busy, on average
    memory: int  # bytes at the end
    grown: int  # of them since the first batches

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / max(float(self.laps.sum()), 1e-9)

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
        """The time from batch to batch that this share of batches did not exceed."""
        return float(np.quantile(self.laps, share))


def arguments(parser: argparse.ArgumentParser) -> None:
    """How long is measured."""
    parser.add_argument("-n", type=positive, default=100, metavar="BATCHES", help="how many batches are measured")
    parser.add_argument("--seconds", type=float, default=20.0, help="the longest time of one run")


def measured(pipe: Pipeline, batches: int, seconds: float, what: str = "batch") -> Run:
    """Runs so many batches, or as many as fit into the seconds; an epoch that ends is begun again."""
    refuse_fed(pipe)
    begun = timing.wall()
    next_batch(pipe)
    first = timing.wall() - begun
    for _ in range(WARM):
        next_batch(pipe)
    before = memory()
    laps: list[float] = []
    samples = 0
    with Progress(what, batches) as progress, pipe.measure():
        cpu, begun = processor_time(), timing.wall()
        last = begun
        while len(laps) < batches and (last - begun < seconds or len(laps) < 3):
            samples += len(next_batch(pipe)[0])
            now = timing.wall()
            laps.append(now - last)
            last = now
            progress.step()
        busy = (processor_time() - cpu) / max(last - begun, 1e-9)
    after = memory()
    return Run(pipe.statistics(), np.array(laps), first, samples, busy, after, max(0, after - before))


def refuse_fed(pipe: Pipeline) -> None:
    """Refuses a pipeline whose data comes from the program around it."""
    fed = pipe.fed_inputs()
    if fed:
        raise Refused(
            f"the input {fed[0]!r} of this pipeline is fed by the program that runs it, so it cannot be run alone"
        )


def next_batch(pipe: Pipeline) -> Any:
    """The next batch; an epoch that ends is begun again."""
    try:
        return pipe.run()
    except StopIteration:
        pipe.reset()
    try:
        return pipe.run()
    except StopIteration:
        raise Refused("this pipeline has no data: its first batch is the end of the epoch") from None


def processor_time() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def memory() -> int:
    """The bytes of memory that the process occupies; 0 where the system does not say it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def load() -> float:
    """How many programs wanted a processor during the last minute, on average; 0 where the system does not say it."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0
