"""Samples that the user's source returns on a GPU: their shapes and types, without reading their bytes."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np

from pipeflow import types

ON_GPU = (2, 13)  # kDLCUDA, kDLCUDAManaged


class DeviceSample:
    """A sample that is on a GPU. ``shared``: its memory is the user's own, and is not written.

    ``stream`` is the stream that its library worked on in this thread, and ``keeper`` the object that keeps the stream.
    """

    __slots__ = ("dtype", "keeper", "ndim", "shape", "shared", "stream", "value")

    def __init__(self, value: Any, shared: bool = True) -> None:
        self.value = value
        self.shared = shared
        self.stream, self.keeper = current_stream(value)
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
        if make is None:
            raise TypeError(
                f"{type(value).__module__}.{type(value).__name__} has no method that copies it on the GPU: give "
                "cupy.asarray(x), or use no_copy=True and do not change it"
            )
        return DeviceSample(make(), False)


def current_stream(value: Any) -> tuple[int, Any]:
    """The stream that the library of an array works on in this thread; (0, None) for the default one and if it is not known.

    Arrays of CuPy and tensors of torch do not name their stream. Other libraries name it, or wait for it.
    """
    if hasattr(value, "as_array"):  # a TensorGPU
        value = getattr(value, "_array", value)
    name = type(value).__module__.partition(".")[0]
    library = sys.modules.get(name) if name in ("cupy", "torch") else None
    if library is None:
        return 0, None
    if name == "torch":
        stream = library.cuda.current_stream(value.device)
        return int(stream.cuda_stream), stream
    stream = library.cuda.get_current_stream(value.device.id)
    return int(stream.ptr), stream


def made_on(stream: Any, data: Any) -> AbstractContextManager[Any]:
    """A context in which a stream of torch or CuPy is the current one of its library."""
    if type(stream).__module__.partition(".")[0] == "torch":
        return cast("AbstractContextManager[Any]", sys.modules["torch"].cuda.stream(stream))
    if hasattr(stream, "__enter__"):
        return cast("AbstractContextManager[Any]", stream)
    first = data[0] if isinstance(data, (list, tuple)) and data else data
    if stream not in (None, -1) and on_gpu(first):
        raise TypeError(
            f"cuda_stream is {stream!r}: for data on the GPU give the stream of torch or CuPy that it is made on, or make that "
            "stream the current one: with torch.cuda.stream(stream): pipe.feed_input(...)"
        )
    return nullcontext()


ON_CPU = (np.generic, int, list, tuple, str, bytes, float, complex)  # types whose objects need no other question


def on_gpu(value: Any) -> bool:
    """True if the data of an object is on a GPU."""
    if type(value) is np.ndarray or isinstance(value, ON_CPU) or value is None:
        return False
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[0]) in ON_GPU
    return hasattr(type(value), "__cuda_array_interface__")
