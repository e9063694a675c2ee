"""The GPU forms of one_hot, lookup_table and coord_transform give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host
from test_host_geometry import DTYPES, images, per_sample

from pipeflow import fn, types

OUTPUTS = [types.BOOL, types.UINT8, types.INT16, types.FLOAT16, types.FLOAT, types.INT32, types.FLOAT64, types.INT64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_hot(dtype):
    """Numbers of every type, in and out of range, along every place of the new axis."""
    batch = images(dtype, sizes=[(5, 7), (1, 1), (30, 2)])
    for axis in (-1, 0, 1, 2, 3):
        assert_same(lambda axis=axis: fn.one_hot(batch, num_classes=50, axis=axis))
    assert_same(lambda: fn.one_hot([dtype(3), dtype(0), dtype(1)], num_classes=3))
    for axis in (0, -1):
        ragged = [np.array([1], dtype), np.array([2, 0], dtype)]
        assert_same(lambda axis=axis, ragged=ragged: fn.one_hot(ragged, num_classes=3, axis=axis))
    for shape in ((1,), (1, 1)):
        assert_same(lambda shape=shape: fn.one_hot([np.full(shape, 1, dtype)], num_classes=3))


@pytest.mark.parametrize("dtype", OUTPUTS)
def test_values_of_one_hot(dtype):
    """On and off are converted as casts; fractions are cut off; there may be no classes."""
    batch = [np.array([-1.5, 0.9, 2.2, 300.0], np.float32), np.array([1.0, 1.9], np.float32)]
    assert_same(lambda: fn.one_hot(batch, num_classes=4, on_value=77.5, off_value=-3.0, dtype=dtype))
    assert_same(lambda: fn.one_hot(batch, num_classes=0, dtype=dtype))


@pytest.mark.parametrize("source", [dtype for dtype in DTYPES if np.dtype(dtype).kind in "ui"])
@pytest.mark.parametrize("target", OUTPUTS)
def test_look_up(source, target):
    """Keys of every integer type to values of every type; negative numbers and numbers without an entry get the default."""
    rng = np.random.default_rng(7)
    low = -5 if np.dtype(source).kind == "i" else 0
    batch = [rng.integers(low, 20, size).astype(source) for size in (1, 8, 9, 1000)] + [
        np.full(3, np.iinfo(source).max, source)
    ]
    assert_same(
        lambda: fn.lookup_table(batch, keys=[0, 3, 9], values=[1.0, 5.5, 9.0], default_value=-2.0, dtype=target)
    )


@pytest.mark.parametrize("source", DTYPES)
def test_coordinates(source):
    """Matrices that change the number of coordinates, factors, offsets, and both in one."""
    rng = np.random.default_rng(8)
    batch = [rng.integers(0, 100, (n, 3)).astype(source) for n in (1, 500, 4)]
    matrix = rng.normal(0, 1, 6).tolist()
    both = {"M": matrix, "T": (4.0, 5.0)}
    for options in ({"M": (2.0,)}, {"M": matrix}, {"T": (1.0, 2.0, 3.0)}, both, {"MT": [*matrix, 1, 2]}, {}):
        assert_same(lambda options=options: fn.coord_transform(batch, **options), rtol=1e-6, atol=1e-5)
        assert_same(lambda options=options: fn.coord_transform(batch, **options, dtype=types.INT32), atol=1.0)


def test_coordinates_of_each_sample():
    """A matrix for each; half precision and doubles; no points."""
    batch = [np.ones((n, 2), np.float32) for n in (3, 0, 5)]
    matrices = per_sample(*[np.eye(2, 3, dtype=np.float32) * k for k in (1, 2, 3)])
    for dtype in (types.FLOAT16, types.FLOAT64):
        assert_same(lambda dtype=dtype: fn.coord_transform(batch, MT=matrices, dtype=dtype))
    with pytest.raises(ValueError, match="need rows of 2"):
        on_host(call_of(lambda: fn.coord_transform(batch, M=(1.0, 2.0, 3.0))))


@pytest.mark.parametrize("dtype", OUTPUTS)
def test_constants(dtype):
    """Zeros, ones and repeated values of any shape, empty ones and single numbers too."""
    like = [np.zeros(shape, np.uint8) for shape in ((5, 7), (1, 1), (0, 3), (90, 100))]
    for name in ("zeros", "ones"):
        assert_same(lambda name=name: getattr(fn, f"{name}_like")(like, dtype=dtype))
        for shape in ((3, 50), (), (0, 4)):
            assert_same(lambda name=name, shape=shape: getattr(fn, name)(shape=shape, dtype=dtype))
    typed = [x.astype(types.as_dtype(dtype)) for x in like]
    assert_same(lambda: fn.full_like(typed, [np.float32(300.7)] * 4))
    assert_same(lambda: fn.full_like(typed[:1], [np.arange(7, dtype=np.int16)]))
    row = [np.arange(6).astype(types.as_dtype(dtype)).reshape(2, 1, 3)] * 2
    assert_same(lambda: fn.full(row, shape=(2, 5, 3)))
    assert_same(lambda: fn.full(row))
    assert_same(lambda: fn.constant(fdata=[0.5, 300.7, -3.2, 7], shape=(2, 1, 2), dtype=dtype))
    for shape in (None, (), (3, 50), (0, 4)):
        assert_same(lambda shape=shape: fn.constant(idata=7, shape=shape, dtype=dtype))
    with pytest.raises(ValueError, match="broadcast"):
        on_host(call_of(lambda: fn.full(row, shape=(2, 5, 4))))
