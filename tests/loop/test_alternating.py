"""One thread and all threads in turn: what `measure` finds out about the time that they take from each other, or wait."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from loop.test_model import model, pace, step

from pipeflow import fn, pipeline_def
from pipeflow.executor.alternating import LONGEST_SECONDS, MOST, PHASE_BATCHES, PHASES, Alternation
from pipeflow.executor.clocks import Clock
from pipeflow.executor.figures import StageFigures
from pipeflow.executor.model import Model


class Run:
    """A pipeline whose samples take a second on one thread and ``ratio`` seconds on several; batches come every ``seconds``."""

    def __init__(self, ratio, seconds=0.01, drift=1.0, waits=(1.0, 1.0)):
        self.ratio, self.seconds, self.drift, self.speed, self.now = ratio, seconds, drift, 1.0, 10.0
        self.waits = waits  # seconds that a sample waits with one thread, and with several
        self.clock, self.idle = Clock(), Clock()
        for clock in (self.clock, self.idle):
            clock.tasks = deque(maxlen=1024)
        self.turns = Alternation([self.clock, self.idle], 4, 2)
        self.used = []

    def until_over(self):
        while not self.turns.over:
            self.now += self.seconds
            self.speed *= self.drift
            self.used.append(self.turns.threads)
            work = self.speed * (1.0 if self.turns.threads == 1 else self.ratio)
            waits = self.waits[self.turns.threads > 1]
            self.clock.tasks.append((0, 8, 8 * (work + waits), 8 * work))
            self.turns.delivered(self.now)
        return self.turns.ratios()


def test_the_ratio_is_that_of_neighbours():
    """A machine that becomes slower all the time changes it little; a stage without work has none."""
    run = Run(1.5, drift=1.01)
    ratio, none = run.until_over()
    assert ratio == pytest.approx(1.5, rel=0.12)
    assert none is None
    assert {*run.used} == {1, 4}
    assert run.turns.threads == 4


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 1.0), (9.0, MOST), (1.25, 1.25)])
def test_it_has_limits(ratio, expected):
    """More threads never make work shorter, and an accident does not make it many times as long."""
    assert Run(ratio).until_over()[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("waits", "expected"), [((0.5, 2.0), 0.25), ((0.0, 2.0), 0.0), ((3.0, 2.0), 1.0), ((0.5, 0.0), None)]
)
def test_the_waiting_of_one_thread(waits, expected):
    """As a share of the waiting with all threads; a stage without work has none."""
    run = Run(1.5, waits=waits)
    run.until_over()
    assert run.turns.waits() == [expected if expected is None else pytest.approx(expected), None]


def test_batches_that_take_long_end_it_early():
    """Two phases of three batches are enough then."""
    run = Run(2.0, seconds=2 * LONGEST_SECONDS)
    assert run.until_over()[0] == pytest.approx(2.0)
    assert len(run.used) < (PHASE_BATCHES + 4) * PHASES


def test_a_model_uses_it_for_other_numbers_of_threads():
    """12 ms of two threads, which lose a third: one thread needs 18 of the 24, two need what was measured, and so do four."""
    found = model(step("pool", 0.024), pace=0.012)
    assert pace(found, threads=1) > 0.021
    crowded = crowding(found, 24 / 18)
    assert pace(crowded, threads=1) == pytest.approx(0.018, rel=0.02)
    assert pace(crowded, threads=2) == pytest.approx(0.012, rel=0.02)
    assert pace(crowded, threads=4) == pytest.approx(0.012, rel=0.02)


@pytest.mark.parametrize(("phases", "known"), [(3, False), (4, True), (5, True)])
def test_what_was_measured_counts_if_measuring_ends_early(phases, known):
    """Two phases with one thread and two with all are enough."""

    def define():
        return fn.flip(fn.external_source(lambda: np.zeros((4, 300, 300, 3), np.uint8)), horizontal=1)

    pipe = pipeline_def(define, num_threads=2, batch_size=4, device_id=None)()
    pipe.run()
    executor = pipe._executor
    with pipe.measure():
        executor.measures.probe.close()
        executor.measures.probe._first = -1e9
        pipe.run()
        turns = executor.measuring.alternation
        for phase in range(phases):
            turns._work[(1, 2)[phase % 2]].append([(1.0 + phase % 2, 0.5)] * len(executor.stages))
    assert (executor.measures.crowding[0] is not None) == known
    assert (executor.measures.alone[0] is not None) == known


def test_more_threads_than_processors_do_not_help_work_that_waits_only_for_other_threads():
    """A fifth of the time of two threads is such waiting, so eight threads are not faster than two."""
    found = crowding(model(step("pool", 0.024, busy=0.018), pace=0.012, processors=2), 1.0, 0.0)
    assert pace(found, threads=8) >= pace(found, threads=2)


@pytest.mark.parametrize(
    ("alone", "expected"),
    # Of 24 ms for a batch, the threads are on a processor for 12, and wait for 12, which nothing explains.
    [
        (1.0, {1: 0.024, 2: 0.012, 4: 0.006}),  # they sleep: more threads hide it
        (0.0, {1: 0.012, 2: 0.012, 4: 0.012}),  # they wait for each other: (12 + 3 * 12) / 4
        (0.5, {1: 0.018, 2: 0.012, 4: 0.009}),  # one half each: (12 + 6 + 3 * 6) / 4
    ],
)
def test_a_model_knows_which_waits_more_threads_hide(alone, expected):
    """Those that one thread has too."""
    found = crowding(model(step("pool", 0.024, busy=0.012), pace=0.012, processors=8), 1.0, alone)
    for threads, seconds in expected.items():
        assert pace(found, threads=threads) == pytest.approx(seconds, rel=0.03)


def crowding(found, ratio, alone=None):
    """The same figures with a measured ratio of their only stage."""
    run = found.run
    work = ((12, run.per_batch(run.steps[0].seconds), run.per_batch(run.steps[0].busy)),)
    return Model(replace(run, stages=(StageFigures("pool", (0,), (work,), crowding=ratio, alone=alone),)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, True), ({"num_threads": 1}, False), ({"num_threads": "auto"}, False), ({"exec_async": False}, False)],
)
def test_it_is_for_several_threads_whose_number_is_given(options, expected):
    """In `measure`, once the probe is over; afterwards all threads work again, also if measuring ends in between."""

    def define():
        return fn.flip(fn.external_source(lambda: np.zeros((4, 300, 300, 3), np.uint8)), horizontal=1)

    settings = {"num_threads": 2, "batch_size": 4, "device_id": None, **options}
    pipe = pipeline_def(define, **settings)()
    pipe.run()
    executor = pipe._executor
    with pipe.measure():
        probe = executor.measures.probe
        probe.close()
        probe._first = -1e9
        pipe.run()
        assert (executor.measuring.alternation is not None) == expected
        pipe.run()
    assert executor.measuring.alternation is None
    assert executor._claims.threads == executor.crew.size
