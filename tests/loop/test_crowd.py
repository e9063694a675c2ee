"""More threads than processors: how many of them work, by what they did; and batches that do not depend on it."""

import itertools
import threading

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def
from pipeflow.executor import crowd
from pipeflow.executor.crowd import LONGEST_PAUSE, PAUSE, STUCK_SECONDS, WINDOW, Crowd
from pipeflow.executor.measuring import Effort


class Run:
    """A loop over a pipeline of eight threads on two processors, whose threads are on a processor for a share of their time."""

    def __init__(self, computing, seconds=0.01, others=0.0):
        self.computing, self.seconds, self.others = computing, seconds, others
        self.now = self.inside = self.busy = 0.0
        self.crowd = Crowd(8, 2, lambda: Effort(self.inside, self.busy, 0.0, self.busy))

    def batches(self, count):
        """The numbers of threads after each batch."""
        found = []
        for _ in range(count):
            at_work = self.crowd.threads
            self.now += self.seconds
            self.inside += at_work * self.seconds
            self.busy += min(at_work * self.computing, 2.0 - self.others) * self.seconds
            self.crowd.delivered(self.now)
            found.append(self.crowd.threads)
        return found


def test_threads_that_compute_are_as_many_as_processors():
    """From the first window on, and for good."""
    found = Run(1.0).batches(1000)
    assert found[:WINDOW] == [8] * WINDOW
    assert set(found[2 * WINDOW :]) == {2}


def test_threads_that_wait_all_work():
    """They sleep for nine tenths of the time: no limit is tried."""
    assert set(Run(0.1).batches(1000)) == {8}


def test_threads_that_wait_half_of_the_time_are_tried_less_and_less_often():
    """Two threads are on a processor for half of their time, which shows that more are needed."""
    found = Run(0.5).batches(20000)
    assert found.count(2) < 0.05 * len(found)
    changes = [place for place, (one, two) in enumerate(itertools.pairwise(found)) if (one, two) == (8, 2)]
    pauses = [two - one for one, two in itertools.pairwise(changes)]
    assert PAUSE <= pauses[0] < 2 * PAUSE
    assert all(two > 1.5 * one for one, two in itertools.pairwise(pauses))
    assert max(pauses) <= 1.1 * LONGEST_PAUSE


def test_a_pipeline_that_begins_to_wait_gets_all_threads():
    """The limit is lifted with the next window."""
    run = Run(1.0)
    run.batches(100)
    run.computing = 0.3
    assert 8 in run.batches(3 * WINDOW)


def test_brief_batches_need_more_of_them():
    """A window has at least 20 ms."""
    run = Run(1.0, seconds=1e-4)
    assert set(run.batches(190)) == {8}
    assert 2 in run.batches(50)


def test_the_wait_for_a_batch_is_limited_only_while_threads_are_idle():
    """If nothing comes for a second, all threads work."""
    run = Run(1.0)
    assert run.crowd.patience(None) is None
    run.batches(100)
    assert run.crowd.patience(None) == STUCK_SECONDS
    assert run.crowd.patience(0.1) == 0.1
    assert run.crowd.lift() == 8
    assert run.crowd.patience(5.0) == 5.0


def square(x):
    return x * x


def pictures(**options):
    numbers = fn.external_source(lambda info: np.float64(info.idx_in_epoch), batch=False)
    return fn.python_function(numbers + fn.random.uniform(range=(0.0, 1.0)), function=square, **options)


@pytest.mark.parametrize(
    ("options", "settings", "expected"),
    [
        ({}, {"num_threads": 8}, 8),
        ({"parallel": "auto"}, {"num_threads": 8}, 8),
        ({"parallel": "threads"}, {"num_threads": 8}, None),
        ({}, {"num_threads": 2}, None),
        ({}, {"num_threads": "auto"}, None),
        ({}, {"num_threads": 8, "exec_async": False}, None),
    ],
)
def test_it_is_for_more_threads_than_processors(monkeypatch, options, settings, expected):
    """Not with functions that may wait for each other, nor if the number of threads is chosen anyway."""
    monkeypatch.setattr(crowd, "available_cpus", lambda: 2)
    pipe = pipeline_def(lambda: pictures(**options), batch_size=4, **settings)()
    pipe.build()
    found = pipe._executor.crowd
    assert (found and found.most) == expected


def test_changes_do_not_change_a_value(monkeypatch):
    """The number of threads changes after every batch."""
    monkeypatch.setattr(crowd, "available_cpus", lambda: 2)
    numbers = itertools.cycle([1, 8, 2, 5])

    def change(self, _now):
        self.threads = next(numbers)
        return True

    monkeypatch.setattr(Crowd, "delivered", change)
    fixed = pipeline_def(pictures, batch_size=5, num_threads=1, seed=3)()
    tuned = pipeline_def(pictures, batch_size=5, num_threads=8, seed=3)()
    for _ in range(30):
        assert fixed.run()[0].as_array().tobytes() == tuned.run()[0].as_array().tobytes()


def test_functions_that_wait_for_a_later_batch_go_on(monkeypatch):
    """One thread works, and its function waits for the source of the next batch: after a while the others work too."""
    monkeypatch.setattr(crowd, "available_cpus", lambda: 2)
    monkeypatch.setattr(crowd, "STUCK_SECONDS", 0.05)
    read = [threading.Event() for _ in range(20)]

    def source(number):
        read[number].set()
        return [np.int64(number)] * 2

    def needs_the_next(x):
        assert read[int(x) + 1].wait(LONG)
        return x

    def graph():
        return fn.python_function(fn.external_source(source), function=needs_the_next)

    pipe = pipeline_def(graph, batch_size=2, num_threads=4, prefetch_queue_depth=4)()
    pipe.build()
    pipe._executor.crowd.threads = pipe._executor._claims.threads = 1
    assert [pipe.run()[0].at(0).item() for _ in range(6)] == list(range(6))
    assert pipe._executor._claims.threads == 4
