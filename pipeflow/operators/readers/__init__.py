"""Readers: each a class with `__len__` and `fetch(i)`; `reader.py` declares them, `order.py` gives their order."""

from pipeflow.operators.readers import file, numpy, tfrecord, webdataset

__all__ = ["file", "numpy", "tfrecord", "webdataset"]
