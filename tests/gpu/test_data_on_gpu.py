"""Sources and feed_input with data that is on the GPU already: it is taken as it is, or copied there."""

import gc
import sys
from types import SimpleNamespace

import fake_device
import numpy as np
import pytest
from fake_device import mirror

from pipeflow import fn, pipeline_def, types

IMAGES = [np.arange(24, dtype=np.uint8).reshape(2, 4, 3) + np.uint8(9 * k) for k in range(3)]


class Lent(fake_device.FakeArray):
    """An array of another library on the device."""

    def __dlpack_device__(self):
        return (2, 0)


@pytest.fixture
def lend(device):
    """Arrays of another library, in memory of the device."""
    kept = []

    def lend(array):
        memory = device.allocate(max(array.nbytes, 1))
        kept.append(memory)
        made = fake_device.at(memory.address, array.shape, array.dtype)
        made[...] = array
        return made.view(Lent)

    return lend


def recorded(device, stream):
    """An event behind what is queued on a stream."""
    event = device.event()
    device.record(event, stream)
    return event


def build(source=None, define=None, **options):
    """A pipeline over a source of data on the GPU."""

    def flipped():
        return mirror(fn.external_source(source, device="gpu", layout="HWC", name="data", **options))

    settings = {"exec_async": False, "exec_pipelined": False} if source is None else {}
    return pipeline_def(define or flipped, batch_size=3, num_threads=2, device_id=0, **settings)()


def same(batch, expected):
    """A batch has these samples."""
    for one, other in zip(batch.as_cpu().samples(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


MIRRORED = [x[:, ::-1] for x in IMAGES]


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("form", ["list", "array"])
def test_batches(device, lend, form, no_copy):
    """A list of arrays, or one whose first axis is the batch; nothing goes over the host."""
    made = [lend(x) for x in IMAGES] if form == "list" else lend(np.stack(IMAGES))
    pipe = build(lambda: made, no_copy=no_copy)
    for _ in range(4):
        same(pipe.run()[0], MIRRORED)


def test_single_samples(device, lend):
    """A source of samples may mix both sides."""
    arrays = [lend(IMAGES[0]), IMAGES[1], lend(IMAGES[2])]
    pipe = build(lambda info: arrays[info.idx_in_batch], batch=False)
    for _ in range(2):
        same(pipe.run()[0], MIRRORED)


def test_fed_batches(device, lend):
    """What is fed may be changed at once; with no_copy=True it is the memory itself that is worked on."""
    made = [lend(x) for x in IMAGES]
    pipe = build()
    pipe.feed_input("data", made)
    for x in made:
        x[...] = 0
    same(pipe.run()[0], MIRRORED)
    pipe = build(no_copy=True, define=lambda: fn.external_source(device="gpu", name="data", no_copy=True))
    pipe.feed_input("data", [lend(x) for x in IMAGES])
    batch = pipe.run()[0]
    same(batch, IMAGES)


def test_memory_is_taken_as_it_is(device, lend):
    """With no_copy=True the batch is the user's memory, and a function that writes to its input does so elsewhere."""
    made = lend(np.stack(IMAGES))

    def function(x):
        x += 1
        return x

    def define():
        data = fn.external_source(lambda: made, device="gpu", no_copy=True)
        return fn.python_function(data, function=function)

    pipe = build(define=define)
    for _ in range(2):
        same(pipe.run()[0], [x + 1 for x in IMAGES])
    np.testing.assert_array_equal(np.asarray(made), np.stack(IMAGES))
    (batch,) = build(define=lambda: fn.external_source(lambda: made, device="gpu", no_copy=True)).run()
    assert batch.data_ptr() == made.ctypes.data


def test_arrays_that_are_not_contiguous(device, lend):
    """Are laid out first."""
    made = [lend(np.ascontiguousarray(x[::-1]))[::-1] for x in IMAGES]
    same(build(lambda: made, no_copy=True).run()[0], MIRRORED)


def test_the_work_of_the_default_stream_comes_first(device, lend):
    """What the user's library has queued there when the batch is taken is waited for, on the device."""
    made = [lend(np.zeros_like(x)) for x in IMAGES]

    def source():
        for array, image in zip(made, IMAGES):
            device.queue(device.legacy, lambda array=array, image=image: np.copyto(array, image))
        return made

    same(build(source, no_copy=True).run()[0], MIRRORED)


def test_data_is_held_until_the_device_has_read_it(device, lend):
    """A source may forget its arrays at once; they are let go when the kernels that read them are done."""

    class Watched(Lent):
        alive = 0

        def __del__(self):
            Watched.alive -= 1

    def source():
        arrays = [lend(x) for x in IMAGES]
        views = [array.view(Watched) for array in arrays]
        Watched.alive += len(views)
        return views

    pipe = build(source, no_copy=True)
    batch = pipe.run()[0]
    gc.collect()
    assert Watched.alive >= 3
    same(batch, MIRRORED)
    del batch
    for _ in range(12):
        same(pipe.run()[0], MIRRORED)
        device.finish_all()
    gc.collect()
    assert Watched.alive <= 6 * 3  # of the batches in flight, not of all


def test_data_that_is_handed_over_at_once_waits_for_the_default_stream(device, lend, monkeypatch):
    """The batch is the user's memory, which another library has yet to fill: a stream that reads the batch waits for that."""
    monkeypatch.setattr(device.random, "random", lambda: 1.0)  # nothing runs that is not waited for
    made = [lend(np.zeros_like(x)) for x in IMAGES]

    def source():
        for array, image in zip(made, IMAGES):
            device.queue(device.legacy, lambda array=array, image=image: np.copyto(array, image))
        return made

    (batch,) = build(define=lambda: fn.external_source(source, device="gpu", no_copy=True)).run()
    consumer, seen = device.stream("consumer"), []
    for k, image in enumerate(IMAGES):
        batch[k].__dlpack__(stream=consumer.ptr)
        address = batch[k].data_ptr()
        device.queue(consumer, lambda a=address, x=image: seen.append(fake_device.at(a, x.shape, x.dtype).copy()))
    device.synchronize(recorded(device, consumer))
    for one, image in zip(seen, IMAGES, strict=True):
        np.testing.assert_array_equal(one, image)


@pytest.mark.parametrize("given", [False, True])
def test_arrays_of_files(device, tmp_path, given):
    """fn.readers.numpy reads for the device, whole files or a region of each that the pipeline draws."""
    for number, image in enumerate(IMAGES):
        np.save(tmp_path / f"{number}.npy", image)

    def define():
        start = fn.external_source(lambda: [np.array([k % 2, 1]) for k in range(3)])
        region = {"roi_start": start, "roi_shape": (1, 2), "roi_axes": (0, 1)} if given else {}
        return mirror(fn.reshape(fn.readers.numpy(device="gpu", file_root=str(tmp_path), **region), layout="HWC"))

    expected = [x[k % 2 : k % 2 + 1, 1:3] if given else x for k, x in enumerate(IMAGES)]
    pipe = build(define=define)
    for _ in range(2):
        same(pipe.run()[0], [x[:, ::-1] for x in expected])
    with pytest.warns(UserWarning, match=r"this runs on the CPU"):
        (batch,) = pipeline_def(define, batch_size=3, num_threads=1, device_id=None)().run()
    assert batch.shape() == [x.shape for x in expected]


def test_memory_that_is_not_aligned(device, lend, monkeypatch):
    """Is copied: what fn.reinterpret reads from it as wider numbers would end the process."""
    data = [np.arange(9, dtype=np.uint8) + np.uint8(k) for k in range(3)]
    made = [lend(x)[1:] for x in data]
    seen = []
    monkeypatch.setattr(device, "launcher", lambda *launch: fake_device.by_numpy(*note(launch)))

    def note(launch):
        row = fake_device.at(launch[3], (launch[5],), fake_device.MIRROR_ROW)
        seen.extend(row["input"].tolist())
        return launch

    def define():
        found = fn.external_source(lambda: made, device="gpu", no_copy=True)
        return mirror(fn.reshape(fn.reinterpret(found, dtype=types.FLOAT), shape=[1, 2, 1], layout="HWC"))

    same(build(define=define).run()[0], [x[1:].view(np.float32).reshape(1, 2, 1)[:, ::-1] for x in data])
    device.finish_all()
    assert seen
    assert all(address % 4 == 0 for address in seen)


def test_odd_sizes_are_not_copied(device, lend):
    """Samples of one array begin at any byte, and no type that fits their size is wider than their alignment."""
    made = lend(np.arange(15, dtype=np.uint8).reshape(3, 5))
    (batch,) = build(define=lambda: fn.external_source(lambda: made, device="gpu", no_copy=True)).run()
    assert [batch[k].data_ptr() - made.ctypes.data for k in range(3)] == [0, 5, 10]


class Stream:
    """The current stream of a library, which is kept by what refers to it."""

    def __init__(self, stream):
        self.ptr = self.cuda_stream = stream.ptr


@pytest.mark.parametrize("library", ["cupy", "torch"])
@pytest.mark.parametrize("no_copy", [False, True])
def test_data_that_is_fed_on_another_stream(device, lend, monkeypatch, library, no_copy):
    """The pipeline waits for the stream that was current in the thread which fed the data."""
    monkeypatch.setattr(device.random, "random", lambda: 1.0)  # nothing runs that is not waited for
    stream = device.stream("of the user")
    found = SimpleNamespace(
        get_current_stream=lambda _id: Stream(stream), current_stream=lambda _device: Stream(stream)
    )
    monkeypatch.setitem(sys.modules, library, SimpleNamespace(cuda=found))

    class Made(Lent):
        __module__ = f"{library}.arrays"
        device = SimpleNamespace(id=0)

        def copy(self):
            copied = lend(np.zeros(self.shape, self.dtype)).view(Made)
            device.queue(stream, lambda: np.copyto(copied, self))
            return copied

    made = [lend(np.zeros_like(x)).view(Made) for x in IMAGES]
    for array, image in zip(made, IMAGES):
        device.queue(stream, lambda array=array, image=image: np.copyto(array, image))
    pipe = build(no_copy=no_copy)
    pipe.feed_input("data", made)
    same(pipe.run()[0], MIRRORED)


def test_the_stream_that_is_named(device, lend, monkeypatch):
    """``cuda_stream`` is the current stream while the data is taken; a number cannot be."""
    current = []

    class Entered(Stream):
        def __enter__(self):
            current.append(self)

        def __exit__(self, *_):
            current.pop()

    class OfTorch(Stream):
        __module__ = "torch.cuda.streams"

    seen = []

    class Made(Lent):
        def copy(self):
            seen.append(current[-1])
            return lend(self)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(stream=lambda one: Entered(one))))
    made = [lend(x).view(Made) for x in IMAGES]
    pipe = build()
    for stream in (Entered(device.legacy), OfTorch(device.legacy)):
        pipe.feed_input("data", made, cuda_stream=stream)
        same(pipe.run()[0], MIRRORED)
    assert [type(one) for one in seen] == [Entered] * 6
    assert not current
    with pytest.raises(TypeError, match="cuda_stream is 7: for data on the GPU give the stream of torch or CuPy"):
        pipe.feed_input("data", made, cuda_stream=7)
    for stream in (None, -1):
        pipe.feed_input("data", IMAGES, cuda_stream=stream)
        same(pipe.run()[0], MIRRORED)


def test_arrays_without_a_copy_of_their_own(device, lend):
    """Are refused: the source could change them while the pipeline reads them. With no_copy=True they are taken."""

    class Plain:
        """As Numba's arrays."""

        def __init__(self, array):
            self.array = array
            self.shape, self.dtype = array.shape, array.dtype

        def __dlpack_device__(self):
            return (2, 0)

    made = [Plain(lend(x)) for x in IMAGES]
    pipe = build()
    with pytest.raises(TypeError, match=r"Plain has no method that copies it on the GPU: give cupy\.asarray\(x\)"):
        pipe.feed_input("data", made)


def test_one_number_is_no_batch(device, lend):
    """As on the CPU; numbers in a list are samples."""
    number = lend(np.array(7, np.float32))
    with pytest.raises(
        RuntimeError, match=r"is a single number: a batch is a list of arrays or an array whose first axis"
    ):
        build(define=lambda: fn.external_source(lambda: number, device="gpu")).run()
    (batch,) = build(define=lambda: fn.external_source(lambda: [number] * 3, device="gpu", no_copy=True)).run()
    same(batch, [np.float32(7)] * 3)


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.uint64, np.complex64])
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 0)])
def test_any_type_and_shape(device, lend, dtype, shape):
    """Also samples without elements, and those that cannot be written."""
    data = [np.full(shape, k % 2, dtype) for k in range(3)]
    made = [lend(x) for x in data]
    for x in made:
        x.flags.writeable = False
    pipe = build(define=lambda: fn.copy(fn.external_source(lambda: made, device="gpu", no_copy=True)))
    for _ in range(2):
        same(pipe.run()[0], data)


def test_types_and_layouts_are_checked(device, lend):
    """As of data on the CPU."""
    made = [lend(x) for x in IMAGES]
    with pytest.raises(RuntimeError, match="expected data of type float32 and got: uint8"):
        build(lambda: made, dtype=np.float32).run()
    with pytest.raises(RuntimeError, match="expected data with 2 dimensions and got 3"):
        build(define=lambda: fn.external_source(lambda: made, device="gpu", ndim=2)).run()


def test_data_for_the_cpu(device, lend):
    """A source that is read on the CPU does not take it."""
    made = [lend(x) for x in IMAGES]
    pipe = build(define=lambda: fn.external_source(lambda: made) + np.uint8(1))
    with pytest.raises(TypeError, match=r'is read on the CPU: write fn\.external_source\(\.\.\., device="gpu"\)'):
        pipe.run()
