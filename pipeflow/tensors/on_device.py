"""Samples that the user's source returns on a GPU: their shapes and types, without reading their bytes."""

from typing import Any

import numpy as np

from pipeflow import types

ON_GPU = (2, 13)  # kDLCUDA, kDLCUDAManaged


class DeviceSample:
    """A sample that is on a GPU. ``shared``: its memory is the user's own, and is not written."""

    __slots__ = ("dtype", "ndim", "shape", "shared", "value")

    def __init__(self, value: Any, shared: bool = True) -> None:
        self.value = value
        self.shared = shared
        shape = value.shape() if callable(value.shape) else value.shape
        self.shape = tuple(int(extent) for extent in shape)
        self.ndim = len(self.shape)
        name = str(value.dtype)
        self.dtype = types.as_dtype(name.removeprefix("torch.") if name.startswith("torch.") else value.dtype)

    def copy(self) -> "DeviceSample":
        """A copy by the library that the sample belongs to, on its current stream."""
        value = self.value
        if hasattr(value, "as_array"):  # a TensorGPU
            value = value.as_array()
        make = getattr(value, "clone", None) or getattr(value, "copy", None)
        return DeviceSample(value if make is None else make(), make is None)  # if it is not a copy, it is never written


def on_gpu(value: Any) -> bool:
    """True if the data of an object is on a GPU."""
    if type(value) is np.ndarray or isinstance(value, (list, tuple, str, bytes)) or value is None:
        return False
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[0]) in ON_GPU
    return hasattr(type(value), "__cuda_array_interface__")
