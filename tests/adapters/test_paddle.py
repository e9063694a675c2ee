"""The iterators for PaddlePaddle, for real; in an environment of their own (.venvs/paddle), see the Makefile."""

import numpy as np
import pytest
from loop.loops import numbers, values

from pipeflow import fn, pipeline_def
from pipeflow.errors import WrongIterator

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def paddle():
    import paddle

    return paddle


@pytest.fixture(scope="module")
def plugin():
    from pipeflow.plugin import paddle

    return paddle


def test_epochs_are_lists_of_tensors(plugin, paddle):
    """The epochs are those of the other adapters."""
    for policy, sizes in (("FILL", [4, 4, 4]), ("PARTIAL", [4, 4, 2]), ("DROP", [4, 4])):
        iterator = plugin.DALIGenericIterator(
            [numbers(10, batch_size=4)],
            ["x", "u"],
            reader_name="numbers",
            last_batch_policy=plugin.LastBatchPolicy[policy],
        )
        batches = [batch for (batch,) in iterator]
        assert all(isinstance(tensor, paddle.Tensor) for batch in batches for tensor in batch.values())
        assert [len(batch["x"]) for batch in batches] == sizes
        assert [batch["u"].dtype for batch in batches] == [paddle.float32] * len(sizes)
        assert np.concatenate([batch["x"].numpy() for batch in batches])[:8].tolist() == list(range(8))


def test_tensors_are_yours_to_keep(plugin):
    """The memory of a batch is used again only when its tensors are gone."""
    pipe = numbers(64, batch_size=4)
    kept = [batch["u"] for (batch,) in plugin.GenericIterator(pipe, ["x", "u"], reader_name="numbers")]
    again = [batch[1].as_array().copy() for batch in numbers(64, batch_size=4).epoch()]
    assert [tensor.numpy().tolist() for tensor in kept] == [array.tolist() for array in again]


def test_two_pipelines_and_a_mask(plugin):
    """A dictionary for each pipeline; the mask is False for samples that only fill the batch."""
    pipes = [numbers(5, batch_size=2, num_shards=2, shard_id=number) for number in range(2)]
    iterator = plugin.ClassificationIterator(
        pipes, reader_name="numbers", last_batch_policy=plugin.LastBatchPolicy.PARTIAL, mask="valid"
    )
    found = [[(each["data"].tolist(), each["valid"].tolist()) for each in batch] for batch in iterator]
    assert found == [[([0, 1], [True] * 2), ([2, 3], [True] * 2)], [([1], [False]), ([4], [True])]]


def ragged(axes):
    """Samples whose first axes differ."""
    shapes = [(2, 3, 2), (1, 2, 2)] if axes == 2 else [(2, 2), (3, 2)]

    def define():
        return fn.external_source(
            source=lambda: [np.full(shape, number, np.int64) for number, shape in enumerate(shapes)]
        )

    return pipeline_def(define, batch_size=2, num_threads=1)()


def test_samples_of_different_lengths(plugin):
    """With a level they follow each other, and lod() says where each begins."""
    ((batch,),) = [next(plugin.GenericIterator(ragged(1), [("x", 1)]))]
    assert batch["x"].lod() == [[0, 2, 5]]
    assert np.array(batch["x"]).tolist() == [[0, 0]] * 2 + [[1, 1]] * 3
    ((batch,),) = [next(plugin.GenericIterator(ragged(2), [("x", 2)]))]
    assert batch["x"].lod() == [[0, 2, 3], [0, 3, 6, 8]]
    assert np.array(batch["x"]).tolist() == [[0, 0]] * 6 + [[1, 1]] * 2
    with pytest.raises(ValueError, match="cannot be one array, its samples have 2 different shapes"):
        next(plugin.GenericIterator(ragged(1), ["x"]))
    with pytest.raises(WrongIterator, match="output 'x' has 2 axes, and its level is 3"):
        next(plugin.GenericIterator(ragged(1), [("x", 3)]))


def test_a_batch_is_copied_to_an_address(plugin):
    """Of a whole batch or of one sample."""
    target = np.zeros(4, np.int64)
    (batch, _) = numbers(10, batch_size=4).run()
    assert plugin.feed_ndarray(batch.as_tensor(), target.ctypes.data) == target.ctypes.data
    assert target.tolist() == values([batch])
    plugin.feed_ndarray(batch[2], target.ctypes.data)
    assert target.tolist() == [2, 1, 2, 3]


def test_what_is_no_pipeline(plugin):
    """The message says what an iterator takes."""
    with pytest.raises(WrongIterator, match="takes a pipeline or a list of pipelines, got None"):
        plugin.GenericIterator(None, ["x"])
