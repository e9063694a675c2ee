"""Batches and epochs without samples: every way to run a pipeline goes through them, and goes on after them."""

import numpy as np
import pytest

import pipeflow
from pipeflow import fn, pipeline_def
from pipeflow.epochs import LastBatchPolicy
from pipeflow.plugin.numpy import GenericIterator, RaggedIterator

SIZES = [0, 2, 0, 1]  # of the batches of an epoch
every_iterator = pytest.mark.parametrize("kind", [GenericIterator, RaggedIterator])


def batches():
    """Batches of these sizes, whose numbers differ."""
    return [np.full((size, 3), place, np.float32) for place, size in enumerate(SIZES)]


def make(source, change=lambda x: x, batch_size=2, arguments=None, **settings):
    """A pipeline over a source."""
    settings = {"batch_size": batch_size, "num_threads": 2, "seed": 1, "enable_checkpointing": True, **settings}
    return pipeline_def(lambda: change(fn.external_source(source, **(arguments or {}))), **settings)()


# What is done with the data -> the same for NumPy.
CHANGES = {
    "nothing": (lambda x: x, lambda x: x),
    "arithmetic": (lambda x: x * 2 + 1, lambda x: x * 2 + 1),
    "a function of a sample": (lambda x: fn.python_function(x, function=np.negative), np.negative),
    "functions on threads": (lambda x: fn.python_function(x, function=np.negative, parallel="threads"), np.negative),
    "a function of a batch": (
        lambda x: fn.python_function(x, function=lambda xs: [-x for x in xs], batch_processing=True),
        np.negative,
    ),
}


@pytest.mark.parametrize("settings", [{}, {"exec_async": False}, {"prefetch_queue_depth": 4}, {"debug": True}], ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_every_way_of_running(name, settings):
    """With run() and in epochs, with any number of batches ahead: batches without samples are delivered in their places."""
    change, plain = CHANGES[name]
    expected = [plain(batch).tolist() for batch in batches()]
    pipe = make(batches(), change, **settings)
    for _ in range(2):
        assert [[sample.tolist() for sample in batch[0].samples()] for batch in pipe.epoch()] == expected
    other = make(batches(), change, arguments={"cycle": "raise"}, **settings)
    for _ in range(2):
        assert [[sample.tolist() for sample in other.run()[0].samples()] for _ in SIZES] == expected
        with pytest.raises(StopIteration):
            other.run()
        other.reset()


@pytest.mark.parametrize("way", ["processes", "a source in processes"])
def test_worker_processes(way):
    """A function or a source in worker processes, which have nothing to do for such a batch."""
    if way == "processes":
        pipe = make(batches(), lambda x: fn.python_function(x, function=np.negative, parallel="processes"))
    else:
        pipe = make(batches(), lambda x: -x, arguments={"parallel": True})
    for _ in range(2):
        assert [[sample.tolist() for sample in batch[0].samples()] for batch in pipe.epoch()] == [
            (-batch).tolist() for batch in batches()
        ]


@every_iterator
@pytest.mark.parametrize("policy", [LastBatchPolicy.FILL, LastBatchPolicy.PARTIAL], ids=str)
@pytest.mark.parametrize("several", [False, True])
def test_every_iterator_delivers_them(kind, policy, several):
    """As arrays without rows, with a mask without values; epochs follow each other."""
    pipe = make(batches(), lambda x: (x, x + 1) if several else x, arguments={"cycle": "raise"})
    names = ["x", "y"] if several else ["x"]
    iterator = kind(pipe, names, last_batch_policy=policy, mask="valid")
    for _ in range(2):
        found = list(iterator)
        assert [[len(batch[0][name]) for batch in found] for name in [*names, "valid"]] == [SIZES] * (1 + len(names))
        assert [np.asarray(batch[0]["x"]).ravel().tolist() for batch in found] == [
            x.ravel().tolist() for x in batches()
        ]


@pytest.mark.parametrize("policy", list(LastBatchPolicy), ids=str)
@every_iterator
def test_every_iterator_delivers_objects(kind, policy):
    """Text, and batches without any, whatever the policy; two epochs."""
    values = [["a", "bc"], [], ["d", "ef"]]
    pipe = make(values, arguments={"cycle": "raise", "dtype": object, "ndim": 0})
    iterator = kind(pipe, ["x"], last_batch_policy=policy)
    expected = [x for x in values if x or policy is not LastBatchPolicy.DROP]
    for _ in range(2):
        found = [batch[0]["x"] for batch in iterator]
        assert [
            [np.asarray(x).item() if isinstance(x, np.ndarray) else x for x in batch] for batch in found
        ] == expected


@every_iterator
def test_an_iterator_over_a_batch_whose_samples_were_all_skipped(kind):
    """Such a batch has no samples either."""

    def define():
        number = fn.readers.dataset(dataset=range(6), name="numbers")
        return fn.python_function(number, function=lambda x: 12 // (int(x) // 2), on_error="skip")

    pipe = pipeline_def(define, batch_size=2, num_threads=1)()
    iterator = kind(pipe, ["x"], reader_name="numbers")
    for _ in range(2):
        assert [np.asarray(batch[0]["x"]).tolist() for batch in iterator] == [[], [12, 12], [6, 6]]


@pytest.mark.parametrize("policy", list(LastBatchPolicy), ids=str)
@every_iterator
def test_an_epoch_of_none(policy, kind):
    """It ends at once, its length is 0, and another follows; with every policy and every kind of source."""

    def generator():
        return
        yield

    def stops(info):
        raise StopIteration

    for source, batched in (
        ([], True),
        ([], False),
        (generator, True),
        (generator, False),
        (stops, True),
        (stops, False),
    ):
        cycle = {} if source is stops else {"cycle": "raise"}
        iterator = kind(make(source, arguments={"batch": batched, **cycle}), ["x"], last_batch_policy=policy)
        assert [list(iterator), list(iterator)] == [[], []]
        ending = {LastBatchPolicy.FILL: "fill", LastBatchPolicy.DROP: "drop", LastBatchPolicy.PARTIAL: "partial"}[
            policy
        ]
        pipe = make(source, arguments={"batch": batched})
        assert [list(pipe.epoch(ending)), list(pipe.epoch(ending))] == [[], []]
        if source == []:
            assert (len(pipe), len(pipe.epoch()), len(iterator)) == (0, 0, 0)


def test_checkpoints_between_them():
    """After every batch, and between epochs, a pipeline and an iterator that are taken up go on with the rest."""
    pipe = make(batches())
    for place, _ in enumerate(pipe.epoch()):
        rest = make(batches(), checkpoint=pipe.checkpoint())
        assert [len(batch[0]) for batch in rest.epoch()] == SIZES[place + 1 :]
        assert [len(batch[0]) for batch in rest.epoch()] == SIZES
    iterator = GenericIterator(make(batches(), arguments={"cycle": "raise"}), ["x"])
    for place, _ in enumerate(iterator):
        other = GenericIterator(make(batches(), arguments={"cycle": "raise"}), ["x"])
        other.load_state_dict(iterator.state_dict())
        assert [len(batch[0]["x"]) for batch in other] == SIZES[place + 1 :]
    empty = make([])
    states = [empty.checkpoint()]
    for _ in range(2):
        assert list(empty.epoch()) == []
        states.append(empty.checkpoint())
    for state in states:
        assert list(make([], checkpoint=state).epoch()) == []


class Stream:
    """A data set that can only be iterated over, and has nothing."""

    def __iter__(self):
        return iter(())


# What has no batches -> the arguments of the loader.
LOADERS = {
    "no items": ([], {}),
    "no items, shuffled": ([], {"shuffle": True}),
    "no items, buckets": ([], {"bucket_by": []}),
    "a stream": (Stream(), {}),
    "a sampler": ([1, 2], {"sampler": []}),
    "a sampler of batches": ([1, 2], {"batch_size": 1, "batch_sampler": []}),
    "fewer items than a batch": ([1, 2], {"drop_last": True}),
    "rows of no documents": (pipeflow.pack([], 8), {}),
}


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1, "workers": "threads"}], ids=["here", "threads"])
@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_without_batches(name, workers):
    """Its epochs end at once, its states can be taken up, and its length is 0 if it has one."""
    data, arguments = LOADERS[name]

    def loader():
        return pipeflow.loader(data, **{"batch_size": 3, "seed": 1, **workers, **arguments})

    first = loader()
    assert [list(first), list(first)] == [[], []]
    other = loader()
    other.load_state_dict(first.state_dict())
    assert list(other) == []
    if name != "a stream":
        assert len(first) == 0


def test_worker_processes_of_a_loader_without_batches():
    """They are started and have nothing to do."""
    assert list(pipeflow.loader([], batch_size=3, num_workers=1)) == []


def test_a_batch_of_a_sampler_without_items():
    """There is no array of it, unless a function makes one."""
    with pytest.raises(IndexError, match=r"batch_sampler gave a batch without items.*leave it out, or give collate_fn"):
        list(pipeflow.loader([1, 2], batch_sampler=[[]]))
    assert list(pipeflow.loader([1, 2], batch_sampler=[[], [1]], collate_fn=list)) == [[], [2]]
