"""fn.external_source(parallel=True): the same batches as without, made ahead in worker processes."""

import functools
import os
import threading

import numpy as np
import pytest
from helpers import in_time
from process_helpers import Meeting, meet

from pipeflow import fn, pipeline_def
from pipeflow.errors import WorkerDied


def make(source, batch_size=5, workers=2, outputs=None, run=None, **arguments):
    """A pipeline of one source."""

    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, py_num_workers=workers, **(run or {}))
    def pipeline():
        return fn.external_source(source, num_outputs=outputs, **arguments)

    return pipeline()


def epoch(pipe, most=50):
    """All batches of an epoch, as lists of arrays per output."""
    batches = []
    while len(batches) < most:
        try:
            outputs = pipe.run()
        except StopIteration:
            return batches
        batches.append([[np.asarray(batch.at(i)) for i in range(len(batch))] for batch in outputs])
    return batches


def same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other):
        for a, b in zip(left, right, strict=True):
            for x, y in zip(a, b, strict=True):
                assert x.dtype == y.dtype
                np.testing.assert_array_equal(x, y)


def sample(info):
    """Ragged samples; ends in the middle of a batch."""
    if info.idx_in_epoch >= 23:
        raise StopIteration
    return np.full((info.idx_in_epoch % 4 + 1, 3), info.idx_in_epoch + 1000 * info.epoch_idx, np.int32)


def pair(info):
    if info.iteration >= 4:
        raise StopIteration
    return np.float32([info.idx_in_epoch, info.idx_in_batch, info.iteration]), np.uint8(info.epoch_idx)


def by_iteration(iteration):
    if iteration >= 6:
        raise StopIteration
    return [np.full(i + 1, iteration, np.int16) for i in range(5)]


def by_info(info):
    if info.iteration >= 3:
        raise StopIteration
    return np.full((5, 2), 10 * info.epoch_idx + info.iteration, np.float64), [np.zeros(i) for i in range(5)]


def generator():
    for i in range(7):
        yield np.full((5, 2), i)


class Numbered:
    """An iterable of single samples that counts how often it was walked."""

    def __iter__(self):
        return iter([np.full(2, i) for i in range(12)])


SOURCES = {
    "samples": (sample, {"batch": False}),
    "pairs of samples": (pair, {"batch": False, "outputs": 2}),
    "batches": (by_iteration, {"batch": True}),
    "batches by info": (by_info, {"batch": True, "batch_info": True, "outputs": 2}),
    "generator function": (generator, {"batch": True}),
    "generator function, cycle raise": (generator, {"batch": True, "cycle": "raise"}),
    "iterable of samples": (Numbered(), {"batch": False}),
    "list of batches": ([np.full((5, 1), i) for i in range(4)], {"batch": True, "cycle": "raise"}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_parallel_sources_give_the_same_epochs(name):
    """Order, epoch ends, short last batches and info fields are those of a source in this process, over three epochs."""
    source, arguments = SOURCES[name]
    here, there = make(source, **arguments), make(source, parallel=True, prefetch_queue_depth=2, **arguments)
    for number in range(3):
        first = epoch(here)
        assert number or len(first) > 2
        same(first, epoch(there))
        here.reset()
        there.reset()


def test_a_cycle_without_end():
    """cycle="quiet" starts over by itself."""
    arguments = {"batch": True, "cycle": "quiet"}
    same(epoch(make(generator, **arguments), 20), epoch(make(generator, parallel=True, **arguments), 20))


def test_a_reset_in_the_middle_of_an_epoch():
    """What was asked ahead for the old epoch is forgotten."""
    pipe = make(sample, batch=False, parallel=True, prefetch_queue_depth=3)
    pipe.run()
    pipe.reset()
    (batch,) = pipe.run()
    assert [int(batch.at(i)[0, 0]) for i in range(5)] == [1000, 1001, 1002, 1003, 1004]


@pytest.mark.parametrize("sizes", [[2, 5, 0, 1, 5, 3], [0, 0, 5]])
def test_batches_of_any_size_in_the_middle_of_an_epoch(sizes):
    """Nothing that was asked ahead is lost after a batch that was not full."""
    batches = [np.full((size, 2), number) for number, size in enumerate(sizes)]
    pipe = make(batches, parallel=True, prefetch_queue_depth=3, cycle="raise")
    for _ in range(2):
        same(epoch(pipe), epoch(make(batches, cycle="raise")))
        pipe.reset()


def test_samples_of_an_iterator_beside_a_reader_with_a_short_batch():
    """It is asked for fewer samples than ahead of time: none is lost."""

    @pipeline_def(batch_size=3, num_threads=1, py_num_workers=1)
    def define():
        x = fn.external_source(Numbered(), batch=False, parallel=True, prefetch_queue_depth=2, cycle="raise")
        return fn.readers.dataset(dataset=range(4)), x

    pipe = define()
    found = [[int(x[0]) for x in batch[1].samples()] for _ in range(2) for batch in pipe.epoch()]
    here = pipeline_def(
        lambda: (fn.readers.dataset(dataset=range(4)), fn.external_source(Numbered(), batch=False, cycle="raise")),
        batch_size=3,
        num_threads=1,
    )()
    assert found == [[int(x[0]) for x in batch[1].samples()] for _ in range(2) for batch in here.epoch()]


def test_the_callback_runs_in_workers_and_ahead(tmp_path):
    """Both workers take part, at the same time."""
    meeting = Meeting(tmp_path / "meeting", 2)

    def where(info, path):
        meet(path)
        return np.int64([os.getpid(), info.iteration])

    source = functools.partial(where, path=meeting.path)
    pipe = make(source, batch=False, parallel=True, prefetch_queue_depth=3)
    pids = {int(x[0]) for _ in range(4) for x in in_time(pipe.run)[0].as_array()}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_an_error_in_the_callback():
    """It has its type and says which sample; the following batches are made."""

    def fail(info):
        if info.idx_in_epoch == 7:
            raise LookupError("seven")
        return np.int64(info.idx_in_epoch)

    pipe = make(fail, batch=False, parallel=True)
    pipe.run()
    with pytest.raises(LookupError, match="seven") as info:
        pipe.run()
    notes = "\n".join(info.value.__notes__)
    assert "in fn.external_source, sample 2 of batch 1" in notes
    assert pipe.run()[0].as_array().tolist() == [10, 11, 12, 13, 14]


def test_a_worker_that_dies():
    """Callables: its batch fails and the next is made. An iterator is wound on in a new worker."""

    def die(info):
        if info.idx_in_epoch == 6:
            os._exit(3)
        return np.int64(info.idx_in_epoch)

    pipe = make(die, batch=False, parallel=True)
    pipe.run()
    with pytest.raises(WorkerDied, match=r"os._exit\(3\)"):
        pipe.run()
    assert pipe.run()[0].as_array().tolist() == [10, 11, 12, 13, 14]

    def numbers(parent):
        for i in range(30):
            yield np.int64([os.getpid() if os.getpid() != parent else -1, i] * 5).reshape(5, 2)

    pipe = make(functools.partial(numbers, os.getpid()), batch=True, parallel=True)
    first = pipe.run()[0].as_array()
    assert first[0, 1] == 0
    os.kill(int(first[0, 0]), 9)
    seen = []
    for _ in range(12):
        try:
            seen.append(pipe.run()[0].as_array()[0])
        except WorkerDied:
            continue
    order = [int(x[1]) for x in seen]
    assert order == sorted(set(order))
    assert seen[-1][0] not in (-1, first[0, 0])


def test_large_samples_make_the_shared_memory_grow():
    """Sizes are found out; the statistics tell the blocks."""
    pipe = make(lambda info: np.zeros(50_000 * (info.iteration + 1), np.uint8), batch=False, parallel=True)
    for number in range(5):
        assert pipe.run()[0].at(4).size == 50_000 * (number + 1)
    statistics = pipe.external_source_shm_statistics()
    assert len(statistics["capacities"]) == len(statistics["per_sample_capacities"]) > 0
    assert max(statistics["capacities"]) > 250_000
    assert make(lambda: np.zeros((5, 1)), batch=True).external_source_shm_statistics()["capacities"] == []


def test_batches_belong_to_the_user():
    """A kept batch does not change when its memory could be used again, and may be written to."""
    pipe = make(lambda info: np.full(5000, info.idx_in_epoch, np.int64), batch=False, parallel=True)
    kept = [pipe.run()[0] for _ in range(3)]
    np.asarray(kept[0].at(0))[...] = -1
    for _ in range(10):
        pipe.run()
    assert [int(np.asarray(batch.at(4))[0]) for batch in kept] == [4, 9, 14]
    assert int(np.asarray(kept[0].at(0))[10]) == -1


def test_checkpoints_of_parallel_sources():
    """A callable that is told what to make resumes anywhere, an iterator is wound forward."""
    saving = {"enable_checkpointing": True, "seed": 3}
    for source, arguments in (SOURCES["samples"], SOURCES["generator function"]):
        first = make(source, parallel=True, run=saving, **arguments)
        first.run()
        first.run()
        state = first.checkpoint()
        rest = epoch(first)
        again = make(source, parallel=True, run={**saving, "checkpoint": state}, **arguments)
        same(rest, epoch(again))


def test_what_cannot_be_parallel():
    """Sources that would give every worker the same, and those that cannot travel, are refused with the reason."""
    with pytest.raises(TypeError, match="takes no argument, so all workers would make the same data"):
        make(lambda: np.zeros((5, 1)), batch=True, parallel=True).build()
    with pytest.raises(ValueError, match="parallel=True needs a source"):
        make(None, parallel=True).build()
    with pytest.raises(ValueError, match="prefetch_queue_depth must be at least 1, got 0"):
        make(sample, batch=False, parallel=True, prefetch_queue_depth=0).build()
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"closure variable 'lock' \(lock\)"):
        make(lambda info: lock, batch=False, parallel=True).build()


def test_sources_and_functions_share_the_workers():
    """One pool serves the callback and a function of the same pipeline."""

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, py_num_workers=2)
    def pipeline():
        numbers = fn.external_source(lambda info: np.int64(info.idx_in_epoch), batch=False, parallel=True)
        return fn.python_function(numbers, function=lambda x: x * x, parallel="processes")

    pipe = pipeline()
    for number in range(6):
        assert pipe.run()[0].as_array().tolist() == [i * i for i in range(4 * number, 4 * number + 4)]
