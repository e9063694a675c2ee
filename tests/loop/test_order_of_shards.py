"""Which samples the ranks of a job get from a shuffled reader."""

import pytest

from pipeflow import fn, pipeline_def
from pipeflow.plugin.numpy import GenericIterator


def visited(shard, num_shards=2, epochs=1, **settings):
    """The indices that one rank of a shuffled reader gives."""

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, **settings)
    def define():
        return fn.readers.dataset(
            dataset=list(range(12)), random_shuffle=True, shard_id=shard, num_shards=num_shards, name="numbers"
        )

    pipe = define()
    return [int(x) for _ in range(epochs) for (batch,) in pipe.epoch() for x in batch.samples()]


def test_the_order_of_several_shards_depends_on_the_seed_of_the_pipeline():
    """Ranks with the same seed share one permutation, of another seed another one; without a seed they still agree."""
    orders = {}
    for seed in (1, 2, None):
        orders[seed] = [visited(shard, seed=seed) for shard in range(2)]
        assert sorted(orders[seed][0] + orders[seed][1]) == list(range(12))
    assert orders[1] != orders[2]
    dealt = [x for pair in zip(*orders[1]) for x in pair]
    assert dealt == visited(0, num_shards=1, seed=1)


def test_pipelines_of_one_loop_that_would_shuffle_differently_are_refused():
    """Samples would be lost and come twice; the message says what to do."""

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def define(shard):
        return fn.readers.dataset(
            dataset=list(range(12)), random_shuffle=True, shard_id=shard, num_shards=2, name="numbers"
        )

    with pytest.raises(
        ValueError, match=r"seeds of the pipelines differ \(\[12, 13\]\): give all of them the same seed"
    ):
        GenericIterator([define(0, seed=12), define(1, seed=13)], ["x"], reader_name="numbers")
    loader = GenericIterator([define(0, seed=12), define(1, seed=12)], ["x"], reader_name="numbers")
    assert sorted(x for batches in loader for batch in batches for x in batch["x"].tolist()) == list(range(12))


def test_ranks_without_a_seed_go_on_from_their_checkpoints():
    """The pipelines draw a seed each, and their readers one order together, also when they are restored."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_checkpointing=True)
    def define(shard):
        return fn.readers.dataset(
            dataset=list(range(12)), random_shuffle=True, shard_id=shard, num_shards=2, name="numbers"
        )

    loader = GenericIterator([define(0), define(1)], ["x"], reader_name="numbers")
    next(loader)
    pipelines = [define(shard, checkpoint=text) for shard, text in enumerate(loader.checkpoints())]
    restored = GenericIterator(pipelines, ["x"], reader_name="numbers")
    assert values_left(restored) == values_left(loader) != []


def values_left(loader):
    """What an iterator gives until its epoch ends."""
    left = []
    while True:
        try:
            left.append([batch["x"].tolist() for batch in next(loader)])
        except StopIteration:
            return left
