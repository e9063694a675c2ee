"""Resizing along any axes: values by hand, and equal to resize where that does the same."""

import numpy as np
import pytest

from pipeflow import fn, types

F = np.float32
ROW = np.array([0, 100, 200, 250], F)
TABLE = np.arange(15, dtype=F).reshape(3, 5)


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_by_hand():
    """Halves with a triangle of twice the width; nearest; a scale that does not come out, aligned at its start or its end."""
    assert fn.tensor_resize(ROW, sizes=2).tolist() == [62.5, 212.5]
    assert fn.tensor_resize(ROW, sizes=2, antialias=False).tolist() == [50, 225]
    assert fn.tensor_resize(ROW, sizes=2, interp_type=types.INTERP_NN).tolist() == [100, 250]
    # 4 * 0.6 = 2.4 -> 2, which shows 4 * 2 / 2.4 = 3.33 of the row: its beginning, its middle or its end
    assert np.allclose(fn.tensor_resize(ROW, scales=0.6, alignment=0.0), [37.5, 188.8889])
    assert np.allclose(fn.tensor_resize(ROW, scales=0.6), [75, 206.25])
    assert np.allclose(fn.tensor_resize(ROW, scales=0.6, alignment=1.0), [100, 231.25])
    assert np.allclose(fn.tensor_resize(ROW, scales=0.6, subpixel_scale=False), [62.5, 212.5])
    assert fn.tensor_resize(ROW, scales=0.6, size_rounding="ceil").shape == (3,)
    assert fn.tensor_resize(ROW[::-1].copy(), sizes=-4).tolist() == ROW.tolist()
    assert fn.tensor_resize(ROW, sizes=2, roi_start=0.0, roi_end=0.5, roi_relative=True).tolist() == [0, 100]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"sizes": (6, 5)}, (6, 5)), ({"sizes": 2, "axes": 1}, (3, 2)), ({"sizes": 2, "axes": -1}, (3, 2)),
        ({"sizes": (2, 3), "axes": (1, 0)}, (3, 2)), ({"sizes": (2, 0)}, (2, 3)),  # 5 * 2 / 3 = 3.3
        ({"sizes": (7, 7), "mode": "not_larger"}, (4, 7)), ({"sizes": (7, 7), "mode": "not_smaller"}, (7, 12)),
        ({"sizes": (4, 0), "mode": "stretch"}, (4, 5)), ({"sizes": (7, 7), "max_size": 5}, (5, 5)),
        ({"scales": (2.0, 0.0)}, (6, 10)), ({"sizes": (0, 0)}, (3, 5)),
    ],
    ids=str,
)  # fmt: skip
def test_shapes(options, shape):
    """Axes by number, in any order; extents that follow the ratio, and limits."""
    assert fn.tensor_resize(TABLE, **options).shape == shape


def test_an_image_is_resized_as_resize_does_it():
    """Two neighbouring axes, bytes and floats; and one axis after another is the same up to rounding."""
    image = np.random.default_rng(1).integers(0, 256, (21, 33, 3), dtype=np.uint8)
    for filter_of in (types.INTERP_LINEAR, types.INTERP_NN, types.INTERP_CUBIC):
        options = {"interp_type": filter_of}
        expected = fn.resize(image, size=(15, 44), **options)
        assert (fn.tensor_resize(image, sizes=(15, 44), axes=(0, 1), **options) == expected).all()
        floats = fn.tensor_resize(image, sizes=(15, 44), axes=(0, 1), dtype=types.FLOAT, **options)
        tall = fn.tensor_resize(image, sizes=15, axes=0, dtype=types.FLOAT, **options)
        assert np.allclose(fn.tensor_resize(tall, sizes=44, axes=1, **options), floats, atol=1e-2)


def test_many_axes_at_once():
    """Four axes of five, by one call and one after another; numbers of 32 bits are copied as they are by the nearest ones."""
    rng = np.random.default_rng(2)
    data = rng.normal(0, 9, (4, 3, 5, 2, 6)).astype(F)
    sizes, axes = (3, 5, 4, 9), (0, 1, 2, 4)
    step = data
    for size, axis in zip(sizes, axes):
        step = fn.tensor_resize(step, sizes=size, axes=axis)
    assert np.allclose(fn.tensor_resize(data, sizes=sizes, axes=axes), step, atol=1e-4)
    whole = rng.integers(-(2**31), 2**31, (5, 4, 6)).astype(np.int32)
    found = fn.tensor_resize(whole, sizes=(10, 12), axes=(0, 2), interp_type=types.INTERP_NN)
    assert (found == whole.repeat(2, 0).repeat(2, 2)).all()
    same = fn.tensor_resize(whole, sizes=(5, 4, 6), dtype=types.FLOAT)
    assert (same == whole.astype(F)).all()


def test_wrong_resizes_are_explained():
    """Sizes and scales, axes and letters, modes and roundings that do not go together."""
    resize = fn.tensor_resize
    refused("give either sizes or scales", ValueError, lambda: resize(TABLE))
    refused("give either sizes or scales", ValueError, lambda: resize(TABLE, sizes=(2, 2), scales=(1.0, 1.0)))
    refused(
        "axes and axis_names exclude each other", ValueError, lambda: resize(TABLE, sizes=2, axes=0, axis_names="A")
    )
    refused("sizes has 3 values for 2 axes", ValueError, lambda: resize(TABLE, sizes=(2, 2, 2)))
    refused("scales exclude mode='not_larger'", ValueError, lambda: resize(TABLE, scales=2.0, mode="not_larger"))
    refused("size_rounding must be one of round", ValueError, lambda: resize(TABLE, sizes=2, size_rounding="floor"))
    refused("mode must be one of", ValueError, lambda: resize(TABLE, sizes=2, mode="x"))
    refused("axis 2 is out of range", ValueError, lambda: resize(TABLE, sizes=2, axes=2))
    refused("a single number has no axes", ValueError, lambda: resize(np.float32(3), sizes=2))
    refused("has no elements", ValueError, lambda: resize(np.zeros((0, 3), F), sizes=2, axes=1))
