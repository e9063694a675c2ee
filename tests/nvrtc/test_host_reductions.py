"""Reductions and normalize on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

TYPES = in_order(NUMBERS)
SIZES = [(5, 7), (1, 1), (33, 2), (24, 65)]
AXES = [None, (), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (-1,)]


def arrays(dtype=np.float32, channels=3, sizes=SIZES):
    """Ragged arrays of random numbers."""
    rng = np.random.default_rng(1)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return [rng.integers(0, 2, (*size, channels)).astype(bool) for size in sizes]
    low = 0 if dtype.kind == "u" else -100
    return [rng.uniform(low, 100, (*size, channels)).astype(dtype) for size in sizes]


def tolerance(dtype):
    """Sums of floats depend on their order in the last bits of float64."""
    return {"rtol": {2: 1e-3, 4: 1e-6, 8: 1e-11}[dtype.itemsize], "atol": 1e-9} if dtype.kind == "f" else {}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "mean_square", "rms", "min", "max"])
def test_all_types(name, dtype):
    """Integers exactly, floats but for the order of additions."""
    close = {"rtol": 1e-6} if name not in ("min", "max") and (dtype.kind == "f" or name != "sum") else {}
    if dtype == np.float16 and name == "sum":
        close = {"rtol": 1e-3}
    for axes in ((0, 1), (2,)):
        assert_same(lambda axes=axes: getattr(fn.reductions, name)(arrays(dtype), axes=axes), **close)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("keep", [False, True])
def test_axes(axes, keep):
    """Any axes, neighbours or not, of three and of four channels."""
    for channels in (1, 3, 4):
        data = arrays(np.int16, channels)
        assert_same(lambda data=data: fn.reductions.sum(data, axes=axes, keep_dims=keep))
        assert_same(lambda data=data: fn.reductions.max(data, axes=axes, keep_dims=keep))
        assert_same(lambda data=data: fn.reductions.mean(data, axes=axes, keep_dims=keep), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(40000,), (17000, 3), (3, 20000), (70, 300), (70, 3, 290), (4, 17000, 2), (2, 70, 1)]
)
def test_long_ones_are_cut_into_chunks(shape):
    """Several blocks a result, rows at odd addresses, many columns, several outer axes."""
    data = np.random.default_rng(3).integers(-1000, 1000, shape)
    for axes in ((0,), (len(shape) - 1,), None):
        assert_same(lambda axes=axes: fn.reductions.sum([data], axes=axes))
        assert_same(lambda axes=axes: fn.reductions.min([data.astype(np.float32)], axes=axes))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axes", [None, (0, 1), (2,), (0,)])
@pytest.mark.parametrize("name", ["variance", "std_dev"])
def test_deviations(name, dtype, axes):
    """From the data and its mean, or one number for it."""
    data = arrays(dtype)
    means = fn.reductions.mean(data, axes=axes)
    assert_same(lambda: getattr(fn.reductions, name)(data, means, axes=axes), rtol=1e-5, atol=1e-5)
    single = [np.float32(3.5)] * len(data)
    assert_same(lambda: getattr(fn.reductions, name)(data, single, axes=axes, keep_dims=True), rtol=1e-5)
    if axes != (2,):
        data = arrays(dtype, sizes=SIZES[2:])
        assert_same(lambda: getattr(fn.reductions, name)(data, single[:2], axes=axes, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("target", [np.uint8, np.int32, np.uint64, np.float32, np.float64])
def test_asked_types(target):
    """Integer results are limited to their range and cut off."""
    for dtype in (np.uint8, np.float32):
        assert_same(lambda dtype=dtype: fn.reductions.sum(arrays(dtype), axes=(2,), dtype=target), rtol=1e-6)
        assert_same(lambda dtype=dtype: fn.reductions.mean(arrays(dtype), axes=(2,), dtype=target), rtol=1e-6)


def test_by_the_names_of_axes_and_of_nothing():
    """Letters of the layout; the sum of no elements is 0 and the mean refused."""
    data = TensorListCPU(arrays(), "HWC")
    assert_same(lambda: fn.reductions.sum(data, axis_names="C"), rtol=1e-6)
    empty = [np.zeros((0, 3), np.int32), np.zeros((2, 3), np.int32)]
    assert_same(lambda: fn.reductions.sum(empty, axes=0))
    assert_same(lambda: fn.reductions.sum([np.zeros((3, 0), np.float32)], axes=0))
    with pytest.raises(ValueError, match="the mean of no elements is not defined"):
        on_host(call_of(lambda: fn.reductions.mean(empty, axes=0)))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("axes", [None, (0, 1), (2,), (0, 2)])
def test_normalize(dtype, axes):
    """By the data's own mean and deviation over any axes."""
    assert_same(lambda: fn.normalize(arrays(dtype), axes=axes, scale=2.0, shift=1.0), atol=2e-4, rtol=2e-5)


@pytest.mark.parametrize("axes", [None, (0, 1), (2,)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float64])
def test_normalize_with_statistics_of_others(axes, dtype):
    """Given means and deviations, as numbers and as arrays of each sample; other result types."""
    data, close = arrays(), {"atol": 1 if dtype == np.uint8 else 2e-3, "rtol": 2e-3}
    options = {"axes": axes, "dtype": dtype, "scale": 30.0, "shift": 100.0}
    assert_same(lambda: fn.normalize(data, mean=5.0, **options), **close)
    assert_same(lambda: fn.normalize(data, stddev=20.0, epsilon=1.0, **options), **close)
    assert_same(lambda: fn.normalize(data, mean=5.0, stddev=20.0, **options), **close)
    if axes == (0, 1):
        assert_same(lambda: fn.normalize(data, mean=np.float32([1, 2, 3]), **options), **close)
        means = TensorListCPU([np.float32([[[1, 2, n]]]) for n in range(4)])
        assert_same(lambda: fn.normalize(data, mean=means, stddev=means, **options), **close)


@pytest.mark.parametrize("axes", [None, (0, 1)])
def test_normalize_a_whole_batch(axes):
    """One mean and one deviation for all samples."""
    assert_same(lambda: fn.normalize(arrays(), axes=axes, batch=True, ddof=1), atol=2e-4, rtol=2e-5)
    assert_same(lambda: fn.normalize(arrays(), axes=axes, batch=True, mean=3.0, epsilon=2.0), atol=2e-4, rtol=2e-5)
    assert_same(lambda: fn.normalize(arrays(np.uint8), axes=axes, batch=True, stddev=3.0), atol=2e-4, rtol=2e-5)
    with pytest.raises(ValueError, match="all samples must have one shape but for the reduced axes"):
        on_host(call_of(lambda: fn.normalize(arrays(), axes=0, batch=True)))


def test_normalize_of_constant_and_empty_data():
    """No deviation: the result is the shift. No data: no result."""
    assert_same(lambda: fn.normalize([np.full((9, 5), 7, np.uint8), np.zeros((0, 5), np.uint8)], shift=3.0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 2)])
def test_statistics_in_one_pass(dtype, axes):
    """Bytes and floats are read once for their mean and deviation: images with three results, and with one, of several chunks."""
    rng = np.random.default_rng(7)
    batch = [rng.integers(0, 255, (height, 150, 3)).astype(dtype) for height in (150, 40)]
    assert_same(lambda: fn.reductions.sum(batch, axes=axes), rtol=0 if dtype == np.uint8 else 1e-6)
    assert_same(lambda: fn.reductions.mean(batch, axes=axes), rtol=1e-6)
    call = call_of(lambda: fn.normalize(batch, axes=axes, ddof=1, epsilon=0.5, scale=3.0, shift=1.0))
    launches = []
    found, _ = on_host(call, launches)
    assert [name.partition("<")[0] for name in launches] == [
        "reduce.cu:sum_span",
        "reduce.cu:finish_moments",
        "reduce.cu:normalize_span",
    ]
    for x, result in zip(batch, found[0], strict=True):
        exact = x.astype(np.float64)
        mean = exact.mean(axes, keepdims=True)
        expected = 3 * (exact - mean) / np.sqrt(exact.var(axes, ddof=1, keepdims=True) + 0.5) + 1
        np.testing.assert_allclose(result, expected, atol=2e-5, rtol=2e-5)


def test_one_pass_far_from_zero():
    """Distances are taken from the first value: a small deviation of large numbers, none at all, and NaN."""
    rng = np.random.default_rng(7)
    large = (1e6 + rng.integers(0, 4, (40, 50)) * 0.25).astype(np.float32)
    assert_same(lambda: fn.normalize([large, np.full((9, 30), 0.1, np.float32)]), atol=2e-4, rtol=2e-5)
    large[3, 4] = np.nan
    (found,), _ = on_host(call_of(lambda: fn.normalize([large])))
    assert np.isnan(found[0]).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 2)])
@pytest.mark.parametrize("name", ["mean_square", "rms", "min", "max", "variance", "std_dev"])
def test_each_operation_has_kernels_for_bytes_and_floats(name, axes, dtype):
    """Several chunks, a rest that fills no vector, and images that begin at odd addresses in a row of results."""
    rng = np.random.default_rng(7)
    batch = [rng.integers(3, 200, (height, 151, 3)).astype(dtype) for height in (150, 40, 1)]
    inputs = [batch, [np.float32(90.5)] * 3] if name in ("variance", "std_dev") else [batch]
    exact = name in ("min", "max")
    assert_same(lambda: getattr(fn.reductions, name)(*inputs, axes=axes), rtol=0 if exact else 1e-6)
    launches = []
    on_host(call_of(lambda: getattr(fn.reductions, name)(*inputs, axes=axes)), launches)
    assert [launch.partition("<")[0] for launch in launches] == ["spans.cu:span", "reduce.cu:finish"]


def test_nan_is_the_extreme_of_its_channel():
    """As in NumPy, wherever it is; the other channels keep theirs."""
    data = np.random.default_rng(3).normal(size=(60, 70, 3)).astype(np.float32)
    for place in (0, 600, 4199):
        broken = data.copy()
        broken.reshape(-1, 3)[place, 1] = np.nan
        for name, extreme in (("min", np.min), ("max", np.max)):
            call = call_of(lambda name=name, broken=broken: getattr(fn.reductions, name)([broken], axes=(0, 1)))
            (found,), _ = on_host(call)
            np.testing.assert_array_equal(found[0], extreme(broken, (0, 1)))
