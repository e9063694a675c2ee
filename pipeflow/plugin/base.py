"""The base of all iterators. An adapter (``plugin/pytorch``, ``plugin/jax``, ...) only converts batches to its arrays."""

from pipeflow.epochs import BaseIterator, LastBatchPolicy, dense_array

__all__ = ["BaseIterator", "LastBatchPolicy", "dense_array"]
