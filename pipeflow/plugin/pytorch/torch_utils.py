"""Converts torch's tensors to batches of pipeflow and back; ``to_torch_type`` has torch's name for each type."""

import contextlib
from typing import Any

import numpy as np
import torch

from pipeflow import types
from pipeflow.device.tensors import TensorGPU, TensorListGPU
from pipeflow.tensors import TensorCPU, TensorListCPU, copy_out, traced

to_torch_type = {
    types.UINT8: torch.uint8,
    types.UINT16: torch.uint16,
    types.UINT32: torch.uint32,
    types.UINT64: torch.uint64,
    types.INT8: torch.int8,
    types.INT16: torch.int16,
    types.INT32: torch.int32,
    types.INT64: torch.int64,
    types.FLOAT16: torch.float16,
    types.FLOAT: torch.float32,
    types.FLOAT64: torch.float64,
    types.BOOL: torch.bool,
    types.COMPLEX64: torch.complex64,
    types.COMPLEX128: torch.complex128,
}


def as_tensor(data: "np.ndarray | TensorCPU | TensorGPU | TensorListCPU | TensorListGPU") -> Any:
    """A tensor of an array, of a sample or of a whole batch, on the same memory; text stays a list of strings.

    For the result of a differentiable function it is the tensor that the function returned, with its history.
    """
    if isinstance(data, (TensorGPU, TensorListGPU)):
        return torch.from_dlpack(data.as_tensor() if isinstance(data, TensorListGPU) else data)
    array = data.as_array() if isinstance(data, TensorListCPU) else data.array if isinstance(data, TensorCPU) else data
    if array.dtype == object:
        return array.tolist()
    return to_tensor(array)


def to_torch_tensor(dali_tensor: Any, copy: bool = False) -> torch.Tensor:
    """A sample or a batch of equal shapes as a torch tensor: on the same memory, or with ``copy`` on new memory."""
    tensor = as_tensor(dali_tensor)
    return tensor.clone() if copy else tensor


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor: on the same memory if it may be written, else a copy, as torch has no read-only memory."""
    if traced(array):
        return array.tensor  # type: ignore[attr-defined]
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as an array on the same memory."""
    if tensor.device.type != "cpu":
        raise TypeError(f"the tensor is on {tensor.device}; a CPU operator must return CPU tensors: use .cpu()")
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def feed_ndarray(
    tensor_or_tl: Any, arr: torch.Tensor, cuda_stream: Any = None, non_blocking: bool = False
) -> torch.Tensor:
    """Copies a tensor (or a batch of equal shapes) into a torch tensor of the same shape and type.

    From the GPU the copy is made on ``cuda_stream`` (default: torch's current stream). The host waits only for a copy to the
    CPU, and not with ``non_blocking``.
    """
    if isinstance(tensor_or_tl, (TensorGPU, TensorListGPU)):
        return _feed_on_device(tensor_or_tl, arr, cuda_stream, non_blocking)
    del cuda_stream, non_blocking  # a copy on the CPU is done when this returns
    source = tensor_or_tl.as_tensor() if isinstance(tensor_or_tl, TensorListCPU) else tensor_or_tl
    if not isinstance(source, TensorCPU):
        raise TypeError(f"feed_ndarray takes a TensorCPU or TensorListCPU, got {type(tensor_or_tl).__name__}")
    target = to_array(arr)
    if list(target.shape) != source.shape() or target.dtype != source.array.dtype:
        raise ValueError(
            f"the tensor is {target.dtype} {target.shape} and the data {source.array.dtype} {tuple(source.shape())}: "
            "they must be equal"
        )
    if target.flags.c_contiguous:
        copy_out(source.array, target)
    else:
        np.copyto(target, source.array)
    return arr


def _feed_on_device(tensor_or_tl: Any, arr: torch.Tensor, cuda_stream: Any, non_blocking: bool) -> torch.Tensor:
    handle = getattr(cuda_stream, "cuda_stream", cuda_stream)
    handle = getattr(handle, "value", handle)  # a ctypes pointer, as DALI takes it
    there = contextlib.nullcontext() if handle is None else on_stream(tensor_or_tl.device_id(), int(handle))
    with there:
        source = torch.from_dlpack(tensor_or_tl)
        if source.shape != arr.shape or source.dtype != arr.dtype:
            raise ValueError(
                f"the tensor is {arr.dtype} {tuple(arr.shape)} and the data {source.dtype} {tuple(source.shape)}: "
                "they must be equal"
            )
        return arr.copy_(source, non_blocking=non_blocking or arr.is_cuda)


def on_stream(device_id: int, handle: int) -> Any:
    """torch's context in which work is queued on the stream with this handle."""
    return torch.cuda.stream(torch.cuda.ExternalStream(handle, device=device_id))
