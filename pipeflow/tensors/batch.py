"""TensorListCPU, a batch in CPU memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from pipeflow import types
from pipeflow.errors import RaggedBatch
from pipeflow.tensors.metadata import (
    CallableInt,
    Metadata,
    Shape,
    common_layout,
    fitting_layout,
    position_of,
    shown_samples,
    sources_of,
)
from pipeflow.tensors.placed import PlacedArrays
from pipeflow.tensors.sample import TensorCPU, as_sample, as_samples, copy_out, in_known_dtype
from pipeflow.tensors.traced import Traced, check_untraced, reshaped, traced


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
        self._samples: list[np.ndarray] | PlacedArrays | None = None
        self.key: int | None = None  # the key that an eager random operator drew
        if isinstance(data, TensorListCPU):
            inherited = data.layout()
            self._dense, self._samples = data._dense, data._samples
        elif isinstance(data, (np.ndarray, np.generic)) and data.dtype != object:
            if data.ndim == 0:
                raise TypeError("a batch needs at least one axis, the samples; got a single number")
            self._dense = in_known_dtype(np.asarray(data))
        elif isinstance(data, (str, bytes)):
            raise TypeError("a batch is made of a list of samples or an array whose first axis is the samples")
        elif isinstance(data, Iterable):
            data = items = list(data)
            inherited = common_layout(items) or ""
            self._samples = [in_known_dtype(sample) for sample in as_samples(items)]
            _check_uniform(self._samples)
        else:
            self._dense = in_known_dtype(as_sample(data))
        first = self._dense if self._dense is not None else (self._samples[0] if self._samples else None)
        self._dtype: np.dtype = first.dtype if first is not None else np.dtype(np.float32)
        self._ndim: int = 0 if first is None else first.ndim - (self._dense is not None)
        self._source_info = sources_of(data) if source_info is None else source_info
        self._layout = ""
        self.set_layout(inherited if layout is None else layout)

    @classmethod
    def from_parts(
        cls,
        values: "np.ndarray | list[np.ndarray] | PlacedArrays",
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
        elif isinstance(values, PlacedArrays) and len(values):
            batch._dense, batch._samples = None, values
            batch._dtype, batch._ndim = values.dtype, values.ndim
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
        return len(self._dense) if self._dense is not None else len(self._samples)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[TensorCPU]:
        return (self[index] for index in range(len(self)))

    def samples(self) -> list[np.ndarray]:
        """All samples as NumPy arrays, without a copy."""
        if self._samples is None:
            dense = self._dense
            assert dense is not None
            self._samples = [dense[index, ...] for index in range(len(dense))]
        return self._listed()

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
        return TensorCPU(reshaped(array, shape))

    def as_cpu(self) -> "TensorListCPU":
        """This batch."""
        return self

    def is_dense_tensor(self) -> bool:
        """True if all samples have the same shape."""
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
        return CallableInt(self._ndim)

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
        check_untraced(self.at(0) if len(self) else None)
        if wanted.itemsize != self._dtype.itemsize:
            raise RuntimeError(f"cannot reinterpret {self._dtype} as {wanted}: the element sizes differ")
        if self._dense is not None:
            self._dense, self._samples = self._dense.view(wanted), None
        else:
            self._samples = [sample.view(wanted) for sample in self._table()]
        self._dtype = wanted

    def reset(self) -> None:
        """Drops the data: the batch is empty afterwards."""
        self._dense, self._samples, self._source_info = None, [], None

    def squeeze(self, dim: int | None = None) -> bool:
        """Removes the axes of extent 1 of the samples in place, or only ``dim``; returns True if anything changed."""
        tensors = [TensorCPU(sample, self._layout) for sample in self.samples()]
        changed = [tensor.squeeze(dim) for tensor in tensors]
        if any(changed):
            squeezed = [tensor.array for tensor in tensors]
            _check_uniform(squeezed)
            self._dense, self._samples = None, squeezed
            self._ndim, self._layout = squeezed[0].ndim, tensors[0].layout()
        return any(changed)

    def source_info(self, index: int | None = None) -> Any:
        """The sources of the samples (or of sample ``index``): file names, "" if not known."""
        known = self._source_info if self._source_info is not None else [""] * len(self)
        return [str(item) for item in known] if index is None else str(known[self._position(index)])

    @staticmethod
    def broadcast(tensor: TensorCPU, num_samples: int) -> "TensorListCPU":
        """The same sample ``num_samples`` times, without a copy."""
        source = tensor if isinstance(tensor, TensorCPU) else TensorCPU(tensor)
        return TensorListCPU([source] * num_samples)

    @staticmethod
    def from_dlpack(data: Any, layout: str | None = None) -> "TensorListCPU":
        """A batch from a DLPack object (or capsule) whose first axis is the samples, without a copy."""
        return TensorListCPU(as_sample(data), layout)

    @staticmethod
    def from_dlpack_list(
        objects: Sequence[Any], layout: str | None = None, contiguous: bool = False
    ) -> "TensorListCPU":
        """A batch from DLPack objects (or capsules), without a copy unless ``contiguous`` needs one block."""
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
            f"TensorListCPU(\n    [{shown_samples(self.samples())}],\n    dtype={self.dtype!r},\n{layout}"
            f'    device="cpu",\n    num_samples={len(self)},\n    shape={shapes})'
        )

    def _position(self, index: int) -> int:
        return position_of(index, len(self), "TensorListCPU")

    def _table(self) -> list[np.ndarray]:
        assert self._samples is not None
        return self._listed()

    def _listed(self) -> list[np.ndarray]:
        if type(self._samples) is PlacedArrays:  # the array of each sample is made now
            self._samples = list(self._samples)
        return self._samples  # type: ignore[return-value]


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
