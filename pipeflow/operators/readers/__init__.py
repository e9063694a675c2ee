"""Readers: each a class with `__len__` and `fetch(i)`; `reader.py` declares them, `order.py` gives their order."""

from pipeflow.operators.readers import coco, dataset, file, mxnet, nemo_asr, numpy, tfrecord, webdataset

PAGE = """Readers give the samples of a data set in order or shuffled, whole or in shards. [Readers](../readers.md)
explains the arguments that they share.
"""

__all__ = ["coco", "dataset", "file", "mxnet", "nemo_asr", "numpy", "tfrecord", "webdataset"]
