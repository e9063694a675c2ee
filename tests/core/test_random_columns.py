"""Random numbers for a whole batch at once are those that are drawn for each sample by itself."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, seeds, types
from pipeflow.compile import stages
from pipeflow.declare.registration import find
from pipeflow.executor.runners import late_code
from pipeflow.kernels import cpu as kernels

BATCH = 9
CALLS = {
    "choice": lambda: fn.random.choice(10),
    "choices": lambda: fn.random.choice(10, shape=(2, 3)),
    "choice with probabilities": lambda: fn.random.choice(3, p=[0.2, 0.0, 0.8], shape=4),
    "one of some values": lambda: fn.random.choice([4.0, 5.0, 9.0]),
    "values with probabilities": lambda: fn.random.choice([4.0, 5.0, 9.0], p=[0.2, 0.3, 0.5], shape=2),
    "choice below a number of the sample": lambda: fn.random.choice(
        fn.random.uniform(range=(1, 9), dtype=types.INT32), shape=5
    ),
    "beta": lambda: fn.random.beta(alpha=0.4, beta=2.0),
    "beta of the sample": lambda: fn.random.beta(alpha=fn.random.uniform(range=(0.1, 2.0)), beta=2.0, shape=(3,)),
    "beta in float64": lambda: fn.random.beta(dtype=types.FLOAT64),
    "uniform": lambda: fn.random.uniform(range=(2.0, 3.0)),
    "uniform like a column": lambda: fn.random.uniform(fn.random.uniform(shape=(2, 3))),
    "choice like a column": lambda: fn.random.choice([4.0, 5.0, 9.0], fn.random.uniform(shape=(2, 3))),
}


def drawn(call):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=11)
    def pipeline():
        return call()

    pipe = pipeline()
    pipe.build()
    return [np.array(batch.at(index)) for batch in [*pipe.run(), *pipe.run()] for index in range(BATCH)]


@pytest.mark.parametrize("name", CALLS)
def test_a_column_has_the_numbers_of_its_samples(name, monkeypatch):
    """Two batches of a call as a column, and sample by sample."""
    together = drawn(CALLS[name])
    monkeypatch.setattr(stages, "COLUMN_ELEMENTS", -1)
    alone = drawn(CALLS[name])
    assert len({array.tobytes() for array in together}) > 1
    for one, two in zip(together, alone, strict=True):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert (one == two).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fn.random.beta(alpha=fn.random.uniform(range=(-2.0, -1.0))), "alpha must be positive"),
        (lambda: fn.random.choice(fn.random.uniform(range=(-3, 0), dtype=types.INT32)), "must be a positive integer"),
        (lambda: fn.random.choice(3, p=[0.5, 0.6, 0.1]), "Sum of probabilities must be 1.0"),
        (lambda: fn.random.choice(3, p=[0.5, 0.5]), "2 probabilities for 3 elements"),
    ],
)
def test_wrong_parameters_of_columns(call, message):
    """The error of a sample is raised for the batch."""
    with pytest.raises(RuntimeError, match=message):
        drawn(call)


@pytest.mark.parametrize("count", [1, 50])
def test_compiled_keys_and_numbers_are_those_of_numpy(count, monkeypatch):
    """Bit for bit, for one epoch and for several, for places that are not neighbours, and for numbers that begin later."""
    rng = np.random.default_rng(count)
    positions, epochs = rng.integers(0, 2**40, 2 * count), np.sort(rng.integers(0, 9, 2 * count))
    keys = rng.integers(0, 2**64, 3, np.uint64)
    ways = [(positions, epochs), (positions, 5), (positions[::2], epochs[::2]), (positions[:0], epochs[:0])]

    def all_of():
        numbers = [seeds.unit(keys, *way) for way in ((5, 3), (1, 0), (3, 62), (70, 0))]
        return [*(seeds.keys_of(keys, *way) for way in ways), *numbers, seeds.unit(keys[::2], 4)]

    monkeypatch.setattr(seeds, "compiled", kernels.keys.load())
    compiled = all_of()
    monkeypatch.setattr(seeds, "compiled", None)
    for one, other in zip(compiled, all_of(), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    alone = seeds.sample_keys(int(keys[1]), positions[3 % count : 3 % count + 1], int(epochs[3 % count]))
    assert compiled[0][1, 3 % count] == alone[0]


@pytest.mark.parametrize("key", [0, 3, 2**64 - 1])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
def test_normal_numbers_have_the_same_bits_with_and_without_the_compiler(key, count):
    """Box and Muller's formula, to 1e-14: by NumPy, by compiled code for one key and for several."""
    numbers = seeds.standard_normal(key, count)
    first, second = seeds.unit(key, 2 * count).reshape(-1, 2).T
    np.testing.assert_allclose(numbers, np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second), rtol=0, atol=1e-14)
    one, several = np.empty(count), np.empty((2, count))
    kernels.draws.normals_of(np.uint64(key), 1.0, 0.0, one)
    kernels.draws.normals(np.array([5, key], np.uint64), several)
    assert one.tobytes() == several[1].tobytes() == numbers.tobytes()


def test_normal_numbers_at_the_ends_of_their_formula():
    pairs = np.array([(0, 0), (0, 0.5), (1 - 2.0**-53, 0.5), (0.5, 0.25), (0.5, 0.75), (0.5, 1 - 2.0**-53)])
    expected = [0, 0, -8.571674348652905, 0, 0, 1.1774100225154747]
    np.testing.assert_allclose(seeds.normals_of(pairs.reshape(-1)), expected, rtol=0, atol=1e-14)


SHAPED = {
    "random.normal": lambda like: fn.random.normal(like, stddev=0.0),
    "random.uniform": fn.random.uniform,
    "random.coin_flip": fn.random.coin_flip,
    "random.beta": fn.random.beta,
    "random.choice": lambda like: fn.random.choice(5, like),
    "random.choice of numbers": lambda like: fn.random.choice([5, 6, 7], like),
    "random.choice of rows": lambda like: fn.random.choice(np.arange(12).reshape(4, 3), like),
}


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (1, 2, 2)])
def test_a_shape_like_input_that_is_a_constant_or_a_column(name, shape):
    """The shape of a sample is that of the input's sample, without the batch."""
    likes = [lambda: np.zeros(shape), lambda: fn.random.uniform(shape=shape), lambda: fn.copy(np.zeros(shape))]

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=5)
    def definition():
        return tuple(SHAPED[name](like()) for like in likes)

    expected = (*shape, 3) if name.endswith("rows") else shape
    for output in definition().run():
        assert [output.at(i).shape for i in range(3)] == [expected] * 3


@pytest.mark.parametrize(
    "name", ["random.normal", "random.uniform", "random.coin_flip", "random.beta", "random.choice"]
)
@pytest.mark.parametrize("shape", [(0,), (0, 4), (2, 0)])
def test_no_numbers_at_all(name, shape):
    """Compiled code makes them as NumPy does: of an image without boxes, for example."""
    kernels.draws.load()
    assert SHAPED[name](np.zeros(shape)).shape == shape
    pipe = pipeline_def(lambda: SHAPED[name](fn.copy(np.zeros(shape))), batch_size=3, num_threads=1, device_id=None)()
    for _ in range(3):
        assert [sample.shape for sample in pipe.run()[0].samples()] == [shape] * 3


def test_samples_of_different_shapes_are_drawn_by_compiled_code(monkeypatch):
    """No form for all samples at once runs then, which would load it."""
    loaded = []
    op = find("random.normal")
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    monkeypatch.setattr(late_code, "_by_operator", {})
    monkeypatch.setattr(op, "body_loads", (lambda: bool(loaded), lambda: loaded.append(True)))
    sizes = [np.zeros(size, np.float32) for size in (3, 4)]
    pipe = pipeline_def(lambda: fn.random.normal(fn.external_source(lambda: sizes)), batch_size=2, num_threads=1)()
    assert pipe.run()[0].shape() == [(3,), (4,)]
    assert loaded == [True]
