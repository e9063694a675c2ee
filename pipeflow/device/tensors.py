"""Batches and samples on a device as the user sees them: TensorListGPU and TensorGPU, without copies for CuPy, torch and JAX.

A batch is delivered while the device still works on it. A consumer that calls ``__dlpack__(stream=...)``, as torch and JAX
do, makes its stream wait for the batch. The pipeline waits for that stream before it uses the memory again. The host
never waits. ``__cuda_array_interface__`` names the pipeline's stream: there the consumer itself must wait for it.
Memory is held by reference, as on the CPU: it is valid as long as any object refers to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from pipeflow import backends, tensors, types
from pipeflow.device.calls import View, array_address
from pipeflow.device.memory import JOINED, offsets
from pipeflow.device.runtime import LEGACY, DeviceArray, Runtime
from pipeflow.device.tables import DeviceColumn
from pipeflow.errors import RaggedBatch
from pipeflow.tensors import Metadata, Shape, TensorCPU, TensorListCPU, common_layout, fitting_layout, position_of


class TensorGPU(Metadata):
    """One sample, or a dense batch, in device memory."""

    __slots__ = ("_array", "_layout", "_runtime", "_sample", "_source_info")
    _runtime: Runtime
    _sample: DeviceArray | None  # a sample of a pipeline, or
    _array: Any  # an array of the user
    _source_info: str

    def __init__(self, data: Any, layout: str | None = None, *, source_info: str = "") -> None:
        """Wraps any object on a device (an array of CuPy, a tensor of torch) without a copy."""
        if isinstance(data, TensorGPU):
            self._runtime, self._sample, self._array = data._runtime, data._sample, data._array
            layout = data._layout if layout is None else layout
        else:
            self._runtime = backends.gpu.for_arrays(data)
            self._sample, self._array = None, on_device(self._runtime, data)
        self._source_info = source_info
        self._layout = ""
        self.set_layout(layout)

    @classmethod
    def of(cls, runtime: Runtime, sample: DeviceArray, layout: str, source_info: str = "") -> "TensorGPU":
        """A sample of a pipeline."""
        tensor = cls.__new__(cls)
        tensor._runtime, tensor._sample, tensor._array = runtime, sample, None
        tensor._layout, tensor._source_info = layout, source_info
        return tensor

    @property
    def _shape(self) -> Shape:
        return tuple(self._sample.shape if self._sample is not None else self._array.shape)

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self._sample.dtype if self._sample is not None else self._array.dtype)

    def shape(self) -> list[int]:
        """The extents."""
        return list(self._shape)

    @property
    def dtype(self) -> types.DALIDataType:
        """The element type."""
        return types.to_dali_type(self._dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    def set_layout(self, layout: str | None) -> None:
        """Names the axes; the number of letters must be the number of axes."""
        self._layout = fitting_layout(layout, self.ndim)

    def device_id(self) -> int:
        """The number of the GPU."""
        return self._runtime.device[1]

    def source_info(self) -> str:
        """The source of the sample: a file name, or "" if it is not known."""
        return self._source_info

    def data_ptr(self) -> int:
        """The address of the first element. It is valid for work on streams that waited for this batch."""
        return self._sample.view.address if self._sample is not None else array_address(self._array)

    def as_array(self) -> Any:
        """This tensor as an array of CuPy, for work on CuPy's current stream; no copy, and the host does not wait."""
        if self._sample is None:
            return self._array
        lend(self._runtime, [self._sample], self._runtime.current())
        return self._raw()

    def as_cpu(self) -> TensorCPU:
        """A copy in CPU memory; waits for the device."""
        (array,) = download(self._runtime, [self._held()])
        return TensorCPU(array, self._layout, source_info=self._source_info)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._sample is None:
            return self._array.__cuda_array_interface__
        runtime = self._runtime
        # The interface does not name the consumer's stream, and torch ignores the pipeline's. So the default stream and
        # CuPy's current stream wait.
        for handle in {LEGACY, runtime.current()}:
            lend(runtime, [self._sample], handle)
        view = self._sample.view
        return {
            "shape": view.shape,
            "typestr": view.dtype.str,
            "data": (view.address if view.size else 0, False),
            "version": 3,
            "strides": None,
            "stream": runtime.computing.ptr,
        }

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        if self._sample is None:
            return self._array.__dlpack__(stream=stream, **options)
        if stream == 0:
            raise ValueError(
                "stream 0 is ambiguous: give 1 for the legacy default stream, 2 for the thread's, or a handle"
            )
        if stream != -1:
            lend(self._runtime, [self._sample], LEGACY if stream is None else int(stream))
        return self._runtime.capsule(self._raw(), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._runtime.device

    def _raw(self) -> Any:
        assert self._sample is not None
        view = self._sample.view
        return self._runtime.array(view.address, view.shape, view.dtype, self._sample.lease)

    def _held(self) -> DeviceArray:
        if self._sample is not None:
            return self._sample
        with self._runtime.active():
            array = self._array if self._array.flags.c_contiguous else self._array.copy()
            self._array = array
            event = self._runtime.event()  # the copy waits for the work on the caller's stream
            self._runtime.record(event, self._runtime.external(self._runtime.current()))
            self._runtime.wait(self._runtime.returning, event)
        return DeviceArray(View(array_address(array), tuple(array.shape), np.dtype(array.dtype)), None)

    def __repr__(self) -> str:
        layout = f', layout="{self._layout}"' if self._layout else ""
        return f'TensorGPU(shape={self._shape}, dtype={self.dtype!r}{layout}, device="gpu:{self.device_id()}")'


def on_device(runtime: Runtime, value: Any) -> Any:
    """The value as an array on the device; a value in CPU memory is an error."""
    array = runtime.as_array(value)
    if array is None:
        raise TypeError(
            f"{type(value).__name__} is in CPU memory, and a batch on the GPU takes arrays on the GPU: copy it with "
            "cupy.asarray(x), or make a TensorListCPU"
        )
    types.as_dtype(np.dtype(array.dtype))
    return array


class _Lent:
    """A sample for which the consumer's stream already waits: its ``__dlpack__`` waits for nothing."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: TensorGPU) -> None:
        self._tensor = tensor

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        del stream
        return self._tensor.__dlpack__(stream=-1, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()


def lend(runtime: Runtime, samples: Sequence[DeviceArray], handle: int) -> None:
    """Makes the stream of a consumer wait for samples, and notes the stream for their blocks."""
    with runtime.active():
        stream = runtime.external(handle)
        for block in {id(x.lease.block): x.lease.block for x in samples if x.lease is not None}.values():
            runtime.wait(stream, block.computed)
            block.streams[handle] = runtime.holder(handle)


def download(runtime: Runtime, samples: Sequence[DeviceArray]) -> list[np.ndarray]:
    """Copies samples to the host and waits for that."""
    with runtime.active():
        arrays = [np.empty(x.shape, x.dtype) for x in samples]
        for block in {id(x.lease.block): x.lease.block for x in samples if x.lease is not None}.values():
            runtime.wait(runtime.returning, block.computed)
        for x, array in zip(samples, arrays):
            if x.nbytes:
                runtime.download(runtime.returning, array.reshape(-1).view(np.uint8), x.view.address)
        event = runtime.event()
        runtime.record(event, runtime.returning)
        runtime.synchronize(event)
    return arrays


class TensorListGPU(Metadata):
    """A batch in device memory: samples of any shapes with one type and number of axes."""

    __slots__ = ("_dense", "_dtype", "_layout", "_ndim", "_runtime", "_samples", "_source_info", "_wrapped")
    _runtime: Runtime
    _samples: Sequence[DeviceArray]
    _wrapped: list[TensorGPU]  # the samples, if they are not from a pipeline
    _dense: TensorGPU | None
    _dtype: np.dtype
    _ndim: int
    _source_info: Sequence[str] | None

    def __init__(self, data: Any = (), layout: str | None = None, *, source_info: Sequence[str] | None = None) -> None:
        """A batch of objects on a device: a list of arrays or tensors, or one array whose first axis is the samples."""
        self._dense = None
        if isinstance(data, TensorListGPU):
            for name in ("_runtime", "_samples", "_wrapped", "_dense", "_dtype", "_ndim", "_source_info"):
                setattr(self, name, getattr(data, name))
            layout = data._layout if layout is None else layout
        else:
            items: Iterable[Any] = data if isinstance(data, (list, tuple)) else TensorGPU(data).as_array()
            tensors = [item if isinstance(item, TensorGPU) else TensorGPU(item) for item in items]
            layout = common_layout(tensors) if layout is None else layout
            self._runtime = tensors[0]._runtime if tensors else backends.gpu.for_arrays()
            own = self.device_id()
            for index, tensor in enumerate(tensors):
                if tensor.device_id() != own:
                    there = f"sample 0 is on GPU {own} and sample {index} on GPU {tensor.device_id()}"
                    raise ValueError(f"a batch is on one GPU: {there}")
            self._wrapped = tensors  # they keep memory that is not from a pipeline
            self._samples = [tensor._held() for tensor in tensors]
            self._source_info = source_info
            self._dtype = self._samples[0].dtype if tensors else np.dtype(np.float32)
            self._ndim = self._samples[0].ndim if tensors else 0
            for index, sample in enumerate(self._samples):
                if sample.dtype != self._dtype:
                    raise TypeError(
                        f"a batch has one type: sample 0 is {self._dtype} and sample {index} is {sample.dtype}"
                    )
                if sample.ndim != self._ndim:
                    raise ValueError(
                        f"a batch has one number of axes: sample 0 has {self._ndim} and sample {index} has {sample.ndim}"
                    )
        self._layout = ""
        self.set_layout(layout)

    @classmethod
    def from_parts(
        cls,
        runtime: Runtime,
        samples: Sequence[DeviceArray],
        dtype: np.dtype | None,
        ndim: int | None,
        layout: str,
        source_info: Sequence[str] | None,
    ) -> "TensorListGPU":
        """A batch of a pipeline: nothing is checked."""
        batch = cls.__new__(cls)
        batch._runtime, batch._samples, batch._wrapped, batch._dense = runtime, samples, [], None
        if isinstance(samples, DeviceColumn):
            batch._dtype, batch._ndim = samples.column.dtype, samples.column.shapes.shape[1]
        else:
            batch._dtype = samples[0].dtype if samples else np.dtype(np.float32) if dtype is None else dtype
            batch._ndim = samples[0].ndim if samples else ndim or 0
        batch._layout, batch._source_info = layout, source_info
        return batch

    def at(self, index: int) -> TensorGPU:
        """Sample ``index``, without a copy."""
        return self[index]

    @overload
    def __getitem__(self, index: int) -> TensorGPU: ...

    @overload
    def __getitem__(self, index: slice) -> "TensorListGPU": ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(index)
        index = position_of(index, len(self), "TensorListGPU")
        where = self.source_info(index) if self._source_info is not None else ""
        if self._wrapped:
            return TensorGPU(self._wrapped[index], self._layout, source_info=where)
        return TensorGPU.of(self._runtime, self._samples[index], self._layout, where)

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[TensorGPU]:
        return (self[index] for index in range(len(self)))

    def first(self, rows: int) -> "TensorListGPU":
        """The first samples."""
        return self._part(slice(rows))

    def _part(self, chosen: slice) -> "TensorListGPU":
        """Some of the samples as a batch, without a copy."""
        info = None if self._source_info is None else list(self._source_info)[chosen]
        batch = self.from_parts(self._runtime, self._samples[chosen], self._dtype, self._ndim, self._layout, info)
        batch._wrapped = self._wrapped[chosen]
        return batch

    def shape(self) -> list[Shape]:
        """The shapes of the samples."""
        return [sample.shape for sample in self._samples]

    @property
    def dtype(self) -> types.DALIDataType:
        """The element type of all samples."""
        return types.to_dali_type(self._dtype)

    @property
    def ndim(self) -> int:
        """The number of axes of a sample."""
        return self._ndim

    def set_layout(self, layout: str | None) -> None:
        """Names the axes of the samples."""
        self._layout = fitting_layout(layout, self._ndim) if self._samples else types.check_layout(layout)

    def device_id(self) -> int:
        """The number of the GPU."""
        return self._runtime.device[1]

    def source_info(self, index: int | None = None) -> Any:
        """The sources of the samples (or of sample ``index``): file names, "" if not known."""
        known = self._source_info if self._source_info is not None else [""] * len(self)
        return [str(item) for item in known] if index is None else str(known[index])

    def lent(self, stream: int) -> list[Any]:
        """The samples for a library that works on a stream. The stream waits once for the batch, and not for each sample."""
        if self._wrapped:
            return list(self)
        lend(self._runtime, self._samples, stream)
        return [_Lent(sample) for sample in self]

    def is_dense_tensor(self) -> bool:
        """True if all samples have the same shape."""
        return all(sample.shape == self._samples[0].shape for sample in self._samples)

    def as_tensor(self) -> TensorGPU:
        """The batch as one tensor; its layout gains a leading N. Samples of equal shapes need no copy."""
        if self._dense is None:
            if not self.is_dense_tensor():
                shapes = sorted({sample.shape for sample in self._samples})
                shown = ", ".join(map(str, shapes[:4])) + (", ..." if len(shapes) > 4 else "")
                raise RaggedBatch(
                    f"the {len(self)} samples have different shapes ({shown}) and cannot be one tensor; "
                    "index the batch, or pad or crop them to a common shape"
                )
            layout = f"N{self._layout}" if self._layout else ""
            if self._wrapped or not self._samples:
                module = self._runtime.module
                arrays = [tensor.as_array() for tensor in self._wrapped]
                self._dense = TensorGPU(
                    module.stack(arrays) if arrays else module.empty((0,) * (self._ndim + 1), self._dtype), layout
                )
            else:
                self._dense = TensorGPU.of(self._runtime, self._joined(), layout)
        return self._dense

    def as_array(self) -> Any:
        """The batch as one array of CuPy, for work on CuPy's current stream."""
        return self.as_tensor().as_array()

    def as_cpu(self) -> TensorListCPU:
        """A copy in CPU memory; waits for the device."""
        if self._samples and not self._wrapped and self.is_dense_tensor():
            return TensorListCPU(self.as_tensor().as_cpu().array, self._layout, source_info=self._source_info)
        # The user's arrays may have been written since they were wrapped.
        samples = [tensor._held() for tensor in self._wrapped] if self._wrapped else self._samples
        arrays = download(self._runtime, samples)
        return TensorListCPU.from_parts(arrays, self._dtype, self._ndim, self._layout, self._source_info)

    def data_ptr(self) -> int:
        """The address of the first element of the dense batch."""
        return self.as_tensor().data_ptr()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.as_tensor().__cuda_array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.as_tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._runtime.device

    def _joined(self) -> DeviceArray:
        """All samples as one array: a view if they are one after another in memory, else a copy on the compute stream."""
        samples = self._samples
        shape = (len(samples), *samples[0].shape)
        starts, total = offsets([sample.nbytes for sample in samples])
        lease = samples[0].lease
        assert lease is not None, "samples of a pipeline"
        base = samples[0].view.address
        if all(
            x.lease is not None and x.lease.block is lease.block and x.view.address == base + start
            for x, start in zip(samples, starts)
        ):
            return DeviceArray(View(base, shape, self._dtype), lease)
        runtime = self._runtime
        with runtime.active():
            joined = lease.pool.take(JOINED, total, runtime.computing)
            for x, start in zip(samples, starts):
                if x.nbytes:
                    runtime.copy(runtime.computing, joined.block.address + start, x.view.address, x.nbytes)
            for block in {id(x.block): x.block for x in (joined, *[x.lease for x in samples if x.lease])}.values():
                runtime.record(block.computed, runtime.computing)
        return DeviceArray(View(joined.block.address, shape, self._dtype), joined)

    def __repr__(self) -> str:
        layout = f', layout="{self._layout}"' if self._layout else ""
        shapes = self.shape() if len(self) <= 8 else f"[{', '.join(map(str, self.shape()[:4]))}, ...]"
        return (
            f'TensorListGPU(num_samples={len(self)}, dtype={self.dtype!r}{layout}, device="gpu:{self.device_id()}", '
            f"shape={shapes})"
        )


# DALI has the batches of all devices in one module.
tensors.TensorGPU, tensors.TensorListGPU = TensorGPU, TensorListGPU  # type: ignore[attr-defined]
