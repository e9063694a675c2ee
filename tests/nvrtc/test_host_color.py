"""The GPU forms of the colour operators give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

SIZES = [(5, 7), (1, 1), (33, 2), (64, 65)]
TYPES = in_order(NUMBERS)
SPACES = [types.RGB, types.BGR, types.YCbCr, types.GRAY]


def images(dtype=np.uint8, channels=3, sizes=SIZES):
    """Ragged images of random numbers."""
    rng = np.random.default_rng(1)
    top = 1 if np.dtype(dtype).kind == "b" else 120
    return [rng.integers(0, top + 1, (*size, channels)).astype(dtype) for size in sizes]


def tolerance(dtype):
    """Fused products are rounded alike where the processor has them; without, an integer may be one off."""
    return {"atol": 1} if np.dtype(dtype).kind in "ui" else {"rtol": 1e-5, "atol": 1e-4}


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("target", [None, np.uint8, np.int16, np.float16, np.float32])
def test_brightness_and_contrast(source, target):
    """Exactly, in every type; the factors of each sample are its own."""
    given = {} if target is None else {"dtype": target}
    factors = TensorListCPU([np.float32(x) for x in (0.5, 1.25, 2, 0)])
    if source == np.bool_ and target is None:
        given = {"dtype": np.float32}
    assert_same(lambda: fn.brightness(images(source), brightness=factors, brightness_shift=0.125, **given))
    assert_same(lambda: fn.contrast(images(source), contrast=factors, **given))
    assert_same(lambda: fn.contrast(images(source), contrast=1.5, contrast_center=3.0, **given))
    assert_same(lambda: fn.brightness_contrast(images(source), brightness=1.5, contrast=factors, **given))


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("target", [np.uint8, np.int32, np.float16, np.float32, np.float64])
def test_color_twist(source, target):
    """Every type, each sample with its own angle."""
    angles = TensorListCPU([np.float32(x) for x in (10, -45, 0, 200)])
    assert_same(
        lambda: fn.color_twist(images(source), hue=angles, saturation=1.3, brightness=0.9, contrast=1.2, dtype=target),
        **tolerance(target),
    )


def test_hue_saturation_and_value():
    """The operators with a part of the arguments; hsv gives bytes by default."""
    assert_same(lambda: fn.hsv(images(np.float32), hue=30, saturation=0.5, value=1.5), atol=1)
    assert_same(lambda: fn.hsv(images(), hue=30, saturation=0.5, value=1.5, dtype=types.FLOAT), rtol=1e-5, atol=1e-4)
    assert_same(lambda: fn.hue(images(), hue=77), atol=1)
    assert_same(lambda: fn.saturation(images(), saturation=0.1), atol=1)


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale(channels):
    """One channel or three, of bytes, floats and other numbers."""
    assert_same(lambda: fn.grayscale(images(), channels=channels), atol=1)
    assert_same(lambda: fn.grayscale(images(np.int16), channels=channels), atol=1)
    assert_same(lambda: fn.grayscale(images(np.float32), channels=channels), rtol=1e-5, atol=1e-4)


def test_frames_have_their_own_arguments():
    """Sequences frame by frame, also where frames do not begin at multiples of eight bytes."""
    rng = np.random.default_rng(2)
    clips = TensorListCPU([rng.integers(0, 255, (frames, 5, 3, 3), np.uint8) for frames in (1, 3)], "FHWC")
    factors = fn.per_frame(TensorListCPU([np.float32([2]), np.float32([1, 0.5, 0.25])]))
    assert_same(lambda: fn.brightness(clips, brightness=factors))
    assert_same(lambda: fn.hue(clips, hue=25), atol=1)


@pytest.mark.parametrize("source", SPACES)
@pytest.mark.parametrize("target", SPACES)
def test_color_space_conversion(source, target):
    """Every space to every space."""
    channels = 1 if source == types.GRAY else 3
    assert_same(
        lambda: fn.color_space_conversion(images(channels=channels), image_type=source, output_type=target), atol=1
    )


def test_what_has_no_colours_is_refused():
    """With the CPU's message."""
    with pytest.raises(ValueError, match="hue needs 3 channels, the image has 4"):
        assert_same_error(lambda: fn.hue(images(channels=4), hue=25))
    with pytest.raises(ValueError, match=r"types.RGB has 3 channel\(s\), the image has 1"):
        assert_same_error(
            lambda: fn.color_space_conversion(images(channels=1), image_type=types.RGB, output_type=types.GRAY)
        )


def assert_same_error(function):
    """Runs the GPU form alone."""
    on_host(call_of(function))
