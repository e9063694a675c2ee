"""CuPy as backends/gpu.py uses it, made of host memory: what runs here is the runtime of real pipelines, call by call.

Work is done at once. What is watched is the bookkeeping of CUDA: which device is current in which thread at every call, where a
context comes into being, what belongs to which device, and what is given back.
"""

import contextlib
import ctypes
import threading
from types import SimpleNamespace

import numpy as np

CALLS = """free malloc hostAlloc freeHost memcpyAsync eventCreateWithFlags eventRecord eventQuery
eventSynchronize streamWaitEvent streamSynchronize deviceSynchronize memGetInfo
streamBeginCapture streamEndCapture graphInstantiate graphDestroy graphLaunch graphExecDestroy"""


class CudaError(RuntimeError):
    """What calls of CUDA raise."""


class DriverError(RuntimeError):
    """What calls of the driver raise."""


class OutOfMemoryError(MemoryError):
    """Of CuPy's pool."""


class Array(np.ndarray):
    """An array on a device."""

    device_id = 0

    def __array_finalize__(self, other):
        self.device_id = getattr(other, "device_id", 0)
        self.owner = getattr(other, "owner", None)

    @property
    def device(self):
        return SimpleNamespace(id=self.device_id)

    def __dlpack_device__(self):
        return (2, self.device_id)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert stream == -1
        return super().__dlpack__()


class Cuda(SimpleNamespace):
    """``cupy.cuda``; cuFFT is missing."""

    @property
    def cufft(self):
        raise ImportError('Failure finding "libcufft.so.12"\nlistdir("/somewhere")')


class PretendCupy:
    """One machine: devices with so many bytes each."""

    def __init__(self, devices=2, capacity=1 << 30, launcher=None, capability="90"):
        self.devices, self.capacity, self.launcher, self.capability = devices, capacity, launcher, capability
        self.lock = threading.RLock()
        self.local = threading.local()
        self.calls = []  # (name, device) of everything that needs a context
        self.contexts = set()
        self.blocks = {}  # address -> (device, nbytes, memory)
        self.pinned = {}
        self.owners = {}  # handle of a stream or an event -> its device
        self.destroyed = set()
        self.pool_frees = []
        self.captures = {}  # stream that is captured -> what is queued on it
        self.graphs = {}  # handle of a graph, captured or ready -> its work
        self.failing = {}  # name of a call -> error that it raises, once
        self.next = 1000
        self.ndarray = Array
        runtime = SimpleNamespace(
            CUDARuntimeError=CudaError,
            eventDisableTiming=2,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            streamCaptureModeRelaxed=2,
            driverGetVersion=lambda: 13010,
            getDeviceCount=lambda: self.devices,
            getDevice=self.device_of_thread,
            setDevice=self.set_device,
            pointerGetAttributes=lambda address: SimpleNamespace(device=self.block_of(address)[0]),
        )
        for name in CALLS.split():
            setattr(runtime, name, self.called(name, getattr(self, name)))
        outer = self

        class Stream:
            def __init__(self, non_blocking=False):
                outer.enter("streamCreate")
                self.non_blocking = non_blocking
                self.ptr = outer.handle()

            def __enter__(self):
                outer.stack().append(self)
                return self

            def __exit__(self, *_):
                outer.stack().pop()

        class Device:
            def __init__(self, number):
                self.id = number
                self.compute_capability = outer.capability

        self.cuda = Cuda(
            runtime=runtime,
            driver=SimpleNamespace(
                CUDADriverError=DriverError,
                ctxGetCurrent=lambda: getattr(self.local, "context", 0),
                ctxSetCurrent=lambda handle: setattr(self.local, "context", handle),
            ),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            Stream=Stream,
            Device=Device,
            UnownedMemory=lambda address, nbytes, owner, device: SimpleNamespace(
                ptr=address, owner=owner, device=device
            ),
            MemoryPointer=lambda memory, offset: SimpleNamespace(memory=memory, ptr=memory.ptr + offset),
            get_current_stream=lambda _device: self.stack()[-1],
            nvrtc=PretendNvrtc(),
            function=SimpleNamespace(Module=lambda: Module(self)),
        )
        self.null = SimpleNamespace(ptr=0)

    # Contexts.

    def stack(self):
        if not hasattr(self.local, "streams"):
            self.local.streams = [self.null]
        return self.local.streams

    def device_of_thread(self):
        context = getattr(self.local, "context", 0)
        return context - 1 if context else getattr(self.local, "device", 0)

    def set_device(self, number):
        """As in CUDA 12 and later, this opens a context."""
        self.local.device = number
        self.local.context = number + 1
        self.contexts.add(number)

    def enter(self, name):
        """A call that opens a context where the thread has none."""
        number = self.device_of_thread()
        if not getattr(self.local, "context", 0):
            self.set_device(number)
        self.calls.append((name, number))
        if name in self.failing:
            raise self.failing.pop(name)
        return number

    def called(self, name, function):
        def call(*arguments):
            with self.lock:
                return function(self.enter(name), *arguments)

        return call

    def handle(self):
        with self.lock:
            self.next += 1
            self.owners[self.next] = self.device_of_thread()
            return self.next

    def of(self, handle, number):
        """A stream or an event of this device, or a default stream."""
        if handle in self.destroyed:
            raise CudaError("cudaErrorContextIsDestroyed: context is destroyed")
        assert handle in (0, 1, 2) or self.owners[handle] == number, f"handle {handle} is not of GPU {number}"

    # The calls.

    def block_of(self, address):
        for start, (device, nbytes, memory) in self.blocks.items():
            if start <= address < start + nbytes:
                return device, nbytes, memory
        raise AssertionError(f"{address:#x} is not device memory")

    def malloc(self, number, nbytes):
        if self.used(number) + nbytes > self.capacity:
            raise CudaError("cudaErrorMemoryAllocation: out of memory")
        memory = np.full(nbytes + 256, 0xA5, np.uint8)
        address = -(-memory.ctypes.data // 256) * 256
        self.blocks[address] = (number, nbytes, memory)
        return address

    def free(self, number, address):
        if address:
            device, _, _ = self.blocks.pop(address)
            assert device == number, f"memory of GPU {device} is given back on GPU {number}"

    def used(self, number):
        """The bytes that are in use on a device."""
        return sum(nbytes for device, nbytes, _ in self.blocks.values() if device == number)

    def memGetInfo(self, number):
        return self.capacity - self.used(number), self.capacity

    def hostAlloc(self, _number, nbytes, _flags):
        memory = np.full(nbytes, 0xA5, np.uint8)
        self.pinned[memory.ctypes.data] = memory
        return memory.ctypes.data

    def freeHost(self, _number, address):
        del self.pinned[address]

    def streamBeginCapture(self, number, stream, mode):
        self.of(stream, number)
        assert (mode, stream in self.captures) == (2, False)
        self.captures[stream] = []

    def streamEndCapture(self, number, stream):
        self.of(stream, number)
        graph = self.handle()
        self.graphs[graph] = self.captures.pop(stream)
        return graph

    def graphInstantiate(self, number, graph):
        self.of(graph, number)
        ready = self.handle()
        self.graphs[ready] = self.graphs[graph]
        return ready

    def graphDestroy(self, number, graph):
        self.of(graph, number)
        del self.graphs[graph]

    graphExecDestroy = graphDestroy

    def graphLaunch(self, number, graph, stream):
        self.of(graph, number)
        self.of(stream, number)
        for work in self.graphs[graph]:
            work()

    def queue(self, stream, work):
        """Does work at once, or keeps it for the graph."""
        if stream in self.captures:
            self.captures[stream].append(work)
        else:
            work()

    def memcpyAsync(self, number, target, source, nbytes, kind, stream):
        self.of(stream, number)
        for address in {1: [target], 2: [source], 3: [target, source]}[kind]:
            assert not nbytes or self.block_of(address)[0] == number
        self.queue(stream, lambda: ctypes.memmove(target, source, nbytes))

    def eventCreateWithFlags(self, _number, _flags):
        return self.handle()

    def eventRecord(self, number, event, stream):
        assert stream not in self.captures
        self.of(event, number)
        self.of(stream, number)

    def eventQuery(self, number, event):
        self.of(event, number)
        return 0

    def eventSynchronize(self, number, event):
        self.of(event, number)

    def streamWaitEvent(self, number, stream, event):
        self.of(stream, number)
        self.of(event, number)

    def streamSynchronize(self, number, stream):
        self.of(stream, number)

    def deviceSynchronize(self, number):
        pass

    def from_dlpack(self, value):
        """As CuPy passes its options. The pipeline's own capsules are those of NumPy's arrays."""
        value.__dlpack__(stream=self.stack()[-1].ptr, max_version=(1, 1), dl_device=None, copy=None)
        return value.as_array()

    def get_default_memory_pool(self):
        return SimpleNamespace(free_all_blocks=lambda stream=None: self.pool_frees.append(stream))


def ndarray(cupy):
    """``cupy.ndarray``: a class for isinstance that is called with a pointer."""

    class Made(Array):
        def __new__(cls, shape, dtype, pointer):
            nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            if nbytes:
                memory = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(pointer.ptr), dtype).reshape(shape)
            else:
                memory = np.empty(shape, dtype)
            made = memory.view(cls)
            made.device_id, made.owner = pointer.memory.device, pointer.memory.owner
            return made

        @property
        def __cuda_array_interface__(self):
            return {**self.__array_interface__, "version": 3, "stream": 1}

    return Made


class PretendNvrtc:
    """Notes what is compiled."""

    NVRTCError = CudaError

    def __init__(self, version=(13, 0)):
        self.version = version
        self.compiled = []
        self.options = []

    def getVersion(self):
        return self.version

    def getSupportedArchs(self):
        return [75, 80, 86, 89, 90, 100, 120]

    def createProgram(self, text, file, headers, names):
        assert not headers
        assert not names
        return SimpleNamespace(text=text, file=file, names=[])

    def addNameExpression(self, program, name):
        program.names.append(name)

    def compileProgram(self, program, options):
        self.compiled.append(program.file)
        self.options.append(tuple(options))

    def getLoweredName(self, program, name):
        return f"{program.file}:{name}"

    def getCUBIN(self, program):
        return b"\x7fELF" + program.file.encode()

    def destroyProgram(self, program):
        program.names = None


class Module:
    """Loaded code."""

    def __init__(self, cupy):
        self.cupy = cupy

    def load(self, code):
        assert code[:4] == b"\x7fELF"
        self.device = self.cupy.enter("moduleLoadData")

    def get_function(self, lowered):
        def function(grid, block, arguments, stream):
            number = self.cupy.enter("launchKernel")
            assert number == self.device
            self.cupy.of(stream.ptr, number)
            rows, first, count = (int(argument) for argument in arguments)
            self.cupy.queue(stream.ptr, lambda: self.cupy.launcher(lowered, grid[0], block[0], rows, first, count))

        return function


@contextlib.contextmanager
def installed(monkeypatch, gpu, cuda_programs, kernels, cupy):
    """Pipelines work on this CuPy."""
    cupy.ndarray = ndarray(cupy)
    texts, instances = kernels.source, kernels.instances_of
    own = "mirror.cu"
    monkeypatch.setattr(gpu, "cupy", cupy)
    monkeypatch.setattr(gpu, "installed_wheels", lambda: ["cupy-cuda13x"])
    monkeypatch.setattr(gpu, "headers_folder", lambda: "/cuda/include")
    monkeypatch.setattr(gpu, "_initialised", [])
    monkeypatch.setattr(gpu, "_own", {})
    monkeypatch.setattr(gpu, "_modules", {})
    monkeypatch.setattr(cuda_programs, "_programs", {})
    monkeypatch.setattr(kernels, "source", lambda file: "mirror" if file == own else texts(file))
    monkeypatch.setattr(kernels, "instances_of", lambda file: ("mirror<uint8>",) if file == own else instances(file))
    caches = (gpu._why_not, gpu.architecture_of, gpu.context_of)
    for one in caches:
        one.cache_clear()
    try:
        yield cupy
    finally:
        for one in caches:
            one.cache_clear()
