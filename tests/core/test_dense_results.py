"""Results of chains whose shapes agree are one array, without a copy, although no shape is known before the samples are read."""

from functools import partial

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.kernels.cpu import kernel_calls
from pipeflow.tensors import PlacedArrays

SIZE = 8
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def ready(monkeypatch):
    """The compiled code of chains is loaded."""
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    kernel_calls.load()


def images_of(shapes):
    """A batch of images of these shapes."""
    return [RNG.integers(0, 256, shape, np.uint8) for shape in shapes]


def run(batches, threads=1, chunk=None, monkeypatch=None, **options):
    """The batches of a chain of steps for these images."""
    if chunk:
        monkeypatch.setattr(SampleStage, "chunk", lambda self, left, threads, batches: min(chunk, left))
    left = iter(batches)

    @pipeline_def(batch_size=SIZE, num_threads=threads, device_id=None, **options)
    def pipeline():
        data = fn.external_source(lambda: next(left), layout="HWC", dtype="uint8", ndim=3)
        return fn.brightness(fn.flip(data), brightness=0.5)

    pipe = pipeline()
    pipe.build()
    return [pipe.run()[0] for _ in batches]


def expected(images):
    return [fn.brightness(fn.flip(image), brightness=0.5) for image in images]


def check(found, images):
    """The batch has these results; True if it is one array."""
    arrays = [found.at(number) for number in range(len(images))]
    for array, wanted in zip(arrays, expected(images), strict=True):
        np.testing.assert_array_equal(array, wanted)
    dense = found._dense is not None
    if dense:
        whole = found.as_array()
        assert all(np.shares_memory(whole[number], array) for number, array in enumerate(arrays))
        np.testing.assert_array_equal(whole, np.stack(expected(images)))
    return dense


@pytest.mark.parametrize("shape", [(8, 16, 3), (64, 1, 1), (120, 64, 3)])
@pytest.mark.parametrize(("threads", "chunk"), [(1, None), (1, 3), (2, 2)])
def test_samples_of_one_shape_are_one_array(shape, threads, chunk, monkeypatch):
    """From the second batch on, with one chunk and with several ones, if they take whole lines of the cache."""
    batches = [images_of([shape] * SIZE) for _ in range(4)]
    found = run(batches, threads, chunk, monkeypatch, prefetch_queue_depth=1)
    assert [check(*pair) for pair in zip(found, batches)][1:] == [True] * 3


def test_samples_without_alignment_stay_apart():
    """Results that would begin anywhere in a line of the cache have gaps between them."""
    batches = [images_of([(7, 5, 3)] * SIZE) for _ in range(3)]
    assert not any(check(*pair) for pair in zip(run(batches), batches))


@pytest.mark.parametrize(("threads", "chunk"), [(1, None), (1, 3), (2, 2)])
@pytest.mark.parametrize(
    "other", [[(9, 9, 3)] * SIZE, [(4, 4, 3)] * SIZE, [(8, 8, 3)] * 5 + [(9, 2, 3)] * 3, [(2, 2, 3), *[(8, 8, 3)] * 7]]
)
def test_other_shapes_follow(other, threads, chunk, monkeypatch):
    """A batch with larger, smaller or mixed samples is right, and so are the next ones."""
    shapes = [[(8, 8, 3)] * SIZE] * 2 + [other] + [[(8, 8, 3)] * SIZE] * 2
    batches = [images_of(one) for one in shapes]
    found = run(batches, threads, chunk, monkeypatch, prefetch_queue_depth=1)
    dense = [check(*pair) for pair in zip(found, batches)]
    assert dense[1]
    assert dense[2] is False or len(set(other)) == 1


@pytest.mark.parametrize("number", [0, 3, SIZE - 1])
def test_a_sample_that_the_chain_does_not_describe(number, monkeypatch):
    """An image without pixels is left to the bodies, and the results after it move up in memory."""
    batches = [images_of([(8, 8, 3)] * SIZE) for _ in range(4)]
    for images in batches[2:]:
        images[number] = np.empty((0, 6, 3), np.uint8)
    found = run(batches, 1, None, monkeypatch, prefetch_queue_depth=1)
    assert [check(*pair) for pair in zip(found, batches)][1:] == [True, False, False]


def test_memory_of_a_sample_is_given_once():
    """If a sample is computed again, another result may be in its part of the block: it gets other memory."""
    values = PlacedArrays(4)
    take = partial(np.empty, dtype=np.uint8)
    assert len(values.part(0, 2, 8, take)[0]) == 16
    assert values.part(1, 2, 8, take) is None
    assert values.part(1, 3, 8, take) is None
    assert values.part(2, 4, 9, take) is None  # of another size: the block is for samples of 8 bytes
    assert len(values.part(2, 4, 8, take)[0]) == 16


def test_batches_are_kept_by_the_user():
    """Results that the user keeps are not overwritten, and may be written to."""
    batches = [images_of([(5, 7, 3)] * SIZE) for _ in range(6)]
    found = run(batches)
    for one, images in zip(found, batches):
        check(one, images)
    found[-1].as_array()[...] = 7
    for one, images in zip(found[:-1], batches):
        check(one, images)


def test_types_in_turn():
    """The objects for results of one type are not those for results of another type, which another epoch has."""
    epochs = [
        [[RNG.integers(0, 256, (8, 8, 3)).astype(kind) for _ in range(SIZE)] for _ in range(4)]
        for kind in [np.uint8, np.float32] * 3
    ]
    left = [iter(())]

    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
    def pipeline():
        return fn.flip(fn.external_source(lambda: next(left[0]), layout="HWC"))

    pipe = pipeline()
    pipe.build()
    found = []
    for epoch in epochs:
        left[0] = iter(epoch)
        found.append([pipe.run()[0] for _ in epoch])
        with pytest.raises(StopIteration):
            pipe.run()
        pipe.reset()
    for results, epoch in zip(found, epochs):
        for one, images in zip(results, epoch):
            for number, image in enumerate(images):
                assert one.at(number).dtype == image.dtype
                np.testing.assert_array_equal(one.at(number), image[:, ::-1])
        assert results[-1]._dense is not None


def test_objects_are_empty_for_the_next_batch():
    """With the same memory for numbers, where no sample of the last batch is found; its array stays."""
    values, take = PlacedArrays(2), partial(np.empty, dtype=np.uint8)

    def made(fill):
        block, address = values.part(0, 2, 64, take)
        block[:] = fill
        numbers = values.numbers(np.dtype(np.uint8), 1)
        numbers[:] = [(address, 64), (address + 64, 64)]
        values.placed(2, [block])
        return numbers

    first = made(1)
    assert values[0].tolist() == [1] * 64
    one = values.dense()
    values.clear()
    assert [*values] == [None, None]
    assert values.columns is None
    assert made(2) is first
    assert values[1].tolist() == [2] * 64
    assert (one == 1).all()
    assert values.dense().shape == (2, 64)
    assert (values.dense() == 2).all()
