"""Operators that only change extents or types, in chains: their results are the memory of their inputs."""

import numpy as np
import pytest
from helpers import chains_counted

from pipeflow import fn, pipeline_def, types
from pipeflow.executor.runners import program, sample_step

RNG = np.random.default_rng(8)
SAMPLES = [RNG.integers(0, 255, (height, 20, 3), np.uint8) for height in (10, 14, 12, 10, 2)]
EQUAL = [RNG.integers(0, 255, (10, 20, 3), np.uint8) for _ in range(5)]


def outputs_of(definition, samples, chained, monkeypatch, **source):
    """Three batches of a pipeline, and the number of samples of the first one that a chain has done."""
    with chains_counted(monkeypatch, chained) as done:

        @pipeline_def(batch_size=len(samples), num_threads=1, device_id=None, seed=3, enable_conditionals=True)
        def pipeline():
            return definition(fn.external_source(lambda: [x.copy() for x in samples], layout="HWC", **source))

        pipe = pipeline()
        pipe.build()
        found = []
        for _ in range(3):
            outputs = pipe.run()
            found.append([(x.layout(), [(a.tobytes(), a.dtype, a.shape) for a in map(np.asarray, x)]) for x in outputs])
    return found, len(done)


def flipped(x):
    return fn.flip(x, vertical=1)


def both(x):
    made = flipped(x)
    return made, fn.reshape(made, shape=(-1, 5), layout="HW")


def read_twice(x):
    made = flipped(x)
    flat = fn.reshape(made, shape=(-1,))
    return flat, fn.brightness(made, brightness_shift=0.1)


def inside(x):
    rows = fn.reshape(flipped(x), shape=(-1, 60), layout="HW")
    return fn.flip(fn.expand_dims(rows, axes=2, new_axis_names="C"), horizontal=1)


def under_a_condition(x):
    made = flipped(x)
    return fn.reshape(made, shape=(-1, 4, 15)), fn.cast(
        fn.squeeze(fn.expand_dims(made, axes=0), axes=0), dtype=types.FLOAT
    )


def of_the_source(x):
    return fn.reshape(fn.expand_dims(x, axes=0), shape=(-1,)), flipped(x)


def tripled(x):
    return x * np.uint8(3)


def of_a_function(x):
    return fn.expand_dims(fn.reshape(fn.python_function(flipped(x), function=tripled, jit=True), shape=(-1,)), axes=0)


def of_a_merge(x):
    if fn.shapes(x)[0] > 11:
        made = fn.flip(x, vertical=1)
    else:
        made = fn.flip(x, horizontal=1)
    return fn.reshape(fn.expand_dims(made, axes=0), shape=(-1,)), fn.brightness(x, brightness_shift=0.1)


def in_a_branch(x):
    if fn.shapes(x)[0] > 11:
        made = fn.reshape(fn.flip(x, vertical=1), shape=(-1,))
    else:
        made = fn.reshape(x, shape=(-1,))
    return made, fn.reshape(flipped(x), shape=(-1,))


CASES = {
    "of the source": (of_the_source, 5),
    "of a function": (of_a_function, 4),
    "of a merge": (of_a_merge, 0),
    "in a branch": (in_a_branch, 0),
    "last": (lambda x: fn.reshape(flipped(x), shape=(-1, 3), layout="WC"), 5),
    "several": (lambda x: fn.squeeze(fn.expand_dims(fn.reshape(flipped(x), shape=(-1, 4)), axes=0), axes=0), 5),
    "by name": (lambda x: fn.squeeze(fn.expand_dims(flipped(x), axes=0, new_axis_names="F"), axis_names="F"), 5),
    "inside": (inside, 5),
    "both are outputs": (both, 5),
    "the input is read twice": (read_twice, 5),
    "several ends": (under_a_condition, 5),
    "floats as bytes": (lambda x: fn.reinterpret(fn.cast(x, dtype=types.FLOAT), shape=(-1, 4), dtype=types.UINT8), 5),
    "floats as integers": (
        lambda x: fn.reinterpret(fn.cast(x, dtype=types.FLOAT), shape=(-1,), dtype=types.INT32, layout="X"), 5,
    ),
    "bytes as floats": (lambda x: fn.reinterpret(flipped(x), shape=(-1, 15), dtype=types.FLOAT), 0),
    "relative": (lambda x: fn.reshape(flipped(x), rel_shape=[0.5, -1]), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("samples", [SAMPLES, EQUAL], ids=["ragged", "equal"])
def test_results_are_those_of_the_bodies(name, samples, monkeypatch):
    """Bit for bit, with types, shapes and layouts; batches of equal shapes become one array."""
    definition, described = CASES[name]
    found, done = outputs_of(definition, samples, True, monkeypatch)
    assert found == outputs_of(definition, samples, False, monkeypatch)[0]
    assert done >= described


def test_a_shape_that_fits_some_samples(monkeypatch):
    """The body reports the others."""

    def definition(x):
        return fn.reshape(flipped(x), shape=(-1, 100), on_error="skip")

    found, done = outputs_of(definition, SAMPLES, True, monkeypatch)
    assert found == outputs_of(definition, SAMPLES, False, monkeypatch)[0]
    assert done == 2  # of 600 elements


def test_the_last_result_is_not_copied(monkeypatch):
    """The step before writes to the memory of the batch; a copy is made only if both results are outputs."""
    calls, call = [], program.Program.call

    def counted(self, kernel, *rest, **named):
        calls.append(kernel)
        return call(self, kernel, *rest, **named)

    monkeypatch.setattr(program.Program, "call", counted)
    outputs_of(CASES["last"][0], SAMPLES, True, monkeypatch)
    assert len(calls) == 1
    calls.clear()
    outputs_of(both, SAMPLES, True, monkeypatch)
    assert len(calls) == 2


ALONE = {
    "expand_dims": lambda x: fn.expand_dims(x, axes=0),
    "reshape": lambda x: fn.reshape(x, layout="DWC"),
    "reinterpret": lambda x: fn.reinterpret(x, dtype=types.INT8),
    "shorter elements": lambda x: fn.reinterpret(
        fn.reinterpret(x, shape=(-1, 5), dtype=types.INT32), dtype=types.INT16
    ),
    "crop": lambda x: fn.crop(x, crop=(2, 7)),
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", ALONE)
def test_views_of_arrays_of_the_user_are_copied_by_a_chain(name, large, monkeypatch):
    """Their memory may change after the batch, so the results have their own; large ones are written without the caches."""
    if large:
        monkeypatch.setattr(sample_step, "LARGE_SAMPLE", 1)
        monkeypatch.setattr(sample_step, "LARGE_BATCH", 1)
    samples = [np.ascontiguousarray(x) for x in SAMPLES]
    found, done = outputs_of(ALONE[name], samples, True, monkeypatch, no_copy=True)
    assert found == outputs_of(ALONE[name], samples, False, monkeypatch, no_copy=True)[0]
    assert done == (0 if name == "shorter elements" else 5)
