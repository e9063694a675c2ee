"""PaddlePaddle: iterators that return its tensors, with the same epochs as in every other adapter."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle

from pipeflow.device.tensors import TensorListGPU
from pipeflow.epochs import BaseIterator, LastBatchPolicy, dense_array, dense_tensor
from pipeflow.errors import WrongIterator
from pipeflow.tensors import TensorListCPU

__all__ = [
    "ClassificationIterator",
    "DALIClassificationIterator",
    "DALIGenericIterator",
    "GenericIterator",
    "LastBatchPolicy",
    "feed_ndarray",
]


class GenericIterator(BaseIterator[list[dict[str, Any]]]):
    """Returns, for every batch, a list with one dictionary of tensors per pipeline.

    The tensors share the pipeline's memory, without a copy, and are yours to keep. Instead of a name, ``output_map`` may have a
    pair ``(name, level)``: then the first ``level`` axes of the samples may differ. The samples follow each other in one tensor
    of Paddle's C++ part, whose ``lod()`` says where each begins.
    """

    def __init__(
        self, pipelines: Any, output_map: "Sequence[str | tuple[str, int]]", *args: Any, **options: Any
    ) -> None:
        self._levels: dict[str, int] = {}
        names = []
        for each in output_map:
            name, level = (each, 0) if isinstance(each, str) else each
            self._levels[name] = level
            names.append(name)
        super().__init__(pipelines, names, *args, **options)

    def convert(self, batch: Any, name: str) -> Any:
        """The batch as one tensor."""
        if self._levels[name]:
            return _nested(batch.as_cpu(), self._levels[name], name)
        if isinstance(batch, TensorListGPU):
            return paddle.from_dlpack(dense_tensor(batch, name))
        return _tensor_of(dense_array(batch, name))

    def convert_mask(self, valid: np.ndarray) -> Any:
        """The mask as a tensor of bools."""
        return paddle.to_tensor(valid)


class ClassificationIterator(GenericIterator):
    """A GenericIterator of pipelines with two outputs, "data" and "label"."""

    def __init__(self, pipelines: Any, *args: Any, **options: Any) -> None:
        super().__init__(pipelines, ["data", "label"], *args, **options)


DALIGenericIterator = GenericIterator
DALIClassificationIterator = ClassificationIterator


def feed_ndarray(dali_tensor: Any, ptr: int, cuda_stream: Any = None) -> int:
    """Copies a sample, or a batch of equal shapes, to the memory at an address, and returns the address."""
    del cuda_stream  # the copy is done when this returns
    dali_tensor.as_cpu().copy_to_external(ctypes.c_void_p(ptr))
    return ptr


def _tensor_of(array: np.ndarray) -> Any:
    """A tensor on the memory of an array, which keeps it; of memory that may not be written, a copy."""
    return paddle.from_dlpack(array) if array.flags.writeable else paddle.to_tensor(array)


def _nested(batch: TensorListCPU, level: int, name: str) -> Any:
    """The samples one after another, with the lengths of their first axes."""
    samples = [np.asarray(sample) for sample in batch]
    if any(sample.ndim < level for sample in samples):
        raise WrongIterator(f"output {name!r} has {batch.ndim} axes, and its level is {level}")
    lengths: list[list[int]] = [[] for _ in range(level)]
    for sample in samples:
        count = 1
        for axis in range(level):
            lengths[axis] += [sample.shape[axis]] * count
            count *= sample.shape[axis]
    rows = [sample.reshape(-1, *sample.shape[level:]) for sample in samples]
    tensor = paddle.framework.core.DenseTensor()
    tensor.set(np.concatenate(rows), paddle.CPUPlace())
    tensor.set_recursive_sequence_lengths(lengths)
    return tensor
