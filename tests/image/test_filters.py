"""Filters and histograms: values by hand, by plain NumPy and by OpenCV."""

import cv2
import numpy as np
import pytest

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU

F = np.float32
IMAGE = np.random.default_rng(2).integers(0, 256, (31, 44, 3), dtype=np.uint8)
ROW = np.array([[1, 2, 3, 4]], np.uint8)
ONES = np.ones((1, 3), F)


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_a_filter_is_a_correlation():
    """A single 1 comes back as the kernel turned round; a kernel with a 1 at the left looks one pixel to the left."""
    impulse = np.zeros((3, 3), F)
    impulse[1, 1] = 1
    kernel = np.arange(1, 10, dtype=F).reshape(3, 3)
    assert (fn.filter(impulse, kernel, border="constant") == kernel[::-1, ::-1]).all()
    assert fn.filter(ROW, F([[1, 0, 0]]), border="clamp").tolist() == [[1, 1, 2, 3]]


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ({}, [5, 6, 9, 10]), ({"border": "reflect_1001"}, [4, 6, 9, 11]), ({"border": "clamp"}, [4, 6, 9, 11]),
        ({"border": "wrap"}, [7, 6, 9, 8]), ({"border": "constant"}, [3, 6, 9, 7]), ({"mode": "valid"}, [6, 9]),
        ({"border": "clamp", "anchor": (0, 0)}, [6, 9, 11, 12]), ({"border": "clamp", "anchor": 0}, [6, 9, 11, 12]),
        ({"border": "clamp", "anchor": (-1, 2)}, [3, 4, 6, 9]), ({"border": "101"}, [5, 6, 9, 10]),
        ({"border": "1001"}, [4, 6, 9, 11]),
    ],
    ids=str,
)  # fmt: skip
def test_borders_and_anchors_by_hand(options, row):
    """1 2 3 4 with a kernel of three ones."""
    assert fn.filter(ROW, ONES, **options).tolist() == [row]


def test_a_fill_value_is_the_third_input():
    """10 + 1 + 2 and 3 + 4 + 10."""
    assert fn.filter(ROW, ONES, np.uint8(10), border="constant").tolist() == [[13, 6, 9, 17]]


def test_halves_are_rounded_to_even():
    """0.5 * 1 + 0.5 * 2 = 1.5 -> 2, 2.5 -> 2, 3.5 -> 4; the first result has the mirrored 2 beside it."""
    assert fn.filter(ROW, F([[0.5, 0.5]])).tolist() == [[2, 2, 2, 4]]
    assert fn.filter(ROW, F([[0.5, 0.5]]), dtype=types.FLOAT).tolist() == [[1.5, 1.5, 2.5, 3.5]]


@pytest.mark.parametrize("layout", ["HWC", "CHW", "HW", "FHWC", "FCHW"])
@pytest.mark.parametrize("size", [(3, 3), (1, 5), (4, 2), (9, 7), (15, 15)])
def test_filter_as_opencv_does_it(layout, size):
    """Random kernels and kernels that are products of two windows, on planes and frames."""
    rng = np.random.default_rng(5)
    extents = {"F": 2, "C": 3, "H": 20, "W": 27}
    data = rng.normal(0, 30, [extents[x] for x in layout]).astype(F)
    product = np.outer(rng.uniform(0, 1, size[0]), rng.uniform(0, 1, size[1])).astype(F)
    for kernel in (rng.uniform(-1, 1, size).astype(F), product):
        found = np.asarray(fn.filter(TensorListCPU([data], layout), TensorListCPU([kernel])).at(0))
        images = data.reshape(-1, 20, 27, 3) if layout[-1] == "C" else data.reshape(-1, 20, 27)
        expected = np.stack([cv2.filter2D(x, -1, kernel, borderType=cv2.BORDER_REFLECT_101) for x in images])
        assert np.allclose(found, expected.reshape(found.shape), atol=1e-3)


@pytest.mark.parametrize(
    ("border", "pad"), [("reflect_101", "reflect"), ("reflect_1001", "symmetric"), ("clamp", "edge"), ("wrap", "wrap")]
)
@pytest.mark.parametrize("size", [(3, 3), (5, 5), (1, 3), (7, 5), (15, 15), (3, 67)])
def test_means_are_exact(border, pad, size):
    """A filter of equal weights gives the nearest byte of each mean; borders and anchors as for other filters."""
    rng = np.random.default_rng(5)
    tall, wide = size
    for shape in ((9, 40, 3), (1, 6, 1), (11, 2, 4)):
        for low in (0, 254):
            image = rng.integers(low, 256, shape, np.uint8)
            for anchor in ((tall // 2, wide // 2), (0, wide - 1), (tall - 1, 0)):
                margins = [(before, extent - 1 - before) for before, extent in zip(anchor, size)]
                near = np.pad(image.astype(np.int64), (*margins, (0, 0)), pad)
                windows = np.lib.stride_tricks.sliding_window_view(near, size, (0, 1))
                expected = (windows.sum((-2, -1)) + tall * wide // 2) // (tall * wide)
                taps = np.full(size, 1 / (tall * wide), np.float32)
                result = fn.filter(image, taps, border=border, anchor=anchor)
                np.testing.assert_array_equal(result, expected)


def test_filters_of_volumes():
    """Three axes by plain sums; the border is mirrored along the depth too."""
    rng = np.random.default_rng(6)
    volume, kernel = rng.normal(0, 9, (4, 5, 6)).astype(F), rng.normal(0, 1, (3, 2, 3)).astype(F)
    framed = np.pad(volume, ((1, 1), (1, 0), (1, 1)), mode="reflect")
    expected = sum(
        kernel[z, y, x] * framed[z : z + 4, y : y + 5, x : x + 6] for z in range(3) for y in range(2) for x in range(3)
    )
    found = fn.filter(TensorListCPU([volume], "DHW"), TensorListCPU([kernel]))
    assert np.allclose(np.asarray(found.at(0)), expected, atol=1e-4)


def test_wrong_filters_are_explained():
    """Borders, modes, anchors, kernels and fill values that cannot be."""
    refused("border must be one of constant", ValueError, lambda: fn.filter(ROW, ONES, border="isolated"))
    refused("mode must be 'same' or 'valid'", ValueError, lambda: fn.filter(ROW, ONES, mode="full"))
    refused(r"anchor \(0, 3\) is not in the kernel of 1 x 3", ValueError, lambda: fn.filter(ROW, ONES, anchor=(0, 3)))
    refused("anchor has 3 values", ValueError, lambda: fn.filter(ROW, ONES, anchor=(0, 0, 0)))
    refused(r"the kernel has 1 axes, the data has 2 spatial ones \(HW\)", ValueError, lambda: fn.filter(ROW, ONES[0]))
    refused("is larger than the data", ValueError, lambda: fn.filter(ROW, np.ones((1, 5), F), mode="valid"))
    refused("the kernel is empty", ValueError, lambda: fn.filter(ROW, np.ones((0, 5), F)))
    refused(
        "must be one number, got shape",
        ValueError,
        lambda: fn.filter(ROW, ONES, np.ones(3, np.uint8), border="constant"),
    )


def second_derivatives(image, size):
    """Laplacian by its parts, with OpenCV's filter."""
    smooth, total = np.ones(1), 0
    for _ in range(size - 1):
        smooth = np.convolve(smooth, [1, 1])
    derivative = np.ones(1)
    for _ in range(size - 3):
        derivative = np.convolve(derivative, [1, 1])
    derivative = np.convolve(derivative, [1, -2, 1])
    for column, row in ((derivative, smooth), (smooth, derivative)):
        total = total + cv2.sepFilter2D(image, cv2.CV_32F, row, column, borderType=cv2.BORDER_REFLECT_101)
    return total


def test_laplacian_by_hand():
    """A single 1; smoothing of 1 leaves the cross of five; normalised it is a quarter."""
    impulse = np.zeros((5, 5), F)
    impulse[2, 2] = 1
    assert fn.laplacian(impulse)[1:4, 1:4].tolist() == [[2, 0, 2], [0, -8, 0], [2, 0, 2]]
    assert fn.laplacian(impulse, smoothing_size=1)[1:4, 1:4].tolist() == [[0, 1, 0], [1, -4, 1], [0, 1, 0]]
    assert fn.laplacian(impulse, normalized_kernel=True)[1:4, 1:4].tolist() == [
        [0.5, 0, 0.5],
        [0, -2, 0],
        [0.5, 0, 0.5],
    ]
    assert fn.laplacian(impulse, scale=(2.0, 3.0))[1:4, 1:4].tolist() == [[5, -2, 5], [2, -20, 2], [5, -2, 5]]
    assert (fn.laplacian(np.array([[0, 100, 0]], np.uint8)) == [[255, 0, 255]]).all()  # no negative bytes


@pytest.mark.parametrize("size", [3, 5, 7, 11])
def test_laplacian_as_opencv_does_it(size):
    """Small windows by one kernel, large ones axis by axis."""
    expected = second_derivatives(IMAGE.astype(F), size)
    found = fn.laplacian(IMAGE, window_size=size, dtype=types.FLOAT)
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    planes = fn.laplacian(TensorListCPU([IMAGE.transpose(2, 0, 1).copy()], "CHW"), window_size=size, dtype=types.FLOAT)
    assert np.allclose(np.asarray(planes.at(0)).transpose(1, 2, 0), found, rtol=1e-5)


def test_wrong_laplacians_are_explained():
    """Window sizes, factors and their numbers."""
    refused("window_size must be odd numbers from 3 to 31, got", ValueError, lambda: fn.laplacian(IMAGE, window_size=4))
    refused("smoothing_size must be odd numbers from 1", ValueError, lambda: fn.laplacian(IMAGE, smoothing_size=2))
    refused("window_size has 3 values for 2", ValueError, lambda: fn.laplacian(IMAGE, window_size=(3, 3, 3)))
    refused("exclude each other", ValueError, lambda: fn.laplacian(IMAGE, normalized_kernel=True, scale=2.0))
    refused("the image has no pixels", ValueError, lambda: fn.laplacian(IMAGE[:0]))


def test_equalize_by_hand():
    """Counts 2 2 1 1 of 10 20 30 40: (cdf - 2) / (6 - 2) * 255; constant images stay."""
    values = np.array([[10, 10, 20], [20, 30, 40]], np.uint8)
    assert fn.equalize(values).tolist() == [[0, 0, 128], [128, 191, 255]]
    assert (fn.equalize(np.full((2, 3, 1), 7, np.uint8)) == 7).all()
    pixels = np.array([[[0, 1, 2], [10, 1, 4]]], np.uint8)
    assert fn.equalize(pixels).tolist() == [[[0, 1, 0], [255, 1, 255]]]


def test_equalize_any_number_of_channels():
    """Of sizes that are no multiple of what is counted at once: each channel by its own cumulative counts."""
    for shape in ((7, 11, 1), (13, 5, 2), (9, 7, 3), (5, 9, 4), (6, 7, 5), (1, 1, 3)):
        image = np.clip(np.random.default_rng(4).normal(100, 30, shape), 0, 255).astype(np.uint8)
        got = fn.equalize(image)
        for k in range(shape[2]):
            counts = np.bincount(image[..., k].ravel(), minlength=256)
            first = counts[counts > 0][0]
            rest = image[..., k].size - first
            table = np.rint((np.cumsum(counts) - first) * 255 / rest) if rest else np.arange(256)
            assert np.abs(got[..., k].astype(int) - table[image[..., k]]).max() <= 1


def test_equalize_as_opencv_does_it():
    """Channel by channel, in every layout."""
    rng = np.random.default_rng(7)
    image = rng.normal(120, 30, (37, 41, 3)).clip(0, 255).astype(np.uint8)
    expected = np.stack([cv2.equalizeHist(np.ascontiguousarray(image[..., k])) for k in range(3)], -1)
    assert (fn.equalize(image) == expected).all()
    planes = fn.equalize(TensorListCPU([image.transpose(2, 0, 1).copy()], "CHW"))
    assert (np.asarray(planes.at(0)).transpose(1, 2, 0) == expected).all()
    clip = fn.equalize(TensorListCPU([np.stack([image, image // 2])], "FHWC"))
    assert (np.asarray(clip.at(0))[0] == expected).all()
    refused("does not take float32", TypeError, lambda: fn.equalize(image.astype(F)))


def test_clahe_spreads_tile_by_tile():
    """A ramp of 8 x 8 in four tiles: the mean of a tile's values is in the middle of the range, not the ramp's."""
    ramp = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    found = fn.clahe(ramp, tiles_x=2, tiles_y=2, clip_limit=2.0)
    assert found[0, :, 0].tolist() == [16, 32, 48, 48, 40, 40, 48, 64]
    assert found[7, :, 0].tolist() == [207, 223, 239, 239, 231, 231, 239, 255]
    colour = np.repeat(ramp, 3, 2)
    assert (
        np.ptp(fn.clahe(colour, tiles_x=2, tiles_y=2, clip_limit=2.0).astype(int), axis=2).max() <= 2
    )  # grey stays grey
    each = fn.clahe(colour, tiles_x=2, tiles_y=2, clip_limit=2.0, luma_only=False)
    assert (each == found).all()
    refused(
        "needs 1 or 3 channels, the image has 2",
        ValueError,
        lambda: fn.clahe(colour[..., :2], tiles_x=2, tiles_y=2, clip_limit=1.0),
    )
    refused("tiles_x must be at least 1", ValueError, lambda: fn.clahe(ramp, tiles_x=0, tiles_y=2, clip_limit=1.0))
    refused(
        "clip_limit must not be negative", ValueError, lambda: fn.clahe(ramp, tiles_x=2, tiles_y=2, clip_limit=-1.0)
    )
