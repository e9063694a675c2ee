"""Readers: each a class with `__len__` and `fetch(i)`; `reader.py` declares them, `order.py` gives their order."""

from pipeflow.operators.readers import (
    caffe,
    caffe2,
    coco,
    dataset,
    file,
    fits,
    mxnet,
    nemo_asr,
    numpy,
    sequence,
    tfrecord,
    webdataset,
)

PAGE = """Readers give the samples of a data set in order or shuffled, whole or in shards. [Readers](../readers.md)
explains the arguments that they share.
"""

__all__ = [
    "caffe",
    "caffe2",
    "coco",
    "dataset",
    "file",
    "fits",
    "mxnet",
    "nemo_asr",
    "numpy",
    "sequence",
    "tfrecord",
    "webdataset",
]
