"""The reports of an executor: the times, bytes and counts of its run."""

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeflow.backends.cpu import HeapPool
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.brisk import Brisk
from pipeflow.executor.claims import Claims
from pipeflow.executor.course import Course
from pipeflow.executor.crew import Crew
from pipeflow.executor.figures import Statistics
from pipeflow.executor.measuring import Measuring
from pipeflow.executor.runners.source import SourceStep
from pipeflow.kernels import counts

if TYPE_CHECKING:
    from pipeflow.executor.device.device import Device
    from pipeflow.executor.tuning import Tuner


class RunReports:
    """An executor, as its reports see it."""

    course: Course
    crew: Crew
    pool: HeapPool
    measuring: Measuring
    device: "Device | None"
    tuner: "Tuner | None"
    _claims: Claims
    brisk: Brisk | None
    _by_caller: bool
    _ring: deque[BatchRun]

    @property
    def in_flight(self) -> int:
        """The number of scheduled batches that have not been taken."""
        count = 0
        for batch in tuple(
            self._ring
        ):  # without a function for each: this runs after kernels that have used the caches
            if batch.handing is None:
                count += 1
        return count

    @property
    def ready(self) -> int:
        """The number of batches that are ready to be taken."""
        return sum(batch.done and batch.handing is None for batch in tuple(self._ring))

    @property
    def sources(self) -> list[SourceStep]:
        """The sources of the plan."""
        return self.course.sources

    @property
    def readers(self) -> list[SourceStep]:
        """The sources whose epochs follow each other without a reset: readers."""
        return self.course.readers

    def statistics(self) -> dict[str, Any]:
        """For each operator its times and, with ``enable_memory_stats``, its bytes; those of "pool"; "counts" of the kernels."""
        with self.crew.lock:
            result = self.measuring.of_operators(self.crew.threads)
        result["pool"] = {"allocations": self.pool.allocations, "reserved": self.pool.reserved}
        if self.device is not None:
            result["gpu"] = self.device.statistics()
        counted = counts.total(self.crew.threads)
        return {**result, "counts": dict(counted)} if counted else result

    def figures(self) -> Statistics:
        """The times since the first batch was delivered, or since ``measure``."""
        with self.crew.lock:
            found = replace(self.measuring.figures(self.crew.threads), by_caller=self._by_caller)
        return found if self.tuner is None else replace(found, threads=self.tuner.threads, depth=self.tuner.depth)

    def measure(self, on: bool, probing: bool = False) -> None:
        """Starts or stops per-step timing; ``probing`` also measures how long each function keeps the interpreter."""
        if on and self.brisk is not None:
            self.brisk.end_trial()
        with self.crew.lock:
            self._claims.threads = self.measuring.over() or self._claims.threads
            probe = self.measuring.switch(on, probing, self.crew.threads)
        if probe is not None:
            probe.close()

    def slowest(self) -> str:
        """The name of the operator that has taken most time; "" if no time was measured."""
        return self.measuring.slowest()
