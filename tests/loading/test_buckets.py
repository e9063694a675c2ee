"""`bucket_by=`: batches of like lengths within a budget, every item once, in shards, resumed at every batch."""

import itertools
import json

import numpy as np
import pytest

import pipeflow
from pipeflow import fn
from pipeflow.errors import InvalidState
from pipeflow.loading.buckets import Buckets

LENGTHS = np.random.default_rng(5).integers(1, 60, 500)


class Items:
    """Item i is i and LENGTHS[i] times i."""

    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, index):
        return index, np.full(LENGTHS[index], index)


def as_they_are(items):
    return [index for index, _ in items]


def loader(**arguments):
    arguments = {"bucket_by": LENGTHS, "collate_fn": as_they_are, "framework": "numpy", "seed": 3, **arguments}
    return pipeflow.loader(Items(), **arguments)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("limits", [{"batch_size": 16}, {"max_tokens": 400}, {"batch_size": 10, "max_tokens": 300}])
def test_batches_have_like_lengths_within_the_budget(shuffle, limits):
    """Each item comes once; little is padded; no batch is above either limit, and none could take the next item too."""
    made = loader(shuffle=shuffle, **limits)
    for _ in range(2):
        expected = len(made)
        batches = list(made)
        assert len(batches) == expected
        assert sorted(itertools.chain(*batches)) == list(range(len(LENGTHS)))
        padded = sum(len(batch) * LENGTHS[batch].max() for batch in batches)
        assert padded < 1.1 * LENGTHS.sum()
        assert max(map(len, batches)) <= limits.get("batch_size", 500)
        if "max_tokens" in limits:
            assert max(len(batch) * LENGTHS[batch].max() for batch in batches) <= limits["max_tokens"]
        else:
            assert sorted(map(len, batches))[1] == limits["batch_size"]
    if shuffle:
        assert [sorted(x) for x in batches] != [sorted(x) for x in loader(shuffle=True, **limits)]


def test_a_seed_says_the_batches():
    """The same for the same seed, others for another one; lengths may be a function of the index."""
    first, same, other = (list(loader(shuffle=True, max_tokens=200, seed=seed)) for seed in (1, 1, 2))
    assert first == same != other
    assert list(loader(shuffle=True, max_tokens=200, seed=1, bucket_by=lambda index: LENGTHS[index])) == first


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shards", [2, 3])
def test_shards_get_every_nth_batch(shards, drop_last):
    """Equally many batches each; a shard without a last batch gets one item of it, or the round is left out."""
    arguments = {"shuffle": True, "max_tokens": 400, "drop_last": drop_last}
    whole = list(loader(**arguments))
    parts = [list(loader(**arguments, shard_id=shard, num_shards=shards)) for shard in range(shards)]
    count = len(whole) // shards if drop_last else -(-len(whole) // shards)
    padded = whole + [whole[-1][:1]] * (count * shards - len(whole))
    assert parts == [padded[shard : count * shards : shards] for shard in range(shards)]
    assert len(loader(**arguments, num_shards=shards)) == count


def test_the_last_batch_that_is_not_full_is_dropped():
    """With batch_size alone, as without buckets."""
    batches = list(loader(batch_size=16, drop_last=True))
    assert {len(batch) for batch in batches} == {16}
    assert len(batches) == len(LENGTHS) // 16


def test_resume_at_every_batch():
    """The rest of the epoch and the next one, also by another number of shards; another budget is refused."""
    arguments = {"shuffle": True, "max_tokens": 1500}
    whole = loader(**arguments)
    epochs = [list(whole) for _ in range(2)]
    running = loader(**arguments)
    for number, _ in enumerate(running, 1):
        state = json.loads(json.dumps(running.state_dict()))
        again = loader(**arguments)
        again.load_state_dict(state)
        assert list(again) == epochs[0][number:]
        shards = [loader(**arguments, shard_id=shard, num_shards=2) for shard in range(2)]
        rests = []
        for shard in shards:
            shard.load_state_dict(state)
            rests.append(list(shard))
        mixed = [x for pair in zip(*rests) for x in pair][: len(epochs[0]) - number]
        assert mixed == epochs[0][number:]
    assert list(running) == epochs[1]
    running = loader(**arguments)
    next(iter(running))
    running_state = running.state_dict()
    other = loader(shuffle=True, max_tokens=1400)
    other.load_state_dict(running_state)
    with pytest.raises(InvalidState, match="of other lengths, or of another batch_size, max_tokens"):
        iter(other)


def test_a_pipeline_over_buckets_resumes_at_every_batch():
    """Batches of the pipeline are those of the loader, padded to their longest; every place can be resumed."""

    def make():
        return loader(
            collate_fn=None,
            shuffle=True,
            max_tokens=3000,
            transform=lambda index, tokens: (index, fn.pad(tokens), fn.random.uniform()),
            num_threads=2,
        )

    plain = list(loader(shuffle=True, max_tokens=3000))
    running = make()
    rows = [(index.tolist(), tokens.shape, draw.tolist()) for index, tokens, draw in running]
    assert [index for index, *_ in rows] == plain
    assert all(shape == (len(index), LENGTHS[index].max()) for index, shape, _ in rows)
    running = make()
    for number, _ in enumerate(running, 1):
        again = make()
        again.load_state_dict(json.loads(json.dumps(running.state_dict())))
        rest = [(index.tolist(), tokens.shape, draw.tolist()) for index, tokens, draw in again]
        if number < len(rows):
            assert rest == rows[number:]
        if number == 3:
            break


def test_many_lengths_at_once():
    """A hundred thousand items: the budget is used to 95 in 100."""
    lengths = np.clip(np.random.default_rng(0).lognormal(5, 1, 100_000), 1, 2048).astype(int)
    made = Buckets(lengths, len(lengths), batch_size=None, max_tokens=16384, shuffle=True, drop_last=False)
    batches = made.of_epoch(1, 0)
    assert lengths.sum() > 0.95 * 16384 * len(batches.ends)
    longest = max(len(x) * lengths[x].max() for x in map(batches.items, range(len(batches.ends))))
    assert longest <= 16384
    assert max(len(batches.items(n)) for n in range(len(batches.ends))) <= made.most


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"max_tokens": 20}, "has the length [0-9]+, and a batch may have max_tokens=20"),
        ({"max_tokens": 0}, "max_tokens must be a number from 1 on, got 0"),
        ({}, "bucket_by needs a batch_size above 1, or max_tokens"),
        ({"bucket_by": None, "max_tokens": 20}, "max_tokens needs bucket_by"),
        ({"bucket_by": LENGTHS[1:], "max_tokens": 99}, r"bucket_by has the shape \(499,\)"),
        ({"bucket_by": LENGTHS / 2, "max_tokens": 99}, "the type float64"),
        ({"bucket_by": -LENGTHS, "max_tokens": 99}, "has the length -"),
        ({"max_tokens": 99, "sampler": [0]}, "bucket_by makes the batches itself"),
    ],
)
def test_what_is_refused(arguments, text):
    """With the item, or with what to give instead."""
    with pytest.raises(ValueError, match=text):
        loader(**arguments)


@pytest.mark.parametrize(("size", "batches"), [(4, 2), (5, 2), (1, 0), (6, 3)])
def test_only_the_last_batch_is_dropped_and_only_if_it_is_short(size, batches):
    """Of two items each; the order is as given."""
    buckets = Buckets([1] * size, size, batch_size=2, max_tokens=None, shuffle=False, drop_last=True)
    made = buckets.of_epoch(0, 0)
    assert [made.ends.tolist(), made.starts.tolist()] == [
        list(range(2, 2 * batches + 1, 2)),
        list(range(0, 2 * batches, 2)),
    ]
