"""Windows around every pixel: values by hand, by SciPy and by OpenCV."""

import math
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from scipy import ndimage

from pipeflow import fn
from pipeflow.operators.on_gpu.morphology import check_size
from pipeflow.tensors import TensorListCPU

IMAGE = np.random.default_rng(2).integers(0, 256, (21, 34, 3), dtype=np.uint8)
TYPES = [np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.float16, np.float32, np.float64]


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_by_hand():
    """A row 1 5 2 9 3 in windows of three, and of three whose pixel is at its left."""
    row = np.array([[1, 5, 2, 9, 3]], np.uint8)
    assert fn.dilate(row, mask_size=(3, 1)).tolist() == [[5, 5, 9, 9, 9]]
    assert fn.erode(row, mask_size=(3, 1)).tolist() == [[1, 1, 2, 2, 3]]
    assert fn.dilate(row, mask_size=(3, 1), anchor=(0, 0)).tolist() == [[5, 9, 9, 9, 3]]
    assert fn.erode(row, mask_size=(3, 1), border_mode="wrap").tolist() == [[1, 1, 2, 2, 1]]
    assert (
        fn.dilate(row, mask_size=(2, 1), iterations=2).tolist()
        == fn.dilate(row, mask_size=(3, 1), anchor=(2, 0)).tolist()
    )
    assert fn.median_blur(row, window_size=(3, 1)).tolist() == [[1, 2, 5, 3, 3]]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("size", [(3, 3), (5, 2), (1, 4)])
def test_extremes_as_scipy_finds_them(dtype, size):
    """Every type; what is outside does not count, or is the border pixel."""
    image = (IMAGE.astype(float) - 100).astype(dtype) if np.dtype(dtype).kind in "fi" else IMAGE.astype(dtype)
    wide, tall = size
    for border, mode in (
        ("constant", "constant"),
        ("replicate", "nearest"),
        ("reflect_101", "mirror"),
        ("wrap", "wrap"),
    ):
        for op, filter_of, ending in (
            (fn.dilate, ndimage.maximum_filter, -np.inf),
            (fn.erode, ndimage.minimum_filter, np.inf),
        ):
            expected = np.stack(
                [filter_of(image[..., c].astype(float), (tall, wide), mode=mode, cval=ending) for c in range(3)], -1
            )
            found = op(image, mask_size=size, border_mode=border)
            assert found.dtype == dtype
            assert (found.astype(float) == expected).all()


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("size", [(3, 3), (5, 5), (7, 7), (3, 5), (1, 9), (1, 1)])
def test_medians_as_scipy_finds_them(dtype, size):
    """Every type, square windows and others; the border pixel goes on outside."""
    image = (IMAGE.astype(float) - 100).astype(dtype) if np.dtype(dtype).kind in "fi" else IMAGE.astype(dtype)
    expected = np.stack(
        [ndimage.median_filter(image[..., c].astype(float), size[::-1], mode="nearest") for c in range(3)], -1
    )
    found = fn.median_blur(image, window_size=size)
    assert found.dtype == dtype
    assert (found.astype(float) == expected).all()


@pytest.mark.parametrize("layout", ["CHW", "HW", "FHWC", "FCHW", "FHW"])
def test_layouts(layout):
    """Planes and frames are treated one by one."""
    rng = np.random.default_rng(3)
    extents = {"F": 2, "C": 3, "H": 9, "W": 12}
    data = rng.integers(0, 256, [extents[x] for x in layout], np.uint8)
    images = data.reshape(-1, 9, 12, 3) if layout[-1] == "C" else data.reshape(-1, 9, 12)
    for op, of_opencv in ((fn.dilate, cv2.dilate), (fn.experimental.erode, cv2.erode)):
        found = np.asarray(op(TensorListCPU([data], layout)).at(0))
        assert (found == np.stack([of_opencv(x, np.ones((3, 3))) for x in images]).reshape(data.shape)).all()
    found = np.asarray(fn.experimental.median_blur(TensorListCPU([data], layout)).at(0))
    assert (found == np.stack([cv2.medianBlur(x, 3) for x in images]).reshape(data.shape)).all()


def test_iterations_are_the_same_as_doing_it_again():
    """Three times by one call and by three."""
    once = fn.dilate(IMAGE, mask_size=(3, 2))
    assert (
        fn.dilate(IMAGE, mask_size=(3, 2), iterations=3)
        == fn.dilate(fn.dilate(once, mask_size=(3, 2)), mask_size=(3, 2))
    ).all()
    assert (fn.erode(IMAGE, iterations=0) == IMAGE).all()


def test_wrong_windows_are_explained():
    """Sizes, anchors, borders, types and empty images."""
    refused("mask_size must be positive", ValueError, lambda: fn.dilate(IMAGE, mask_size=(0, 3)))
    refused("mask_size must be one or two numbers", ValueError, lambda: fn.dilate(IMAGE, mask_size=(3, 3, 3)))
    refused(r"anchor \(3, 0\) is not in the window of 3 x 3", ValueError, lambda: fn.erode(IMAGE, anchor=(3, 0)))
    refused("border_mode must be one of constant", ValueError, lambda: fn.erode(IMAGE, border_mode="clamp"))
    refused("iterations must not be negative", ValueError, lambda: fn.erode(IMAGE, iterations=-1))
    refused("window_size must be odd and positive", ValueError, lambda: fn.median_blur(IMAGE, window_size=4))
    refused("does not take int64", TypeError, lambda: fn.dilate(IMAGE.astype(np.int64)))
    refused("the image has no pixels", ValueError, lambda: fn.median_blur(IMAGE[:0]))


SENSOR = np.random.default_rng(4).integers(0, 256, (10, 14)).astype(np.uint8)


@pytest.mark.parametrize("blue", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_debayer_by_its_definition(blue):
    """Inside: the pixel's own colour as it is, the others from the nearest ones of their colour."""
    found = fn.debayer(SENSOR, blue_position=blue)
    for y in range(1, 9):
        for x in range(1, 13):
            around = SENSOR[y - 1 : y + 2, x - 1 : x + 2].astype(int)
            cross, corners = (around[0, 1] + around[2, 1] + around[1, 0] + around[1, 2] + 2) // 4, None
            corners = (around[0, 0] + around[0, 2] + around[2, 0] + around[2, 2] + 2) // 4
            sides, ends = (around[1, 0] + around[1, 2] + 1) // 2, (around[0, 1] + around[2, 1] + 1) // 2
            own = int(SENSOR[y, x])
            row, column = (y - 1) % 2 == blue[0], (x - 1) % 2 == blue[1]
            if row and column:
                expected = [corners, cross, own]
            elif not row and not column:
                expected = [own, cross, corners]
            else:
                expected = [ends, own, sides] if row else [sides, own, ends]
            assert found[y, x].tolist() == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(("blue", "code"), [((0, 0), "BG"), ((0, 1), "GB"), ((1, 0), "GR"), ((1, 1), "RG")])
def test_debayer_of_any_size(dtype, blue, code):
    """Also with parts of vectors and with no inner pixels at all, it returns what OpenCV returns."""
    rng = np.random.default_rng(5)
    for height, width in [(2, 2), (2, 8), (8, 2), (4, 4), (6, 34), (10, 36), (4, 66), (30, 98), (16, 130)]:
        data = rng.integers(0, np.iinfo(dtype).max + 1, (height, width)).astype(dtype)
        known = cv2.demosaicing(data, getattr(cv2, f"COLOR_Bayer{code}2RGB"))
        assert (fn.debayer(data, blue_position=blue) == known).all()


def test_forms_and_algorithms_of_debayer():
    """One channel, frames, 16 bits, and OpenCV's other algorithms."""
    expected = fn.debayer(SENSOR, blue_position=(0, 1))
    assert (fn.debayer(SENSOR[..., None], blue_position=(0, 1)) == expected).all()
    clip = fn.debayer(TensorListCPU([np.stack([SENSOR, SENSOR])], "FHW"), blue_position=(0, 1))
    assert clip.layout() == "FHWC"
    assert (np.asarray(clip.at(0)) == expected).all()
    deep = fn.debayer(SENSOR.astype(np.uint16) * 200, blue_position=(0, 1))
    assert deep.dtype == np.uint16
    assert np.abs(deep[1:-1, 1:-1] / 200 - expected[1:-1, 1:-1]).max() <= 1
    assert (fn.debayer(SENSOR, blue_position=(0, 1), algorithm="default_npp") == expected).all()
    for algorithm, code in (
        ("edgeaware_ocv", cv2.COLOR_BayerGB2RGB_EA), ("vng_ocv", cv2.COLOR_BayerGB2RGB_VNG), ("gray_ocv", cv2.COLOR_BayerGB2GRAY),
    ):  # fmt: skip
        found = fn.debayer(SENSOR, blue_position=(0, 1), algorithm=algorithm)
        known = cv2.demosaicing(SENSOR, code)
        assert (found == (known if known.ndim == 3 else known[..., None])).all()
    refused("blue_position must be a row and a column", ValueError, lambda: fn.debayer(SENSOR, blue_position=(0, 2)))
    refused("an even height and width, got 9 x 14", ValueError, lambda: fn.debayer(SENSOR[1:], blue_position=(0, 0)))
    refused("one channel, got 2", ValueError, lambda: fn.debayer(np.zeros((4, 4, 2), np.uint8), blue_position=(0, 0)))
    refused("algorithm must be one of", ValueError, lambda: fn.debayer(SENSOR, blue_position=(0, 0), algorithm="x"))
    refused(
        "vng_ocv takes uint8",
        TypeError,
        lambda: fn.debayer(SENSOR.astype(np.uint16), blue_position=(0, 0), algorithm="vng_ocv"),
    )


def test_the_kernels_on_a_gpu_count_up_to_31_bits():
    """2**31 values are refused by number, one fewer is taken."""
    item = lambda *shape: SimpleNamespace(input=SimpleNamespace(shape=shape, size=math.prod(shape)))
    check_size(item(1, 2**31 - 1, 1))
    with pytest.raises(ValueError, match=f"the image has {2**31} values; the GPU form takes fewer than"):
        check_size(item(2**15, 2**15, 2))
