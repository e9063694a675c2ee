"""Turns of pipelines side by side, and the signs that something has disturbed one."""

from __future__ import annotations

import math
import os
import statistics
import time
from itertools import repeat
from typing import Any, NamedTuple

import _forty

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

from pipeflow import system

LEAST = 8  # batches of a turn
WARM = 4, 0.03  # batches and seconds that a new pipeline runs at least before its first turn
FAULTS = 64  # page faults of a batch that takes new memory
FRESH = 60  # the most batches of a warm-up that are made until batches take none
TRIALS = 10.0  # the longest time to wait until it is decided which functions are compiled
UNDECIDED = "not called yet", "compiling", "comparing"
AFTER_TRIALS = 20  # batches until a chain of compiled steps has the compiled functions too
PERIOD = 8  # of bursts: turns have whole periods
DISTURBED = 0.2  # processors that others may have in a turn
CHANGED = 1.3  # how many times as long, or as short, as usual a loop of additions may take on a processor
ADDITIONS = 3000
WAITED = 1 / 3  # of the usual time of a step: the loop waited for the batch
IDLE_SECONDS = 0.3  # the longest time to wait until the pipelines have finished the batches that they make ahead


class Turn(NamedTuple):
    """What was measured in a turn."""

    rate: float  # samples a second
    work: float  # processor seconds of this process for a sample
    others: float  # processors that others had
    changed: float = 1.0  # how many times as long, or as short, as usual additions took on a processor

    @property
    def quiet(self) -> bool:
        """True if nothing else was at work, and all processors that it needed had their usual speed.

        Processors that rest often have another speed for a moment. So a change counts by the part of the time that it was busy.
        """
        busy = min(1.0, self.rate * self.work)
        return self.others <= DISTURBED and 1 + (self.changed - 1) * busy <= CHANGED


class Additions:
    """A short loop on each processor, which shows if one of them has another speed now than most of the time.

    The fastest case is no measure: some machines have twice their usual speed for a tenth of the time.
    """

    def __init__(self) -> None:
        self.last = 1.0
        self.all: list[float] = []  # seconds of every loop so far
        self.processors = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set[int]()

    def changed(self) -> float:
        """How many times as long, or as short, as usual the loop takes on a processor, once this process is idle.

        Work of a pipeline on the other processor makes the loop slow too.
        """
        begun = time.perf_counter()
        while time.perf_counter() - begun < IDLE_SECONDS:
            used = time.process_time()
            time.sleep(0.005)
            if time.process_time() - used < 0.001:
                break
        seconds = [self._seconds(processor) for processor in self.processors]
        if self.processors:
            os.sched_setaffinity(0, self.processors)
            self.all += seconds
            usual = statistics.median(self.all)
            self.last = max(max(seconds) / usual, usual / min(seconds))
        return self.last

    def _seconds(self, processor: int) -> float:
        os.sched_setaffinity(0, {processor})
        return min(self._once() for _ in range(2))

    def _once(self) -> float:
        begun = time.thread_time()
        total = 0
        for number in repeat(7, ADDITIONS):  # makes no objects: the memory that is free has no influence
            total = (total + number) % 200
        return time.thread_time() - begun


additions = Additions()


def checked(turn: Turn) -> Turn:
    """The turn that is just over: all processors had their usual speed if they have it now, and had it after the turn before."""
    before = additions.last
    return turn._replace(changed=max(before, additions.changed()))


def _page_faults() -> int:
    """How often this process has used a page of memory for the first time."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Runner:
    """A pipeline and its loop."""

    def __init__(self, case: _forty.Case, settings: dict[str, Any]) -> None:
        self.case, self.pipe = case, case.make(**settings)
        self.period = PERIOD if case.kind == "bursts" else 1
        self.batch_size = settings["batch_size"]
        self._batches, self._seconds = -1, 0.0  # all but the first batch, which starts processes and loads kernels

    def step(self) -> float:
        """Takes a batch, and does what the loop does with it; returns the seconds that the loop waited for the batch."""
        begun = time.perf_counter()
        try:
            self.pipe.run()
        except StopIteration:
            self.pipe.reset()
            self.pipe.run()
        waited = time.perf_counter() - begun
        if self.case.loop is not None:
            self.case.loop()
        if self._batches >= 0:
            self._seconds += time.perf_counter() - begun
        self._batches += 1
        return waited

    def warm_up(self) -> None:
        """The first batches, which make what the later ones use. Functions with jit="auto" are compared with compiled code
        here, and the better one works in all turns: a prediction is for the code that was measured. The memory that batches take
        for the first time can cost ten times their work, once.
        """
        least = WARM[0]
        while self._batches < least or self._seconds < WARM[1]:
            faults = _page_faults()
            self.step()
            if _page_faults() - faults > FAULTS and self._batches < FRESH:
                least = max(least, self._batches + WARM[0])
            if self._seconds < TRIALS and any(choice.value in UNDECIDED for choice in self.pipe.settings()):
                least = self._batches + AFTER_TRIALS
        if least > WARM[0]:
            self._batches, self._seconds = 0, 0.0  # they say little about the code that works now

    def turn(self, seconds: float, least: int = LEAST) -> Turn:
        """One turn of about so many seconds and at least so many batches, after those that were made before it and some more.

        If batches come in groups, it begins and ends with the first one of a group. A fixed number of batches would always have
        too few groups, or too many, which was a tenth of the speed.
        """
        return checked(self.batches(seconds, least))

    def batches(self, seconds: float, least: int) -> Turn:
        """A turn without the check of the processors."""
        before = self.pipe.settings()["prefetch_queue_depth"].value + (4 if self._workers() else 2)
        for _ in range(before):
            self.step()
        pace = self._seconds / self._batches
        count = self.period * math.ceil(max(least, seconds / pace) / self.period)
        alike = self.period > 1 or not self._take(1, before, pace)[1]
        busy, own = self._busy()
        begun = time.perf_counter()
        count, _ = self._take(count, count if alike else count + before, pace)
        taken, samples = time.perf_counter() - begun, count * self.batch_size
        busy_after, own_after = self._busy()
        others = max(0.0, (busy_after - busy) - (own_after - own)) / taken
        return Turn(samples / taken, (own_after - own) / samples, others)

    def _take(self, least: int, most: int, pace: float) -> tuple[int, bool]:
        """Takes batches until the loop waited for one: how many, and False if it did not wait for any."""
        for taken in range(1, most + 1):
            if self.step() > WAITED * pace and taken >= least:
                return taken, True
        return most, False

    def _workers(self) -> list[int]:
        """The worker processes; two more batches are made ahead for them."""
        workers = self.pipe._compiled().crew.workers
        return [] if workers is None else workers.worker_pids()

    def _busy(self) -> tuple[float, float]:
        """Seconds that the processors have been busy, and of these for this pipeline."""
        own = time.process_time() + sum(map(system.processor_seconds, self._workers()))
        return system.busy_seconds() or own, own
