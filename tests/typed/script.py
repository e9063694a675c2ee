"""A user's program whose types must be known before each dot: mypy and pyright check it, test_typed.py runs it."""

from collections.abc import Callable
from typing import assert_type

import numpy as np

from pipeflow import DataNode, Pipeline, fn, math, ops, pipeline_def, types
from pipeflow.epochs import Epoch
from pipeflow.plugin.numpy import GenericIterator, RaggedIterator
from pipeflow.tensors import TensorListCPU

IMAGES = [np.full((20, 30, 3), index, np.uint8) for index in range(4)]


@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=7)
def definition(size: int) -> tuple[DataNode, DataNode]:
    """Operators of many kinds: each gives a node, or a list of them."""
    images = fn.external_source(IMAGES, batch=False, cycle="quiet")
    assert_type(images, DataNode)
    pairs = fn.external_source(lambda: ([np.zeros(3)] * 2, [np.ones(1)] * 2), num_outputs=2)
    assert_type(pairs, list[DataNode])
    assert_type(fn.random.uniform(range=(0.0, 1.0)), DataNode)
    assert_type(fn.random.uniform(images), DataNode)
    small = fn.resize(images, size=(size, size), interp_type=types.INTERP_LINEAR)
    assert_type(small, DataNode)
    assert_type(fn.resize(images, size=(4, 4), save_attrs=True), list[DataNode])
    assert_type(fn.python_function(small, function=lambda x: x + 1), DataNode)
    assert_type(fn.python_function(small, function=lambda x: (x, x), num_outputs=2), list[DataNode])
    assert_type(fn.numpy_function(lambda x: x, [small], np.uint8), DataNode)
    assert_type(fn.numpy_function(lambda x: (x, x), [small], [np.uint8, np.uint8]), list[DataNode])
    scaled = fn.cast(small, dtype=types.FLOAT) * 2 - 1
    assert_type(scaled, DataNode)
    assert_type(-scaled / scaled[0] > 1, DataNode)
    assert_type(scaled.shape(), DataNode)
    assert_type(math.clamp(math.max(0, scaled), 0, 1), DataNode)
    assert_type(ops.Flip(vertical=1)(scaled), DataNode)
    assert_type(fn.cat(scaled, scaled, axis=1).gpu, Callable[[], DataNode])
    return scaled, fn.reductions.mean(scaled, axes=(0, 1))


def main() -> None:
    """Every way to walk a pipeline."""
    pipe = definition(size=8)
    assert_type(pipe, Pipeline)
    outputs = pipe.run()
    assert_type(outputs, tuple[TensorListCPU, ...])
    assert outputs[0].as_array().shape == (2, 8, 8, 3)
    epoch = definition(size=8).epoch()
    assert_type(epoch, Epoch)
    for batch in epoch:
        assert_type(batch, tuple[TensorListCPU, ...])
        assert len(batch[1].samples()) == 2
        break
    arrays = GenericIterator(definition(size=8), ["image", "mean"])
    assert_type(next(arrays), list[dict[str, np.ndarray]])
    for found in arrays:
        assert found[0]["image"].ndim == 4
        break
    assert_type(next(RaggedIterator(definition(size=8), ["image", "mean"])), list[dict[str, list[np.ndarray]]])
    turned = fn.flip(IMAGES[0], horizontal=True)
    assert turned.mean() == 0  # an array gives an array


main()
