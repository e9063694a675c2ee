"""The GPU, by CuPy: streams, events, memory and kernels of one device for one pipeline.

CuPy is imported only here, and the first pipeline with work for a GPU imports this module. Nothing is created before
``why_not`` has found that the device can be used, because incomplete CUDA objects cause errors when they are collected.
"""

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pipeflow import backends
from pipeflow.backends import cuda_programs
from pipeflow.backends.cuda_objects import CapturedGraph, Context, CudaMemory, Event, PinnedMemory
from pipeflow.device.runtime import LEGACY, Runtime
from pipeflow.errors import InvalidState, NoGpu, add_notes

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
WHEELS = ("cupy", *(f"cupy-cuda{version}x" for version in range(11, 20)))  # the distributions of CuPy
INSTALL_CUFFT = "pip install nvidia-cufft, or, with cupy-cuda12x, nvidia-cufft-cu12"
_initialised: list[int] = []  # the process that has used CUDA


def why_not(device_id: int = 0) -> str:
    """The reason why a GPU cannot be used, and what to do; "" if it can be used."""
    if _initialised and _initialised[0] != os.getpid():
        return (
            f"CUDA was initialised in process {_initialised[0]}, and this one ({os.getpid()}) was forked from it, where CUDA "
            "cannot work: start the process by spawn or forkserver, or before the first GPU pipeline"
        )
    reason = _why_not(device_id)
    if reason:
        _why_not.cache_clear()  # it may be gone at the next call: another process had all the memory, say
    return reason


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
        count = _count()
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
    except Exception as error:  # each version of CuPy raises another type if a library is missing
        return f"NVRTC, the CUDA compiler, is not installed ({error}): {INSTALL}"
    if not headers_folder():
        return (
            "the headers of the CUDA runtime are not installed, and NVRTC needs them: pip install nvidia-cuda-runtime, or, "
            "with cupy-cuda12x, nvidia-cuda-runtime-cu12"
        )
    try:
        architecture_of(device_id)
    except NoGpu as error:
        return str(error)
    try:
        context = context_of(device_id)
        with context.current():
            CudaMemory(context, 256).free()
    except runtime.CUDARuntimeError as error:
        return f"GPU {device_id} gives no memory: {error}"
    return ""


def _count() -> int:
    found = int(cupy.cuda.runtime.getDeviceCount())
    if found and not _initialised:
        _initialised.append(os.getpid())  # it is the first call after which a forked process cannot use CUDA
    return found


def device_count() -> int:
    """The number of GPUs. It opens no context, which would take memory of each."""
    if cupy is None:
        return 0
    try:
        return _count()
    except cupy.cuda.runtime.CUDARuntimeError:  # there is no driver
        return 0


def installed_wheels() -> list[str]:
    """The distributions of CuPy in this environment. Two in one environment conflict."""
    found = []
    for name in WHEELS:  # looked up by name, because a list of all distributions takes a tenth of a second
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.distribution(name)
            found.append(name)
    return found


def has_codec() -> bool:
    """True if nvImageCodec is installed."""
    return importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.nvimgcodec") is not None


def require(device_id: int) -> None:
    """Raises NoGpu with the reason if a GPU cannot be used."""
    reason = why_not(device_id)
    if reason:
        raise NoGpu(
            f"this pipeline works on GPU {device_id}, which cannot be used here: {reason}. "
            "To run it on the CPU, set device_id=None or the environment variable PIPEFLOW_DEVICE=cpu"
        )


@functools.cache
def headers_folder() -> str:
    """The folder of cuda_fp16.h, in the wheel of the CUDA runtime or in an installed toolkit; "" if there is none."""
    folders = []
    if pathfinder is not None:
        folders.append(pathfinder.find_nvidia_header_directory("cudart"))
    if importlib.util.find_spec("nvidia") is not None:
        found = importlib.util.find_spec("nvidia.cuda_runtime")
        folders += (
            [Path(place) / "include" for place in (found.submodule_search_locations or ()) if found] if found else []
        )
    folders += [Path(os.environ.get("CUDA_PATH") or "/usr/local/cuda") / "include"]
    return next((str(folder) for folder in folders if folder and (Path(folder) / "cuda_fp16.h").exists()), "")


@functools.cache
def architecture_of(device_id: int) -> int:
    """The architecture for the kernels of a GPU; raises NoGpu if the compiler does not support it."""
    nvrtc = cupy.cuda.nvrtc
    return cuda_programs.architecture_for(
        int(cupy.cuda.Device(device_id).compute_capability), nvrtc.getSupportedArchs(), nvrtc.getVersion()
    )


def open_device(device_id: int) -> Runtime:
    """A runtime for one pipeline."""
    require(device_id)
    return CupyRuntime(device_id)


_own: dict[int, Runtime] = {}  # by device: the runtimes for batches that the user makes of arrays


def for_arrays(value: Any = None) -> Runtime:
    """A runtime of the device that an array is on, or else of the current one, for arrays that belong to no pipeline."""
    number = 0
    if cupy is not None:
        with contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):  # if there is none, `require` gives the reason
            number = _number_of(value)
    if number not in _own:
        require(number)
        _own[number] = CupyRuntime(number)
    return _own[number]


def _number_of(value: Any) -> int:
    """The GPU that an array is on, or the current one."""
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in ON_DEVICE:
        return int(value.__dlpack_device__()[1])
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None and interface["data"][0]:
        return int(cupy.cuda.runtime.pointerGetAttributes(interface["data"][0]).device)
    return int(cupy.cuda.runtime.getDevice())


ON_DEVICE = (2, 13)  # kDLCUDA, kDLCUDAManaged


@functools.cache
def context_of(device_id: int) -> Context:
    """The context of a device."""
    return Context(cupy.cuda, device_id)


class OutOfMemory(MemoryError):
    """The GPU has no memory left; the pipeline can still be used."""


class StreamHandle(NamedTuple):
    """A stream that is known by its number: CuPy's objects for such streams warn, and take microseconds."""

    ptr: int


LATE = (
    "CUDA reports the errors of kernels late, by some later call: the operator named here may be another one than the one "
    "that failed. Run the program again with PIPEFLOW_SYNC=1, which waits after every operator, to learn which it is"
)
LOST = "this process cannot use the GPU any more: start it again"
Method = TypeVar("Method", bound=Callable[..., Any])


def _explained(method: Method) -> Method:
    """Adds notes for the user to errors of CUDA."""

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except Exception as error:
            explain(error)
            raise

    return call  # type: ignore[return-value]


def explain(error: BaseException) -> None:
    """Adds notes to an error of CUDA, except to errors about missing memory. Other errors get no notes."""
    of_cuda = isinstance(error, (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError))
    if of_cuda and "MEMORY" not in str(error).upper().replace("ILLEGAL MEMORY", ""):
        careful = os.environ.get("PIPEFLOW_SYNC", "0") not in ("", "0")
        add_notes(error, [LOST] if careful else [LATE, LOST])


class CupyRuntime:
    """See device.runtime.Runtime."""

    def __init__(self, device_id: int) -> None:
        self.module = cupy
        self.device = (2, device_id)  # kDLCUDA
        self.context = context_of(device_id)
        self._codec: Any = None
        self._functions: dict[str, Any] = {}
        with self.context.current():
            try:
                streams = self.context.streams.popleft()
            except IndexError:
                streams = tuple(cupy.cuda.Stream(non_blocking=True) for _ in range(4))
        self.copying, self.computing, self.returning, self._recording = streams
        self._capturing = threading.Lock()
        weakref.finalize(self, self.context.streams.append, streams).atexit = False

    def close(self) -> None:
        """Releases the memory that CuPy keeps for this pipeline's stream."""
        if self.context.alive:
            with self.context.current():
                cupy.get_default_memory_pool().free_all_blocks(stream=self.computing)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Makes the device current in this thread."""
        if os.getpid() != self.context.process:
            raise InvalidState(why_not(self.device[1]))
        with self.context.current():
            yield

    @contextlib.contextmanager
    def using(self, stream: Any) -> Iterator[None]:
        """Makes the arrays of CuPy work on a stream."""
        with self.context.current(), stream:
            try:
                yield
            except Exception as error:
                explain(error)
                raise

    def event(self) -> Any:
        """An event."""
        return Event(self.context)

    @_explained
    def record(self, event: Any, stream: Any) -> None:
        """Records an event on a stream."""
        cupy.cuda.runtime.eventRecord(event.ptr, stream.ptr)

    @_explained
    def wait(self, stream: Any, event: Any) -> None:
        """Makes a stream wait for an event."""
        cupy.cuda.runtime.streamWaitEvent(stream.ptr, event.ptr)

    @_explained
    def synchronize(self, event: Any) -> None:
        """Makes the host wait for an event."""
        cupy.cuda.runtime.eventSynchronize(event.ptr)

    def done(self, event: Any) -> bool:
        """True if an event has happened."""
        return bool(cupy.cuda.runtime.eventQuery(event.ptr) == 0)

    @_explained
    def drain(self, stream: Any) -> None:
        """Waits for a stream."""
        cupy.cuda.runtime.streamSynchronize(stream.ptr)

    @_explained
    def drain_all(self) -> None:
        """Waits for the device."""
        cupy.cuda.runtime.deviceSynchronize()

    def external(self, handle: int) -> StreamHandle:
        """A stream of other code; the numbers of the default streams are handles too."""
        return StreamHandle(handle)

    def current(self) -> int:
        """CuPy's current stream in this thread."""
        return cupy.cuda.get_current_stream(self.device[1]).ptr or LEGACY

    def holder(self, handle: int) -> Any:
        """CuPy's current stream, if it has this handle. A reference to it keeps it from being destroyed."""
        stream = cupy.cuda.get_current_stream(self.device[1])
        return stream if stream.ptr == handle else None

    def allocate(self, nbytes: int) -> CudaMemory:
        """Memory directly from CUDA: the pipeline keeps its blocks, so CuPy's pool would have no use."""
        try:
            return CudaMemory(self.context, nbytes)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if "MemoryAllocation" not in str(error):
                raise
            cupy.get_default_memory_pool().free_all_blocks()
            try:
                return CudaMemory(self.context, nbytes)
            except cupy.cuda.runtime.CUDARuntimeError:
                free, total = cupy.cuda.runtime.memGetInfo()
                raise OutOfMemory(
                    f"GPU {self.device[1]} has no {nbytes / 1e6:.0f} MB left: {free / 1e6:.0f} of {total / 1e6:.0f} MB are free. "
                    "Use a smaller batch_size or prefetch_queue_depth, or delete references to earlier batches"
                ) from error

    def free(self, memory: CudaMemory) -> None:
        """Frees memory; cudaFree waits for the device."""
        memory.free()

    def pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked memory. It is not from a pool of CuPy, because such a pool could give it to other code."""
        return np.asarray(PinnedMemory(self.context, nbytes))

    @_explained
    def upload(self, stream: Any, address: int, source: np.ndarray) -> None:
        """Host to device."""
        kind = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpyAsync(address, source.ctypes.data, source.nbytes, kind, stream.ptr)

    @_explained
    def download(self, stream: Any, target: np.ndarray, address: int) -> None:
        """Device to host."""
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        cupy.cuda.runtime.memcpyAsync(target.ctypes.data, address, target.nbytes, kind, stream.ptr)

    @_explained
    def copy(self, stream: Any, target: int, source: int, nbytes: int) -> None:
        """Device to device."""
        cupy.cuda.runtime.memcpyAsync(target, source, nbytes, cupy.cuda.runtime.memcpyDeviceToDevice, stream.ptr)

    def copy_array(self, stream: Any, target: int, array: Any) -> None:
        """Device to device."""
        self.copy(stream, target, array.data.ptr, array.nbytes)

    @_explained
    def launch(self, stream: Any, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues a kernel. The first launch in a process loads its file, and compiles it if no process has done so."""
        function = self._functions.get(kernel)
        if function is None:
            function = self._functions[kernel] = loaded(kernel, self.device[1])
        function((grid,), (threads,), (np.uint64(rows), np.uint64(first), np.int32(count)), stream=stream)

    def run(self, stream: Any, function: Callable[..., None], arrays: Sequence[Any]) -> None:
        """Queues a function that works on arrays of CuPy."""
        with self.using(stream):
            function(cupy, *arrays)

    @_explained
    def capture(self, calls: Sequence[Callable[[Any], None]]) -> CapturedGraph:
        """A graph. It is captured on a stream without other work, so the work of other threads is not captured."""
        runtime, stream = cupy.cuda.runtime, self._recording
        with self._capturing:
            runtime.streamBeginCapture(stream.ptr, runtime.streamCaptureModeRelaxed)
            try:
                for call in calls:
                    call(stream)
            except BaseException:
                with contextlib.suppress(runtime.CUDARuntimeError):  # the first error is the one to report
                    runtime.graphDestroy(runtime.streamEndCapture(stream.ptr))
                raise
            return CapturedGraph(self.context, runtime.streamEndCapture(stream.ptr))

    @_explained
    def replay(self, stream: Any, graph: CapturedGraph) -> None:
        """Queues a graph."""
        cupy.cuda.runtime.graphLaunch(graph.ptr, stream.ptr)

    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any) -> Any:
        """A CuPy array on memory of the pipeline."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = cupy.cuda.UnownedMemory(address, nbytes, owner, self.device[1])
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))

    def as_array(self, value: Any) -> Any:
        """A CuPy array on the memory of any object on a device of CUDA; None for other objects."""
        if isinstance(value, cupy.ndarray):
            array = value
        elif hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in ON_DEVICE:
            array = cupy.from_dlpack(value)
        elif hasattr(value, "__cuda_array_interface__"):
            array = cupy.asarray(value)
        elif type(value).__name__ == "PyCapsule":
            array = cupy.from_dlpack(_CapsuleForCupy(value, self.device))
        else:
            return None
        if array.device.id != self.device[1]:
            raise ValueError(f"an array is on GPU {array.device.id} and the pipeline works on GPU {self.device[1]}")
        return array

    def capsule(self, array: Any, **options: Any) -> Any:
        """A capsule. The pipeline has already made the streams wait, so CuPy does not."""
        return array.__dlpack__(stream=-1, **options)

    @_explained
    def decode(
        self,
        files: Sequence[np.ndarray],
        color: str,
        adjust_orientation: bool,
        regions: Sequence[tuple[int, int, int, int]] | None = None,
    ) -> list[Any]:
        """CuPy arrays on the memory of nvImageCodec's images, or the reason why there is no image."""
        found = self._open_codec().decode(files, color, adjust_orientation, self.computing.ptr, regions)
        return [image if isinstance(image, str) else self._array_of(image) for image in found]

    def _open_codec(self) -> Any:
        if self._codec is None:
            self._codec = backends.codec.Codec(self.device[1])
        return self._codec

    def _array_of(self, image: Any) -> Any:
        interface = image.__cuda_array_interface__
        if interface.get("strides") is not None:
            return cupy.asarray(image)
        return self.array(interface["data"][0], tuple(interface["shape"]), np.dtype(interface["typestr"]), image)

    def prepare(self, kernels: Sequence[str]) -> None:
        """Compiles kernels, several files at the same time."""
        files = sorted({kernel.partition(":")[0] for kernel in kernels})
        cuda_programs.prepare(cupy.cuda.nvrtc, files, architecture_of(self.device[1]), headers_folder())
        with self.context.current():
            for kernel in kernels:
                self._functions[kernel] = loaded(kernel, self.device[1])

    def require(self, library: str) -> None:
        """Checks that a library can be loaded; NoGpu says how to install it."""
        if library == "nvImageCodec":
            with self.context.current():
                self._open_codec()
            return
        assert library == "cuFFT", library
        try:
            _ = cupy.cuda.cufft  # loads it
        except AttributeError:
            pass  # an older CuPy loads it with the first transform
        except Exception as error:  # each version of CuPy raises another type if a library is missing
            first = str(error).partition("\n")[0]
            raise NoGpu(f"spectra on the GPU need cuFFT, which cannot be loaded ({first}): {INSTALL_CUFFT}") from None


class _CapsuleForCupy:
    """A bare DLPack capsule in the form that ``cupy.from_dlpack`` takes."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


_loading = threading.Lock()
_modules: dict[tuple[str, int], Any] = {}  # (file, number of the device) -> the loaded module


def loaded(kernel: str, device_id: int) -> Any:
    """One instance of a kernel, "file.cu:name<types>", on the device that is current."""
    file, _, name = kernel.partition(":")
    program = cuda_programs.program(cupy.cuda.nvrtc, file, architecture_of(device_id), headers_folder())
    with _loading:
        module = _modules.get((file, device_id))
        if module is None:
            module = cupy.cuda.function.Module()
            module.load(program.code)
            _modules[file, device_id] = module
    return module.get_function(program.lowered[name])
