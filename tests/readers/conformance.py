"""What every reader promises, as one function over any class with `__len__`, `fetch` and `source_info`."""

from itertools import product

import numpy as np

from pipeflow.declare import Request
from pipeflow.operators.readers.reader import Reader


def same(first, second):
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b) for a, b in zip(first, second)
    )


def read(reader, batches, batch_size):
    """(indices, positions, whole paths) of the next batches of a Reader."""
    indices, positions, sources = [], [], []
    for iteration in range(batches):
        feed = reader.next(Request(batch_size, 0, iteration, iteration * batch_size))
        assert feed.size == batch_size == len(feed.outputs[0]) == len(feed.positions) == len(feed.source_info)
        assert (np.diff(feed.epochs) >= 0).all()
        indices += feed.outputs[0].tolist()
        positions += feed.positions.tolist()
        sources += [feed.source_info.place(row) for row in range(batch_size)]
        assert all(place.endswith(name) for place, name in zip(sources[-batch_size:], feed.source_info))
    return indices, positions, sources


def check_reader(make, expected, batch_size=3):
    """Checks order, epochs, shards, padding and state of a reader whose samples are `expected`.

    `make()` builds the reader object; `expected` is a list of tuples of arrays, at least four.
    """
    samples = make()
    size = len(expected)
    assert len(samples) == size
    for index in [*range(size), *reversed(range(size))]:  # any order, any number of times
        assert same(samples.fetch(index), expected[index]), f"sample {index}"
        assert isinstance(samples.source_info(index), str)
        assert samples.source_info(index)

    plain = Reader(make, {}, lazy=False)
    batches = 2 * size
    indices, positions, sources = read(plain, batches, batch_size)
    assert indices == [place % size for place in range(batches * batch_size)]
    assert positions == indices
    assert sources == [samples.source_info(index) for index in indices]

    for shuffle, stick, pad, shards in product([False, True], [False, True], [False, True], [1, 2, 3]):
        order = {"random_shuffle": shuffle, "stick_to_shard": stick, "pad_last_batch": pad, "num_shards": shards}
        first_epoch = []
        for shard in range(shards):
            reader = Reader(make, order | {"shard_id": shard}, lazy=True)
            count = reader.order.length(0, batch_size)
            seen, places, _ = read(reader, -(-count // batch_size), batch_size)
            different = reader.order.samples(0)
            first_epoch += list(zip(places[:different], seen[:different]))
            _check_state(make, order | {"shard_id": shard}, batch_size)
            if pad:
                assert seen[different:count] == [seen[different - 1]] * (count - different)
        assert sorted(index for _, index in first_epoch) == list(range(size)), order
        assert sorted(position for position, _ in first_epoch) == list(range(size)), order

    meta = Reader(make, {"num_shards": 3, "shard_id": 1, "pad_last_batch": True}, lazy=False).reader_meta()
    assert meta == {
        "epoch_size": size,
        "epoch_size_padded": 3 * -(-size // 3),
        "number_of_shards": 3,
        "shard_id": 1,
        "pad_last_batch": 1,
        "stick_to_shard": 0,
    }


def _check_state(make, order, batch_size):
    """A reader restored at any batch goes on as the one that was saved."""
    whole = read(Reader(make, order, lazy=False), 6, batch_size)[0]
    running = Reader(make, order, lazy=False)
    for batch in range(5):
        restored = Reader(make, order, lazy=False)
        restored.restore(running.state())
        assert read(restored, 1, batch_size)[0] == whole[batch * batch_size : (batch + 1) * batch_size]
        read(running, 1, batch_size)
