"""Windows around every pixel, noise and sensor data on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

F = np.float32
TYPES = [np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.float16, np.float32, np.float64]
SIZES = [(5, 7), (1, 1), (13, 2), (14, 25)]
BORDERS = ["constant", "replicate", "reflect", "reflect_101", "wrap"]


def images(dtype=np.uint8, sizes=SIZES, channels=(3,), low=0):
    """Ragged images of random numbers."""
    rng = np.random.default_rng(1)
    return [(rng.integers(0, 200, (*size, *channels)) - low).astype(dtype) for size in sizes]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
def test_types(dtype):
    """Every type, with negative numbers where it has them."""
    low = 90 if np.dtype(dtype).kind in "if" else 0
    assert_same(lambda: fn.dilate(images(dtype, low=low), mask_size=(3, 2)))
    assert_same(lambda: fn.erode(images(dtype, low=low), iterations=2))
    assert_same(lambda: fn.median_blur(images(dtype, low=low), window_size=(3, 5)))
    assert_same(lambda: fn.experimental.median_blur(images(dtype, low=low)))


@pytest.mark.parametrize("border", BORDERS)
def test_borders(border):
    """Windows larger than the image too; each image has its own."""
    large = [x for x in images() if min(x.shape[:2]) > 4]
    assert_same(lambda: fn.dilate(large, mask_size=(5, 4), anchor=(0, 3), border_mode=border))
    sizes = TensorListCPU([np.int32([3, 1 + n]) for n in range(len(large))])
    assert_same(lambda: fn.erode(large, mask_size=sizes, border_mode=border))


@pytest.mark.parametrize("layout", ["CHW", "HW", "FHWC", "FCHW", "FHW"])
def test_layouts(layout):
    """Planes and frames."""
    rng = np.random.default_rng(3)
    extents = {"F": 2, "C": 3, "H": 6, "W": 7}
    data = TensorListCPU(
        [rng.integers(0, 99, [extents[x] + more for x in layout]).astype(np.uint8) for more in (0, 1)], layout
    )
    assert_same(lambda: fn.dilate(data))
    assert_same(lambda: fn.median_blur(data))
    with pytest.raises(ValueError, match="the image has no pixels"):
        on_host(call_of(lambda: fn.dilate([np.zeros((0, 3, 3), np.uint8)])))


@pytest.mark.parametrize("dtype", in_order(NUMBERS), ids=str)
def test_salt_and_pepper(dtype):
    """The same places in every type, channels first, last and by themselves; each sample by its own shares."""
    data = images(dtype)
    shares = TensorListCPU([F(n / 4) for n in range(len(SIZES))])
    assert_same(lambda: fn.noise.salt_and_pepper(data, prob=shares, salt_vs_pepper=0.3))
    assert_same(lambda: fn.noise.salt_and_pepper(data, prob=0.5, per_channel=True, salt_val=3.0))
    planes = TensorListCPU([x.transpose(2, 0, 1).copy() for x in data], "CHW")
    assert_same(lambda: fn.noise.salt_and_pepper(planes, prob=0.5))


@pytest.mark.parametrize("dtype", in_order(NUMBERS), ids=str)
def test_shot_noise(dtype):
    """The same counts, small and large; a factor of 0 copies. Logarithms may tip a count over, hardly ever."""
    data = images(dtype)
    factors = TensorListCPU([F(n * n) for n in range(len(SIZES))])
    assert_same(lambda: fn.noise.shot(data, factor=factors), atol=20, few=0.01)
    many = [np.geomspace(1e-3, 1e9, 500)]
    assert_same(lambda: fn.noise.shot(many, factor=1.0), rtol=0.5, few=0.02)
    assert_same(lambda: fn.noise.shot(data, factor=0.0))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_debayer(dtype):
    """All positions of blue, the smallest sensors, frames; other algorithms stay on the CPU."""
    rng = np.random.default_rng(4)
    sensors = [rng.integers(0, 256, (2 * n, 2 * n + 4)).astype(dtype) for n in (2, 3, 9, 2)]
    places = TensorListCPU([np.int32([n // 2, n % 2]) for n in range(4)])
    assert_same(lambda: fn.debayer(sensors, blue_position=places))
    clips = TensorListCPU([np.stack([x, x[::-1]]) for x in sensors], "FHW")
    assert_same(lambda: fn.debayer(clips, blue_position=(0, 1), algorithm="default_npp"))
    with pytest.raises(ValueError, match="an even height and width"):
        on_host(call_of(lambda: fn.debayer([np.zeros((3, 4), dtype)], blue_position=(0, 1))))
