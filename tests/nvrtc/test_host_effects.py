"""Effects, random changes of colour and quarter turns on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

SIZES = [(5, 7), (1, 1), (33, 2), (24, 65)]
TYPES = [np.uint8, np.int16, np.float32, np.float64]


def images(dtype=np.uint8, channels=3, sizes=SIZES):
    """Ragged images of random numbers."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 120, (*size, channels)).astype(dtype) for size in sizes]


def clips(channels=3):
    """Sequences of different lengths."""
    rng = np.random.default_rng(2)
    return TensorListCPU([rng.integers(0, 255, (frames, 6, 7, channels), np.uint8) for frames in (1, 3)], "FHWC")


def each(*values):
    """An argument with a value for each image."""
    return TensorListCPU([np.float32(value) for value in values])


def close(dtype):
    """Sums of products may be rounded otherwise where the processor does not fuse them."""
    return {"atol": 1} if np.dtype(dtype).kind in "ui" else {"rtol": 1e-4, "atol": 1e-3}


@pytest.mark.parametrize("dtype", TYPES)
def test_filters_of_neighbours(dtype):
    """Sharpening, enhancing and motion blur, in every type, with arguments of each image's own."""
    assert_same(lambda: fn.sharpen(images(dtype), alpha=each(0, 0.3, 1, 0.5), lightness=1.2), **close(dtype))
    assert_same(lambda: fn.enhance(images(dtype), mode="edges", alpha=0.7), **close(dtype))
    assert_same(lambda: fn.enhance(images(dtype), mode="details"), **close(dtype))
    assert_same(
        lambda: fn.motion_blur(images(dtype), size=7, angle=each(0, 30, 90, 200), direction=0.5), **close(dtype)
    )


def test_unsharp_mask():
    """With a threshold and without, frames too."""
    assert_same(lambda: fn.unsharp_mask(images(), sigma=each(0.5, 1, 1.5, 2), amount=0.8), atol=1)
    assert_same(lambda: fn.unsharp_mask(clips(), amount=2.0, threshold=10.0), atol=1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_channels(dtype, channels):
    """Channels in another order, and filled ones: equal to the last bit."""
    assert_same(lambda: fn.channel_shuffle(images(dtype, channels)))
    assert_same(lambda: fn.channel_dropout(images(dtype, channels), fill=9.7))
    assert_same(lambda: fn.channel_dropout(images(dtype, channels), count=0))
    assert_same(lambda: fn.channel_shuffle(clips(channels)))
    assert_same(lambda: fn.channel_dropout(clips(channels), count=channels, fill=300.0))


def test_channel_shift():
    """One number, and one for each channel."""
    assert_same(lambda: fn.channel_shift(images(), shift=[100.0, -60.0, 300.0]))
    assert_same(lambda: fn.channel_shift(images(channels=2), shift=[-7.0]))
    assert_same(lambda: fn.channel_shift(clips(), shift=[1.0, 2.0, 3.0]))


@pytest.mark.parametrize("dtype", TYPES)
def test_jigsaw_and_quarter_turns(dtype):
    """Parts and pixels change places; nothing is computed."""
    for grid in ((4, 4), (2, 3), (5,)):
        assert_same(lambda grid=grid: fn.jigsaw(images(dtype), grid=grid))
    for times in range(-1, 5):
        assert_same(lambda times=times: fn.rotate90(images(dtype), times=times))
    planes = TensorListCPU([image[..., 0].copy() for image in images(dtype)], "HW")
    assert_same(lambda: fn.rotate90(planes, times=TensorListCPU([np.int32(n) for n in range(4)])))
    assert_same(lambda: fn.jigsaw(clips(), grid=(2, 3)))
    assert_same(lambda: fn.rotate90(clips(), times=3))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_random_colors(dtype):
    """The matrices are drawn as on the CPU, another one for each image."""
    assert_same(lambda: fn.color_jitter(images(dtype)), **close(dtype))
    assert_same(lambda: fn.photometric_distort(images(dtype), prob=each(0, 0.5, 1, 0.5)), **close(dtype))
    assert_same(lambda: fn.planckian_jitter(images(dtype)), **close(dtype))
    assert_same(lambda: fn.planckian_jitter(images(dtype), temperature=each(1000, 4000, 6504, 40000)), **close(dtype))
    assert_same(lambda: fn.color_jitter(clips()), atol=1)


def test_wrong_arguments_are_refused():
    """With the CPU's messages."""
    for call, message in (
        (lambda: fn.sharpen(images(), alpha=2.0), "alpha must be from 0 to 1, got 2"),
        (lambda: fn.motion_blur(images(), size=4), "size must be an odd number"),
        (lambda: fn.unsharp_mask(images(), sigma=-1.0), "sigma must be above 0"),
        (lambda: fn.channel_dropout(images(), count=4), "count must be from 0 to 3"),
        (lambda: fn.channel_shift(images(), shift=[1.0, 2.0]), "shift must be one number or 3"),
        (lambda: fn.jigsaw(images(), grid=(0, 2)), "grid must be one or two numbers"),
        (lambda: fn.photometric_distort(images(), prob=1.5), "prob must be from 0 to 1"),
        (lambda: fn.planckian_jitter(images(), temperature=10.0), "temperature must be from 1000 to 40000"),
        (lambda: fn.color_jitter(images(channels=4)), "color_jitter needs 3 channels"),
    ):
        with pytest.raises(ValueError, match=message):
            on_host(call_of(call))
