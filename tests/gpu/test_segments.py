"""Pipelines with device="gpu" on the fake device: what runs there is what the CPU gives, whatever the order of the streams."""

import numpy as np
import pytest
from fake_device import mirror

from pipeflow import backends, fn, pipeline_def
from pipeflow.declare import UNKNOWN, Out, Sample, Spec, operator
from pipeflow.device.calls import row_type
from pipeflow.errors import NoGpu
from pipeflow.executor.device import work


def batches(count=8, size=4, seed=0, extent=(3, 30)):
    """Ragged random images."""
    rng = np.random.default_rng(seed)
    return [[rng.integers(0, 255, (*rng.integers(*extent, 2), 3), np.uint8) for _ in range(size)] for _ in range(count)]


def same(batch, expected):
    """A batch has these samples."""
    arrays = batch.as_cpu().samples()
    assert len(arrays) == len(expected)
    for one, other in zip(arrays, expected):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 3])
def test_there_and_back(device, threads):
    """Up, through two operators of one segment, and down again: with one copy to the device a batch."""
    data = batches()

    @pipeline_def(batch_size=4, num_threads=threads, device_id=0, seed=1)
    def define():
        images = fn.external_source(data, layout="HWC")
        flipped = mirror(images.gpu(), vertical=1)
        chosen = fn.random.coin_flip()
        again = mirror(flipped, vertical=chosen)
        return flipped, again.cpu(), images.gpu(), chosen

    pipe = define()
    pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "device", "arrival"]
    for images in data:
        flipped, again, plain, chosen = pipe.run()
        same(flipped, [x[::-1, ::-1] for x in images])
        same(plain, images)
        same(again, [x[::-1, ::-1][:, ::-1][:: -1 if c else 1] for x, c in zip(images, chosen.as_array())])
        assert (flipped.layout(), again.layout()) == ("HWC", "HWC")
    assert device.counts["upload"] == len(data)
    assert device.counts["launch"] == 2 * len(data)


def test_one_copy_takes_a_batch_back(device):
    """Samples that the device has next to each other need one copy; those of an adopted batch one each."""
    data = batches(3)
    pipe = pipeline_def(
        lambda: mirror(fn.external_source(data, layout="HWC").gpu()).cpu(), batch_size=4, num_threads=1, device_id=0
    )()
    for images in data:
        same(pipe.run()[0], [x[:, ::-1] for x in images])
    assert device.counts["download"] == len(data)


def test_a_given_value_goes_on_to_the_next_operator(device):
    """The value of a rule takes part in the launches after the step that failed, in the same segment."""
    images, given = batches(1)[0], np.full((2, 2, 3), 9, np.uint8)
    given[0] = 1
    wrong = [np.zeros(1 + (k == 2), np.int32) for k in range(4)]

    @pipeline_def(batch_size=4, num_threads=1, device_id=0)
    def define():
        first = mirror(
            fn.external_source([images], layout="HWC").gpu(), vertical=fn.external_source([wrong]), on_error=given
        )
        return mirror(first, vertical=1)

    same(define().run()[0], [x[::-1] if k != 2 else given[::-1, ::-1] for k, x in enumerate(images)])


LAUNCHED_TWICE = row_type(input="u8", output="u8")


@operator("_two_launches", hidden=True, gpu=True)
def two_launches(image: Sample, /, *, out: Out) -> Sample:
    """Copies, with a second kernel that may fail."""
    np.copyto(out, image)
    return out


@two_launches.infer
def _(specs, _args):
    return specs[0]


@two_launches.gpu
def _(call):
    rows = np.zeros(len(call.items), LAUNCHED_TWICE)
    for name in ("first", "second"):
        call.launch(name, rows, [1] * len(rows), threads=1)


def test_in_careful_mode_a_late_error_is_that_of_its_operator(device, monkeypatch):
    """With PIPEFLOW_SYNC=1 all launches of an operator are done before those of the next begin."""
    monkeypatch.setenv("PIPEFLOW_SYNC", "1")
    monkeypatch.setattr(device.random, "random", lambda: 1.0)  # nothing runs that is not waited for

    failing = set()

    def launcher(kernel, *_):
        if kernel in failing:
            raise ValueError("a kernel has failed")

    monkeypatch.setattr(device, "launcher", launcher)

    @pipeline_def(batch_size=4, num_threads=1, device_id=0)
    def define():
        return mirror(two_launches(fn.external_source(batches(1), layout="HWC").gpu()))

    assert len(define().run()[0]) == 4
    failing.add("second")
    with pytest.raises(ValueError, match="a kernel has failed") as caught:
        define().run()
    assert "in fn._two_launches" in "\n".join(caught.value.__notes__)


@operator("_ones_of", hidden=True, gpu=True)
def ones_of(image: Sample, /) -> Sample:
    """As many ones as the sum of an image says."""
    return np.ones(int(image.sum()), np.uint8)


@ones_of.infer
def _(_specs, _args):
    return Spec(UNKNOWN, np.dtype(np.uint8), "")


@ones_of.gpu
def _(call):
    raise AssertionError(call)


def test_a_shape_that_depends_on_data_on_the_device(device):
    """Cannot be known before the launch: the error says what to give instead."""

    @pipeline_def(batch_size=4, num_threads=1, device_id=0)
    def define():
        return ones_of(fn.external_source(batches(1), layout="HWC").gpu())

    with pytest.raises(
        ValueError, match=r"the shape of the result depends on data on the GPU, .*: give it by named arg"
    ):
        define().run()


def test_pinned_memory_of_the_hinted_size_is_there_after_build(device):
    """What goes back to the CPU has its page-locked memory before the first batch."""
    hint = 100 * 100 * 3

    @pipeline_def(batch_size=4, num_threads=1, device_id=0)
    def define():
        return mirror(fn.external_source(batches(), layout="HWC").gpu(), bytes_per_sample_hint=hint).cpu()

    pipe = define()
    pipe.build()
    assert [len(page) >= 4 * hint for page in device.pages] == [True] * 4  # two batches in flight, and two at the user


@pytest.mark.parametrize("threads", [1, 3])
def test_large_batches_are_copied_to_page_locked_memory_by_several_threads(device, monkeypatch, threads):
    """As many as the pipeline may use, each for a part of the samples; small batches by one."""
    monkeypatch.setattr(work, "PART", 1000)
    rng = np.random.default_rng(4)
    images = [rng.integers(0, 255, (3 + number, 20, 3), np.uint8) for number in range(7)]
    seen = []
    copy_all = work.copy_all
    monkeypatch.setattr(work, "copy_all", lambda pairs: seen.append(len(pairs)) or copy_all(pairs))
    pipe = pipeline_def(
        lambda: mirror(fn.external_source(lambda: images, layout="HWC").gpu()),
        batch_size=7, num_threads=threads, device_id=0, exec_async=False, exec_pipelined=False,
    )()  # fmt: skip
    found = pipe.run()[0].as_cpu().samples()
    for one, image in zip(found, images, strict=True):
        np.testing.assert_array_equal(one, image[:, ::-1])
    assert sum(seen) == 7
    assert len(seen) == threads
    assert max(seen) < 7 or threads == 1


def test_a_batch_is_the_users_for_as_long_as_it_is_kept(device):
    """Kept batches stay what they were while others follow."""
    data = batches(12)

    @pipeline_def(batch_size=4, num_threads=2, device_id=0)
    def define():
        return mirror(fn.external_source(data, layout="HWC").gpu())

    pipe = define()
    kept = [pipe.run()[0] for _ in data]
    device.finish_all()
    for batch, images in zip(kept, data):
        same(batch, [x[:, ::-1] for x in images])


def test_without_a_gpu(monkeypatch):
    """Building fails with the exact reason and the command that helps."""
    monkeypatch.setattr(backends.gpu, "why_not", lambda number: f"GPU {number} is on fire: buy another")

    @pipeline_def(batch_size=4, num_threads=1, device_id=2)
    def define():
        return mirror(fn.external_source(batches(), layout="HWC").gpu())

    with pytest.raises(NoGpu, match="works on GPU 2, which cannot be used here: GPU 2 is on fire: buy another"):
        define().build()
