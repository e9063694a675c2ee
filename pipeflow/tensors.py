"""Batches and samples as the user sees them: TensorListCPU and TensorCPU, zero-copy towards NumPy and DLPack.

Memory is held by reference: an array taken out of a batch stays valid as long as the array lives, whatever happens to
the batch or the pipeline. Underneath every pooled array lies a Lease: the object that gives its Block back to the pool
when the last array that refers to it is gone.
"""

import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from pipeflow import types
from pipeflow.errors import OutOfRange, RaggedBatch

Shape = tuple[int, ...]


class Block:
    """A piece of memory of one kind ("heap", "shared", "pinned" or "device") that a pool hands out again and again."""

    __slots__ = ("address", "kind", "nbytes", "owner")

    def __init__(self, kind: str, nbytes: int, address: int, owner: Any) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.address = address
        self.owner = owner


class Lease:
    """Keeps a Block out of its pool. It lies under the first array, so every view of that array holds it.

    The finaliser only appends to a deque: that is safe from any thread, inside any lock, at exit and in a forked child.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_block", "_home")

    def __init__(self, block: Block, home: "deque[Block]") -> None:
        self._block = block
        self._home = home
        self.__array_interface__ = {
            "data": (block.address, False),
            "shape": (block.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._home.append(self._block)


class Traced(np.ndarray):
    """An array that is also a framework's tensor with its history of gradients: a result of a differentiable function.

    It is read-only, because the history refers to its memory. Arrays that are made from it are plain arrays.
    """

    tensor: Any
    join: "Callable[[Sequence[Any]], Traced]"  # several such tensors as one, whose first axis is new
    whole: "Traced | None"  # the batch that this is a row of, where the function returned it in one piece
    row: int

    @classmethod
    def of(
        cls,
        array: np.ndarray,
        tensor: Any,
        join: "Callable[[Sequence[Any]], Traced]",
        whole: "Traced | None" = None,
        row: int = -1,
    ) -> "Traced":
        """The array with the tensor whose memory it shows."""
        view = array.view(cls)
        view.flags.writeable = False
        view.tensor, view.join, view.whole, view.row = tensor, join, whole, row
        return view

    def rows(self) -> "list[Traced]":
        """The samples of a batch that is one tensor."""
        plain = self.view(np.ndarray)
        return [Traced.of(plain[row, ...], self.tensor[row], self.join, self, row) for row in range(len(plain))]

    def shaped(self, shape: Sequence[int]) -> "Traced":
        """The same in another shape."""
        return Traced.of(self.view(np.ndarray).reshape(shape), self.tensor.reshape(tuple(shape)), self.join)

    @staticmethod
    def stack(samples: "Sequence[Traced]") -> "Traced":
        """Samples of one shape as one tensor: the one they came from, if that was one."""
        whole = samples[0].whole
        in_order = all(sample.whole is whole and sample.row == index for index, sample in enumerate(samples))
        if whole is not None and len(whole) == len(samples) and in_order:
            return whole
        return samples[0].join([sample.tensor for sample in samples])


def traced(value: Any) -> bool:
    """Whether an array carries a history of gradients; views of such arrays do not."""
    return type(value) is Traced and hasattr(value, "tensor")


class _CallableInt(int):
    """DALI's ``ndim`` is a method here and an attribute there; this number is both."""

    def __call__(self) -> int:
        return int(self)


def as_samples(objects: Iterable[Any]) -> list[np.ndarray]:
    """Arrays from anything that holds one: NumPy, tensors, ``__array__``, DLPack, buffers, numbers, lists."""
    return [as_sample(item) for item in objects]


def as_sample(item: Any) -> np.ndarray:
    """One array (a view where possible) from a NumPy array, tensor, DLPack object, buffer, number or nested list."""
    if isinstance(item, np.ndarray):
        return item if type(item) is np.ndarray else _without_mask(item)
    if isinstance(item, TensorCPU):
        return item.array
    if type(item).__name__ == "PyCapsule":
        return np.from_dlpack(_Capsule(item))
    if hasattr(item, "__cuda_array_interface__"):
        raise TypeError(f"{type(item).__name__} lies on the GPU; a CPU array is wanted here: copy it to the CPU first")
    if not hasattr(item, "__array__") and hasattr(item, "__dlpack__"):
        return np.from_dlpack(item)
    if isinstance(item, (bytes, str)):
        return np.array(item, dtype=object)
    if type(item) in (bytearray, memoryview):
        return np.asarray(memoryview(item))
    return np.asarray(item)


def has_mask(array: np.ndarray) -> bool:
    """Whether it is a masked array. Where their module is not loaded there is none; loading it takes 20 ms of a time limit."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(array, module.MaskedArray)


def _without_mask(array: np.ndarray) -> np.ndarray:
    """The array, if every element has a value: what a masked element holds is not the user's data."""
    if not has_mask(array):
        return array
    if np.ma.is_masked(array):
        raise TypeError(
            f"a masked array has no value for {int(np.ma.count_masked(array))} of its {array.size} elements: give them one with "
            "x.filled(value)"
        )
    return np.asarray(array.data)


class _Capsule:
    """A bare DLPack capsule in the form that ``numpy.from_dlpack`` takes."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _check_dtype(array: np.ndarray) -> np.ndarray:
    dtype = types.as_dtype(array.dtype)
    return array if array.dtype == dtype else array.astype(dtype)


LINES = 20  # of numbers in what is shown of a batch or a sample: with what stands around them, one screen


def _values(array: np.ndarray, room: int = LINES) -> list[str]:
    """The numbers of an array as lines, the fewer of them the larger it is; never more than there is room for."""
    for threshold, edge in ((64, 2), (16, 1)):
        lines = np.array2string(array, threshold=threshold, edgeitems=edge, prefix="    ").splitlines()
        if len(lines) <= room:
            return lines
    return [*lines[: room - 1], "     ..."]


def _samples_shown(samples: Sequence[np.ndarray]) -> str:
    """The first samples, as many as fit on a screen."""
    shown: list[str] = []
    left = LINES
    for sample in samples:
        lines = _values(sample, left if not shown else LINES)
        if shown and len(lines) > left:
            break
        shown.append("\n".join(lines))
        left -= len(lines)
    return ",\n    ".join([*shown, *(["..."] if len(shown) < len(samples) else [])])


def position_of(index: Any, size: int, name: str) -> int:
    """The place of a sample in a batch, from the front or (negative) from the end."""
    if not hasattr(type(index), "__index__"):
        raise TypeError(
            f"one sample of a {name} is named by its number, several by a slice; got {type(index).__name__} {index!r}"
        )
    if not -size <= index < size:
        raise OutOfRange(f"{name} index out of range: there is no sample {index} in a batch of {size}")
    return operator.index(index) % size


class Metadata:
    """The layout and source_info of samples and batches, shared by CPU and GPU tensors."""

    __slots__ = ()
    _layout: str

    def layout(self) -> str:
        """The layout of a sample, "" when there is none."""
        return self._layout

    def source_info(self) -> Any:
        """Where the data came from."""
        raise NotImplementedError

    def get_property(self, key: str) -> Any:
        """The layout or the source_info by name."""
        if key == "layout":
            return self._layout
        if key == "source_info":
            return self.source_info()
        raise RuntimeError(f"unsupported property key: {key}; there are 'layout' and 'source_info'")


class TensorCPU(Metadata):
    """One sample in CPU memory."""

    __slots__ = ("_layout", "_source_info", "array")

    def __init__(self, data: Any, layout: str | None = None, is_pinned: bool = False, *, source_info: str = "") -> None:
        del is_pinned  # page-locked memory matters only to CUDA copies
        inherited = data.layout() if isinstance(data, TensorCPU) else ""
        self.array = _check_dtype(as_sample(data))
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
        return _CallableInt(self.array.ndim)

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
        _check_untraced(self.array)
        if wanted.itemsize != self.array.dtype.itemsize:
            raise RuntimeError(f"cannot reinterpret {self.array.dtype} as {wanted}: the element sizes differ")
        self.array = self.array.view(wanted)

    def squeeze(self, dim: int | None = None) -> bool:
        """Removes the axes of extent 1 (or the axis ``dim`` where it is 1) in place; tells whether anything changed."""
        keep = [
            axis
            for axis, extent in enumerate(self.array.shape)
            if not (extent == 1 and (dim is None or axis == dim % self.array.ndim))
        ]
        changed = len(keep) != self.array.ndim
        if changed:
            self._layout = "".join(self._layout[axis] for axis in keep) if self._layout else ""
            self.array = _reshaped(self.array, [self.array.shape[axis] for axis in keep])
        return changed

    @staticmethod
    def from_dlpack(data: Any, layout: str | None = None) -> "TensorCPU":
        """A tensor from a DLPack object (or capsule), without a copy."""
        return TensorCPU(as_sample(data), layout)

    def copy_to_external(self, destination: Any) -> None:
        """Copies the bytes to an address, ctypes pointer or writable buffer."""
        copy_out(self.array, destination)

    def source_info(self) -> str:
        """Where the sample came from: a file name, or "" when it is not known."""
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
            f"TensorCPU(\n    {chr(10).join(_values(self.array))},\n    dtype={self.dtype!r},\n{layout}"
            f'    device="cpu",\n    shape={self.array.shape})'
        )


def fitting_layout(layout: str | None, ndim: int) -> str:
    """A layout that has one letter for every axis."""
    text = types.check_layout(layout)
    if text and len(text) != ndim:
        raise ValueError(f"layout {text!r} has {len(text)} axes and the data has {ndim}")
    return text


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
    np.copyto(np.asarray(Lease(target, deque(maxlen=0))), source)


class TensorListCPU(Metadata):
    """A batch in CPU memory: one dense block, or a table of samples of any shapes with one type and number of axes."""

    __slots__ = ("_dense", "_dtype", "_layout", "_ndim", "_samples", "_source_info", "key")

    def __init__(
        self,
        data: Any = (),
        layout: str | None = None,
        is_pinned: bool = False,
        contiguous: bool = False,
        *,
        source_info: Sequence[str] | None = None,
    ) -> None:
        del is_pinned, contiguous  # page-locked memory matters only to CUDA copies; as_array() makes the dense block
        inherited = ""
        self._dense: np.ndarray | None = None
        self._samples: list[np.ndarray] | None = None
        self.key: int | None = None  # the key an eager random operator drew for itself
        if isinstance(data, TensorListCPU):
            inherited = data.layout()
            self._dense, self._samples = data._dense, data._samples
        elif isinstance(data, (np.ndarray, np.generic)) and data.dtype != object:
            if data.ndim == 0:
                raise TypeError("a batch needs at least one axis, the samples; got a single number")
            self._dense = _check_dtype(np.asarray(data))
        elif isinstance(data, (str, bytes)):
            raise TypeError("a batch is made of a list of samples or an array whose first axis is the samples")
        elif isinstance(data, Iterable):
            items = list(data)
            if items and isinstance(items[0], TensorCPU):
                inherited = items[0].layout()
            self._samples = [_check_dtype(sample) for sample in as_samples(items)]
            _check_uniform(self._samples)
        else:
            self._dense = _check_dtype(as_sample(data))
        first = self._dense if self._dense is not None else (self._samples[0] if self._samples else None)
        self._dtype: np.dtype = first.dtype if first is not None else np.dtype(np.float32)
        self._ndim: int = 0 if first is None else first.ndim - (self._dense is not None)
        self._source_info = source_info
        self._layout = ""
        self.set_layout(inherited if layout is None else layout)

    @classmethod
    def from_parts(
        cls,
        values: "np.ndarray | list[np.ndarray]",
        dtype: np.dtype | None,
        ndim: int | None,
        layout: str,
        source_info: Sequence[str] | None,
    ) -> "TensorListCPU":
        """A batch of values that are known to be uniform: nothing is checked."""
        batch = cls.__new__(cls)
        batch.key = None
        if isinstance(values, np.ndarray):
            batch._dense, batch._samples = values, None
            batch._dtype, batch._ndim = values.dtype, values.ndim - 1
        else:
            batch._dense, batch._samples = None, values
            batch._dtype = values[0].dtype if values else np.dtype(np.float32) if dtype is None else dtype
            batch._ndim = values[0].ndim if values else ndim or 0
        batch._layout = layout
        batch._source_info = source_info
        return batch

    def at(self, index: int) -> np.ndarray:
        """Sample ``index`` as a NumPy array, without a copy."""
        position = self._position(index)
        return self._samples[position] if self._samples is not None else self._dense[position, ...]  # type: ignore[index]

    @overload
    def __getitem__(self, index: int) -> TensorCPU: ...

    @overload
    def __getitem__(self, index: slice) -> "TensorListCPU": ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(index)
        array = self.at(index)
        where = self.source_info(index) if self._source_info else ""
        return TensorCPU(array, self._layout, source_info=where)

    def _part(self, chosen: slice) -> "TensorListCPU":
        """Some of the samples as a batch, without a copy."""
        dense = self._dense if chosen.step in (None, 1) and not traced(self._dense) else None
        values = self.samples()[chosen] if dense is None else dense[chosen]
        info = None if self._source_info is None else list(self._source_info)[chosen]
        return TensorListCPU.from_parts(values, self._dtype, self._ndim, self._layout, info)

    def __len__(self) -> int:
        return len(self._dense) if self._dense is not None else len(self._table())

    def __iter__(self) -> Iterator[TensorCPU]:
        return (self[index] for index in range(len(self)))

    def samples(self) -> list[np.ndarray]:
        """All samples as NumPy arrays, without a copy."""
        if self._samples is None:
            dense = self._dense
            assert dense is not None
            self._samples = [dense[index, ...] for index in range(len(dense))]
        return self._samples

    def as_array(self) -> np.ndarray:
        """The batch as one array whose first axis is the samples; samples of different shapes are an error."""
        if self._dense is None:
            samples = self._table()
            if not self.is_dense_tensor():
                shapes = sorted({sample.shape for sample in samples})
                shown = ", ".join(map(str, shapes[:4])) + (", ..." if len(shapes) > 4 else "")
                raise RaggedBatch(
                    f"the {len(samples)} samples have different shapes ({shown}) and cannot be one array; "
                    "use at(i), or pad or crop them to a common shape"
                )
            if samples and all(map(traced, samples)):
                self._dense = Traced.stack(samples)  # type: ignore[arg-type]
                return self._dense
            self._dense = np.stack(samples) if samples else np.empty((0,) + (0,) * self._ndim, self._dtype)
            self._samples = None
        return self._dense

    def as_tensor(self) -> TensorCPU:
        """The batch as one tensor; its layout gains a leading N."""
        return TensorCPU(self.as_array(), f"N{self._layout}" if self._layout else "")

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU:
        """The batch as one tensor of the given shape."""
        array = self.as_array()
        if int(np.prod(shape, dtype=np.int64)) != array.size:
            raise RaggedBatch(f"shape {tuple(shape)} has not as many elements as the batch, which has {array.size}")
        return TensorCPU(_reshaped(array, shape))

    def as_cpu(self) -> "TensorListCPU":
        """This batch."""
        return self

    def is_dense_tensor(self) -> bool:
        """Whether all samples have the same shape."""
        if self._dense is not None:
            return True
        samples = self._table()
        return all(sample.shape == samples[0].shape for sample in samples)

    def shape(self) -> list[Shape]:
        """The shapes of the samples."""
        if self._dense is not None:
            return [self._dense.shape[1:]] * len(self._dense)
        return [sample.shape for sample in self._table()]

    @property
    def dtype(self) -> types.DALIDataType:
        """The element type of all samples."""
        return types.to_dali_type(self._dtype)

    @property
    def ndim(self) -> int:
        """The number of axes of a sample."""
        return _CallableInt(self._ndim)

    def set_layout(self, layout: str | None) -> None:
        """Names the axes of the samples."""
        self._layout = fitting_layout(layout, self._ndim) if len(self) else types.check_layout(layout)

    def data_ptr(self) -> int:
        """The address of the first element of the dense batch."""
        return self.as_array().__array_interface__["data"][0]

    def copy_to_external(self, destination: Any) -> None:
        """Copies the dense batch to an address, ctypes pointer or writable buffer."""
        copy_out(self.as_array(), destination)

    def reinterpret(self, dtype: Any) -> None:
        """Reads the same bytes as another type of the same size."""
        wanted = types.as_dtype(dtype)
        _check_untraced(self.at(0) if len(self) else None)
        if wanted.itemsize != self._dtype.itemsize:
            raise RuntimeError(f"cannot reinterpret {self._dtype} as {wanted}: the element sizes differ")
        if self._dense is not None:
            self._dense, self._samples = self._dense.view(wanted), None
        else:
            self._samples = [sample.view(wanted) for sample in self._table()]
        self._dtype = wanted

    def reset(self) -> None:
        """Lets go of the data: the batch is empty afterwards."""
        self._dense, self._samples, self._source_info = None, [], None

    def squeeze(self, dim: int | None = None) -> bool:
        """Removes the axes of extent 1 of the samples (or the axis ``dim``) in place; tells whether anything changed."""
        tensors = [TensorCPU(sample, self._layout) for sample in self.samples()]
        changed = [tensor.squeeze(dim) for tensor in tensors]
        if any(changed):
            squeezed = [tensor.array for tensor in tensors]
            _check_uniform(squeezed)
            self._dense, self._samples = None, squeezed
            self._ndim, self._layout = squeezed[0].ndim, tensors[0].layout()
        return any(changed)

    def source_info(self, index: int | None = None) -> Any:
        """Where the samples came from (or sample ``index``): file names, "" where it is not known."""
        known = self._source_info if self._source_info is not None else [""] * len(self)
        return [str(item) for item in known] if index is None else str(known[self._position(index)])

    @staticmethod
    def broadcast(tensor: TensorCPU, num_samples: int) -> "TensorListCPU":
        """The same sample ``num_samples`` times, without a copy."""
        source = tensor if isinstance(tensor, TensorCPU) else TensorCPU(tensor)
        return TensorListCPU([source.array] * num_samples, source.layout())

    @staticmethod
    def from_dlpack(data: Any, layout: str | None = None) -> "TensorListCPU":
        """A batch from a DLPack object (or capsule) whose first axis is the samples, without a copy."""
        return TensorListCPU(as_sample(data), layout)

    @staticmethod
    def from_dlpack_list(
        objects: Sequence[Any], layout: str | None = None, contiguous: bool = False
    ) -> "TensorListCPU":
        """A batch from DLPack objects (or capsules), without a copy unless ``contiguous`` asks for one block."""
        batch = TensorListCPU(list(objects), layout)
        if contiguous:
            batch.as_array()
        return batch

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.as_array().__array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.as_array(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.as_array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        layout = f'    layout="{self._layout}",\n' if self._layout else ""
        shapes = self.shape() if len(self) <= 8 else f"[{', '.join(map(str, self.shape()[:4]))}, ...]"
        return (
            f"TensorListCPU(\n    [{_samples_shown(self.samples())}],\n    dtype={self.dtype!r},\n{layout}"
            f'    device="cpu",\n    num_samples={len(self)},\n    shape={shapes})'
        )

    def _position(self, index: int) -> int:
        return position_of(index, len(self), "TensorListCPU")

    def _table(self) -> list[np.ndarray]:
        assert self._samples is not None
        return self._samples


def _reshaped(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return array.shaped(shape) if traced(array) else array.reshape(tuple(shape))  # type: ignore[attr-defined]


def _check_untraced(value: Any) -> None:
    if traced(value):
        raise RuntimeError(
            "these are results of a differentiable function: read as another type they would lose their gradients"
        )


def _check_uniform(samples: Sequence[np.ndarray]) -> None:
    for index, sample in enumerate(samples):
        if sample.dtype != samples[0].dtype:
            raise TypeError(
                f"a batch has one type: sample 0 is {samples[0].dtype} and sample {index} is {sample.dtype}"
            )
        if sample.ndim != samples[0].ndim:
            raise ValueError(
                f"a batch has one number of axes: sample 0 has {samples[0].ndim} and sample {index} has {sample.ndim}"
            )


Take = Callable[[int], np.ndarray]


def slab_size(samples: int, hint: int) -> int:
    """The bytes for so many samples of the hinted size, each beginning at a multiple of 64."""
    return samples * (-(-hint // 64) * 64)


class Collector:
    """Gathers the results of one output over a batch: each is copied once, at once, into memory of the batch.

    All results share one slab while it lasts: equal shapes come out as one dense array, others as views one after
    another. ``take(nbytes)`` gives fresh memory; ``hint`` is the expected size of a sample in bytes, with which a slab
    is big enough from the start whatever the shapes.
    """

    __slots__ = ("_offset", "_slab", "_table", "_take", "dense", "hint", "size")

    def __init__(self, size: int, take: Take, hint: int = 0) -> None:
        self.size = size
        self.hint = hint
        self.dense: np.ndarray | None = None
        self._take = take
        self._slab: np.ndarray | None = None
        self._offset = 0
        self._table: list[np.ndarray] = []

    def start(self, first: np.ndarray) -> np.ndarray:
        """Memory for the whole batch if all samples look like the first: an array (samples, *shape)."""
        shape = (self.size, *first.shape)
        if first.dtype == object:
            self.dense = np.empty(shape, object)
        else:
            self._slab = self._take(
                slab_size(self.size, self.hint) if self.hint >= first.nbytes else self.size * first.nbytes
            )
            self.dense = self._slab[: self.size * first.nbytes].view(first.dtype).reshape(shape)
        return self.dense

    def store(self, index: int, sample: np.ndarray) -> None:
        """Writes a sample of the shape of the first."""
        assert self.dense is not None
        # a 0-d array of an object would be stored as that array, not as the object
        self.dense[index] = sample[()] if sample.dtype.hasobject else sample

    def spill(self, count: int) -> None:
        """Goes over to samples of different shapes; the first ``count`` are already written."""
        assert self.dense is not None
        self._table = [self.dense[index, ...] for index in range(count)]
        self._offset = count * (self.dense.nbytes // max(self.size, 1))
        self.dense = None

    def put(self, sample: np.ndarray) -> None:
        """Appends one sample after a spill."""
        if sample.dtype == object:
            self._table.append(sample.copy())
            return
        start = -(-self._offset // 64) * 64
        if self._slab is None or start + sample.nbytes > len(self._slab):
            left = self.size - len(self._table)
            self._slab, start = self._take(left * max(sample.nbytes + 64, self.hint)), 0
        place = self._slab[start : start + sample.nbytes].view(sample.dtype).reshape(sample.shape)
        np.copyto(place, sample)
        self._offset = start + sample.nbytes
        self._table.append(place)

    def values(self) -> "np.ndarray | list[np.ndarray]":
        """What was gathered: a dense array or a list of samples."""
        return self.dense if self.dense is not None else self._table

    def gather(self, samples: Sequence[np.ndarray]) -> "np.ndarray | list[np.ndarray]":
        """Copies samples that are all there."""
        if not samples:
            return []
        dense = self.start(samples[0])
        shape = samples[0].shape
        for index, sample in enumerate(samples):
            if sample.shape != shape:
                self.spill(index)
                for rest in samples[index:]:
                    self.put(rest)
                break
            if dense.dtype.hasobject:
                self.store(index, sample)
            else:
                dense[index] = sample
        return self.values()


def lent(array: np.ndarray) -> np.ndarray:
    """A view for code of the user that cannot be written through.

    torch writes to read-only memory too (``from_numpy``, ``from_dlpack``), so where it is loaded the code gets a copy.
    """
    if type(array) is Traced:
        return array  # it cannot be written to, and a view would have no history
    view = array.copy() if "torch" in sys.modules else array.view()
    view.flags.writeable = False
    return view
