"""Batches as NumPy arrays, with the same epochs as in every other adapter."""

from pipeflow.epochs import LastBatchPolicy
from pipeflow.epochs.arrays import GenericIterator, RaggedIterator

__all__ = ["DALIGenericIterator", "GenericIterator", "LastBatchPolicy", "RaggedIterator"]

DALIGenericIterator = GenericIterator
