"""Batches as NumPy arrays, with the same epochs as in every other adapter."""

import numpy as np

from pipeflow.epochs.iterator import BaseIterator, Batch, dense_array
from pipeflow.tensors import TensorListCPU


class _ArrayIterator(BaseIterator[Batch]):
    def convert_mask(self, valid: np.ndarray) -> np.ndarray:
        """The mask without conversion."""
        return valid


class GenericIterator(_ArrayIterator[list[dict[str, np.ndarray]]]):
    """Returns, for every batch, a list with one dictionary of arrays per pipeline. The arrays are yours to keep."""

    def convert(self, batch: TensorListCPU, name: str) -> np.ndarray:
        """The batch as one array, without a copy if it is one block."""
        return dense_array(batch, name)


class RaggedIterator(_ArrayIterator[list[dict[str, list[np.ndarray]]]]):
    """Like GenericIterator, with a list of arrays for every output, whatever their shapes."""

    def convert(self, batch: TensorListCPU, name: str) -> list[np.ndarray]:
        """The samples as a list of arrays."""
        return batch.as_cpu().samples()
