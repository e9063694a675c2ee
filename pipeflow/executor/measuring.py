"""Measuring the steps of a plan: their times, the time of the loop, and the bytes of their outputs.

The caller has the executor's lock during every call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from pipeflow import timing
from pipeflow.executor.alternating import ENOUGH_PAIRS, Alternation
from pipeflow.executor.batch import BatchRun, Wait
from pipeflow.executor.clocks import GilProbe, Measures, queued_seconds
from pipeflow.executor.crew import Crew
from pipeflow.executor.figures import ENOUGH_BATCHES, CacheFigures, Statistics
from pipeflow.executor.runners.base import BoundStep, StageRunner
from pipeflow.executor.settings import Settings, available_cpus
from pipeflow.plan import Plan


class Effort(NamedTuple):
    """What the threads did, in seconds; for a window the averages over its time: how many threads, how many processors."""

    inside: float  # the threads in the steps
    busy: float  # of that on a processor
    ordered: float  # the stage that one thread at a time works in, the one with most time
    used: float  # processor time of the process
    alone: float = 0.0  # as `ordered`, for the stages whose functions have parallel="auto"
    queued: float = 0.0  # the threads were ready to run, and others had the processors

    @property
    def computing(self) -> float:
        """The processors that the steps need; brief tasks count as busy even while their thread waits for the interpreter."""
        return min(self.busy, self.used)

    @property
    def wanted(self) -> float:
        """The processors that the process would use if others used none."""
        return self.used + self.queued

    def since(self, earlier: "Effort", seconds: float) -> "Effort":
        """The averages of a window."""
        return Effort(*((now - before) / seconds for now, before in zip(self, earlier)))


class Measuring:
    """The clocks of one executor, and the sizes of the outputs of its operators."""

    def __init__(self, plan: Plan, stages: Sequence[StageRunner], settings: Settings) -> None:
        self.plan, self.stages, self.settings = plan, stages, settings
        self.measures = Measures(plan)
        self.alternation: Alternation | None = None  # after a probe, if several threads share stages
        self._probed = False  # True if the probe is over
        self._disturbed: Statistics | None = None  # the figures until the end of the probe
        self.on = False  # True while steps have clocks
        self._unmeasured: float | None = None  # seconds from batch to batch before that
        self._warm = False  # True if the first batch has been delivered; its time is not counted
        self._sizes: dict[str, dict[str, Any]] = {}

    def delivered(self, batch: BatchRun, asked: float, ready: int, threads: Sequence[Thread], used: float) -> int:
        """Counts a batch that a caller waited for since ``asked``; returns a new number of threads, 0 if it stays the same.

        Measuring begins after the first batch. A probe, and other numbers of threads, disturb the measured times, so it begins
        again after them.
        """
        probe, turns = self.measures.probe, self.alternation
        if not self._warm:
            self._begin(threads)
            batch.wait = Wait(asked, self.measures.last)
            return 0
        self.measures.delivered(asked, ready, batch.size, used)
        batch.wait = Wait(asked, self.measures.last, turns is not None or (probe is not None and not self._probed))
        if probe is not None and not self._probed and probe.over:
            self._disturbed = self.figures(threads)
            self._probed = True
            if self._shared():
                self.alternation = Alternation(self.measures.stages, self.settings.threads, self.settings.depth)
            self._begin(threads, probed=True)
        elif turns is not None and turns.delivered(self.measures.last):
            if turns.over:
                self.measures.crowding, self.measures.alone = turns.ratios(), turns.waits()
                self.alternation = None
                self._begin(threads, probed=True)
            return turns.threads
        return 0

    def over(self) -> int:
        """Ends the turns of different numbers of threads; returns the number of threads, 0 if there were no turns."""
        turns, self.alternation = self.alternation, None
        if turns is None:
            return 0
        if turns.pairs >= ENOUGH_PAIRS:
            self.measures.crowding, self.measures.alone = turns.ratios(), turns.waits()
        return self.settings.threads

    def _shared(self) -> bool:
        """True if several threads share a stage, no function in it waits for another, and their number does not change."""
        settings = self.settings
        fixed = not settings.automatic and not settings.synchronous and 1 < settings.threads <= available_cpus()
        shared = any(stage.per_sample and stage.steps for stage in self.stages)
        return fixed and shared and not any(stage.meets or stage.strands > 1 for stage in self.stages)

    def switch(self, on: bool, probing: bool, threads: Sequence[Thread]) -> GilProbe | None:
        """Starts or stops per-step timing; returns the last probe, which the caller closes."""
        probe, self.measures.probe = self.measures.probe, GilProbe() if on and probing else None
        for part in self._parts():
            probed = [item for item in part if item.step.user_code] or part[:1]
            for item in part:
                item.probe = self.measures.probe if item in probed else None
        for stage in self.stages:
            stage.measure(on)
        if on and not self.on:
            self._unmeasured = self.measures.recent_pace()
        self.on = on
        if on:
            self._probed, self._disturbed = False, None
            if self._warm:
                self._begin(threads)
        return probe

    def _begin(self, threads: Sequence[Thread], probed: bool = False) -> None:
        self._warm = True
        self.measures.begin(threads)
        for part in self._parts():
            for item in part:
                kept = item.clock.probed, item.clock.waited
                item.reset_clock()
                if probed:
                    item.clock.probed, item.clock.waited = kept

    def _parts(self) -> list[Sequence[BoundStep]]:
        """For every stage the steps that have clocks, with all that was measured so far."""
        for stage, clock in zip(self.stages, self.measures.stages):
            stage.settle(clock)
        return [stage.steps for stage in self.stages]

    def figures(self, threads: Sequence[Thread]) -> Statistics:
        """The times since measuring began; until there are enough batches after a probe, the times with the probe."""
        if self._disturbed is not None and (self.alternation is not None or self.measures.batches < ENOUGH_BATCHES):
            found = self._disturbed
        else:
            self._parts()
            found = self.measures.statistics(self.stages, self.settings, threads)
        return replace(found, caches=tuple(self.caches()), unmeasured=self._unmeasured)

    def caches(self) -> Iterator[CacheFigures]:
        """The figures of the sources that keep what they read from URLs."""
        for part in self._parts():
            for item in part:
                if (sums := item.cache_figures()) is not None:
                    yield CacheFigures(item.step.name, **sums)

    def of_operators(self, threads: Sequence[Thread]) -> dict[str, Any]:
        """For each operator its times, and the bytes of its outputs if they were counted."""
        result: dict[str, Any] = {name: dict(sizes) for name, sizes in self._sizes.items()}
        found = self.figures(threads)
        for figure in found.steps if self._warm and found.batches else ():
            known = result.setdefault(figure.name, {})
            known["seconds"], known["busy_seconds"], known["waiting_seconds"] = (
                figure.seconds,
                figure.busy,
                figure.waited,
            )
            known["gil_seconds"] = figure.kept
        for cache in found.caches:
            result.setdefault(cache.name, {})["remote_cache"] = {k: v for k, v in asdict(cache).items() if k != "name"}
        return result

    def work(self, crew: Crew | None = None) -> Effort:
        """What the threads have done so far; ``queued`` only if a crew is given, because reading it takes long."""
        clocks = self.measures.stages
        ordered = [clock.seconds for clock, stage in zip(clocks, self.stages) if stage.ordered]
        alone = [clock.seconds for clock, stage in zip(clocks, self.stages) if stage.alone_if_better]
        inside, busy = sum(clock.seconds for clock in clocks), sum(clock.busy for clock in clocks)
        used, queued = timing.process(), queued_seconds(() if crew is None else crew.threads)
        return Effort(inside, busy, max(ordered, default=0.0), used, max(alone, default=0.0), queued)

    def slowest(self) -> str:
        """The name of the operator that has taken most time; "" if no time was measured."""
        stages = zip(self.measures.stages, self.plan.stages)
        steps = [(clock, stage.steps[0].op) for clock, stage in stages if len(stage.steps) == 1]
        steps += [(item.clock, item.step.op) for part in self._parts() if len(part) > 1 for item in part]
        clock, name = max(steps, key=lambda pair: pair[0].seconds, default=(None, ""))
        return name if clock is not None and clock.seconds > 0 else ""

    def count_bytes(self, batch: BatchRun) -> None:
        """Notes the bytes of every output of a batch, in total and of its largest sample."""
        for step in self.plan.steps():
            totals, largest = [], []
            for slot in step.outputs:
                values = batch.values[slot]
                if values is None:
                    continue  # the output was in the memory of a thread
                sizes = (
                    [values.nbytes // max(len(values), 1)] * len(values)
                    if isinstance(values, np.ndarray)
                    else [x.nbytes for x in values if x is not None]
                )
                totals.append(sum(sizes))
                largest.append(max(sizes, default=0))
            known = self._sizes.setdefault(step.name, {})
            known["real_memory_size"] = known["reserved_memory_size"] = totals
            known["max_real_memory_size"] = [
                max(pair) for pair in zip(known.get("max_real_memory_size", largest), largest)
            ]
            known["max_reserved_memory_size"] = known["max_real_memory_size"]
