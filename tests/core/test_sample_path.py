"""The way of one sample through a stage: its memory, its arguments, and what is worked out only once."""

import itertools

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.declare import Arg, Out, Sample, Spec, column_values, from_sample, operator, registry
from pipeflow.executor.runners import sample_step
from pipeflow.executor.runners.sample_step import LARGE_BATCH, is_large
from pipeflow.kernels import cpu as kernels

RNG = np.random.default_rng(3)
IMAGES = [RNG.integers(0, 256, (300, 400, 3), dtype=np.uint8) for _ in range(3)]
RAGGED = [RNG.integers(0, 256, (300 + 7 * i, 401, 3), dtype=np.uint8) for i in range(3)]
BATCH = 15


def run(samples, work, layout="HWC", **options):
    """One batch of BATCH samples through a pipeline."""

    @pipeline_def(batch_size=BATCH, num_threads=2, seed=5, **options)
    def pipeline():
        data = fn.external_source(lambda info: samples[info.idx_in_batch % len(samples)], batch=False, layout=layout)
        return work(data)

    pipe = pipeline()
    pipe.build()
    outputs = pipe.run()
    results = [[np.array(output.at(index)) for index in range(BATCH)] for output in outputs]
    for _ in range(3):
        pipe.run()
    for output, kept in zip(outputs, results):
        for index, array in enumerate(kept):
            assert np.array_equal(output.at(index), array), "memory of a delivered batch was written again"
    return results


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 255, 256, 300, 1000, 4097])
def test_copies_past_the_caches_are_exact(size):
    """Every byte arrives and none beside them changes, whatever the alignment of source and target."""
    source = RNG.integers(1, 256, size + 70, dtype=np.uint8)
    for begin, at in itertools.product((0, 1, 5), (0, 1, 17, 63)):
        out = np.zeros(size + 200, np.uint8)
        kernels.streaming.copy(source[begin : begin + size], out[at : at + size])
        assert np.array_equal(out[at : at + size], source[begin : begin + size])
        assert not out[:at].any()
        assert not out[at + size :].any()


@pytest.mark.parametrize("shape", [(1,), (300,), (17, 31, 3)])
def test_copies_of_several_arrays(shape):
    """Each goes to its row."""
    sources = [RNG.normal(size=shape).astype(np.float32) for _ in range(5)]
    out = np.zeros((5, *shape), np.float32)
    kernels.streaming.copy_rows(sources, out)
    assert np.array_equal(out, np.stack(sources))


def test_copies_of_strided_and_read_only_arrays():
    """What is not one piece of memory is copied as NumPy does it; a read-only source is no obstacle."""
    source = RNG.normal(size=(40, 50, 3)).astype(np.float32)
    source.flags.writeable = False
    assert np.array_equal(kernels.streaming.copy(source, np.empty_like(source)), source)
    turned = source.transpose(2, 0, 1)
    assert np.array_equal(kernels.streaming.copy(turned, np.empty(turned.shape, np.float32)), turned)


def test_a_step_without_kernels_copies_past_the_caches_too(monkeypatch):
    """A large view of an input goes to the batch by the kernel, if that is in memory, and else by NumPy."""

    @pipeline_def(batch_size=BATCH, num_threads=2)
    def flattening():
        images = fn.external_source(lambda: [IMAGES[index % 3] for index in range(BATCH)], layout="HWC", no_copy=True)
        return fn.reshape(images, rel_shape=[-1])

    taken = []
    monkeypatch.setattr(
        kernels.everyday, "copy", lambda source, out: taken.append(source.nbytes) or np.copyto(out, source)
    )
    for ready in (False, True):
        monkeypatch.setattr(sample_step.past_caches, "ready", lambda _batch, ready=ready: ready)
        taken.clear()
        (flat,) = flattening().run()
        assert all(np.array_equal(flat.at(index), IMAGES[index % 3].reshape(-1)) for index in range(BATCH))
        assert taken[:BATCH] == [IMAGES[0].nbytes] * (BATCH if ready else 0)


@pytest.mark.parametrize("samples", [IMAGES, RAGGED], ids=["dense", "ragged"])
@pytest.mark.parametrize(
    "work",
    [
        fn.flip,
        lambda x: fn.cast(x, dtype=types.FLOAT),
        lambda x: fn.brightness(x, brightness=fn.random.uniform(range=(0.5, 1.5), seed=2)),
        lambda x: fn.crop_mirror_normalize(x, crop=(280, 400), mean=[1.0, 2.0, 3.0], std=[2.0]),
        lambda x: fn.reshape(x, shape=(-1,)),
        lambda x: fn.pad(x, axes=(0,), shape=(340,)),
    ],
    ids=["flip", "cast", "brightness", "normalize", "reshape", "pad"],
)
def test_large_batches_hold_what_small_ones_do(samples, work, monkeypatch):
    """Batches that are written past the caches equal those that are written directly."""
    assert is_large(samples[0].shape, samples[0].dtype, BATCH)
    large = run(samples, work)
    monkeypatch.setattr("pipeflow.executor.runners.sample_step.LARGE_BATCH", 1 << 40)
    small = run(samples, work)
    for one, two in zip(large[0], small[0]):
        assert one.dtype == two.dtype
        assert np.array_equal(one, two)


def test_outputs_that_other_steps_read():
    """An output that goes on to another step of its stage is right in both places."""

    def work(images):
        flipped = fn.flip(images)
        return flipped, fn.cast(flipped, dtype=types.FLOAT), fn.reshape(flipped, shape=(-1,))

    flipped, cast, flat = run(IMAGES, work)
    for index in range(BATCH):
        expected = IMAGES[index % 3][:, ::-1]
        assert np.array_equal(flipped[index], expected)
        assert np.array_equal(cast[index], expected.astype(np.float32))
        assert np.array_equal(flat[index], expected.reshape(-1))


def test_large_sequences():
    """The frames of large sequences come out whole."""
    frames = [np.stack([image, image[::-1]]) for image in IMAGES]
    (result,) = run(frames, fn.flip, "FHWC")
    for index, made in enumerate(result):
        assert np.array_equal(made, frames[index % 3][:, :, ::-1])


def test_values_that_stand_in_for_large_samples():
    """A value given by on_error takes the place of a large sample that failed."""
    samples = [*IMAGES, IMAGES[0][:10]]
    stand_in = np.full((200, 400, 3), 9, np.uint8)
    (result,) = run(samples, lambda x: fn.crop(x, crop=(200, 400), on_error=stand_in))
    for index, made in enumerate(result):
        expected = stand_in if index % 4 == 3 else samples[index % 4][50:250]
        assert np.array_equal(made, expected)


def test_small_batches_stay_in_the_caches():
    """Only samples and batches of some size are worth writing past the caches."""
    assert not is_large((100, 100, 3), np.dtype(np.uint8), 8)
    assert not is_large((10,), np.dtype(np.uint8), LARGE_BATCH)
    assert is_large((3, 224, 224), np.dtype(np.float32), 64)
    assert not is_large((100_000,), np.dtype(object), 1000)


@pytest.fixture
def counting():
    """An operator that counts how often its shapes are inferred, and whether they depend on its argument."""
    calls = []

    @operator("test_counting")
    def counted(x: Sample, /, *, by: Arg[int] = 0, longer: Arg[int] = 0, out: Out) -> Sample:
        """Adds and lengthens."""
        out[: len(x)] = x + by
        out[len(x) :] = 0
        return out

    @counted.infer
    def _(specs, args):
        calls.append(args)
        return Spec((specs[0].shape[0] + args.longer,), specs[0].dtype)

    yield counted, calls
    del registry["test_counting"]


def test_shapes_are_inferred_once_where_changing_arguments_have_no_part_in_them(counting):
    """An argument that changes from sample to sample costs an inference for each only where the shape depends on it."""
    op, calls = counting
    samples, numbers = [np.arange(3)] * 9, [np.array(k) for k in range(9)]
    result = op(samples, by=_batch(numbers))
    assert [result.at(k).tolist() for k in (0, 8)] == [[0, 1, 2], [8, 9, 10]]
    assert len(calls) <= 3
    calls.clear()
    result = op(samples, longer=_batch(numbers))
    assert [len(result.at(k)) for k in range(9)] == [3 + k for k in range(9)]
    assert len(calls) >= 9


def _batch(samples):
    return fn.cast(samples, dtype=types.INT64)  # eager: a batch of values


@pytest.mark.parametrize("kind", [bool, int, float, "ints", "floats"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.bool_])
def test_columns_of_arguments_equal_single_ones(kind, dtype):
    """All values of a batch converted at once are those that samples give one by one."""
    values = RNG.integers(0, 2, (6, 1)).astype(dtype) if kind is bool else RNG.integers(0, 100, (6, 1)).astype(dtype)
    made = column_values(kind, values)
    assert made == [from_sample(kind, value) for value in values]
    assert [type(x) for x in made] == [type(from_sample(kind, value)) for value in values]


def test_columns_that_need_a_look_at_every_sample():
    """Vectors for a number, or a nan for an integer, are left to the sample that they belong to."""
    assert column_values(float, np.zeros((3, 2))) is None
    assert column_values(int, np.array([1.0, np.nan])) is None
    assert column_values("ints", np.zeros((2, 3))) == [(0, 0, 0), (0, 0, 0)]
    assert column_values(types.DALIInterpType, np.zeros(3)) is None
