"""The interface of a device: streams, events, copies, launches, and who holds its memory.

There are two runtimes: CuPy's (backends/gpu.py), and a fake one in the tests whose streams do their work late and in any
order that the recorded waits allow. Everything a runtime queues runs in the order of its stream, and on different streams
in any order that no wait forbids. The waits that make this safe, all of them in ``device/memory.py``,
``executor/device/`` and ``device/tensors.py``:

1. The host fills a staging block when the copy that read it last is done (``synchronize``).
2. The copy stream writes a device block when the kernels that read it last are done, and
3. when the consumers that it was handed to are done.
4. The compute stream reads a block when the copy that wrote it is done.
5. The compute stream writes a block when the consumers that it was handed to are done.
6. A consumer's stream reads a block when the kernels that wrote it are done.
7. The host reads a staging block when the copy that wrote it is done (``synchronize``); only CPU stages after ``.cpu()``
   wait so, and only for that copy.
8. The stream of copies to the host reads a block when the kernels that wrote it are done; what writes the block next waits for
   the copy, which is one of its consumers.
9. The compute stream copies what a function returned when the streams are done that it may have worked on.
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
    copying: Any  # the stream of the copies to the device
    computing: Any  # the stream of everything else
    returning: Any  # the stream of the copies to the host

    def active(self) -> AbstractContextManager[Any]:
        """Makes the device current in this thread; refuses to where it cannot be used any more (after fork)."""
        ...

    def using(self, stream: Any) -> AbstractContextManager[Any]:
        """Makes the arrays of the module work on a stream, for user code."""
        ...

    def event(self) -> Any:
        """An event that can be recorded again and again."""
        ...

    def record(self, event: Any, stream: Any) -> None:
        """The event now stands for everything queued on the stream so far."""
        ...

    def wait(self, stream: Any, event: Any) -> None:
        """What is queued on the stream from now on runs after what the event stands for now."""
        ...

    def synchronize(self, event: Any) -> None:
        """Waits until what the event stands for has run."""
        ...

    def done(self, event: Any) -> bool:
        """Whether what the event stands for has run."""
        ...

    def drain(self, stream: Any) -> None:
        """Waits for everything on a stream, and raises what failed there."""
        ...

    def drain_all(self) -> None:
        """Waits for everything on the device."""
        ...

    def external(self, handle: int) -> Any:
        """The stream of a foreign handle, as DLPack numbers them: 1 is the legacy default stream, 2 the thread's."""
        ...

    def current(self) -> int:
        """The handle of the stream that arrays of the module work on in this thread."""
        ...

    def holder(self, handle: int) -> Any:
        """What keeps the stream of a handle from being destroyed; None where that is not known."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Device memory; MemoryError where there is none."""
        ...

    def free(self, memory: Any) -> None:
        """Gives memory back when everything queued so far has run; may wait for that."""
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

    def launch(self, stream: Any, kernel: str, grid: int, threads: int, rows: int, first: int, count: int) -> None:
        """Queues a kernel of pipeflow.kernels.gpu."""
        ...

    def run(self, stream: Any, function: Callable[..., None], arrays: Sequence[Any]) -> None:
        """Queues ``function(module, *arrays)``."""
        ...

    def array(self, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any) -> Any:
        """An array of the module on memory that ``owner`` keeps."""
        ...

    def as_array(self, value: Any) -> Any:
        """An array of the module on the memory of anything that is on the device; None where it is not."""
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
        """Images as arrays on the device, or for each that cannot be decoded there a text that says why.

        With ``regions`` (top, left, height, width) those parts of them.
        """
        ...

    def prepare(self, kernels: Sequence[str]) -> None:
        """Compiles kernels before they are needed."""
        ...

    def require(self, library: str) -> None:
        """Raises NoGpu, with how to install it, where a library is missing: "cuFFT" or "nvImageCodec"."""
        ...

    def close(self) -> None:
        """Gives back memory that nothing refers to, when the pipeline ends."""
        ...


def wait_for(runtime: Runtime, handles: Iterable[int]) -> None:
    """Lets what comes next on the compute stream wait for what is queued on other streams now; the host does not wait."""
    for handle in handles:
        event = runtime.event()
        runtime.record(event, runtime.external(handle))
        runtime.wait(runtime.computing, event)


def wait_for_default_streams(runtime: Runtime) -> None:
    """For data of others that does not say which stream it is made on: one of the default streams, as a rule."""
    wait_for(runtime, (LEGACY, PER_THREAD))


class DeviceBlock:
    """Device memory that is used again and again, and what must have happened before it is written again."""

    __slots__ = ("address", "computed", "consumed", "memory", "nbytes", "shared", "spare", "streams")

    def __init__(self, memory: Memory, computed: Any, shared: bool = False) -> None:
        self.shared = shared  # it is the user's, and is not written
        self.memory = memory
        self.address = memory.address
        self.nbytes = memory.nbytes
        self.computed = computed  # recorded on the compute stream after its last use there
        self.streams: dict[
            int, Any
        ] = {}  # the consumers' streams since it was written, and what keeps each from its end
        self.consumed: list[Any] = []  # recorded on those when the batch was let go
        self.spare: list[Any] = []  # events to record next


class DeviceLease:
    """Keeps a block out of its pool. The finaliser only appends to a deque: safe from any thread, at exit, after fork."""

    __slots__ = ("__weakref__", "_home", "block", "pool")

    def __init__(self, block: DeviceBlock, home: "deque[DeviceBlock]", pool: Any) -> None:
        self.block = block
        self.pool = pool  # where it comes from
        self._home = home

    def __del__(self) -> None:
        self._home.append(self.block)


class DeviceArray:
    """One sample in device memory. ``lease`` is None for what is between two steps of one segment."""

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
    """A call of user code over a batch on the device: what the GPU form of fn.python_function and its kin is given.

    It runs while arrays of the module work on the compute stream. ``current`` is the sample that is being worked on, so
    that an exception can be blamed on it (-1: on none).
    """

    def __init__(self, op: OpDef, arguments: Mapping[str, Any], size: int, keys: np.ndarray, runtime: Runtime) -> None:
        self.op = op
        self.args = Args(**arguments)
        self.size = size
        self.keys = keys
        self.runtime = runtime
        self.current = -1
        self.failed: dict[int, Exception] = {}  # samples that cannot be, where the others can

    @property
    def num_inputs(self) -> int:
        """How many inputs there are."""
        raise NotImplementedError

    def array(self, position: int, index: int) -> Any:
        """A sample of an input as an array; where another step reads it too it is a copy, since all can be written."""
        raise NotImplementedError

    def args_of(self, index: int) -> Args:
        """The arguments with their values for one sample."""
        raise NotImplementedError

    def source(self, index: int) -> str:
        """Where a sample comes from."""
        raise NotImplementedError

    def keep(self, output: int, array: Any) -> None:
        """Copies the next sample of an output into memory of the batch."""
        raise NotImplementedError

    def leave_out(self) -> None:
        """Goes on after a sample that failed."""
        raise NotImplementedError

    def note(self, reason: str) -> None:
        """Counts in the statistics why something was done on the CPU."""
        raise NotImplementedError
