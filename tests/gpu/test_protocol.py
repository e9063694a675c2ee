"""The waits between host, streams and consumers: with all of them every schedule gives the right bytes, without any one not.

The executor's own code runs here on streams that do their work late and in any order that the waits allow. One thread does
everything, so that a seed stands for a schedule.
"""

import sys

import fake_device
import numpy as np
import pytest
from fake_device import mirror

from pipeflow import backends, fn, pipeline_def
from pipeflow.device.tensors import TensorListGPU
from pipeflow.executor.device.device import SendingPool

SAMPLES, BATCHES = 2, 6


class Watched(fake_device.FakeRuntime):
    """Notes where waits are made, and leaves those of one place out."""

    def __init__(self, seed, without=None):
        super().__init__(seed, fake_device.by_numpy)
        self.without = without
        self.places = {}

    def _left_out(self):
        frame = sys._getframe(2)
        place = f"{frame.f_code.co_qualname}+{frame.f_lineno - frame.f_code.co_firstlineno}"
        self.places[place] = self.places.get(place, 0) + 1
        return place == self.without

    def wait(self, stream, event):
        if not self._left_out():
            super().wait(stream, event)

    def synchronize(self, event):
        if not self._left_out():
            super().synchronize(event)


def images_of(batch):
    """Images of one shape; each batch has other values."""
    return [np.arange(12, dtype=np.uint8).reshape(2, 2, 3) + np.uint8(16 * batch + 100 * k) for k in range(SAMPLES)]


class Consumer:
    """Somebody with a stream of his own, who lets go of a batch as soon as his work on it is queued."""

    def __init__(self, device):
        self.device = device
        self.stream = device.stream("consumer")
        self.seen = []

    def take(self, batch):
        """Queues a look at a batch."""
        whole = batch.as_tensor()
        whole.__dlpack__(stream=self.stream.ptr)
        address, shape, dtype = whole.data_ptr(), tuple(whole.shape()), batch._dtype
        place = len(self.seen)
        self.seen.append(None)

        def look():
            self.seen[place] = fake_device.at(address, shape, dtype).copy()

        self.device.queue(self.stream, look)


def handed_over(device):
    """Uploaded, flipped and computed batches go to a consumer; nothing waits for the device but staging blocks."""

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        images = fn.external_source(lambda info: images_of(info.iteration), layout="HWC", batch_info=True).gpu()
        flipped = mirror(images, vertical=1)
        return images, flipped, mirror(fn.python_function(flipped, function=lambda x: x + 1, output_layouts="HWC"))

    pipe, consumer = define(), Consumer(device)
    for _ in range(BATCHES):
        for batch in pipe.run():
            consumer.take(batch)
        del batch
    device.finish_all()
    expected = []
    for batch in range(BATCHES):
        images = np.stack(images_of(batch))
        flipped = images[:, ::-1, ::-1]
        expected += [images, flipped, flipped[:, :, ::-1] + np.uint8(1)]
    for one, other in zip(consumer.seen, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def passed_on(device):
    """The same without a function, whose call would make the device go on."""

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        images = fn.external_source(lambda info: images_of(info.iteration), layout="HWC", batch_info=True).gpu()
        return mirror(mirror(images, vertical=1)), fn.copy(images)

    pipe, consumer = define(), Consumer(device)
    for _ in range(BATCHES):
        for batch in pipe.run():
            consumer.take(batch)
        del batch
    device.finish_all()
    for batch in range(BATCHES):
        images = np.stack(images_of(batch))
        np.testing.assert_array_equal(consumer.seen[2 * batch], images[:, ::-1])
        np.testing.assert_array_equal(consumer.seen[2 * batch + 1], images)


def brought_back(device):
    """A CPU stage reads what the device made; the copies to the host go into memory that is used again."""

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        images = fn.external_source(lambda info: images_of(info.iteration), layout="HWC", batch_info=True).gpu()
        flipped = mirror(images)
        return flipped.cpu() + np.uint8(1), flipped

    pipe = define()
    for batch in range(BATCHES):
        back, flipped = pipe.run()
        expected = np.stack(images_of(batch))[:, :, ::-1]
        np.testing.assert_array_equal(back.as_array(), expected + np.uint8(1))
        np.testing.assert_array_equal(flipped.as_cpu().as_array(), expected)


def copied_by_the_user(device):
    """A batch is copied to the host as soon as it is handed out."""

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        images = fn.external_source(lambda info: images_of(info.iteration), layout="HWC", batch_info=True).gpu()
        return mirror(images)

    pipe = define()
    for batch in range(BATCHES):
        expected = np.stack(images_of(batch))[:, :, ::-1]
        np.testing.assert_array_equal(pipe.run()[0].as_cpu().as_array(), expected)


def capsules_from_another_stream(device):
    """A function of capsules whose own library works on the default stream returns what that stream has yet to make."""

    def function(capsule):
        source = device.as_array(capsule)
        made = fake_device.fake(np.full(source.shape, 0xA5, np.uint8))

        def work():
            made[...] = source + 1

        device.queue(device.legacy, work)
        return fake_device.Holder(made).__dlpack__()

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        images = fn.external_source(lambda info: images_of(info.iteration), layout="HWC", batch_info=True).gpu()
        return mirror(
            fn.reshape(fn.dl_tensor_python_function(images, function=function, batch_processing=False), layout="HWC")
        )

    pipe = define()
    for batch in range(BATCHES):
        expected = np.stack(images_of(batch))[:, :, ::-1] + np.uint8(1)
        np.testing.assert_array_equal(pipe.run()[0].as_cpu().as_array(), expected)


def sent_from_where_it_is(device):
    """What a CPU stage has made goes to the device without another copy, and its memory is used again after that."""
    large = [[np.full((2, 9000, 3), 20 * batch + k, np.uint8) for k in range(SAMPLES)] for batch in range(2 * BATCHES)]

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        return fn.external_source(large, layout="HWC").gpu()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SendingPool, "FIRST", 2 * large[0][0].nbytes)  # a block for each batch
        pipe, consumer = define(), Consumer(device)
        for _ in large:
            consumer.take(pipe.run()[0])
    assert not pipe._executor.stages[1].memory.ring._blocks
    device.finish_all()
    for seen, images in zip(consumer.seen, large, strict=True):
        np.testing.assert_array_equal(seen, np.stack(images))


def stood_in(device):
    """Values for samples that failed go to the device one after another."""

    def fail(x):
        raise ValueError(x.shape)

    @pipeline_def(batch_size=SAMPLES, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False)
    def define():
        images = fn.external_source(lambda info: images_of(info.iteration), layout="HWC", batch_info=True).gpu()
        failed = fn.python_function(
            images,
            function=fail,
            on_error=lambda failure: images_of(failure.batch)[failure.sample],
            output_layouts="HWC",
        )
        return mirror(failed)

    pipe, consumer = define(), Consumer(device)
    for _ in range(BATCHES):
        consumer.take(pipe.run()[0])
    device.finish_all()
    for batch, seen in enumerate(consumer.seen):
        np.testing.assert_array_equal(seen, np.stack(images_of(batch))[:, :, ::-1])


def own_arrays(device):
    """A batch of the user's arrays is copied to the host after what his stream has queued on them."""
    memory = device.allocate(48)
    array = device.array(memory.address, (2, 3), np.dtype(np.float64), memory)
    stream = device.stream("own")

    def fill():
        array[...] = 7

    device.queue(stream, fill)
    device.current = lambda: stream.ptr
    back = TensorListGPU([array]).as_cpu()
    np.testing.assert_array_equal(back.as_array(), np.full((1, 2, 3), 7.0))


STORIES = (
    handed_over,
    passed_on,
    brought_back,
    copied_by_the_user,
    capsules_from_another_stream,
    sent_from_where_it_is,
    stood_in,
    own_arrays,
)


@pytest.fixture
def play(monkeypatch):
    """Runs a story on a schedule, perhaps without the waits of one place."""

    def play(story, seed, without=None):
        device = Watched(seed, without)
        with monkeypatch.context() as patch:
            patch.setattr(backends.gpu, "open_device", lambda _number: device)
            patch.setattr(backends.gpu, "for_arrays", lambda *_: device)
            story(device)
        return device

    return play


def find_places():
    """Every place where something waits, with a story in which it does."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for story in STORIES:
            device = Watched(1)
            patch.setattr(backends.gpu, "open_device", lambda _number, device=device: device)
            patch.setattr(backends.gpu, "for_arrays", lambda _value=None, device=device: device)
            story(device)
            for place in device.places:
                found.setdefault(place, []).append(story)
    return found


PLACES = find_places()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_every_schedule_is_right(story, play):
    """500 adversarial schedules of all stories together."""
    for seed in range(72):
        play(story, seed)


@pytest.mark.parametrize("place", PLACES)
def test_no_wait_can_be_left_out(place, play):
    """Without the waits of any one place some schedule gives wrong bytes."""
    for seed in range(40):
        for story in PLACES[place]:
            try:
                play(story, seed, place)
            except AssertionError:
                return
    pytest.fail(f"nobody misses the waits of {place}")


def test_the_waits_are_those_that_are_described():
    """The list in device/runtime.py is complete: staging, blocks of both streams, consumers, and what comes back."""
    functions = sorted(place.partition("+")[0] for place in PLACES)
    assert functions == [
        "ArrivalStage.run",
        "Device.download",
        "DevicePool.take",
        "DevicePool.take",
        "PinnedRing.take",
        "SegmentMemory.hold",
        "TensorGPU._held",
        "Work.send",
        "Work.send",
        "download",
        "download",
        "lend",
        "wait_for",
    ]
