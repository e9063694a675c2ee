"""Numbers of the image operators worked out on paper, one small case for each rule that has an arithmetic of its own."""

import numpy as np
import pytest
from generate_docs import public

from pipeflow import fn, pipeline_def, types
from pipeflow.tensors import TensorListCPU

RNG = np.random.default_rng(3)
NEAREST, LINEAR = types.INTERP_NN, types.INTERP_LINEAR
FILTERS = [
    types.INTERP_NN,
    types.INTERP_LINEAR,
    types.INTERP_CUBIC,
    types.INTERP_LANCZOS3,
    types.INTERP_TRIANGULAR,
    types.INTERP_GAUSSIAN,
]


def ramp(extent, dtype=np.float32):
    """An image of one row whose pixel i has the value i: a linear filter gives back the place it looks at."""
    return np.arange(extent, dtype=dtype).reshape(1, extent, 1)


def pixels(*values, dtype=np.uint8):
    """One row of pixels of three equal channels."""
    return np.repeat(np.array(values, dtype), 3).reshape(1, len(values), 3)


# ----------------------------------------------------------------------------------------------------
# Resizing


# Extents for which no pixel lies on the very edge of a filter, where rounding would decide whether it counts.
@pytest.mark.parametrize("size", [(6, 8), (18, 32), (6, 32), (18, 8)])
@pytest.mark.parametrize("shrinking", FILTERS)
@pytest.mark.parametrize("stretching", FILTERS)
def test_a_mirrored_resize_is_the_mirror_of_the_plain_one(size, shrinking, stretching):
    """Whatever the filters, each axis uses the same one with a negative size as with a positive one."""
    image = RNG.integers(0, 256, (11, 14, 2), dtype=np.uint8)
    filters = {"min_filter": shrinking, "mag_filter": stretching}
    plain = fn.resize(image, size=size, dtype=types.FLOAT, **filters)
    for rows, columns in ((1, -1), (-1, 1), (-1, -1)):
        mirrored = fn.resize(image, size=(rows * size[0], columns * size[1]), dtype=types.FLOAT, **filters)
        np.testing.assert_allclose(mirrored, plain[::rows, ::columns], atol=2e-3)


def test_shrinking_and_stretching_have_filters_of_their_own():
    """Of 9 pixels every third is picked by the nearest neighbour; stretched by 2, a linear filter looks at quarters."""
    filters = {"min_filter": NEAREST, "mag_filter": LINEAR}
    assert fn.resize(ramp(9), size=(1, 3), **filters).ravel().tolist() == [1, 4, 7]
    assert fn.resize(ramp(9), size=(1, -3), **filters).ravel().tolist() == [7, 4, 1]
    assert fn.resize(ramp(3), size=(1, 6), **filters).ravel().tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2]
    turned = {"min_filter": LINEAR, "mag_filter": NEAREST, "antialias": False}
    assert fn.resize(ramp(3), size=(1, 6), **turned).ravel().tolist() == [0, 0, 1, 1, 2, 2]
    assert fn.resize(ramp(8), size=(1, 4), **turned).ravel().tolist() == [0.5, 2.5, 4.5, 6.5]


def test_subpixel_scale_keeps_the_asked_scale_around_the_middle():
    """Ten pixels to 4.4: four pixels are made, 10 / 4.4 = 2.2727 apart; without, the whole row is spread over them.

    The first looks at 5 - 1.5 * 2.2727 = 1.5909, which is 1.0909 in pixel numbers.
    """
    given = {"resize_x": 4.4, "resize_y": 1.0, "antialias": False}
    scaled = fn.resize(ramp(10), **given).ravel()
    np.testing.assert_allclose(scaled, 4.5 + np.array([-1.5, -0.5, 0.5, 1.5]) * 10 / 4.4, atol=1e-5)
    spread = fn.resize(ramp(10), subpixel_scale=False, **given).ravel()
    np.testing.assert_allclose(spread, [0.75, 3.25, 5.75, 8.25], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        # 11 x 14 times max(22 / 11, 22 / 14) = 2 would be 22 x 28; the limits allow min(15 / 11, 40 / 14) = 1.364.
        ({"size": (22, 22), "mode": "not_smaller", "max_size": (15, 40)}, (15, 19)),
        # min(40 / 11, 21 / 14) = 1.5
        ({"size": (22, 22), "mode": "not_smaller", "max_size": (40, 21)}, (17, 21)),
        ({"size": (22, 22), "mode": "not_larger", "max_size": (15, 40)}, (15, 19)),
        # each axis by itself where the ratio is free
        ({"size": (22, 22), "mode": "stretch", "max_size": (15, 40)}, (15, 22)),
        ({"size": (22, 0), "mode": "default", "max_size": (15, 40)}, (15, 28)),
    ],
    ids=str,
)
def test_limits_of_a_resize_are_in_the_order_of_the_axes(arguments, shape):
    """``max_size`` of several values limits each axis by its own."""
    assert fn.resize(np.zeros((11, 14, 3), np.uint8), **arguments).shape == (*shape, 3)


@pytest.mark.parametrize("mirror", range(8))
def test_a_crop_after_a_resize_mirrors_each_axis_by_its_bit(mirror):
    """1 turns the columns, 2 the rows, 4 the slices of a volume, each once."""
    volume = TensorListCPU([RNG.integers(0, 256, (6, 7, 8, 2), dtype=np.uint8)], "DHWC")
    given = {"size": (9, 5, 12), "crop": (4, 5, 6), "interp_type": LINEAR}
    plain = fn.resize_crop_mirror(volume, mirror=0, **given).at(0)
    turned = fn.resize_crop_mirror(volume, mirror=mirror, **given).at(0)
    assert plain.shape == (4, 5, 6, 2)
    steps = [-1 if mirror & bit else 1 for bit in (4, 2, 1)]
    assert np.array_equal(turned, plain[:: steps[0], :: steps[1], :: steps[2]])
    assert mirror == 0 or not np.array_equal(turned, plain)


def of_the_operator(image, filters, mirror, size):
    return fn.resize_crop_mirror(image, size=size, crop=(5, 6), mirror=mirror, **filters)


def of_a_chain(image, filters, mirror, size):
    """The same steps in a pipeline, where they become one."""

    def define():
        resized = fn.resize(fn.external_source(lambda: [image], layout="HWC"), size=size, **filters)
        return fn.crop_mirror_normalize(
            resized, crop=(5, 6), mirror=mirror & 1, dtype=types.FLOAT, std=[2.0], output_layout="HWC"
        )

    return np.asarray(pipeline_def(define, batch_size=1, num_threads=1, device_id=None)().run()[0].at(0))


# Operators with a mirror and filters -> the mirrors that they have.
MIRRORING = {"resize_crop_mirror": (of_the_operator, (1, 2, 3)), "resize+crop_mirror_normalize": (of_a_chain, (1,))}


def test_every_operator_with_a_mirror_and_filters_is_tested():
    """One more would be tested below."""
    names = {op.name: {param.name for param in op.params} for op in public()}
    assert {name for name, found in names.items() if {"mirror", "mag_filter"} <= found} == {"resize_crop_mirror"}


@pytest.mark.parametrize("size", [(6, 8), (18, 32)], ids=["smaller", "larger"])
@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("name", MIRRORING)
def test_a_window_is_mirrored_after_every_filter(name, kind, size):
    """The same pixels in the other order."""
    call, mirrors = MIRRORING[name]
    image = RNG.integers(0, 256, (11, 14, 3), dtype=np.uint8)
    filters = {"min_filter": kind, "mag_filter": kind}
    plain = call(image, filters, 0, size)
    assert plain.shape == (5, 6, 3)
    for mirror in mirrors:
        turned = plain[:: -1 if mirror & 2 else 1, :: -1 if mirror & 1 else 1]
        np.testing.assert_allclose(call(image, filters, mirror, size), turned, atol=1e-4)


# ----------------------------------------------------------------------------------------------------
# Windows


def test_a_centred_rectangle_reaches_half_its_size_to_both_sides():
    """Three pixels around 5.0 begin at 3.5, which is pixel 3, and end before 6.5, which is pixel 6."""
    erased = fn.erase(np.ones((10, 1), np.uint8), anchor=(5.0,), shape=(3.0,), axes=(0,), centered_anchor=True)
    assert erased.ravel().tolist() == [1, 1, 1, 0, 0, 0, 1, 1, 1, 1]
    four = fn.erase(np.ones((10, 1), np.uint8), anchor=(5.0,), shape=(4.0,), axes=(0,), centered_anchor=True)
    assert four.ravel().tolist() == [1, 1, 1, 0, 0, 0, 0, 1, 1, 1]


def test_both_ends_of_a_slice_are_rounded():
    """From 1.4 to 8.6 of ten elements is from 1 to 9: eight elements, though the two are 7.2 apart."""
    data = np.arange(10)
    assert fn.slice(data, rel_start=0.14, rel_end=0.86, axes=0).tolist() == list(range(1, 9))
    assert fn.slice(data, rel_start=0.14, rel_shape=0.72, axes=0).tolist() == list(range(1, 9))
    # from 2.6 to 7.4 is from 3 to 7
    assert fn.slice(data, rel_start=0.26, rel_end=0.74, axes=0).tolist() == list(range(3, 7))


# ----------------------------------------------------------------------------------------------------
# Colours


@pytest.mark.parametrize(
    ("dtype", "middle"), [(np.uint8, 128), (np.int8, 64), (np.uint16, 32768), (np.int16, 16384), (np.int32, 2**30)]
)
def test_contrast_is_around_the_middle_of_the_positive_range(dtype, middle):
    """Contrast 0 gives the middle everywhere; that of a signed type is half of its maximum."""
    image = np.array([0, 1, 100], dtype).reshape(1, 3, 1)
    assert fn.contrast(image, contrast=0.0).ravel().tolist() == [middle] * 3
    both = fn.brightness_contrast(image, contrast=0.0, brightness=1.5, dtype=types.INT64)
    assert both.ravel().tolist() == [middle * 3 // 2] * 3


def test_the_middle_of_floats_is_one_half():
    """0.5 + 2 * (x - 0.5)"""
    image = np.array([0.0, 0.5, 1.0], np.float32).reshape(1, 3, 1)
    assert fn.contrast(image, contrast=2.0).ravel().tolist() == [-0.5, 0.5, 1.5]


def test_a_shift_of_brightness_is_a_share_of_the_range_of_the_result():
    """Half the range is 0.5 of floats, 127.5 of bytes and 16383.5 of 16 bits, whatever type came in."""
    bytes_in, floats_in = np.full((1, 1, 1), 10, np.uint8), np.full((1, 1, 1), 0.25, np.float32)
    for call in (fn.brightness, fn.brightness_contrast):
        assert call(bytes_in, brightness_shift=0.5, dtype=types.FLOAT).item() == 10.5
        assert call(bytes_in, brightness_shift=0.5, dtype=types.INT16).item() == 16394  # 10 + 16383.5, halves up
        assert call(floats_in, brightness_shift=0.5, dtype=types.UINT8).item() == 128  # 0.25 + 127.5
        assert call(floats_in, brightness_shift=0.5).item() == 0.75


def test_a_twist_applies_brightness_to_the_centre_of_contrast_too():
    """2 * (128 + 0.5 * (100 - 128)) = 228, and for floats 2 * (0.5 + 0.5 * (0.25 - 0.5)) = 0.75."""
    assert fn.color_twist(pixels(100), brightness=2.0, contrast=0.5).ravel().tolist() == [228] * 3
    floats = fn.color_twist(pixels(0.25, dtype=np.float32), brightness=2.0, contrast=0.5)
    np.testing.assert_allclose(floats.ravel(), [0.75] * 3, atol=1e-6)


# ----------------------------------------------------------------------------------------------------
# Names of axes


@pytest.mark.parametrize(
    ("axes", "names", "shape", "layout"),
    [
        ((0, 2), "AB", (1, 3, 1, 4), "AHBW"),
        ((2, 0), "AB", (1, 3, 1, 4), "BHAW"),
        ((-1, 0), "AB", (1, 3, 4, 1), "BHWA"),
        ((3, 1), "AB", (3, 1, 4, 1), "HBWA"),
    ],
)
def test_new_axes_have_the_names_that_are_given_for_them(axes, names, shape, layout):
    """The n-th name is that of the n-th axis, in whatever order the axes are given."""
    batch = fn.expand_dims(TensorListCPU([np.zeros((3, 4))], "HW"), axes=axes, new_axis_names=names)
    assert batch.at(0).shape == shape
    assert batch.layout() == layout


def test_the_layout_follows_a_transposition_unless_it_is_to_stay():
    """The letters move with the axes; they stay, or are others, on request."""
    image = TensorListCPU([np.zeros((3, 4, 2))], "HWC")
    for given, layout in (
        ({}, "CHW"),
        ({"transpose_layout": False}, "HWC"),
        ({"output_layout": "ABC"}, "ABC"),
        ({"output_layout": "ABC", "transpose_layout": False}, "ABC"),
    ):
        turned = fn.transpose(image, perm=(2, 0, 1), **given)
        assert turned.at(0).shape == (2, 3, 4)
        assert turned.layout() == layout
