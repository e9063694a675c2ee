"""fn.decoders.image_crop, image_random_crop and image_slice: the same pixels as decoding and then cutting."""

import numpy as np
import pytest
from decoders.pictures import JPEG, LOSSLESS, RGB, bytes_of, exif, pillow

from pipeflow import fn, pipeline_def, types

PNG = bytes_of(LOSSLESS["png rgb"][0])
TURNED = bytes_of(pillow(RGB, "JPEG", quality=90, exif=exif(6)))


@pytest.mark.parametrize(
    "arguments",
    [
        {"crop": (20, 30)},
        {"crop": 10},
        {"crop_h": 12},
        {"crop_w": 7, "crop_pos_x": 1.0},
        {"crop": (21, 32), "crop_pos_x": 0.3, "crop_pos_y": 0.9},
        {"crop": (21, 32), "rounding": "truncate"},
        {},
    ],
)
@pytest.mark.parametrize("data", [PNG, TURNED], ids=["png", "turned jpeg"])
def test_image_crop_is_decode_and_crop(data, arguments):
    """Sizes, positions and rounding are those of fn.crop, in the turned image."""
    expected = fn.crop(fn.decoders.image(data), **arguments)
    got = fn.decoders.image_crop(data, **arguments)
    np.testing.assert_array_equal(got, expected)
    assert got.flags.c_contiguous


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": (10, 5), "shape": (20, 15)},
        {"rel_start": (0.1, 0.2), "rel_end": (0.5, 0.9)},
        {"end": (20, 30)},
        {"rel_shape": (0.5, 0.5), "axes": (0, 1), "axis_names": ""},
    ],
)
def test_image_slice_is_decode_and_slice(arguments):
    """All forms of fn.slice, width first unless told otherwise."""
    np.testing.assert_array_equal(
        fn.decoders.image_slice(TURNED, **arguments), fn.slice(fn.decoders.image(TURNED), **arguments)
    )


def test_image_slice_along_one_named_axis():
    """An image has a height and a width by name."""
    np.testing.assert_array_equal(fn.decoders.image_slice(PNG, start=(4,), axis_names="H"), RGB[4:])
    np.testing.assert_array_equal(fn.decoders.image_slice(PNG, end=(4,), axis_names="W"), RGB[:, :4])


def test_image_slice_takes_anchor_and_shape_as_inputs():
    """Floats are relative, integers are pixels."""
    anchor, shape = np.array([0.1, 0.2], np.float32), np.array([0.5, 0.25], np.float32)
    expected = fn.slice(fn.decoders.image(PNG), anchor, shape)
    np.testing.assert_array_equal(fn.decoders.image_slice(PNG, anchor, shape), expected)
    pixels = fn.decoders.image_slice(PNG, np.array([3, 4]), np.array([10, 12]))
    np.testing.assert_array_equal(pixels, RGB[4:16, 3:13])


def test_random_crops_lie_inside_and_follow_their_arguments():
    """Over many keys: every crop is a part of the image, with area and aspect ratio in range."""
    shapes = []
    for key in range(200):
        got = fn.decoders.image_random_crop(PNG, random_area=(0.2, 0.6), random_aspect_ratio=(0.5, 2.0), key=key)
        assert got.size
        height, width, _ = got.shape
        shapes.append((height, width))
        assert 0.15 < height * width / (37 * 53) < 0.65
        assert 0.4 < width / height < 2.4
    assert len(set(shapes)) > 100


def test_a_random_crop_in_another_type():
    """The window is that of the bytes; its values keep their share of the range."""
    whole = fn.decoders.image_random_crop(PNG, key=3)
    assert np.allclose(fn.decoders.image_random_crop(PNG, key=3, dtype=types.FLOAT), whole / np.float32(255), atol=1e-6)
    assert np.array_equal(fn.decoders.image_random_crop(PNG, key=3, dtype=types.UINT16), whole.astype(np.uint16) * 257)


def test_a_random_crop_is_a_part_of_the_image_and_repeats_with_its_key():
    """The pixels are those at some place of the whole image, the same for the same key."""
    whole = fn.decoders.image(PNG)
    for key in range(20):
        got = fn.decoders.image_random_crop(PNG, key=key)
        height, width, _ = got.shape
        windows = np.lib.stride_tricks.sliding_window_view(whole, (height, width, 3))[:, :, 0]
        assert (windows == got).all(axis=(2, 3, 4)).any()
        np.testing.assert_array_equal(got, fn.decoders.image_random_crop(PNG, key=key))


def test_crops_in_a_pipeline_do_not_depend_on_threads(tmp_path):
    """One draw a sample, whatever thread decodes it."""
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(JPEG["jpeg"])
    paths = [str(tmp_path / f"{number}.jpg") for number in range(6)]

    def crops(num_threads):
        @pipeline_def(batch_size=6, num_threads=num_threads, seed=4)
        def define():
            return fn.decoders.image_random_crop(fn.readers.file(files=paths)[0])

        return define().run()[0].samples()

    first, second = crops(1), crops(3)
    assert len({crop.shape for crop in first}) > 1
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fn.decoders.image_crop(PNG, crop=(38, 10)),
            "region of 38 x 10 .* does not lie inside the image of 37 x 53",
        ),
        (lambda: fn.decoders.image_slice(PNG, start=(50, 0), shape=(10, 10)), "does not lie inside"),
        (lambda: fn.decoders.image_slice(PNG, start=(1,), axes=(2,), axis_names=""), "not along axes"),
        (lambda: fn.decoders.image_slice(PNG, start=(1, 1), rel_start=(0.1, 0.1)), "mutually exclusive"),
        (
            lambda: fn.decoders.image_random_crop(PNG, random_area=(0.5, 0.1)),
            "random_area must be two positive numbers",
        ),
        (lambda: fn.decoders.image_random_crop(PNG, num_attempts=0), "num_attempts must be at least 1, got 0"),
        (lambda: fn.decoders.image_crop(PNG, crop=(3, 3), rounding="up"), "rounding"),
        (lambda: fn.decoders.image_crop(PNG, crop=(3, 3), dtype=types.BOOL), "cannot be decoded to bool"),
    ],
)
def test_windows_that_cannot_be_are_refused(call, message):
    """Out of the image, or contradicting themselves."""
    with pytest.raises((ValueError, RuntimeError), match=message):
        call()
