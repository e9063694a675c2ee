"""CLAHE against OpenCV, whose steps it follows: every byte is equal."""

import cv2
import numpy as np
import pytest

from pipeflow import fn
from pipeflow.kernels.cpu import lab
from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.lab import pixels_from_lab, pixels_to_lab
from pipeflow.tensors import TensorListCPU


def by_opencv(image, tiles, limit, luma_only=True):
    spreading = cv2.createCLAHE(limit, tiles)
    if image.shape[2] == 3 and luma_only:
        planes = cv2.cvtColor(image, cv2.COLOR_RGB2Lab)
        planes[..., 0] = spreading.apply(planes[..., 0].copy())
        return cv2.cvtColor(planes, cv2.COLOR_Lab2RGB)
    planes = [spreading.apply(image[..., channel].copy()).reshape(image.shape[:2]) for channel in range(image.shape[2])]
    return np.stack(planes, -1)


@kernel
def to_lab(source, linear, roots, light, reds, blues):
    pixels_to_lab(source, linear, roots, light, reds, blues, light.size)


@kernel
def from_lab(light, reds, blues, lumas, shades, out):
    pixels_from_lab(light, reds, blues, lumas, shades, out, light.size)


@pytest.mark.parametrize("first", range(0, 256, 15))
def test_lab_of_every_colour(first):
    """All greens and blues with one red, and all a and b with one lightness, in both directions."""
    second, third = np.mgrid[:256, :256]
    pixels = np.stack([np.full_like(second, first), second, third], -1).astype(np.uint8)
    linear, roots, lumas, shades = lab.tables()
    planes = [np.empty(1 << 16, np.uint8) for _ in range(3)]
    to_lab(pixels.reshape(-1), linear, roots, *planes)
    assert (np.stack(planes, -1).reshape(pixels.shape) == cv2.cvtColor(pixels, cv2.COLOR_RGB2Lab)).all()
    planes = [np.ascontiguousarray(pixels[..., channel]).reshape(-1) for channel in range(3)]
    out = np.empty(3 << 16, np.uint8)
    from_lab(*planes, lumas, shades, out)
    assert (out.reshape(pixels.shape) == cv2.cvtColor(pixels, cv2.COLOR_Lab2RGB)).all()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("luma_only", [True, False])
@pytest.mark.parametrize("limit", [0.0, 0.3, 1.0, 2.7, 150.0])
def test_images_of_any_size(channels, luma_only, limit):
    """Images with whole tiles, with parts of tiles, and with fewer pixels than tiles; noise, few values and one value."""
    rng = np.random.default_rng(int(limit * 10) + channels)
    for height, width, across, down in [
        (64, 48, 8, 8), (61, 47, 8, 8), (64, 50, 4, 8), (1, 1, 1, 1), (1, 1, 3, 2), (2, 7, 8, 8), (33, 17, 1, 1),
        (40, 300, 16, 2),
    ]:  # fmt: skip
        noise = rng.integers(0, 256, (height, width, channels), np.uint8)
        for image in (noise, noise // 30 + 100, np.full_like(noise, 200)):
            image = image.astype(np.uint8)
            found = fn.clahe(image, tiles_x=across, tiles_y=down, clip_limit=limit, luma_only=luma_only)
            assert (found == by_opencv(image, (across, down), limit, luma_only)).all()


def test_the_same_call_again():
    """Later calls on one shape take a shorter way: also a read-only image, a view, and frames."""
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (50, 60, 3), np.uint8)
    expected = by_opencv(image, (4, 4), 2.0)
    fixed = image.copy()
    fixed.flags.writeable = False
    wide = np.zeros((50, 90, 3), np.uint8)
    wide[:, 10:70] = image
    for given in [image] * 4 + [fixed, wide[:, 10:70]]:
        assert (fn.clahe(given, tiles_x=4, tiles_y=4, clip_limit=2.0) == expected).all()
    clip = fn.clahe(TensorListCPU([np.stack([image, image])], "FHWC"), tiles_x=4, tiles_y=4, clip_limit=2.0)
    assert (np.asarray(clip.at(0)) == expected).all()
