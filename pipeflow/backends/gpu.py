"""The GPU, by CuPy: streams, events, memory and kernels of one device for one pipeline.

CuPy is imported here and nowhere else, and this module by the first pipeline that has work for a GPU. Nothing is created
before ``why_not`` has found the device usable, since half-made CUDA objects complain when they are collected.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pipeflow import backends
from pipeflow.device.runtime import Runtime
from pipeflow.errors import InvalidState, NoGpu
from pipeflow.kernels import gpu as kernels

try:
    import cupy
except ImportError as error:
    cupy, MISSING = None, str(error)
else:
    MISSING = ""
try:
    from cuda import pathfinder  # comes with CuPy 14
except ImportError:
    pathfinder = None

INSTALL = (
    "pip install cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime, or, where the driver is older than 580, "
    "cupy-cuda12x nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12"
)
LEGACY, PER_THREAD = 1, 2  # CUDA's names of the default streams
_initialised: list[int] = []  # the process that has used CUDA


def why_not(device_id: int = 0) -> str:
    """The reason why a GPU cannot be used, with what to do; "" where it can."""
    if _initialised and _initialised[0] != os.getpid():
        return (
            f"CUDA was initialised in process {_initialised[0]}, and this one ({os.getpid()}) was forked from it, where CUDA "
            "cannot work: start the process by spawn or forkserver, or before the first GPU pipeline"
        )
    return _why_not(device_id)


@functools.cache
def _why_not(device_id: int) -> str:
    wheels = installed_wheels()
    if len(wheels) > 1:
        return f"{' and '.join(wheels)} are both installed and disturb each other: pip uninstall all of them, then {INSTALL}"
    if cupy is None:
        return f"CuPy cannot be imported ({MISSING}): {INSTALL}"
    runtime = cupy.cuda.runtime
    try:
        version = runtime.driverGetVersion()
    except runtime.CUDARuntimeError as error:
        return f"the NVIDIA driver does not answer: {error}"
    if not version:
        return "there is no NVIDIA driver: install one and see that nvidia-smi shows the GPU"
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"no GPU can be used: {error} (the driver supports CUDA {version // 1000}.{version % 1000 // 10})"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r} hides the others)"
    if not count:
        return f"there is no CUDA device{hidden}"
    if not 0 <= device_id < count:
        return (
            f"device_id={device_id} and there {'is one GPU, 0' if count == 1 else f'are {count} GPUs, from 0'}{hidden}"
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # a missing library is of another type in every CuPy
        return f"NVRTC, the CUDA compiler, is not installed ({error}): {INSTALL}"
    try:
        with cupy.cuda.Device(device_id):
            cupy.cuda.memory.Memory(256)
    except (runtime.CUDARuntimeError, MemoryError) as error:
        return f"GPU {device_id} gives no memory: {error}"
    return ""


def installed_wheels() -> list[str]:
    """The distributions of CuPy in this environment; more than one is too many."""
    names = {(item.metadata["Name"] or "").lower() for item in importlib.metadata.distributions()}
    return sorted(name for name in names if name == "cupy" or name.startswith("cupy-cuda"))


def has_codec() -> bool:
    """Whether nvImageCodec is installed."""
    return importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.nvimgcodec") is not None


def require(device_id: int) -> None:
    """Raises NoGpu with the reason where a GPU cannot be used."""
    reason = why_not(device_id)
    if reason:
        raise NoGpu(f"this pipeline works on GPU {device_id}, which cannot be used here: {reason}")


def open_device(device_id: int) -> Runtime:
    """A runtime for one pipeline."""
    require(device_id)
    if not _initialised:
        _initialised.append(os.getpid())
    return CupyRuntime(device_id)


_own: dict[int, Runtime] = {}  # for batches that the user makes of his own arrays


def for_arrays() -> Runtime:
    """A runtime of the current device, for arrays that belong to no pipeline."""
    number = cupy.cuda.Device().id if cupy is not None and not why_not() else 0
    if number not in _own:
        _own[number] = open_device(number)
    return _own[number]


class OutOfMemory(MemoryError):
    """The GPU has no memory left; the pipeline can be used on."""


class CupyMemory:
    """Device memory; it goes back when this object does, and CUDA waits then for what still uses it."""

    def __init__(self, nbytes: int) -> None:
        self._memory = cupy.cuda.memory.Memory(nbytes)
        self.address = self._memory.ptr
        self.nbytes = nbytes


class CupyRuntime:
    """See device.runtime.Runtime."""

    def __init__(self, device_id: int) -> None:
        self.module = cupy
        self.device = (2, device_id)  # kDLCUDA
        self._process = os.getpid()
        self._codec: Any = None
        with self._device:
            self.copying = cupy.cuda.Stream(non_blocking=True)
            self.computing = cupy.cuda.Stream(non_blocking=True)

    @property
    def _device(self) -> Any:
        return cupy.cuda.Device(self.device[1])  # a new one each time: threads must not share what it restores

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Makes the device current in this thread."""
        if os.getpid() != self._process:
            raise InvalidState(why_not(self.device[1]))
        with self._device:
            yield

    @contextlib.contextmanager
    def using(self, stream: Any) -> Iterator[None]:
        """Makes the arrays of CuPy work on a stream."""
        with self._device, stream:
            yield

    def event(self) -> Any:
        """An event without a clock, which is cheaper."""
        return cupy.cuda.Event(disable_timing=True)

    def record(self, event: Any, stream: Any) -> None:
        """Records an event on a stream."""
        event.record(stream)

    def wait(self, stream: Any, event: Any) -> None:
        """Lets a stream wait."""
        stream.wait_event(event)

    def synchronize(self, event: Any) -> None:
        """Lets the host wait."""
        event.synchronize()

    def done(self, event: Any) -> bool:
        """Whether an event has happened."""
        return bool(event.done)

    def drain(self, stream: Any) -> None:
        """Waits for a stream."""
        stream.synchronize()

    def external(self, handle: int) -> Any:
        """Somebody else's stream."""
        if handle == LEGACY:
            return cupy.cuda.Stream.null
        if handle == PER_THREAD:
            return cupy.cuda.Stream.ptds
        return cupy.cuda.ExternalStream(handle, self.device[1])

    def current(self) -> int:
        """CuPy's current stream in this thread."""
        return cupy.cuda.get_current_stream(self.device[1]).ptr or LEGACY

    def allocate(self, nbytes: int) -> CupyMemory:
        """Memory straight from CUDA: these blocks are kept, so a pool beneath would only hide them."""
        try:
            return CupyMemory(nbytes)
        except (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError) as error:
            if isinstance(error, cupy.cuda.runtime.CUDARuntimeError) and "MemoryAllocation" not in str(error):
                raise
            cupy.get_default_memory_pool().free_all_blocks()
            try:
                return CupyMemory(nbytes)
            except (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError):
                free, total = cupy.cuda.runtime.memGetInfo()
                raise OutOfMemory(
                    f"GPU {self.device[1]} has no {nbytes / 1e6:.0f} MB left: {free / 1e6:.0f} of {total / 1e6:.0f} MB are free. "
                    "A smaller batch_size or prefetch_queue_depth needs less; so does letting go of earlier batches"
                ) from error

    def free(self, memory: CupyMemory) -> None:
        """Gives memory back; cudaFree waits for the device."""
        del memory._memory

    def pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked memory that no pool of CuPy hands out meanwhile."""
        memory = cupy.cuda.PinnedMemoryPointer(cupy.cuda.PinnedMemory(nbytes), 0)
        return np.frombuffer(memory, np.uint8, nbytes)

    def upload(self, stream: Any, address: int, source: np.ndarray) -> None:
        """Host to device."""
        kind = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpyAsync(address, source.ctypes.data, source.nbytes, kind, stream.ptr)

    def download(self, stream: Any, target: np.ndarray, address: int) -> None:
        """Device to host."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        cupy.cuda.runtime.memcpyAsync(target.ctypes.data, address, target.nbytes, kind, stream.ptr)

    def copy(self, stream: Any, target: int, source: int, nbytes: int) -> None:
        """Device to device."""
        cupy.cuda.runtime.memcpyAsync(target, source, nbytes, cupy.cuda.runtime.memcpyDeviceToDevice, stream.ptr)

    def launch(self, stream: Any, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues a kernel; the first launch of an instance in a process compiles it, or finds it in CuPy's cache on disk."""
        function = compiled(kernel, self.device[1])
        with stream:
            function((grid,), (threads,), (np.uint64(rows), np.uint64(first), np.int32(count)))

    def run(self, stream: Any, function: Callable[..., None], arrays: Sequence[Any]) -> None:
        """Queues a function of CuPy's arrays."""
        with self.using(stream):
            function(cupy, *arrays)

    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any) -> Any:
        """A CuPy array on memory of the pipeline."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = cupy.cuda.UnownedMemory(address, nbytes, owner, self.device[1])
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    def as_array(self, value: Any) -> Any:
        """A CuPy array on the memory of whatever is on this kind of device."""
        if isinstance(value, cupy.ndarray):
            array = value
        elif hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in (2, 13):  # device, managed
            array = cupy.from_dlpack(value)
        elif hasattr(value, "__cuda_array_interface__"):
            array = cupy.asarray(value)
        elif type(value).__name__ == "PyCapsule":
            array = cupy.from_dlpack(_Capsule(value, self.device))
        else:
            return None
        if array.device.id != self.device[1]:
            raise ValueError(f"an array is on GPU {array.device.id} and the pipeline works on GPU {self.device[1]}")
        return array

    def capsule(self, array: Any, **options: Any) -> Any:
        """A capsule; which stream waits for which is settled already."""
        return array.__dlpack__(stream=-1, **options)

    def decode(self, files: Sequence[np.ndarray], color: str, adjust_orientation: bool) -> list[Any]:
        """CuPy arrays on the memory of nvImageCodec's images, or why there is none."""
        if self._codec is None:
            self._codec = backends.codec.Codec(self.device[1])
        found = self._codec.decode(files, color, adjust_orientation, self.computing.ptr)
        return [image if isinstance(image, str) else self._array_of(image) for image in found]

    def _array_of(self, image: Any) -> Any:
        interface = image.__cuda_array_interface__
        if interface.get("strides") is not None:
            return cupy.asarray(image)
        return self.array(interface["data"][0], tuple(interface["shape"]), np.dtype(interface["typestr"]), image)

    def prepare(self, kernels: Sequence[str]) -> None:
        """Compiles kernels."""
        with self._device:
            for kernel in kernels:
                compiled(kernel, self.device[1])


class _Capsule:
    """A bare DLPack capsule in the form that ``cupy.from_dlpack`` takes."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


_compiling = threading.Lock()


def compiled(kernel: str, device_id: int) -> Any:
    """One instance of a kernel on one device, "file.cu:name<types>"; compiled once a process."""
    with _compiling:
        return _compiled(kernel, device_id)


@functools.cache
def _compiled(kernel: str, device_id: int) -> Any:
    del device_id  # a module belongs to the device that is current
    file, _, name = kernel.partition(":")
    module = cupy.RawModule(
        code=kernels.source(file), options=compiler_options(), backend="nvrtc", name_expressions=(name,)
    )
    return module.get_function(name)


@functools.cache
def compiler_options() -> tuple[str, ...]:
    """How NVRTC compiles the kernels: no fast maths and no fusing of what is written apart, so that results are the CPU's."""
    headers = pathfinder.find_nvidia_header_directory("cudart") if pathfinder is not None else None
    # CuPy's cache on disk knows a kernel by its own text and these options, not by what it includes.
    shared = b"".join(path.read_bytes() for path in sorted(kernels.FOLDER.glob("*.cuh")))
    digest = hashlib.sha256(shared).hexdigest()[:8]
    options = ("--std=c++17", "--fmad=false", f"-DPIPEFLOW_HEADERS=0x{digest}", f"-I{kernels.FOLDER}")
    return (*options, f"-I{headers}") if headers else options
