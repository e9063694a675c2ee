"""fn.mix and pipeflow.mix: proportions, order, epochs, shards, weights that change, and what is refused."""

import itertools
import json
import re
from collections import Counter

import numpy as np
import pytest

import pipeflow
from pipeflow import fn, pipeline_def
from pipeflow.operators.readers.mixed_order import BLOCK, Schedule, counts_before, sources_of

SIZES = (10, 5, 3)


class Numbers:
    """Source k has the numbers 100 k, 100 k + 1, ..."""

    def __init__(self, number, size):
        self.number, self.size = number, size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return np.array(100 * self.number + index)


def pipeline(batch_size=4, sizes=SIZES, definition=None, seed=3, mix=None, **order):
    def define():
        readers = [fn.readers.dataset(dataset=Numbers(k, size), **order) for k, size in enumerate(sizes)]
        return fn.mix(readers, name="mixture", **(mix or {})), fn.random.uniform()

    return pipeline_def(define, batch_size=batch_size, num_threads=2, seed=seed)()


def epoch(pipe, policy="partial"):
    """(number, random number) of each sample of an epoch that is no padding."""
    return [
        (int(x), float(r))
        for batch in pipe.epoch(policy)
        for x, r, real in zip(*(output.samples() for output in batch), pipe.valid)
        if real
    ]


def numbers(pipe, policy="partial"):
    return [number for number, _ in epoch(pipe, policy)]


def everything(sizes=SIZES):
    return sorted(100 * k + n for k, size in enumerate(sizes) for n in range(size))


@pytest.mark.parametrize("parts", [(1,), (3, 1), (0, 5, 2), (1, 1, 1, 1), (2**20, 1, 0, 7)])
def test_every_rank_has_one_source_in_proportion(parts):
    """Ranks are counted right from anywhere, and no source is ever two samples and a half away from its share."""
    count = 2000
    found = sources_of(parts, 0, count)
    assert np.array_equal(sources_of(parts, 700, 50), found[700:750])
    for rank in range(0, count + 1, 37):
        seen = np.bincount(found[:rank], minlength=len(parts))
        assert tuple(seen) == counts_before(parts, rank)
        assert np.abs(seen - rank * np.array(parts) / sum(parts)).max() < 2.5


def test_without_weights_every_sample_comes_once_an_epoch():
    """Each source in its own order, spread over the epoch; shuffled sources another way in each epoch."""
    pipe = pipeline()
    for _ in range(2):
        found = numbers(pipe)
        assert sorted(found) == everything()
        for k in range(len(SIZES)):
            mine = [x for x in found if x // 100 == k]
            assert mine == sorted(mine)
    shuffled = pipeline(random_shuffle=True)
    first, second = numbers(shuffled), numbers(shuffled)
    assert sorted(first) == sorted(second) == everything()
    assert [x for x in first if x < 100] != [x for x in second if x < 100] != list(range(10))


def test_a_source_goes_on_in_the_next_epoch_where_it_stopped():
    """A small weight leaves samples for later epochs; a source that is used up begins again."""
    pipe = pipeline(sizes=(10, 7), mix={"weights": [3, 1], "epoch_size": 8})
    found = [numbers(pipe) for _ in range(7)]
    assert all(Counter(x // 100 for x in one) == {0: 6, 1: 2} for one in found)
    whole = list(itertools.chain(*found))
    assert [x for x in whole if x < 100] == [n % 10 for n in range(42)]
    assert [x - 100 for x in whole if x >= 100] == [n % 7 for n in range(14)]


def test_proportions_hold_over_blocks_and_do_not_alternate():
    """Over several blocks the counts are those of the weights, and two shards both see both sources."""
    size = 2 * BLOCK + 100
    pipe = pipeline(500, sizes=(50, 50), mix={"weights": [0.5, 0.5], "epoch_size": size})
    found = np.array(numbers(pipe))
    assert np.bincount(found // 100).tolist() == [size // 2, size // 2]
    assert 0.4 < np.mean(found[::2] // 100) < 0.6


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("shards", [2, 3])
def test_shards_are_every_nth_position_with_the_same_random_numbers(shuffle, shards):
    """Number, place and random number of a sample depend on nothing but its position."""
    mix = {"weights": [1, 2, 3], "epoch_size": 19}
    whole = pipeline(random_shuffle=shuffle, mix=mix)
    parts = [pipeline(3, random_shuffle=shuffle, mix=mix, num_shards=shards, shard_id=k) for k in range(shards)]
    for _ in range(3):
        expected = epoch(whole)
        for shard, part in enumerate(parts):
            assert epoch(part) == expected[shard::shards]


def test_weights_change_between_epochs_and_are_saved():
    """A function gives the weights of each epoch once; a saved state has those of its own epoch."""
    calls = []

    def weights(number):
        calls.append(number)
        return [1, 0] if number % 2 else [1, 3]

    def make():
        return pipeline(sizes=(40, 40), mix={"weights": weights, "epoch_size": 8})

    pipe = make()
    found = [numbers(pipe) for _ in range(3)]
    assert [sum(x < 100 for x in one) for one in found] == [2, 8, 2]
    assert [x for x in itertools.chain(*found) if x < 100] == list(range(12))
    assert calls == sorted(set(calls))

    schedule = Schedule([40, 40], weights, 8)
    before = schedule.share(4)
    again = Schedule([40, 40], lambda number: [1, 1], 8)
    again.restore(json.loads(json.dumps(schedule.state(4))))
    assert again.share(4) == before
    assert again.share(5).parts == (1, 1)
    assert again.share(5).begun == (before.begun[0] + 2, before.begun[1] + 6)


def test_constant_weights_that_were_changed_hold_from_the_next_epoch():
    """A state that was saved with other weights finishes its epoch with those."""
    schedule = Schedule([40, 40], [1, 0], 8)
    again = Schedule([40, 40], [0, 1], 8)
    again.restore(schedule.state(2))
    assert (again.share(2), again.share(3).parts, again.share(3).begun) == (schedule.share(2), (0, 1), (24, 0))


def test_readers_of_several_kinds_and_outputs(tmp_path):
    """Outputs of different readers in one stream, chosen and in the order that is given; sources are named."""
    for k in range(4):
        np.save(tmp_path / f"{k}.npy", np.full(2, k))

    def define():
        arrays = fn.readers.numpy(file_root=str(tmp_path))
        first, second = fn.readers.dataset(
            dataset=[(np.full(2, n), np.full(2, 10 + n)) for n in range(4)], num_outputs=2
        )
        del first
        return fn.mix([arrays, (second,)], name="mixture")

    pipe = pipeline_def(define, batch_size=8, num_threads=2)()
    [batch] = pipe.epoch()
    assert sorted(int(x[0]) for x in batch[0].samples()) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert {x.rpartition("/")[2] for x in batch[0].source_info()} == {
        *(f"{k}.npy" for k in range(4)),
        *(f"list[{k}]" for k in range(4)),
    }
    assert pipe.reader_meta("mixture")["epoch_size"] == 8


def test_mixtures_of_mixtures():
    """A mixture is a source like the others."""

    def define():
        a, b, c = (fn.readers.dataset(dataset=Numbers(k, 6)) for k in range(3))
        return fn.mix([fn.mix([a, b]), c], weights=[2, 1])

    found = numbers(pipeline_def(lambda: (define(), fn.random.uniform()), batch_size=5, num_threads=2, seed=1)())
    assert sorted(found) == everything((6, 6, 6))


def test_a_mixture_is_saved_with_its_readers(tmp_path):
    """A pipeline with a mixture is plain data."""
    for k in range(3):
        (tmp_path / f"{k}.npy").write_bytes(b"")
        np.save(tmp_path / f"{k}.npy", np.full(1, k))

    @pipeline_def(batch_size=4, num_threads=1, seed=2)
    def define():
        readers = [fn.readers.numpy(files=[str(tmp_path / f"{k}.npy")], seed=5) for k in range(3)]
        return fn.mix(readers, weights=[1, 2, 1], epoch_size=4)

    pipe = define()
    again = pipeflow.Pipeline.deserialize(pipe.serialize())
    assert [x.tolist() for x in pipe.run()[0].samples()] == [x.tolist() for x in again.run()[0].samples()]


@pytest.mark.parametrize(
    ("sources", "arguments", "error", "message"),
    [
        (lambda a, b: a, {}, TypeError, "sources is a list with one entry for each reader"),
        (lambda a, b: [a, 3], {}, TypeError, "source 1 is 3: give an output of a reader"),
        (
            lambda a, b: [a, fn.cast(b, dtype=np.int32)],
            {},
            TypeError,
            "source 1 comes from fn.cast, which is no reader",
        ),
        (lambda a, b: [a, (a, b)], {}, ValueError, "source 1 has outputs of two operators"),
        (lambda a, b: [(a, a), b], {}, ValueError, "the sources have [2, 1] outputs"),
        (lambda a, b: [], {}, ValueError, "sources has one entry for each reader"),
        (lambda a, b: [a, b], {"weights": [1, 2, 3]}, ValueError, "weights must be 2 numbers, one for each source"),
        (lambda a, b: [a, b], {"weights": [1, -1]}, ValueError, "weights must not be negative"),
        (lambda a, b: [a, b], {"weights": lambda n: [0, 0]}, ValueError, "weights(0) must not be negative, and one"),
        (lambda a, b: [a, b], {"epoch_size": 0}, ValueError, "epoch_size is a number of samples from 1 on, got 0"),
    ],
)
def test_what_is_refused(sources, arguments, error, message):
    """Each with what to write instead."""

    def define():
        a, b = (fn.readers.dataset(dataset=Numbers(k, 4)) for k in range(2))
        return fn.mix(sources(a, b), **arguments)

    with pytest.raises(error, match=re.escape(message)):
        pipeline_def(define, batch_size=2, num_threads=1)().run()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"num_shards": 2}, "source 0 has num_shards=1 and source 1 2"),
        ({"stick_to_shard": True}, "stick_to_shard=True"),
    ],
)
def test_readers_that_disagree_are_refused(order, message):
    """Shards are those of the whole mixture."""

    def define():
        return fn.mix([fn.readers.dataset(dataset=Numbers(0, 4)), fn.readers.dataset(dataset=Numbers(1, 4), **order)])

    with pytest.raises(ValueError, match=message):
        pipeline_def(define, batch_size=2, num_threads=1)().build()


# pipeflow.mix, for the loader.


def items(loader):
    return [int(x) for batch in loader for x in batch]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_resumes_a_mixture_at_every_batch(shuffle):
    """State after any batch of two epochs with other weights each, and by another number of shards."""

    def make(**shard):
        mixed = pipeflow.mix([Numbers(k, size) for k, size in enumerate(SIZES)], lambda n: [1, 1 + n, 1], epoch_size=11)
        return pipeflow.loader(mixed, 3, shuffle=shuffle, seed=5, framework="numpy", **shard)

    loader = make()
    whole = [items(loader) for _ in range(3)]
    assert all(len(one) == 11 for one in whole)
    assert len(make()) == 4
    for stop in range(1, 8):
        loader = make()
        seen = []
        for batch in itertools.islice(itertools.chain(loader, loader), stop):
            seen.append(batch)
            state = json.dumps(loader.state_dict())
        again = make()
        again.load_state_dict(json.loads(state))
        rest = [int(x) for _ in range(again.epoch, 3) for x in items(again)]
        taken = [int(x) for batch in seen for x in batch]
        assert taken + rest == list(itertools.chain(*whole))

    loader = make()
    next(iter(loader))
    shards = [make(shard_id=k, num_shards=2) for k in range(2)]
    for shard in shards:
        shard.load_state_dict(loader.state_dict())
    first, second = map(items, shards)
    assert sorted(first + second) == sorted(whole[0][3:])


def test_a_mixture_of_data_sets_names_what_fails():
    """The data set and the item's own index; what has no index is refused."""

    class Broken(Numbers):
        def __getitem__(self, index):
            raise KeyError("x")

    loader = pipeflow.loader(pipeflow.mix([Numbers(0, 2), Broken(1, 2)]), 4, seed=1, framework="numpy")
    with pytest.raises(KeyError) as caught:
        list(loader)
    assert re.search(r"item [01] of data set 1, Broken", "\n".join(caught.value.__notes__))
    with pytest.raises(TypeError, match="data set 1, list_iterator, has no __"):
        pipeflow.mix([Numbers(0, 2), iter([1])])
    with pytest.raises(ValueError, match="data set 0, Numbers, has no items"):
        pipeflow.mix([Numbers(0, 0)])
    with pytest.raises(ValueError, match="at least one data set"):
        pipeflow.mix([])
    with pytest.raises(ValueError, match="a mixture decides the order itself"):
        pipeflow.loader(pipeflow.mix([Numbers(0, 2)]), sampler=[0])
    with pytest.raises(IndexError, match="item 2 of 2"):
        pipeflow.mix([Numbers(0, 2)])[2]
