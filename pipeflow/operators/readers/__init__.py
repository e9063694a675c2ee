"""Readers: each a class with `__len__` and `fetch(i)`; `reader.py` declares them, `order.py` gives their order."""

from pipeflow.operators.readers import dataset, file, nemo_asr, numpy, tfrecord, webdataset

__all__ = ["dataset", "file", "nemo_asr", "numpy", "tfrecord", "webdataset"]
