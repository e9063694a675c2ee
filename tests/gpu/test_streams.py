"""Waits that should not be made, and streams of consumers that are gone, foreign or not named."""

from types import SimpleNamespace

import fake_device
import numpy as np
import pytest
from fake_device import mirror

from pipeflow import fn, pipeline_def
from pipeflow.device.memory import DevicePool
from pipeflow.device.tensors import TensorListGPU
from pipeflow.executor.device.device import Device
from pipeflow.operators.on_gpu.tensor_functions import aligned_for_xla

IMAGES = [[np.arange(24, dtype=np.uint8).reshape(2, 4, 3) + np.uint8(10 * b + k) for k in range(2)] for b in range(10)]


def build(define, **options):
    """A pipeline on the device, made by one thread."""
    options = {"batch_size": 2, "num_threads": 1, "exec_async": False, "exec_pipelined": False, **options}
    return pipeline_def(define, device_id=0, **options)()


def source(**options):
    return fn.external_source(IMAGES, layout="HWC", cycle="quiet", **options).gpu()


def same(batch, expected):
    for one, other in zip(batch.as_cpu().samples(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("hint", [None, 4096])
def test_copies_do_not_wait_for_the_kernels_of_the_batch_before(device, monkeypatch, hint):
    """With a depth of two, the uploads of four batches go to four blocks, with a hint of their size and without one."""
    monkeypatch.setattr(device.random, "random", lambda: 1.0)  # nothing runs that is not waited for
    places = []
    upload = device.upload
    device.upload = lambda stream, address, data: places.append(address) or upload(stream, address, data)
    options = {} if hint is None else {"bytes_per_sample_hint": hint}
    pipe = build(lambda: mirror(source(**options)), exec_async=True, exec_pipelined=True, prefetch_queue_depth=2)
    kept = [pipe.run()[0] for _ in range(10)]
    assert len(set(places[:4])) == 4
    assert len(set(places)) == 4
    for batch, images in zip(kept, IMAGES):
        same(batch, [x[:, ::-1] for x in images])


def test_a_block_that_is_done_is_used_before_another_is_made(device):
    """Where the device keeps up, one block does."""
    pool = DevicePool(device, 4)
    for _ in range(6):
        lease = pool.take("staged", 1000, device.copying)
        device.record(lease.block.computed, device.computing)
        device.finish_all()
        del lease
    assert pool.allocations == 1


def test_a_stream_that_is_destroyed_with_work_on_it(device):
    """Its last work is waited for, no block is lost, and the next batches are right."""
    seen = []
    pipe = build(lambda: mirror(source()))
    for _ in range(6):
        consumer = device.stream("short-lived")
        batch = pipe.run()[0]
        whole = batch.as_tensor()
        whole.__dlpack__(stream=consumer.ptr)
        address, shape = whole.data_ptr(), tuple(whole.shape())
        place = len(seen)
        seen.append(None)

        def look(place=place, address=address, shape=shape):
            seen[place] = fake_device.at(address, shape, np.uint8).copy()

        device.queue(consumer, look)
        device.destroy(consumer)
        del batch, whole
    device.finish_all()
    for found, images in zip(seen, IMAGES):
        np.testing.assert_array_equal(found, np.stack(images)[:, :, ::-1])
    assert pipe.executor_statistics()["gpu"]["allocations"] <= 10


def test_values_that_replace_failed_samples_have_staging_memory_of_their_own(device, monkeypatch):
    """The host writes it after the last copy from it, and it is never the target of a late copy to the CPU."""
    monkeypatch.setattr(device.random, "random", lambda: 1.0)  # nothing runs that is not waited for
    owner = Device(device, depth=2, batch_size=2)
    values = [np.full(40_000, number, np.uint8) for number in (3, 5, 7)]
    first = owner.put(values[0])
    dropped = owner.download([first])  # by a batch that fails afterwards: the copy comes late
    del dropped
    placed = [first, *(owner.put(value) for value in values[1:])]
    device.finish_all()
    for one, value in zip(placed, values, strict=True):
        np.testing.assert_array_equal(fake_device.at(one.view.address, one.shape, one.dtype), value)


def test_a_stream_that_is_known_is_kept_until_its_work_is_noted(device, monkeypatch):
    """What holds the consumer's stream is held with the block, and let go when the block comes back."""
    held = []
    monkeypatch.setattr(device, "holder", lambda handle: held.append(handle) or "the stream")
    pipe = build(lambda: mirror(source()))
    batch = pipe.run()[0]
    batch.as_tensor().__dlpack__(stream=1)
    block = batch._samples[0].lease.block
    assert held == [1]
    assert block.streams == {1: "the stream"}
    del batch
    for _ in range(3):
        pipe.run()
    assert not block.streams


def test_the_default_stream_of_another_thread_is_waited_for_by_the_legacy_one(device):
    """Handle 2 names another stream in each thread; the legacy stream is ordered with all of them."""
    recorded = []
    record = device.record
    device.record = lambda event, stream: recorded.append(stream.ptr) or record(event, stream)
    pipe = build(lambda: mirror(source()))
    pipe.run()[0].as_tensor().__dlpack__(stream=2)
    recorded.clear()
    for _ in range(3):
        pipe.run()
    assert fake_device.LEGACY in recorded
    assert fake_device.PER_THREAD not in recorded


def test_the_array_interface_makes_the_default_stream_wait(device):
    """torch.as_tensor takes data by it and does not look at the stream that it names; CuPy may work on another one."""
    other = device.stream("current in CuPy")
    device.current = lambda: other.ptr
    batch = build(lambda: mirror(source())).run()[0].as_tensor()
    _ = batch.__cuda_array_interface__
    found = []
    address, shape = batch.data_ptr(), tuple(batch.shape())
    device.queue(device.legacy, lambda: found.append(fake_device.at(address, shape, np.uint8).copy()))
    device.finish_all()
    np.testing.assert_array_equal(found[0], np.stack(IMAGES[0])[:, :, ::-1])


def test_a_function_that_leaves_another_stream_current(device, monkeypatch):
    """What it has queued there comes before its results are copied."""
    stream = device.stream("the function's")

    def function(x):
        made = fake_device.fake(np.zeros(x.shape, np.uint8))
        values = np.array(x)

        def work():
            made[...] = values + 1

        device.queue(stream, work)
        monkeypatch.setattr(device, "current", lambda: stream.ptr)
        return made

    pipe = build(lambda: fn.python_function(source(), function=function))
    same(pipe.run()[0], [x + 1 for x in IMAGES[0]])


def test_samples_that_xla_would_not_take():
    """Arrays that do not begin at a multiple of 16 bytes are copied, others are not."""
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 16
    straight, crooked = memory[start : start + 64], memory[start + 3 : start + 64]
    assert aligned_for_xla(straight) is straight
    copied = aligned_for_xla(crooked)
    assert not np.shares_memory(copied, crooked)
    np.testing.assert_array_equal(copied, crooked)


def test_the_probe_of_a_library_is_made_at_build(device):
    """An operator that needs one is not run without it."""
    sound = [np.zeros(2000, np.float32)] * 2
    build(lambda: fn.spectrogram(fn.external_source(lambda: sound).gpu())).build()
    assert device.required == ["cuFFT"]


def test_closing_gives_memory_back(device):
    """The runtime is told when the pipeline ends."""
    pipe = build(lambda: mirror(source()))
    pipe.run()
    pipe._executor.close()
    assert device.closed == 1


def test_events_of_a_block_are_used_again(device):
    """A consumer's work is noted by an event that the block has already; a destroyed stream is waited for."""
    pool, drained = DevicePool(device, 4), []
    first, second = device.event(), device.event()
    block = SimpleNamespace(spare=[first, second], consumed=[])
    pool._consumed(block, device.computing.ptr)
    assert (block.spare, block.consumed) == ([first], [second])
    device.external = lambda handle: 1 / 0
    device.drain_all = lambda: drained.append(True)
    pool._consumed(block, 5)
    assert (block.spare, block.consumed, drained) == ([first], [second], [True])


def test_trimming_says_how_much_it_has_freed(device):
    """Blocks that are in use stay."""
    pool = DevicePool(device, 4)
    leases = [pool.take(purpose, 100_000, device.computing) for purpose in ("one", "one", "other")]
    sizes = [lease.block.nbytes for lease in leases]
    assert pool.trim() == 0
    del leases[1:]
    assert pool.trim() == sum(sizes[1:])
    assert pool.reserved == sizes[0]


@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_of_a_pipeline_is_one_tensor_or_another_batch(device, size):
    """A batch of one is a tensor too, and a batch is made of a batch without a copy, with a layout of its own."""
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    pipe = pipeline_def(
        lambda: mirror(fn.external_source(lambda: [image + np.uint8(k) for k in range(size)], layout="HWC").gpu()),
        batch_size=size, num_threads=1, device_id=0,
    )()  # fmt: skip
    (batch,) = pipe.run()
    expected = np.stack([image + np.uint8(k) for k in range(size)])[:, :, ::-1]
    np.testing.assert_array_equal(np.asarray(batch.as_tensor().as_cpu()), expected)
    other = TensorListGPU(batch, layout="XYZ")
    assert (other.layout(), batch.layout(), other.data_ptr()) == ("XYZ", "HWC", batch.data_ptr())
    np.testing.assert_array_equal(other.as_cpu().as_array(), expected)
