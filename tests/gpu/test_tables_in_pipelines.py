"""Pipelines plan whole batches by tables: rows in branches, rows that fail, and batches that a table does not describe."""

import fake_device
import numpy as np
import pytest

from pipeflow import backends, fn, pipeline_def, seeds, types
from pipeflow.device import tables
from pipeflow.executor.runners import late_code

SIZES = [(20, 30), (8, 9), (40, 25), (21, 50)]
IMAGES = [np.full((height, width, 3), height, np.uint8) for height, width in SIZES]


class Launches:
    """A launcher whose kernels do nothing: it keeps their names and numbers of rows."""

    def __init__(self):
        self.seen = []

    def __call__(self, kernel, grid, threads, rows, first, count):
        self.seen.append((kernel.partition("<")[0], count))


@pytest.fixture
def launches(monkeypatch):
    """The launches of the pipelines of a test."""
    found = Launches()
    runtime = fake_device.FakeRuntime(seed=5, launcher=found, eager=True)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    monkeypatch.setattr(backends.gpu, "for_arrays", lambda *_: runtime)
    return found


@pytest.fixture
def planned(monkeypatch):
    """How many batches were planned by tables, and how many samples one by one."""
    counts = {"tables": 0, "samples": 0}
    by_table, by_samples = tables.TablePlanner.__call__, tables.DevicePlanner._plan

    def counted(self, *arguments):
        found = by_table(self, *arguments)
        counts["tables"] += 1
        return found

    def one(self, *arguments):
        counts["samples"] += 1
        return by_samples(self, *arguments)

    monkeypatch.setattr(tables.TablePlanner, "__call__", counted)
    monkeypatch.setattr(tables.DevicePlanner, "_plan", one)
    return counts


def source():
    return fn.external_source(lambda iteration: IMAGES, batch=True, layout="HWC").gpu()


def built(definition, **options):
    """A pipeline that makes its batches when they are taken."""
    options = {"batch_size": 4, "num_threads": 1, "device_id": 0, "seed": 3, **options}
    return pipeline_def(definition, exec_pipelined=False, exec_async=False, prefetch_queue_depth=1, **options)()


def test_the_keys_of_random_numbers_are_those_of_compiled_code(launches, planned, monkeypatch):
    """It is loaded with the first batch that a table plans, if a step is random."""

    def seen(definition):
        monkeypatch.setattr(seeds, "compiled", None)
        # another test of this process may have loaded it
        monkeypatch.setattr(late_code._random_numbers, "_loaded", False)
        loading = built(definition)
        loading.run()
        return seeds.compiled is not None

    monkeypatch.setenv("PIPEFLOW_START", "wait")
    assert not seen(lambda: fn.flip(source(), horizontal=1))
    assert seen(lambda: fn.flip(source(), horizontal=fn.random.coin_flip()))
    assert planned == {"tables": 2, "samples": 0}


RESIZED = [("taps.cu:taps", 8), ("resize_tiles.cu:resize_tiles", 4)]
NORMALIZED = [("crop_mirror_normalize.cu:normalize_pixels", 4)]
TOGETHER = [("taps.cu:taps", 8), ("resize_tiles.cu:resize_normalize", 4)]


@pytest.mark.parametrize(("fuse", "launched"), [(False, RESIZED * 2 + NORMALIZED), (True, RESIZED + TOGETHER)])
def test_a_chain(launches, planned, fuse, launched):
    """A resize, a random crop and a normalisation of images of different sizes: a table a step, and no plan of a sample."""

    def define():
        images = fn.random_resized_crop(fn.resize(source(), resize_shorter=16), size=(10, 12))
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT16)

    pipe = built(define, fuse=fuse)
    pipe.build()
    planned.update(tables=0, samples=0)
    for _ in range(3):
        (batch,) = pipe.run()
        assert batch.shape() == [(3, 10, 12)] * 4
    assert planned == {"tables": 6 if fuse else 9, "samples": 0}
    assert launches.seen[: len(launched)] == launched


def test_branches(launches, planned):
    """A table has the rows of the samples in its branch."""

    @pipeline_def(enable_conditionals=True, batch_size=4, num_threads=1, device_id=0, seed=3)
    def define():
        flags = fn.external_source(lambda iteration: [np.bool_(k % 4 != 1) for k in range(4)], batch=True)
        images = source()
        if flags:
            images = fn.cast(images, dtype=types.FLOAT)
        else:
            images = fn.brightness(images, brightness=2.0, dtype=types.FLOAT)
        return images

    (batch,) = define().run()
    assert batch.shape() == [(*size, 3) for size in SIZES]
    assert planned["samples"] == 0
    assert {("cast.cu:cast_values", 3), ("cast.cu:line_values", 1)} <= set(launches.seen)


def test_a_sample_that_fails(launches, planned):
    """Its batch is planned sample by sample, and the error names it; the next step has a table of the others."""

    def define():
        return fn.hue(fn.crop(source(), crop=(10, 10)), hue=fn.random.uniform(range=(0.0, 9.0)))

    with pytest.raises(RuntimeError, match="Slice can't be placed") as failure:
        built(define).run()
    assert "sample 1 of batch 0" in str(failure.value.__notes__)
    planned.update(tables=0, samples=0)
    launches.seen.clear()
    (batch,) = built(define, on_error="skip").run()
    assert batch.shape() == [(10, 10, 3)] * 3
    assert planned == {"tables": 1, "samples": 4}
    assert ("color.cu:color_pixels", 3) in launches.seen


def test_frames(launches):
    """Sequences of different lengths: a row for each frame."""
    clips = [np.zeros((1 + index, 5, 6, 3), np.uint8) for index in range(4)]

    def define():
        data = fn.external_source(lambda iteration: clips, batch=True, layout="FHWC").gpu()
        return fn.saturation(data, saturation=fn.random.uniform(range=(0.0, 2.0)))

    (batch,) = built(define).run()
    assert batch.shape() == [(1 + index, 5, 6, 3) for index in range(4)]
    assert ("color.cu:color_pixels", 10) in launches.seen
