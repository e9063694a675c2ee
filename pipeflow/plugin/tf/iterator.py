"""The batches of a pipeline one by one, as in TensorFlow 1: each call, or each run of a session, returns the next one."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from pipeflow.pipeline import Pipeline
from pipeflow.plugin.tf.tensors import OutputArrays, device_of, runs

_RUNNING: "WeakKeyDictionary[Any, Iterator[Any]]" = WeakKeyDictionary()  # pipeline -> its batches


def DALIIteratorWrapper(
    pipeline: Any = None,
    serialized_pipeline: "str | bytes | None" = None,
    sparse: Sequence[bool] = (),
    shapes: Any = (),
    dtypes: Sequence[Any] = (),
    batch_size: int = -1,
    prefetch_queue_depth: int = 2,
    **settings: Any,
) -> list[tf.Tensor]:
    """The next batch as a list of tensors, of these shapes and types. Calls with the same pipeline go on with its batches."""
    if any(sparse):
        raise TypeError("there are no sparse tensors: pad the samples with fn.pad")
    if pipeline is None:
        pipeline = Pipeline.deserialize(serialized_pipeline)
    if pipeline not in _RUNNING:
        _RUNNING[pipeline] = _arrays(pipeline, batch_size, tuple(dtypes), shapes, prefetch_queue_depth, settings)
    following = partial(next, _RUNNING[pipeline])
    tensors = tf.nest.flatten(tf.numpy_function(following, [], list(dtypes)))  # of one type it makes one tensor
    for number, shape in enumerate(shapes):
        tensors[number].set_shape([shape] if isinstance(shape, int) else shape)
    return tensors


def DALIIterator() -> Callable[..., list[tf.Tensor]]:
    """The function that returns the next batch of a pipeline."""
    return DALIIteratorWrapper


DALIRawIterator = DALIIterator


def _arrays(
    pipeline: Any, batch_size: int, dtypes: tuple[Any, ...], shapes: Any, depth: int, settings: dict[str, Any]
) -> Iterator[tuple[np.ndarray, ...]]:
    known = {name: settings[name] for name in ("num_threads",) if name in settings}
    if "device_id" in settings:
        known["device_id"] = device_of(settings["device_id"])
    if batch_size > 0:
        known["batch_size"] = batch_size
    pipe = pipeline.again(prefetch_queue_depth=depth, **known)
    outputs = OutputArrays(pipe.num_outputs, dtypes, tuple(shapes) or None)
    yield from map(outputs.arrays, runs(pipe))
