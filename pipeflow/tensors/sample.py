"""TensorCPU, one sample in CPU memory, and arrays made from other objects."""

import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.tensors.memory import Block, array_in
from pipeflow.tensors.metadata import CallableInt, Metadata, fitting_layout, shown_values
from pipeflow.tensors.traced import check_untraced, reshaped

A_NUMBER = (np.number, int, float, np.bool_, complex)


def as_samples(objects: Iterable[Any]) -> list[np.ndarray]:
    """Arrays from anything that holds one: NumPy, tensors, ``__array__``, DLPack, buffers, numbers, lists."""
    return [as_sample(item) for item in objects]


def as_sample(item: Any) -> np.ndarray:
    """One array (a view where possible) from a NumPy array, tensor, DLPack object, buffer, number or nested list."""
    if isinstance(item, np.ndarray):
        return item if type(item) is np.ndarray else _without_mask(item)
    if isinstance(item, A_NUMBER):  # early, because the other questions take longer than the array
        return np.asarray(item)
    if isinstance(item, TensorCPU):
        return item.array
    if type(item).__name__ == "PyCapsule":
        return np.from_dlpack(_CapsuleForNumpy(item))
    if hasattr(item, "__cuda_array_interface__"):
        raise TypeError(
            f"{type(item).__name__} is on the GPU, and a CPU array is needed here: copy it to the CPU first"
        )
    if not hasattr(item, "__array__") and hasattr(item, "__dlpack__"):
        return np.from_dlpack(item)
    if isinstance(item, (bytes, str)):
        return np.array(item, dtype=object)
    if type(item) in (bytearray, memoryview):
        return np.asarray(memoryview(item))
    return np.asarray(item)


def has_mask(array: np.ndarray) -> bool:
    """True for a masked array. It does not load numpy.ma, which takes 20 ms; without it no masked array can exist.

    While another thread loads it, the module is there and has no such class yet.
    """
    return isinstance(array, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


def _without_mask(array: np.ndarray) -> np.ndarray:
    """The plain array if no element is masked, else an error: the number under a mask is not the user's data."""
    if not has_mask(array):
        return array
    if np.ma.is_masked(array):
        raise TypeError(
            f"a masked array has no value for {int(np.ma.count_masked(array))} of its {array.size} elements: fill them with "
            "x.filled(value)"
        )
    return np.asarray(array.data)


class _CapsuleForNumpy:
    """A bare DLPack capsule in the form that ``numpy.from_dlpack`` takes."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def in_known_dtype(array: np.ndarray) -> np.ndarray:
    """The array in an element type that DALI has; another type is an error."""
    dtype = types.as_dtype(array.dtype)
    return array if array.dtype == dtype else array.astype(dtype)


class TensorCPU(Metadata):
    """One sample in CPU memory."""

    __slots__ = ("_layout", "_source_info", "array")

    def __init__(self, data: Any, layout: str | None = None, is_pinned: bool = False, *, source_info: str = "") -> None:
        del is_pinned  # page-locked memory matters only to CUDA copies
        inherited = data.layout() if isinstance(data, TensorCPU) else ""
        self.array = in_known_dtype(as_sample(data))
        self._layout = ""
        self._source_info = source_info
        self.set_layout(inherited if layout is None else layout)

    def shape(self) -> list[int]:
        """The extents."""
        return list(self.array.shape)

    @property
    def dtype(self) -> types.DALIDataType:
        """The element type."""
        return types.to_dali_type(self.array.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return CallableInt(self.array.ndim)

    def set_layout(self, layout: str | None) -> None:
        """Names the axes; the number of letters must be the number of axes."""
        self._layout = fitting_layout(layout, self.array.ndim)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.array.__array_interface__["data"][0]

    def as_cpu(self) -> "TensorCPU":
        """This tensor."""
        return self

    def reinterpret(self, dtype: Any) -> None:
        """Reads the same bytes as another type of the same size."""
        wanted = types.as_dtype(dtype)
        check_untraced(self.array)
        if wanted.itemsize != self.array.dtype.itemsize:
            raise RuntimeError(f"cannot reinterpret {self.array.dtype} as {wanted}: the element sizes differ")
        self.array = self.array.view(wanted)

    def squeeze(self, dim: int | None = None) -> bool:
        """Removes the axes of extent 1 in place, or only the axis ``dim``; returns True if anything changed."""
        keep = [
            axis
            for axis, extent in enumerate(self.array.shape)
            if not (extent == 1 and (dim is None or axis == dim % self.array.ndim))
        ]
        changed = len(keep) != self.array.ndim
        if changed:
            self._layout = "".join(self._layout[axis] for axis in keep) if self._layout else ""
            self.array = reshaped(self.array, [self.array.shape[axis] for axis in keep])
        return changed

    @staticmethod
    def from_dlpack(data: Any, layout: str | None = None) -> "TensorCPU":
        """A tensor from a DLPack object (or capsule), without a copy."""
        return TensorCPU(as_sample(data), layout)

    def copy_to_external(self, destination: Any) -> None:
        """Copies the bytes to an address, ctypes pointer or writable buffer."""
        copy_out(self.array, destination)

    def source_info(self) -> str:
        """The source of the sample: a file name, or "" if it is not known."""
        return self._source_info

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __repr__(self) -> str:
        layout = f'    layout="{self._layout}",\n' if self._layout else ""
        return (
            f"TensorCPU(\n    {chr(10).join(shown_values(self.array))},\n    dtype={self.dtype!r},\n{layout}"
            f'    device="cpu",\n    shape={self.array.shape})'
        )


def copy_out(array: np.ndarray, destination: Any) -> None:
    """Copies an array's bytes to an address, ctypes pointer or writable buffer."""
    source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if isinstance(destination, np.ndarray):
        if destination.nbytes < source.nbytes:
            raise ValueError(f"the destination has {destination.nbytes} bytes and {source.nbytes} are needed")
        np.copyto(destination.reshape(-1).view(np.uint8)[: source.nbytes], source)
        return
    address = getattr(destination, "value", destination)
    if not isinstance(address, int):
        np.copyto(np.asarray(memoryview(destination)).reshape(-1).view(np.uint8)[: source.nbytes], source)
        return
    target = Block("external", source.nbytes, address, None)
    np.copyto(array_in(target, deque(maxlen=0), (source.nbytes,)), source)
