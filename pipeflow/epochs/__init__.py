"""Epochs over one or several pipelines: ``loop.py`` decides when one ends, ``iterator.py`` is the base of all iterators."""

from pipeflow.epochs.epoch import Epoch, Meter
from pipeflow.epochs.iterator import BaseIterator, dense_array, dense_tensor
from pipeflow.epochs.loop import ONE_AT_A_TIME, LastBatchPolicy, Loop

__all__ = ["ONE_AT_A_TIME", "BaseIterator", "Epoch", "LastBatchPolicy", "Loop", "Meter", "dense_array", "dense_tensor"]
