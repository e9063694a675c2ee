"""mixup, cutmix and clahe on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

SIZES = [(5, 7), (1, 1), (33, 2), (24, 65), (40, 33)]


def images(dtype=np.uint8, shape=(9, 11, 3), count=5):
    """Images of one shape."""
    rng = np.random.default_rng(3)
    return [rng.integers(0, 120, shape).astype(dtype) for _ in range(count)]


def vectors(dtype=np.float32, count=5):
    """Labels with a number for each class."""
    return [row.astype(dtype) for row in np.random.default_rng(4).random((count, 6))]


def numbers(*values, dtype=np.int32):
    """A number for each sample."""
    return TensorListCPU([np.array(value, dtype) for value in values])


def close(dtype):
    """Products and sums are fused; where the processor does not fuse, an integer may be one off."""
    return (
        {"atol": 1} if np.dtype(dtype).kind in "ui" else {"rtol": 1e-3 if dtype == np.float16 else 1e-6, "atol": 1e-5}
    )


@pytest.mark.parametrize("dtype", in_order(NUMBERS), ids=str)
def test_mixup(dtype):
    """Every type, random partners and given ones, shares of each sample's own, and the whole of one image."""
    assert_same(lambda: fn.mixup(images(dtype), vectors()), **close(dtype))
    assert_same(
        lambda: fn.mixup(images(dtype), vectors(np.float64), partner=numbers(1, 1, 0, 4, 2), share=0.3), **close(dtype)
    )
    assert_same(lambda: fn.mixup(images(dtype), vectors(np.float16), share=1.0), **close(dtype))


@pytest.mark.parametrize("shape", [(70, 61, 3), (64, 64, 1), (1, 1, 3), (3, 5, 6, 4), (20, 31)])
def test_sizes(shape):
    """Images that begin at any address, of more than a block, and clips."""
    for dtype in (np.uint8, np.float32, np.int16):
        layout = {2: "HW", 3: "HWC", 4: "FHWC"}[len(shape)]
        data = TensorListCPU(images(dtype, shape), layout)
        assert_same(lambda data=data: fn.mixup(data, vectors(), alpha=0.4), **close(dtype))
        if layout != "HW":
            assert_same(lambda data=data: fn.cutmix(data, vectors(), alpha=0.4))


def test_labels_are_numbers_of_classes():
    """Any integer type; a label beside the classes is an error on the CPU, and there is none of its class on the GPU."""
    for dtype in (np.int32, np.uint8, np.int64):
        labels = numbers(0, 4, 2, 2, 1, dtype=dtype)
        assert_same(lambda labels=labels: fn.mixup(images(), labels, num_classes=5, share=0.25), atol=1)
        assert_same(lambda labels=labels: fn.cutmix(images(), labels, num_classes=5))
    found, _ = on_host(call_of(lambda: fn.mixup(images(), numbers(0, 9, 0, 0, 0), num_classes=3, share=1.0)))
    assert [row.sum() for row in found[1]] == [1, 0, 1, 1, 1]


@pytest.mark.parametrize("dtype", in_order(NUMBERS), ids=str)
def test_cutmix(dtype):
    """Every type, with the same windows and shares to the last bit."""
    assert_same(lambda: fn.cutmix(images(dtype), vectors()))
    assert_same(lambda: fn.cutmix(images(dtype), vectors(np.float64), partner=numbers(1, 1, 0, 4, 2), share=0.3))
    assert_same(lambda: fn.cutmix(images(dtype, count=1), vectors(np.float16, 1), share=0.0))


def test_errors_are_those_of_the_cpu():
    """Shapes, partners and labels that do not fit."""
    ragged = [*images(count=2), *images(shape=(4, 4, 3), count=3)]
    for call, message in (
        (lambda: fn.mixup(ragged, vectors()), "resize and cast them first"),
        (lambda: fn.cutmix(images(), vectors(), partner=7), "partner names sample 7"),
        (lambda: fn.mixup(images(), numbers(1, 2, 3, 4, 5)), "labels must be vectors"),
        (lambda: fn.mixup(images(), vectors(), num_classes=4), "a label is one whole number"),
        (lambda: fn.mixup(images(), [*vectors(count=4), np.ones(3, np.float32)]), "cannot be mixed"),
        (lambda: fn.cutmix(images(), vectors(), share=1.5), "share must be from 0 to 1"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            on_host(call_of(call))


@pytest.mark.parametrize("limit", [0.0, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("tiles", [(1, 1), (2, 3), (8, 8), (5, 1)])
def test_clahe_of_channels(limit, tiles):
    """Tiles that divide the image and such that do not, images smaller than the tiles: equal to the last bit."""
    rng = np.random.default_rng(6)
    grey = [rng.integers(0, 256, (*size, 1), dtype=np.uint8) for size in SIZES]
    few = [(x // 9).astype(np.uint8) for x in grey]
    rgb = [rng.integers(0, 90, (*size, 3), dtype=np.uint8) for size in SIZES]
    arguments = {"tiles_x": tiles[0], "tiles_y": tiles[1], "clip_limit": limit}
    for data in (grey, few):
        assert_same(lambda data=data: fn.clahe(data, **arguments))
    assert_same(lambda: fn.clahe(rgb, luma_only=False, **arguments))


@pytest.mark.parametrize("tiles", [(1, 1), (3, 2)])
def test_clahe_of_lightness(tiles):
    """Only the lightness is spread, in whole numbers: equal to the last bit."""
    rng = np.random.default_rng(7)
    rgb = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in [(64, 48), (31, 57), (5, 4)]]
    assert_same(lambda: fn.clahe(rgb, tiles_x=tiles[0], tiles_y=tiles[1], clip_limit=2.0))
    grey = [np.repeat(rng.integers(0, 256, (20, 30, 1), dtype=np.uint8), 3, 2)]
    clip = TensorListCPU([np.stack(grey * 2)], "FHWC")
    assert_same(lambda: fn.clahe(clip, tiles_x=2, tiles_y=2, clip_limit=1.0))


def test_clahe_refuses_what_the_cpu_refuses():
    """Two channels and images without pixels."""
    for shape, message in (((4, 4, 2), "1 or 3 channels"), ((0, 4, 3), "no pixels")):
        with pytest.raises(ValueError, match=message):
            on_host(
                call_of(lambda shape=shape: fn.clahe([np.zeros(shape, np.uint8)], tiles_x=1, tiles_y=1, clip_limit=1.0))
            )
