"""Blurring and JPEG's distortion on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

TYPES = [dtype for dtype in in_order(NUMBERS) if dtype.kind != "b"]
SIZES = [(5, 7), (1, 1), (33, 2), (24, 65), (2, 150)]


def images(dtype=np.uint8, sizes=SIZES, channels=(3,)):
    """Ragged images of random numbers."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 120, (*size, *channels)).astype(dtype) for size in sizes]


def close(dtype):
    """Sums are fused and in the CPU's order; where its processor does not fuse, an integer may be one off."""
    return {"atol": 1} if np.dtype(dtype).kind in "ui" else {"rtol": 1e-3 if dtype == np.float16 else 1e-5}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types(dtype):
    """Every type, also to FLOAT."""
    assert_same(lambda: fn.gaussian_blur(images(dtype), sigma=1.2), **close(dtype))
    assert_same(lambda: fn.gaussian_blur(images(dtype), sigma=1.2, dtype=np.float32), rtol=1e-5)


@pytest.mark.parametrize("window", [1, 3, 5, 9, 31, 63])
@pytest.mark.parametrize("channels", [(), (1,), (3,), (4,)])
def test_windows(window, channels):
    """Windows smaller and larger than the image and than a tile, of every number of channels."""
    layout = "HWC" if channels else "HW"
    data = TensorListCPU(images(channels=channels), layout)
    assert_same(lambda: fn.gaussian_blur(data, window_size=window), atol=1)


def test_each_image_has_its_own_windows():
    """Unlike ones for height and width, and from sample to sample; one too wide for a tile sends all the longer way."""
    sigmas = TensorListCPU([np.float32([0.5 + n, 3]) for n in range(len(SIZES))])
    assert_same(lambda: fn.gaussian_blur(images(), sigma=sigmas), atol=1)
    sizes = TensorListCPU([np.int32([3, 5 + 40 * n]) for n in range(len(SIZES))])
    assert_same(lambda: fn.gaussian_blur(images(), window_size=sizes), atol=1)
    assert_same(lambda: fn.gaussian_blur(images(np.int16), window_size=sizes), atol=1)


def test_batches_without_a_layout():
    """All axes are spatial, and the result has no layout either."""
    data = [np.random.default_rng(n).integers(0, 120, (5, 6 + n, 7)).astype(np.uint8) for n in (0, 1)]
    assert_same(lambda: fn.gaussian_blur(TensorListCPU(data), sigma=0.8), **close(np.dtype(np.uint8)))


@pytest.mark.parametrize("layout", ["CHW", "HWC", "FHWC", "FCHW", "DHWC", "CDHW", "FHW", "DHW", "FDHWC", "FCDHW"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_layouts(layout, dtype):
    """Planes, frames and volumes."""
    rng = np.random.default_rng(2)
    extents = {"F": 2, "D": 4, "C": 3, "H": 6, "W": 7}
    data = [rng.integers(0, 120, [extents[letter] + more for letter in layout]).astype(dtype) for more in (0, 1)]
    sigma = (0.8, 1.1, 0.6) if "D" in layout else (0.8, 1.1)
    assert_same(lambda: fn.gaussian_blur(TensorListCPU(data, layout), sigma=sigma), **close(dtype))


def test_wrong_windows_and_empty_images_are_refused():
    """With the CPU's messages."""
    with pytest.raises(ValueError, match="window_size must be odd, got 4"):
        on_host(call_of(lambda: fn.gaussian_blur(images(), window_size=4)))
    with pytest.raises(ValueError, match="the image has no pixels"):
        on_host(call_of(lambda: fn.gaussian_blur(images(sizes=[(0, 3)]), sigma=1.0)))


def pictures(sizes):
    """Smooth pictures with edges and noise, which use all coefficients."""
    rng = np.random.default_rng(5)
    found = []
    for height, width in sizes:
        y, x = np.mgrid[:height, :width]
        smooth = np.stack([np.sin(y / 7 + c) + np.cos(x / 5 - c) for c in range(3)], axis=-1) * 60 + 128
        smooth[:, width // 2 :] += 40
        found.append(np.clip(smooth + rng.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8))
    return found


@pytest.mark.parametrize("quality", [1, 10, 49, 50, 75, 95, 100])
def test_jpeg_distortion(quality):
    """Bit for bit what libjpeg's encoder and decoder make of pictures of every parity and of single pixels."""
    sizes = [(16, 16), (48, 80), (33, 47), (1, 1), (5, 2), (2, 5), (7, 64), (65, 6), (31, 18), (8, 3), (17, 4)]
    assert_same(lambda: fn.jpeg_compression_distortion(pictures(sizes), quality=quality))


def test_jpeg_distortion_of_frames():
    """Frame by frame, each sample with its own quality; noise saturates the transforms."""
    rng = np.random.default_rng(6)
    clips = TensorListCPU([rng.integers(0, 2, (2, 20, 30 + n, 3), np.uint8) * 255 for n in range(3)], "FHWC")
    qualities = TensorListCPU([np.int32(n) for n in (5, 60, 98)])
    assert_same(lambda: fn.jpeg_compression_distortion(clips, quality=qualities))
    with pytest.raises(ValueError, match="quality must be between 1 and 100, got 0"):
        on_host(call_of(lambda: fn.jpeg_compression_distortion(pictures([(8, 8)]), quality=0)))
