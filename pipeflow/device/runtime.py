"""The interface of a device: streams, events, copies, launches, and the owners of memory.

There are two runtimes: CuPy's (backends/gpu.py), and a fake one in the tests. Streams of the fake one do their work late, in any
order that the recorded waits allow. Work on one stream runs in the order in which it was queued. Work on different streams runs
in any order that no wait forbids. The following waits make it safe. They are all in ``device/memory.py``, ``executor/device/``
and ``device/tensors.py``:

1. The host fills a staging block after the last copy from it is done (``synchronize``).
2. The copy stream writes a device block after the last kernels that read it are done, and
3. after the consumers that got it are done.
4. The compute stream reads a block after the copy that wrote it is done.
5. The compute stream writes a block after the consumers that got it are done.
6. A consumer's stream reads a block after the kernels that wrote it are done.
7. The host reads a staging block after the copy that wrote it is done (``synchronize``). Only CPU stages after ``.cpu()``
   wait in this way, and only for that copy.
8. The stream of copies to the host reads a block after the kernels that wrote it are done. The next write of the block waits
   for the copy, which is one of its consumers.
9. The compute stream copies the results of a function after all streams that the function may have used are done.
10. The memory of a CPU stage that is copied to the device from where it is, is used again after that copy is done: the segment
    keeps the arrays until then (``synchronize``), and the user never gets them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from pipeflow.declare import Args, OpDef
from pipeflow.device.calls import View

LEGACY, PER_THREAD = 1, 2  # CUDA's names of the default streams


class Memory(Protocol):
    """A piece of device memory."""

    address: int
    nbytes: int


class Runtime(Protocol):
    """One device, as one pipeline uses it: two streams, events, copies, launches, memory."""

    module: Any  # the array module: cupy
    device: tuple[int, int]  # as DLPack numbers it: (2, device_id)
    copying: Any  # the stream for copies to the device
    computing: Any  # the stream for all other work
    returning: Any  # the stream for copies to the host

    def active(self) -> AbstractContextManager[Any]:
        """Makes the device current in this thread; an error if the process cannot use it any more (after fork)."""
        ...

    def using(self, stream: Any) -> AbstractContextManager[Any]:
        """Makes the arrays of the module work on a stream, for user code."""
        ...

    def event(self) -> Any:
        """An event that can be recorded many times."""
        ...

    def record(self, event: Any, stream: Any) -> None:
        """Records all work queued on the stream so far in the event."""
        ...

    def wait(self, stream: Any, event: Any) -> None:
        """Work queued on the stream from now on runs after the work recorded in the event."""
        ...

    def synchronize(self, event: Any) -> None:
        """Waits until the work recorded in the event has run."""
        ...

    def done(self, event: Any) -> bool:
        """True if the work recorded in the event has run."""
        ...

    def drain(self, stream: Any) -> None:
        """Waits for all work on a stream, and raises its errors."""
        ...

    def drain_all(self) -> None:
        """Waits for all work on the device."""
        ...

    def external(self, handle: int) -> Any:
        """The stream of other code, by its number in DLPack: 1 is the legacy default stream, 2 the thread's."""
        ...

    def current(self) -> int:
        """The handle of the stream that arrays of the module work on in this thread."""
        ...

    def holder(self, handle: int) -> Any:
        """The object that keeps the stream of a handle alive; None if it is not known."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Device memory; MemoryError if there is none left."""
        ...

    def free(self, memory: Any) -> None:
        """Frees memory after all work queued so far has run; it may wait for that."""
        ...

    def pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked host memory as bytes."""
        ...

    def upload(self, stream: Any, address: int, source: np.ndarray) -> None:
        """Queues a copy of pinned bytes to the device."""
        ...

    def download(self, stream: Any, target: np.ndarray, address: int) -> None:
        """Queues a copy from the device into host bytes."""
        ...

    def copy(self, stream: Any, target: int, source: int, nbytes: int) -> None:
        """Queues a copy within the device."""
        ...

    def copy_array(self, stream: Any, target: int, array: Any) -> None:
        """Queues a copy of a contiguous array that is on the device. It may be in memory that other code allocated."""
        ...

    def launch(self, stream: Any, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues a kernel of pipeflow.kernels.gpu."""
        ...

    def run(self, stream: Any, function: Callable[..., None], arrays: Sequence[Any]) -> None:
        """Queues ``function(module, *arrays)``."""
        ...

    def capture(self, calls: Sequence[Callable[[Any], None]]) -> Any:
        """The launches and copies that these calls queue on a stream, as one graph; they do not run."""
        ...

    def replay(self, stream: Any, graph: Any) -> None:
        """Queues the work of a graph."""
        ...

    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any) -> Any:
        """An array of the module on memory that ``owner`` keeps."""
        ...

    def as_array(self, value: Any) -> Any:
        """An array of the module on the memory of an object on the device; None for other objects."""
        ...

    def capsule(self, array: Any, **options: Any) -> Any:
        """A DLPack capsule of an array of the module; no stream waits for another."""
        ...

    def decode(
        self,
        files: Sequence[np.ndarray],
        color: str,
        adjust_orientation: bool,
        regions: Sequence[tuple[int, int, int, int]] | None = None,
    ) -> list[Any]:
        """Images as arrays on the device; for an image that cannot be decoded there, a text with the reason.

        With ``regions`` (top, left, height, width) only these parts of the images.
        """
        ...

    def prepare(self, kernels: Sequence[str]) -> None:
        """Compiles kernels before they are needed."""
        ...

    def require(self, library: str) -> None:
        """Raises NoGpu if a library ("cuFFT" or "nvImageCodec") is missing; the error says how to install it."""
        ...

    def close(self) -> None:
        """Releases memory without references, when the pipeline ends."""
        ...


def wait_for(runtime: Runtime, handles: Iterable[int]) -> None:
    """Makes later work on the compute stream wait for the present work of other streams; the host does not wait."""
    for handle in handles:
        event = runtime.event()
        runtime.record(event, runtime.external(handle))
        runtime.wait(runtime.computing, event)


def wait_for_default_streams(runtime: Runtime) -> None:
    """Waits for the default streams. It is for data that does not name its stream, because most such data is made on these."""
    wait_for(runtime, (LEGACY, PER_THREAD))


class DeviceBlock:
    """Device memory that is used many times, with the events to wait for before it is written again."""

    __slots__ = ("address", "computed", "consumed", "memory", "nbytes", "shared", "spare", "streams")

    def __init__(self, memory: Memory, computed: Any, shared: bool = False) -> None:
        self.shared = shared  # True if the memory belongs to the user and must not be written
        self.memory = memory
        self.address = memory.address
        self.nbytes = memory.nbytes
        self.computed = computed  # recorded on the compute stream after the last use there
        self.streams: dict[int, Any] = {}  # streams of consumers since the last write -> what keeps them alive
        self.consumed: list[Any] = []  # recorded on those streams when the batch was released
        self.spare: list[Any] = []  # events that can be used again


class DeviceLease:
    """Keeps a block out of its pool. The finaliser only appends to a deque: safe from any thread, at exit, after fork."""

    __slots__ = ("__weakref__", "_home", "block", "pool")

    def __init__(self, block: DeviceBlock, home: "deque[DeviceBlock]", pool: Any) -> None:
        self.block = block
        self.pool = pool  # the pool of the block
        self._home = home

    def __del__(self) -> None:
        self._home.append(self.block)


class DeviceArray:
    """One sample in device memory. ``lease`` is None for data between two steps of one segment."""

    __slots__ = ("lease", "view")

    def __init__(self, view: View, lease: DeviceLease | None) -> None:
        self.view = view
        self.lease = lease

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.view.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.view.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.view.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.view.nbytes


class FunctionCall:
    """A call of user code on a batch on the device, for the GPU form of fn.python_function and similar operators.

    It runs while arrays of the module work on the compute stream. ``current`` is the number of the current sample, so
    that an exception names it (-1: no sample).
    """

    def __init__(self, op: OpDef, arguments: Mapping[str, Any], size: int, keys: np.ndarray, runtime: Runtime) -> None:
        self.op = op
        self.args = Args(**arguments)
        self.size = size
        self.keys = keys
        self.runtime = runtime
        self.current = -1
        self.failed: dict[int, Exception] = {}  # samples that failed, if the others continue

    @property
    def num_inputs(self) -> int:
        """The number of inputs."""
        raise NotImplementedError

    def array(self, position: int, index: int) -> Any:
        """A sample of an input as an array. It is a copy if another step reads the sample too, because the array is writable."""
        raise NotImplementedError

    def args_of(self, index: int) -> Args:
        """The arguments with their values for one sample."""
        raise NotImplementedError

    def source(self, index: int) -> str:
        """The source of a sample."""
        raise NotImplementedError

    def keep(self, output: int, array: Any) -> None:
        """Copies the next sample of an output into memory of the batch."""
        raise NotImplementedError

    def leave_out(self) -> None:
        """Leaves out a sample that failed, and continues with the next one."""
        raise NotImplementedError

    def note(self, reason: str) -> None:
        """Adds to the statistics a reason why work was done on the CPU."""
        raise NotImplementedError
