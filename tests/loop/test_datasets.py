"""Data sets of other libraries: fn.readers.dataset and from_torch_dataset, without those libraries."""

import numpy as np
import pytest

import pipeflow
from pipeflow import fn, pipeline_def


class Squares:
    """A map-style data set of (number, square)."""

    def __init__(self, size=10):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return np.array([index]), index**2


class Endless:
    """It has an index and an iterator and no length, so it can only be iterated over."""

    def __getitem__(self, index):
        return np.array([-index])

    def __iter__(self):
        return iter(np.array([number]) for number in range(3))


class Rows:
    """Items are dictionaries, as in Hugging Face data sets."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return {"text": f"line {index}", "label": index, "bits": [index, 1]}


class Once:
    """An iterable data set in torch's manner: it has an index that only raises."""

    def __getitem__(self, index):
        raise NotImplementedError

    def __iter__(self):
        return iter(Squares(5)[index] for index in range(5))


def test_a_map_style_data_set_becomes_a_pipeline():
    """Every item once an epoch, shuffled anew, with a length; operators go into transform."""
    pipeline = pipeflow.from_torch_dataset(Squares(), 4, shuffle=True, num_threads=2, seed=3)
    assert len(pipeline) == 3
    orders = []
    for _ in range(2):
        rows = [
            (int(x[0]), int(y)) for batch in pipeline.epoch() for x, y in zip(batch[0].samples(), batch[1].samples())
        ]
        assert sorted(rows) == [(number, number**2) for number in range(10)]
        orders.append(rows)
    assert orders[0] != orders[1]
    doubled = pipeflow.from_torch_dataset(Squares(), 10, transform=lambda x, y: x * 2 + y, num_threads=1)
    assert [int(x[0]) for x in doubled.run()[0].samples()] == [2 * n + n**2 for n in range(10)]


def test_dictionaries_and_text():
    """The outputs are the values in the order of the keys; text stays text."""
    pipeline = pipeflow.from_torch_dataset(Rows(), 5, num_threads=1)
    text, label, bits = pipeline.run()
    assert text.at(3) == "line 3"
    assert [int(x) for x in label.samples()] == [0, 1, 2, 3, 4]
    assert bits.as_array().tolist()[4] == [4, 1]
    assert label[2].source_info() == "Rows[2]"


def test_an_iterable_data_set_is_read_anew_each_epoch():
    """What has no index goes through external_source."""
    pipeline = pipeflow.from_torch_dataset(Once(), 2, num_threads=1)
    for _ in range(2):
        assert [[int(x) for x in batch[1].samples()] for batch in pipeline.epoch()] == [[0, 1], [4, 9], [16]]
    endless = pipeflow.from_torch_dataset(Endless(), 2, num_threads=1)
    assert [[int(x[0]) for x in batch[0].samples()] for batch in endless.epoch()] == [[0, 1], [2]]


def test_checkpoints_and_shards_work_as_for_any_reader():
    """Two shards together give all, and a state continues."""
    make = lambda rank: pipeflow.from_torch_dataset(
        Squares(11), 2, True, shard_id=rank, num_shards=2, num_threads=1, seed=1
    )
    seen = []
    for rank in range(2):
        pipeline = make(rank)
        loop = pipeline.epoch()
        seen += [int(x) for x in next(loop)[1].samples()]
        restored = make(rank)
        restored.load_state_dict(pipeline.state_dict())
        for batch in restored.epoch():
            seen += [int(x) for x, valid in zip(batch[1].samples(), restored.valid) if valid]
    assert sorted(seen) == [number**2 for number in range(11)]


@pytest.mark.parametrize(
    ("dataset", "options", "kind", "message"),
    [
        (3, {}, TypeError, "int is not a data set"),
        ([], {}, ValueError, "has no item 0"),
        (Once(), {"shuffle": True}, ValueError, "decides its order and its shards itself"),
    ],
)
def test_what_is_no_data_set_is_refused(dataset, options, kind, message):
    """The error says what is missing."""
    with pytest.raises(kind, match=message):
        pipeflow.from_torch_dataset(dataset, 2, **options)


@pytest.mark.parametrize(
    ("dataset", "options", "kind", "message"),
    [
        ([(1, 2), (3,)], {"num_outputs": 2}, ValueError, "item 1 of the data set has 1 value, num_outputs is 2"),
        ([{"a": 1}], {}, TypeError, r"is a dictionary with \['a'\]: say which as keys"),
        ([{"a": 1}], {"keys": ["b"]}, KeyError, r"lacks \['b'\]; it has \['a'\]"),
        ([1], {"keys": ["b"]}, TypeError, "item 0 of the data set is int and keys"),
        ([object()], {}, TypeError, "holds object, which is not an array"),
        (iter([1]), {}, TypeError, "has no __len__"),
    ],
)
def test_items_that_do_not_fit_are_named(dataset, options, kind, message):
    """Wrong items say their number and what they are."""

    def define():
        read = fn.readers.dataset(dataset=dataset, **options)
        return tuple(read) if isinstance(read, (list, tuple)) else read

    with pytest.raises(kind, match=message):
        pipeline_def(define, batch_size=2, num_threads=1)().run()
