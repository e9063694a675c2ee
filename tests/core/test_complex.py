"""Complex numbers: what takes them computes as NumPy does, everything else refuses them in words."""

import numpy as np
import pytest

from pipeflow import Pipeline, fn, math, pipeline_def, types
from pipeflow.errors import UnsupportedType
from pipeflow.tensors import TensorListCPU

DATA = [(np.arange(6).reshape(2, 3) * (1 + 2j)).astype(np.complex64) + k for k in range(3)]
TWO = np.complex64(2j)


def source(**arguments):
    return fn.external_source(lambda iteration: DATA, batch=True, **arguments)


def run(definition, **arguments):
    """The batch of the only output."""
    return pipeline_def(batch_size=3, num_threads=1, device_id=None, **arguments)(definition)().run()[0]


def check(batch, expected, exact=True):
    for index, data in enumerate(DATA):
        found, wanted = np.asarray(batch.at(index)), np.asarray(expected(data))
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=0 if exact else 1e-6)


WORKS = {
    "a source": (source, lambda z: z),
    "a source with a type": (lambda: source(dtype=types.COMPLEX64, ndim=2), lambda z: z),
    "python_function": (lambda: fn.python_function(source(), function=np.conj), np.conj),
    "numpy_function": (lambda: fn.numpy_function(np.conj, [source()], np.complex64), np.conj),
    "a promised number": (
        lambda: fn.numpy_function(lambda z: complex(z[0, 1]), [source()], "complex64"),
        lambda z: z[0, 1],
    ),
    "an input of numpy_function": (
        lambda: fn.numpy_function(np.multiply, [source(), TWO], np.complex64),
        lambda z: z * TWO,
    ),
    "numba_function": (
        lambda: fn.numba_function(
            source(),
            run_fn=lambda result, z: np.conj(z, result),
            in_types=types.COMPLEX64,
            ins_ndim=2,
            out_types=types.COMPLEX64,
            outs_ndim=2,
        ),
        np.conj,
    ),
    "a number": (lambda: source() + 2j, lambda z: z + TWO),
    "a number on the left": (lambda: 2j * source(), lambda z: TWO * z),
    "a real number": (lambda: source() - 2, lambda z: z - np.complex64(2)),
    "a list": (lambda: source() * [1j, 2, 3], lambda z: z * np.array([1j, 2, 3], np.complex64)),
    "a constant with a type": (lambda: source() * types.Constant(2j).complex128(), lambda z: z * np.complex128(2j)),
    "FLOAT64": (lambda: source() * types.Constant(2.0, dtype=types.FLOAT64), lambda z: z.astype(np.complex128) * 2),
    "division": (lambda: source() / (1 + 2j), lambda z: z / np.complex64(1 + 2j)),
    "power": (lambda: source() ** 2, lambda z: z**2),
    "signs": (lambda: -(+source()), lambda z: -z),
    "absolute": (lambda: abs(source()), np.abs),
    "absolute of math": (
        lambda: math.abs(fn.cast(source(), dtype=types.COMPLEX128)),
        lambda z: np.abs(z.astype(complex)),
    ),
    "equal": (lambda: source() == 1, lambda z: z == 1),
    "cast": (lambda: fn.cast(abs(source()), dtype=types.COMPLEX64), lambda z: np.abs(z).astype(np.complex64)),
    "parts": (lambda: fn.reinterpret(source(), dtype=types.FLOAT), lambda z: z.view(np.float32)),
    "pad": (
        lambda: fn.pad(source(), axes=0, shape=3, fill_value=2),
        lambda z: np.pad(z, ((0, 1), (0, 0)), constant_values=2),
    ),
    "stack": (lambda: fn.stack(source(), source()), lambda z: np.stack([z, z])),
    "cat": (lambda: fn.cat(source(), source(), axis=1), lambda z: np.concatenate([z, z], 1)),
    "transpose": (lambda: fn.transpose(source(), perm=[1, 0]), np.transpose),
    "transpose of 16 bytes": (
        lambda: fn.transpose(fn.cast(source(), dtype=types.COMPLEX128), perm=[1, 0]),
        lambda z: z.astype(np.complex128).transpose(),
    ),
    "reshape": (lambda: fn.reshape(source(), shape=(-1,)), np.ravel),
    "an index": (lambda: source()[1, ::2], lambda z: z[1, ::2]),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_takes_complex_numbers_computes_as_numpy(name):
    """Values and type are those of NumPy."""
    definition, expected = WORKS[name]
    check(run(definition), expected, exact=name in ("a source", "an index", "reshape"))


REFUSED = {
    "min": lambda: math.min(source(), 1),
    "sqrt": lambda: math.sqrt(source()),
    "<": lambda: source() < 1,
    "//": lambda: source() // 2,
    "&": lambda: source() & source(),
    "clamp": lambda: math.clamp(source(), 0, 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_of_arithmetic_says_so(name):
    """The error names the operator and the type."""
    with pytest.raises(UnsupportedType, match=f"`{name}` does not take complex64"):
        run(REFUSED[name])


def test_no_operator_drops_the_imaginary_part_or_makes_one_up():
    """A cast to a real type, a complex type of random numbers, and a reduction are errors."""
    with pytest.raises(ValueError, match="complex64 does not become float32: that would drop the imaginary part"):
        run(lambda: fn.cast(source(), dtype=types.FLOAT))
    with pytest.raises(TypeError, match=r"fn.random.uniform makes no complex64"):
        run(lambda: fn.random.uniform(dtype=types.COMPLEX64))
    with pytest.raises(UnsupportedType, match="the operator does not take complex64; it takes uint8"):
        run(lambda: fn.reductions.sum(source()))
    with pytest.raises(TypeError, match="complex"):
        types.Constant(2j).float32()


def test_branches_and_debugging():
    """Samples keep their type through branches, and in a debug run."""

    def definition():
        data = source()
        if fn.reductions.sum(abs(data)) > 30:
            data = data * 2j
        return data

    check(run(definition, enable_conditionals=True), lambda z: z * TWO if np.abs(z).sum() > 30 else z)
    check(run(lambda: source() * 2j, debug=True), lambda z: z * TWO)


def test_batches_and_eager_calls():
    """A batch has the type, DLPack passes it on, and calls on arrays give what a pipeline gives."""
    batch = TensorListCPU(DATA)
    assert batch.dtype == types.COMPLEX64
    assert types.to_numpy_type(types.COMPLEX64) is np.complex64
    assert types.to_dali_type("complex128") == types.COMPLEX128
    np.testing.assert_array_equal(np.from_dlpack(batch.as_tensor()), np.stack(DATA))
    assert "dtype=types.COMPLEX64" in repr(batch)
    np.testing.assert_array_equal(math.abs(DATA[0]), np.abs(DATA[0]))
    np.testing.assert_array_equal(fn.cat(DATA[0], DATA[1]), np.concatenate(DATA[:2]))


def test_a_saved_graph_keeps_complex_constants():
    """Numbers and arrays in a graph are the same after loading."""

    def definition():
        return fn.external_source(name="data") * (1 + 2j) + types.Constant(np.array([1j], np.complex64))

    text = pipeline_def(batch_size=3, num_threads=1, device_id=None)(definition)().serialize()
    pipe = Pipeline.deserialize(text)
    pipe.feed_input("data", DATA)
    check(pipe.run()[0], lambda z: z * np.complex64(1 + 2j) + np.complex64(1j), exact=False)
