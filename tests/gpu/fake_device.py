"""A GPU made of NumPy whose streams are late: queued work runs when something forces it, in any order that the waits allow.

A missing wait, or memory that is used again too early, gives wrong bytes here, where a real GPU would give them once in a
thousand runs. Addresses are those of host memory, so that kernels built by g++ work on it, and so do plain NumPy stand-ins.
"""

import bisect
import contextlib
import ctypes
import io
import random
import threading

import numpy as np

from pipeflow.declare import Arg, Out, Sample, operator
from pipeflow.device.calls import row_type
from pipeflow.errors import InvalidState
from pipeflow.tensors import as_sample

POISON = 0xA5
LEGACY, PER_THREAD = 1, 2


class FakeArray(np.ndarray):
    """What arrays on the device are; a plain NumPy array is one on the host."""

    __array_priority__ = 100

    def __array_finalize__(self, other):
        self.owner = getattr(other, "owner", None)


def fake(value):
    """A NumPy result as an array of the device."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value).view(FakeArray)
    return value


class FakeModule:
    """NumPy in the role of CuPy: its functions return arrays of the device."""

    ndarray = FakeArray

    def __getattr__(self, name):
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*args, **kwargs):
            result = found(*args, **kwargs)
            return tuple(map(fake, result)) if isinstance(result, tuple) else fake(result)

        return call


class Work:
    """Something queued."""

    def __init__(self, function, after):
        self.function = function
        self.after = after
        self.done = False


class Stream:
    """Work in order."""

    def __init__(self, name, ptr):
        self.name = name
        self.ptr = ptr
        self.last = None
        self.waits = []


class Event:
    """Stands for a place in a stream."""

    def __init__(self):
        self.work = None


class Memory:
    """Poisoned bytes at an aligned address."""

    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.block = np.full(nbytes + 256, POISON, np.uint8)
        start = self.block.__array_interface__["data"][0]
        self.address = -(-start // 256) * 256


class FakeRuntime:
    """See device.runtime.Runtime. ``launcher`` runs a kernel; ``limit`` is the memory of the device in bytes."""

    def __init__(self, seed=0, launcher=None, limit=None, device_id=0, eager=False):
        self.module = FakeModule()
        self.device = (1, device_id)  # for DLPack it is host memory
        self.random = random.Random(seed)
        self.launcher = launcher
        self.limit = limit
        self.eager = eager
        self.lock = threading.RLock()
        self.works = []
        self.memories = []
        self.pages = []
        self.used = 0
        self.counts = {"allocate": 0, "pinned": 0, "launch": 0, "upload": 0, "download": 0, "synchronize": 0}
        self.streams = {}
        self.numbers = 0
        self.legacy, self.per_thread = self.stream("legacy", LEGACY), self.stream("per thread", PER_THREAD)
        self.copying, self.computing = self.stream("copying"), self.stream("computing")
        self.returning = self.stream("returning")
        self.thread = threading.local()
        self.broken = ""  # why the device cannot be used any more
        self.prepared = []
        self.required = []
        self.closed = 0

    def stream(self, name, ptr=None):
        """A stream; consumers make their own."""
        self.numbers += 1  # a number is not used again
        stream = Stream(name, self.numbers + 100 if ptr is None else ptr)
        self.streams[stream.ptr] = stream
        return stream

    # The machinery.

    def queue(self, stream, function):
        if type(stream) is list:  # that of a capture
            stream.append(function)
            return None
        with self.lock:
            work = Work(function, [x for x in (stream.last, *stream.waits) if x is not None and not x.done])
            stream.waits = []
            stream.last = work
            self.works.append(work)
            if self.eager or getattr(self.thread, "using", None) is stream:
                self.finish(work)
            return work

    def finish(self, work):
        """Runs work in any allowed order until this is done; some of what it does not need runs as well."""
        with self.lock:
            needed, todo = set(), [work]
            while todo:
                one = todo.pop()
                if one not in needed and not one.done:
                    needed.add(one)
                    todo += one.after
            while not work.done:
                ready = [x for x in self.works if not x.done and all(y.done for y in x.after)]
                others = [x for x in ready if x not in needed]
                wanted = [x for x in ready if x in needed]
                chosen = self.random.choice(others if others and self.random.random() < 0.3 else wanted)
                chosen.function()
                chosen.done = True
            self.works = [x for x in self.works if not x.done]

    def finish_all(self):
        """Runs everything that is queued, in any allowed order."""
        with self.lock:
            while self.works:
                self.finish(self.random.choice(self.works))

    def check(self, address, nbytes):
        """Copies stay inside one piece of device memory."""
        if not nbytes:
            return
        with self.lock:
            starts = [memory.address for memory in self.memories]
            place = bisect.bisect_right(starts, address) - 1
            inside = place >= 0 and address + nbytes <= starts[place] + self.memories[place].nbytes
            assert inside, f"{nbytes} bytes at {address:#x} are not device memory"

    # What the executor asks for.

    @contextlib.contextmanager
    def active(self):
        if self.broken:
            raise InvalidState(self.broken)
        yield

    @contextlib.contextmanager
    def using(self, stream):
        before = getattr(self.thread, "using", None)
        self.thread.using = stream
        self._settle(stream)
        try:
            yield
        finally:
            self.thread.using = before

    def _settle(self, stream):
        for work in (stream.last, *stream.waits):
            if work is not None:
                self.finish(work)

    def event(self):
        return Event()

    def record(self, event, stream):
        assert self.streams.get(stream.ptr) is stream, f"the stream {stream.name!r} was destroyed"
        event.work = self.queue(stream, lambda: None)

    def wait(self, stream, event):
        with self.lock:
            if event.work is not None:
                stream.waits.append(event.work)
            if self.eager or getattr(self.thread, "using", None) is stream:
                self._settle(stream)

    def synchronize(self, event):
        self.counts["synchronize"] += 1
        if event.work is not None:
            self.finish(event.work)

    def done(self, event):
        return event.work is None or event.work.done

    def drain(self, stream):
        self._settle(stream)

    def drain_all(self):
        self.finish_all()

    def external(self, handle):
        return self.streams.get(handle) or Stream("destroyed", handle)

    def holder(self, handle):
        return None

    def destroy(self, stream):
        """Destroys a stream of a consumer, as cudaStreamDestroy does: what is queued on it runs still."""
        del self.streams[stream.ptr]

    def current(self):
        using = getattr(self.thread, "using", None)
        return using.ptr if using is not None else LEGACY

    def allocate(self, nbytes):
        with self.lock:
            if self.limit is not None and self.used + nbytes > self.limit:
                raise MemoryError(f"the fake device has no {nbytes} bytes left")
            self.used += nbytes
            self.counts["allocate"] += 1
            memory = Memory(nbytes)
            self.memories.append(memory)
            self.memories.sort(key=lambda one: one.address)
            return memory

    def free(self, memory):
        with self.lock:
            self.finish_all()
            self.used -= memory.nbytes
            memory.block[:] = POISON

    def pinned(self, nbytes):
        self.counts["pinned"] += 1
        self.pages.append(np.full(nbytes, POISON, np.uint8))
        return self.pages[-1]

    def upload(self, stream, address, source):
        self.counts["upload"] += 1
        self.check(address, source.nbytes)
        start, nbytes, kept = source.ctypes.data, source.nbytes, self.kept(source)

        def run():
            del kept[:]
            ctypes.memmove(address, start, nbytes)

        self.queue(stream, run)

    def download(self, stream, target, address):
        self.counts["download"] += 1
        self.check(address, target.nbytes)
        start, nbytes, kept = target.ctypes.data, target.nbytes, self.kept(target)

        def run():
            del kept[:]
            ctypes.memmove(start, address, nbytes)

        self.queue(stream, run)

    def kept(self, array):
        """What a late copy keeps alive: nothing where page-locked memory would be written without anybody's leave."""
        start = array.ctypes.data
        pinned = any(page.ctypes.data <= start < page.ctypes.data + page.nbytes for page in self.pages)
        return [] if pinned else [array]

    def copy(self, stream, target, source, nbytes):
        self.check(source, nbytes)
        self.check(target, nbytes)
        self.queue(stream, lambda: ctypes.memmove(target, source, nbytes))

    def copy_array(self, stream, target, array):
        """At once, as functions of arrays are run."""
        self.array(target, array.shape, array.dtype, None)[...] = array

    def launch(self, stream, kernel, grid, threads, rows, first, count):
        self.counts["launch"] += 1
        self.queue(stream, lambda: self.launcher(kernel, grid, threads, rows, first, count))

    def run(self, stream, function, arrays):
        self.queue(stream, lambda: function(np, *arrays))

    def capture(self, calls):
        graph = []
        for call in calls:
            call(graph)
        assert len(graph) == len(calls)
        return graph

    def replay(self, stream, graph):
        self.counts["replay"] = self.counts.get("replay", 0) + 1
        for function in graph:
            self.queue(stream, function)

    def array(self, address, shape, dtype, owner):
        using = getattr(self.thread, "using", None)
        if using is not None:  # what is done with the array happens at once, and all before it must have
            self._settle(using)
        result = at(address, shape, dtype).view(FakeArray)
        result.owner = owner
        return result

    def as_array(self, value):
        if isinstance(value, FakeArray):
            return value
        if type(value).__name__ == "PyCapsule":
            return as_sample(value).view(FakeArray)
        if hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray):
            return np.from_dlpack(value).view(FakeArray)
        return None

    def capsule(self, array, **options):
        del options
        return Holder(array).__dlpack__()

    def decode(self, files, color, adjust_orientation, regions=None):
        """A codec that knows BMP files of even width, and nothing else."""
        from PIL import Image

        assert (color, adjust_orientation) == ("RGB", True)
        found = []
        for index, data in enumerate(files):
            image = np.asarray(Image.open(io.BytesIO(data.tobytes())))
            even = image.shape[1] % 2 == 0
            if regions is not None:
                top, left, height, width = regions[index]
                image = image[top : top + height, left : left + width].copy()
            found.append(fake(image) if even else "it has an odd width")
        self.counts["decode"] = self.counts.get("decode", 0) + 1
        return found

    def prepare(self, kernels):
        self.prepared += kernels

    def require(self, library):
        self.required.append(library)

    def close(self):
        self.closed += 1


class Holder(np.ndarray):
    """An array whose DLPack capsules keep it, and with it the owner of its memory."""

    def __new__(cls, array):
        result = np.asarray(array).view(cls)
        result.owner = getattr(array, "owner", None)
        return result


def at(address, shape, dtype):
    """The array at an address."""
    dtype = np.dtype(dtype)
    assert all(extent >= 0 for extent in shape), f"garbage in place of a shape: {shape}"
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


MIRROR_ROW = row_type(input="u8", output="u8", height="i8", width="i8", channels="i8", vertical="i4", horizontal="i4")


@operator("_mirror", hidden=True, layouts="HWC", gpu=True)
def mirror(image: Sample, /, *, horizontal: Arg[bool] = True, vertical: Arg[bool] = False, out: Out) -> Sample:
    """Mirrors images: an operator whose kernel needs no compiler."""
    np.copyto(out, image[:: -1 if vertical else 1, :: -1 if horizontal else 1])
    return out


@mirror.infer
def _(specs, _args):
    return specs[0]


@mirror.gpu
def _(call):
    rows = np.zeros(len(call.items), MIRROR_ROW)
    for row, item in zip(rows, call.items):
        row["input"], row["output"] = item.input.address, item.output.address
        row["height"], row["width"], row["channels"] = item.input.shape
        row["vertical"], row["horizontal"] = item.args.vertical, item.args.horizontal
    call.launch(f"mirror.cu:mirror<{item.input.dtype}>", rows, [1] * len(rows))


def by_numpy(kernel, grid, threads, rows, first, count):
    """Runs a launch of the kernel above."""
    assert kernel.startswith("mirror.cu:mirror<"), kernel
    del grid, threads, first
    dtype = np.dtype(kernel.partition("<")[2].rstrip(">"))
    for row in at(rows, (count,), MIRROR_ROW):
        shape = tuple(int(row[name]) for name in ("height", "width", "channels"))
        source = at(int(row["input"]), shape, dtype)
        turned = source[:: -1 if row["vertical"] else 1, :: -1 if row["horizontal"] else 1]
        at(int(row["output"]), shape, dtype)[...] = turned
