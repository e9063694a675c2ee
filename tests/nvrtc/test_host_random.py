"""Random numbers and noise on the GPU are the CPU's."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

TYPES = in_order(NUMBERS)
NOT_BOOL = [dtype for dtype in TYPES if dtype.kind != "b"]
LIKE = [np.zeros(shape, np.uint8) for shape in ((5, 7), (1, 1), (0, 3), (90, 100), (1, 9))]


@pytest.mark.parametrize("dtype", NOT_BOOL, ids=str)
def test_uniform(dtype):
    """Bit for bit, in every type, each sample in its own range."""
    assert_same(lambda: fn.random.uniform(LIKE, range=(-3.0, 200.0), dtype=dtype))
    ranges = TensorListCPU([np.float32([n, n + 0.5]) for n in range(5)])
    assert_same(lambda: fn.random.uniform(LIKE, range=ranges, dtype=dtype))
    # a range so narrow that rounding would reach its end
    assert_same(lambda: fn.random.uniform(LIKE, range=(1.0, 1.0009765625), dtype=dtype))


@pytest.mark.parametrize("dtype", NOT_BOOL, ids=str)
def test_listed_values(dtype):
    """One of a list, also of lists of unlike lengths."""
    assert_same(lambda: fn.random.uniform(LIKE, values=[1.5, -2.5, 1e3], dtype=dtype))
    lists = TensorListCPU([np.arange(n + 1, dtype=np.float32) / 3 for n in range(5)])
    assert_same(lambda: fn.random.uniform(LIKE, values=lists, dtype=dtype))


@pytest.mark.parametrize("dtype", NOT_BOOL, ids=str)
def test_normal(dtype):
    """To the last digits, which the libraries' functions decide."""
    rtol = {2: 2e-3, 4: 1e-6, 8: 1e-12}[dtype.itemsize] if dtype.kind == "f" else 0.0
    assert_same(lambda: fn.random.normal(LIKE, mean=3.0, stddev=40.0, dtype=dtype), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_coin_flip(dtype):
    """Bit for bit, each sample with its own probability."""
    chances = TensorListCPU([np.float32(x) for x in (0, 1, 0.5, 0.3, 0.999)])
    assert_same(lambda: fn.random.coin_flip(LIKE, probability=chances, dtype=dtype))


def test_of_a_given_shape():
    """Without an input; a single number."""
    assert_same(lambda: fn.random.uniform(shape=(3, 5)))
    assert_same(lambda: fn.random.coin_flip())
    assert_same(lambda: fn.random.normal(shape=[2]), rtol=1e-6)


def test_bad_arguments_are_refused():
    """With the CPU's messages."""
    with pytest.raises(RuntimeError, match="the end must be greater than the start"):
        on_host(call_of(lambda: fn.random.uniform(LIKE, range=(2.0, 1.0))))
    with pytest.raises(ValueError, match=r"probability must be between 0 and 1, got 1\.5"):
        on_host(call_of(lambda: fn.random.coin_flip(probability=1.5)))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_noise(dtype):
    """On every element of arrays of all types; an integer may be one off where the sum is all but half."""
    rng = np.random.default_rng(4)
    data = [rng.integers(0, 2 if dtype.kind == "b" else 100, array.shape).astype(dtype) for array in LIKE]
    if dtype.kind == "f":
        close = {"rtol": 2e-3 if dtype == np.float16 else 1e-5, "atol": 1e-4}
    else:
        close = {} if dtype.kind == "b" else {"atol": 1}
    deviations = TensorListCPU([np.float32(x) for x in (0, 9, 3, 30, 1)])
    assert_same(lambda: fn.noise.gaussian(data, mean=1.0, stddev=deviations), **close)


def test_a_type_is_asked_for():
    """By its DALI name as well."""
    assert_same(lambda: fn.random.uniform(LIKE, dtype=types.UINT8, range=(0.0, 255.0)))


@pytest.mark.parametrize("dtype", [types.FLOAT, types.FLOAT64], ids=str)
def test_beta(dtype):
    """The numbers of the CPU, each sample with its own."""
    assert_same(lambda: fn.random.beta(LIKE, alpha=2.0, beta=3.0, dtype=dtype))
    with pytest.raises(RuntimeError, match="alpha must be positive, got -1"):
        on_host(call_of(lambda: fn.random.beta(LIKE, alpha=-1.0)))


@pytest.mark.parametrize("dtype", [np.uint8, np.float64], ids=str)
def test_choice(dtype):
    """The elements that the CPU chooses: numbers and rows, evenly and by weights."""
    numbers = [np.arange(n + 1).astype(dtype) for n in range(3)]
    assert_same(lambda: fn.random.choice(numbers, shape=(4, 3)))
    assert_same(lambda: fn.random.choice(numbers))
    rows = [np.arange(60).reshape(5, 4, 3).astype(dtype)] * 3
    assert_same(lambda: fn.random.choice(rows, shape=(7,)))
    assert_same(lambda: fn.random.choice(rows, shape=(2, 2), p=[0.1, 0.0, 0.4, 0.25, 0.25]))
    with pytest.raises(ValueError, match=r"is read on the CPU, where the choice is made: give it without \.gpu\(\)"):
        on_host(call_of(lambda: fn.random.choice([np.int32(5)] * 2, shape=(3,))))
    with pytest.raises(RuntimeError, match="the input is empty"):
        on_host(call_of(lambda: fn.random.choice([np.zeros((0, 2), dtype)])))
