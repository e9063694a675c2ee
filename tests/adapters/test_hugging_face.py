"""Hugging Face data sets, for real: indexed ones and streams, their columns, shards and states."""

import json

import numpy as np
import pytest

import pipeflow

pytestmark = pytest.mark.adapters


@pytest.fixture(scope="module")
def rows():
    import datasets

    columns = {"x": np.arange(23, dtype=np.float32), "y": np.arange(23) % 5}
    return datasets.Dataset.from_dict(columns).with_format("numpy")


def numbers(batch):
    return [int(x) for x in batch[0].samples()]


def test_columns_are_outputs_in_their_order(rows):
    """Every column of the data set is an output, with its own type; the reader's name gives the size."""
    pipe = pipeflow.from_torch_dataset(rows, 8, seed=1)
    x, y = next(pipe.epoch())
    assert numbers((x,)) == list(range(8))
    assert [int(label) for label in y.samples()] == [n % 5 for n in range(8)]
    assert x.dtype == pipeflow.types.FLOAT
    assert pipe.epoch_size("dataset") == 23


def test_shards_are_shuffled_and_exact(rows):
    """Over three ranks and two epochs every row comes once, and the orders differ."""
    ranks = [pipeflow.from_torch_dataset(rows, 4, shuffle=True, shard_id=k, num_shards=3, seed=2) for k in range(3)]
    orders = []
    for _ in range(2):
        seen = []
        for pipe in ranks:
            for batch in pipe.epoch():
                seen += [n for n, valid in zip(numbers(batch), pipe.valid) if valid]
        assert sorted(seen) == list(range(23))
        orders.append(seen)
    assert orders[0] != orders[1]


def test_a_state_continues_a_shuffled_epoch(rows):
    """The rest of an epoch after state_dict() and load_state_dict()."""
    first = pipeflow.from_torch_dataset(rows, 4, shuffle=True, seed=3)
    loop = first.epoch()
    next(loop), next(loop)
    state = json.loads(json.dumps(first.state_dict()))
    rest = [numbers(batch) for batch in loop]
    second = pipeflow.from_torch_dataset(rows, 4, shuffle=True, seed=3)
    second.load_state_dict(state)
    assert [numbers(batch) for batch in second.epoch()] == rest


def test_streams_keep_their_own_order(rows):
    """An IterableDataset is read from its beginning in every epoch; shuffling or sharding it here is refused."""
    stream = rows.to_iterable_dataset().with_format("numpy")
    pipe = pipeflow.from_torch_dataset(stream, 8, seed=1)
    for _ in range(2):
        assert [n for batch in pipe.epoch() for n in numbers(batch)] == list(range(23))
    with pytest.raises(ValueError, match="decides its order and its shards itself"):
        pipeflow.from_torch_dataset(stream, 8, shuffle=True)
