"""The large arrays of a batch, which a worker writes to their place in the batch when it has read the item."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import pipeflow
from pipeflow.errors import WrongShape
from pipeflow.executor.workers.segments import Placed
from pipeflow.loading.collate import NumpyLoading
from pipeflow.loading.parcels import Joining
from pipeflow.loading.rows import LARGE, RowBlocks
from pipeflow.loading.walks import BatchItems
from pipeflow.loading.work import ItemReader

SIDE = 160  # a picture of this side is large
Pair = namedtuple("Pair", "left right")


class Items:
    """A data set whose items are made by a function of their index."""

    def __init__(self, size, make):
        self.size, self.make = size, make

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.make(index)


class Stream:
    """Data that can only be iterated over."""

    def __iter__(self):
        return iter(picture(index) for index in range(6))


def picture(index):
    return np.full((SIDE, SIDE), index, np.uint8)


def nested(index):
    return {"picture": picture(index), "pair": Pair(picture(index + 1), [index, (picture(index + 2), f"name {index}")])}


def strided(index):
    return picture(index).repeat(2, axis=1)[::-1, ::2]


def also_small(index):
    return np.full(3, index), picture(index)


def ordered(index):
    return OrderedDict(picture=picture(index))


def tree(value):
    """Arrays as lists of their corners, types of containers kept."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, [value[n].ravel()[-1].item() for n in range(len(value))]
    if isinstance(value, dict):
        return type(value), {key: tree(x) for key, x in value.items()}
    return (type(value), [tree(x) for x in value]) if isinstance(value, (list, tuple)) else value


def batches(dataset, workers, **arguments):
    return [tree(batch) for batch in pipeflow.loader(dataset, 4, framework="numpy", num_workers=workers, **arguments)]


@pytest.mark.parametrize("make", [picture, nested, strided, also_small, ordered])
def test_a_batch_is_the_same_as_without_workers(make):
    """Also the last batch, which has fewer items."""
    assert batches(Items(10, make), 1) == batches(Items(10, make), 0)


def test_the_last_batch_of_a_stream():
    """Its block has room for more items than came."""
    assert batches(Stream(), 1) == batches(Stream(), 0)


def test_an_array_that_is_changed_for_the_next_item():
    """A data set may return the same memory again: each item is copied before the next one is read."""
    memory = picture(0)

    def make(index):
        memory[:] = index
        return memory

    assert batches(Items(4, make), 1) == [((4, SIDE, SIDE), np.uint8, [0, 1, 2, 3])]


def test_the_containers_of_the_data_set_do_not_change():
    """A data set may return the same dictionary in each epoch."""
    item = {"picture": picture(1), "more": [picture(2)]}
    rows = RowBlocks(room, 2, NumpyLoading())
    moved = rows.moved(item, 0)
    assert moved["picture"] is not item["picture"]
    assert moved["more"][0] is not item["more"][0]
    assert isinstance(item["picture"], np.ndarray)
    assert list(item) == list(moved)


def room(shape, dtype):
    return Placed(np.zeros(shape, dtype), 0)


def test_what_has_no_place_in_the_block_stays_an_array_of_its_own():
    """Another shape or type than that of the first item, or an array that was not moved: no block is these rows."""
    frame = NumpyLoading()
    for other in (picture(0)[1:], picture(0).astype(np.int8), np.empty((SIDE, SIDE), object)):
        rows = RowBlocks(room, 2, frame)
        first = rows.moved(picture(7), 0)
        assert rows.moved(other, 1) is other
        assert rows.block_of([first, other]) is None
        assert rows.block_of([first]).array.shape == (1, SIDE, SIDE)
    rows = RowBlocks(room, 2, frame)
    made = [rows.moved(picture(n), n) for n in range(2)]
    assert rows.block_of(made).array[:, 0, 0].tolist() == [0, 1]
    assert rows.block_of(made[::-1]) is None
    assert rows.block_of([made[0], made[0]]) is None


def test_small_arrays_and_single_items_are_not_moved():
    """The first item decides."""
    small = np.zeros(LARGE - 1, np.uint8)
    rows = RowBlocks(room, 2, NumpyLoading())
    assert rows.moved(small, 0) is small
    large = picture(0)
    assert rows.moved(large, 1) is large
    assert RowBlocks(room, 1, NumpyLoading()).moved(large, 0) is large


def test_errors_are_those_of_items_that_are_not_moved():
    """The shape and the item are named."""
    data = Items(4, lambda index: {"x": np.zeros((SIDE, SIDE + index // 2))})
    texts = set()
    for workers in (0, 1):
        with pytest.raises(WrongShape) as caught:
            batches(data, workers)
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert "(160, 161) in item 2 of Items" in texts.pop()


def test_arrays_of_several_types_are_joined_as_numpy_joins_them():
    """Only the last item has another type."""
    data = Items(4, lambda index: np.full((SIDE, SIDE), index, np.float64 if index == 3 else np.uint8))
    assert batches(data, 1) == batches(data, 0)


def test_a_pipeline_over_the_items_gets_the_same_arrays():
    """Items of different shapes, each at a place of its own."""
    data = Items(
        6, lambda index: (np.full((SIDE, SIDE + index, 3), index, np.uint8), np.array([object()], object)[:0].size)
    )

    def read(workers):
        made = pipeflow.loader(
            data, 3, framework="numpy", transform=lambda image, n: (image, n), layout="HWC", num_workers=workers
        )
        return [[(x.shape, int(x.min()), int(x.max())) for x in images] for images, _ in made]

    assert read(1) == read(0) == [[((SIDE, SIDE + n, 3), n, n) for n in part] for part in ((0, 1, 2), (3, 4, 5))]


def test_a_batch_of_a_function_gets_the_items_themselves():
    """A function of the user may keep them, so they are not moved."""
    reader = ItemReader(
        Items(2, picture), stream=False, frame="numpy", batch_size=2, drop_last=False, collate_fn=lambda items: items
    )
    join = Joining(NumpyLoading, lambda *_: pytest.fail("no memory is needed"))
    assert [x[0, 0] for x in reader.run(BatchItems(0, [0, 1], 0), join).batch] == [0, 1]
