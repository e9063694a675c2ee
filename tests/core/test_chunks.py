"""How many samples a thread takes at once."""

import pytest

from pipeflow.executor.chunks import ALONE, CHAIN, SAMPLES, chunk_size


def parts(size, threads, seconds, limits, batches=8):
    """The chunks of a batch."""
    found = []
    while size:
        found.append(chunk_size(size, threads, seconds, limits, batches))
        size -= found[-1]
    return found


def test_little_work_is_not_divided():
    """Eight samples of 0.1 ms in a chain are one chunk, however many threads there are: others go on with the next batch."""
    assert parts(8, 8, 1e-4, CHAIN) == [8]
    assert parts(8, 8, 1e-5, SAMPLES) == [8]


def test_long_samples_are_shared_one_by_one():
    """Samples that are worth a chunk each are divided so that no thread waits long for the last one."""
    assert parts(8, 2, 0.04, CHAIN) == [1] * 8
    assert parts(16, 2, 0.003, SAMPLES) == [1] * 16


def test_a_chunk_is_a_share_of_the_rest_between_the_limits():
    """Each takes a part of what is left, until the parts are worth too little."""
    assert parts(64, 8, 1e-3, CHAIN) == [8, 7, 7, 6, 5, 4, 4, 3, 3, 3, 3, 3, 3, 3, 2]
    assert parts(100, 2, 5e-5, SAMPLES) == [25, 19, 14, 11, 8, 6, 5, 5, 5, 2]


def test_few_threads_take_long_chunks_of_a_chain():
    """Each begins with Python, and the thread that is over first goes on with the next batch."""
    assert parts(64, 2, 6e-4, CHAIN) == [32, 16, 16]  # the last one is not divided
    assert parts(30, 2, 7e-4, CHAIN) == [15, 15]
    assert parts(14, 2, 7e-4, CHAIN) == [14]  # what is left would be worth too little
    assert parts(256, 2, 6e-4, CHAIN) == [54, 54, 54, 47, 24, 14, 9]


def test_threads_share_a_batch_if_there_is_no_other_for_them():
    """With one batch ahead, or while the loop computes, a second thread would wait."""
    assert parts(14, 2, 7e-4, CHAIN, batches=1) == [7, 4, 3]
    assert parts(8, 2, 7e-4, CHAIN, batches=1) == [4, 3, 1]
    assert parts(64, 2, 6e-4, CHAIN, batches=1) == [32, 16, 8, 4, 4]
    assert parts(64, 8, 1e-3, CHAIN, batches=2) == parts(64, 8, 1e-3, CHAIN)


@pytest.mark.parametrize("limits", [SAMPLES, CHAIN])
def test_one_thread_takes_as_much_as_a_chunk_may_have(limits):
    """It takes all samples, if they are not more work than the upper limit."""
    assert chunk_size(10, 1, 1e-6, limits, 1) == 10
    assert chunk_size(10_000, 1, 1e-4, limits, 1) == round((ALONE if limits == CHAIN else 1) * limits[1] / 1e-4) + 1
