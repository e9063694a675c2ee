"""A thread that has moved a batch to its next stage goes on with it only if that is the oldest work that no thread has."""

from collections import deque

import pytest

from pipeflow.executor.batch import BatchRun
from pipeflow.executor.claims import Claims
from pipeflow.executor.runners.base import StageRunner

SIZE = 8


class OfSamples(StageRunner):
    """Threads share its batches: each takes half of what is left."""

    per_sample = True

    def chunk(self, left, threads, batches):
        return left if threads == 1 else -(-left // 2)


class Waiting(StageRunner):
    """Its batches may have to wait."""

    waits = True


class Alone(OfSamples):
    """One thread at a time may work in it."""

    alone_if_better = True


class InStrands(OfSamples):
    """Two threads share each chunk."""

    strands = 2


@pytest.fixture
def started():
    """A thread has done the first stage of the first of two batches, which is now in the stage of this kind."""

    def start(following, threads=2):
        ring = deque(BatchRun(index, 0) for index in range(2))
        claims = Claims(ring, [StageRunner(), following()], threads)
        task = claims.claim()
        batch = task.batch
        assert (batch, batch.claimed) == (ring[0], True)
        task.over = True
        batch.stage, batch.claimed, batch.cursor, batch.size = 1, False, 0, SIZE
        return claims, task, batch, ring

    return start


def test_the_task_gets_the_whole_batch(started):
    claims, task, batch, _ = started(StageRunner)
    assert claims.goes_on(task)
    assert (task.begin, task.end, task.over, batch.claimed) == (0, 0, False, True)


@pytest.mark.parametrize(("threads", "chunk"), [(1, SIZE), (2, SIZE // 2)])
def test_the_task_gets_a_share_of_the_samples(started, threads, chunk):
    claims, task, batch, _ = started(OfSamples, threads)
    assert claims.goes_on(task)
    assert (task.begin, task.end, batch.cursor, task.over) == (0, chunk, chunk, False)


@pytest.mark.parametrize("kind", [Waiting, InStrands])
def test_stages_with_rules_of_their_own_are_claimed(started, kind):
    claims, task, _, _ = started(kind)
    assert not claims.goes_on(task)
    assert task.over


@pytest.mark.parametrize("alone", [False, True])
def test_a_stage_for_one_thread_at_a_time_is_claimed(started, alone):
    claims, task, _, _ = started(Alone)
    claims.alone = alone
    assert claims.goes_on(task) is not alone


def test_an_older_batch_comes_first(started):
    claims, task, _, ring = started(StageRunner)
    ring.appendleft(BatchRun(-1, 0))
    assert not claims.goes_on(task)
    ring[0].done = True
    assert claims.goes_on(task)


def test_a_batch_that_was_dropped_is_not_continued(started):
    claims, task, _, ring = started(StageRunner)
    ring.clear()
    assert not claims.goes_on(task)


def test_another_thread_may_be_faster(started):
    claims, task, batch, _ = started(OfSamples)
    batch.cursor = 3
    assert claims.goes_on(task)
    assert (task.begin, task.end) == (3, 6)
    batch.cursor = SIZE
    assert not claims.goes_on(task)
    claims, task, batch, _ = started(StageRunner)
    batch.claimed = True
    assert not claims.goes_on(task)


def test_a_thread_too_many_does_not_go_on(started):
    claims, task, _, _ = started(StageRunner)
    claims.threads = 0
    assert not claims.goes_on(task)
