"""What holds for every declared reader, over seven samples: no number of shards or batch size divides them.

A new reader is among them when `loop.checkpoint_cases` has files for it, which another test asks for.
"""

import os

import numpy as np
import pytest
from loop.checkpoint_cases import COUNT, READERS, write_files

from pipeflow import fn, pipeline_def
from pipeflow.plugin.base import LastBatchPolicy
from pipeflow.plugin.numpy import RaggedIterator

every_reader = pytest.mark.parametrize("reader", READERS)
every_order = pytest.mark.parametrize("order", [{}, {"random_shuffle": True}], ids=["in order", "shuffled"])


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """The files of all readers."""
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    before = os.environ.get("PIPEFLOW_CASES")
    os.environ["PIPEFLOW_CASES"] = str(folder)
    yield
    if before is None:
        del os.environ["PIPEFLOW_CASES"]


def outputs_of(reader, order):
    """The nodes of a reader as a tuple."""
    read = READERS[reader](name="reader", **order)
    return tuple(read.values() if isinstance(read, dict) else read if isinstance(read, (list, tuple)) else [read])


def pipeline(reader, batch_size=3, **order):
    """A pipeline that gives what the reader gives."""
    return pipeline_def(lambda: outputs_of(reader, order), batch_size=batch_size, num_threads=2, seed=11)()


def rows(batch):
    """The samples of a batch, each with all its outputs, as plain values."""
    return [tuple(np.asarray(output.at(index)).tolist() for output in batch) for index in range(len(batch[0]))]


def epoch(pipe, policy="partial"):
    return [rows(batch) for batch in pipe.epoch(policy)]


def everything(reader):
    """All samples in order."""
    return [row for batch in epoch(pipeline(reader, batch_size=COUNT)) for row in batch]


@every_reader
def test_all_samples_come_and_differ(reader):
    """Seven samples, each another one, in every output as many."""
    found = everything(reader)
    assert len(found) == COUNT
    assert len(set(map(str, found))) == COUNT


@every_reader
@every_order
@pytest.mark.parametrize("batch_size", [1, 2, 3, COUNT - 1, COUNT, COUNT + 1])
def test_an_epoch_is_the_same_in_batches_of_any_size(reader, order, batch_size):
    """Batches of one, of all, and of one more than there are: the samples, their order and the next epoch are the same."""
    whole, parts = pipeline(reader, COUNT, **order), pipeline(reader, batch_size, **order)
    for _ in range(3):
        expected = [row for batch in epoch(whole) for row in batch]
        found = epoch(parts)
        assert [row for batch in found for row in batch] == expected
        assert {len(batch) for batch in found[:-1]} <= {batch_size}
        assert len(found[-1]) == (COUNT - 1) % batch_size + 1
        assert sorted(map(str, expected)) == sorted(map(str, everything(reader)))


@every_reader
@every_order
@pytest.mark.parametrize("num_shards", [2, 3, 4, COUNT])
@pytest.mark.parametrize("stick", [False, True])
def test_shards_share_out_every_epoch(reader, order, num_shards, stick):
    """Whatever the number of shards, together they give every sample once an epoch, in equally many batches."""
    shards = [
        pipeline(reader, 2, num_shards=num_shards, shard_id=shard, stick_to_shard=stick, **order)
        for shard in range(num_shards)
    ]
    for _ in range(3):
        found = []
        counts = set()
        for shard in shards:
            batches = []
            for batch in shard.epoch("partial"):
                valid = shard.valid
                batches.append([row for row, real in zip(rows(batch), valid) if real])
            counts.add(len(batches))
            found += [row for batch in batches for row in batch]
        assert len(counts) == 1
        assert sorted(map(str, found)) == sorted(map(str, everything(reader)))


@every_reader
def test_a_shard_of_none_is_refused(reader):
    """More shards than samples would leave some without any, and their ranks would wait for the others."""
    with pytest.raises(ValueError, match=f"num_shards={COUNT + 1} is more than the {COUNT} samples.*would be empty"):
        pipeline(reader, num_shards=COUNT + 1, shard_id=COUNT).build()


@every_reader
@pytest.mark.parametrize(
    ("policy", "padded", "sizes"),
    [
        (LastBatchPolicy.FILL, False, [3, 3, 3]),
        (LastBatchPolicy.FILL, True, [3, 3, 3]),
        (LastBatchPolicy.PARTIAL, False, [3, 3, 1]),
        (LastBatchPolicy.PARTIAL, True, [3, 3, 1]),
        (LastBatchPolicy.DROP, False, [3, 3]),
        (LastBatchPolicy.DROP, True, [3, 3]),
    ],
    ids=str,
)
def test_every_policy_ends_an_epoch_of_an_iterator(reader, policy, padded, sizes):
    """The last of three batches of seven samples is filled, short or left out; a filled one begins the next epoch."""
    iterator = RaggedIterator(
        pipeline(reader, pad_last_batch=padded),
        [f"output_{number}" for number in range(len(pipeline(reader).run()))],
        reader_name="reader",
        last_batch_policy=policy,
    )
    first = [len(batch[0]["output_0"]) for batch in iterator]
    assert first == sizes
    second = [len(batch[0]["output_0"]) for batch in iterator]
    # where the first epoch took two samples of the second, five are left of that
    assert second == ([3, 3] if policy is LastBatchPolicy.FILL and not padded else sizes)


@every_reader
@pytest.mark.parametrize("depth", [1, 3])
def test_what_a_reader_delivers_is_the_users_to_write(reader, depth):
    """Writing into every batch changes no later epoch, whatever the reader keeps."""
    pipe = pipeline_def(lambda: outputs_of(reader, {}), batch_size=3, num_threads=2, prefetch_queue_depth=depth)()
    expected = everything(reader)
    for _ in range(3):
        found = []
        for batch in pipe.epoch():
            found += rows(batch)
            for output in batch:
                for index in range(len(output)):
                    sample = np.asarray(output.at(index))
                    assert sample.flags.writeable
                    sample[...] = np.ones((), sample.dtype)
        assert found == expected


@pytest.mark.parametrize("item", [lambda n: np.full((2, 3), n), lambda n: (np.full(2, n), np.full(3, n))])
def test_a_data_set_keeps_its_own_arrays(item):
    """A data set whose items are arrays that it keeps: writing into batches, or in a function, does not reach them."""
    kept = [item(number) for number in range(COUNT)]
    before = [str(one) for one in kept]
    count = 2 if isinstance(kept[0], tuple) else 1

    def definition():
        read = fn.readers.dataset(dataset=kept, num_outputs=count)
        first = read[0] if count == 2 else read
        return (*(read if count == 2 else [read]), fn.python_function(first, function=overwrite), first[0:1])

    def overwrite(x):
        if x.flags.writeable:
            x[...] = -1
        return np.array(x)

    pipe = pipeline_def(definition, batch_size=3, num_threads=2)()
    for batch in pipe.epoch():
        for output in batch:
            for index in range(len(output)):
                np.asarray(output.at(index))[...] = -2
    assert [str(one) for one in kept] == before


@every_reader
def test_positions_sources_and_meta_agree(reader):
    """Every sample has a source of its own, the same in every epoch and order; the meta data count the samples."""
    plain, shuffled = pipeline(reader), pipeline(reader, random_shuffle=True)
    known = {source: row for batch in plain.epoch() for row, source in zip(rows(batch), batch[0].source_info())}
    assert len(known) == COUNT
    for _ in range(2):
        for batch in shuffled.epoch():
            for row, source in zip(rows(batch), batch[0].source_info()):
                assert known[source] == row
    meta = pipeline(reader, num_shards=3, shard_id=1, pad_last_batch=True).reader_meta("reader")
    assert (meta["epoch_size"], meta["epoch_size_padded"], meta["number_of_shards"], meta["shard_id"]) == (
        COUNT,
        9,
        3,
        1,
    )
