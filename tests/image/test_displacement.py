"""Images looked up at other places: values by hand, by plain NumPy and by OpenCV."""

import cv2
import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.operators.displacement import perspective_matrix
from pipeflow.tensors import TensorListCPU

F = np.float32
IMAGE = np.random.default_rng(2).integers(0, 256, (31, 44, 3), dtype=np.uint8)
RAMP = (np.arange(4) * 10 + np.arange(4)[:, None] * 50).astype(np.uint8)[..., None]
SHIFT = [1.0, 0, 1, 0, 1, 0, 0, 0, 1]


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_fractions_of_extents_are_rounded():
    """Also in extents that belong to single samples, which warp_affine cuts. A matrix is given once."""
    given = np.float32([[2.5, 3.4]])

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define(**options):
        image, matrix = fn.constant(fdata=[1.0] * 12, shape=(4, 3, 1)), np.eye(3, dtype=np.float32)
        return fn.warp_perspective(fn.reshape(image, layout="HWC"), matrix, size=fn.external_source([given]), **options)

    assert define().run()[0].shape() == [(3, 3, 1)]
    with pytest.raises(ValueError, match="the second input is the matrix: leave out"):
        define(matrix=np.eye(3, dtype=np.float32)).run()


def test_perspective_by_hand():
    """A shift of one pixel, of half a pixel, the same turned round, and a factor of two in the last row."""
    assert fn.warp_perspective(RAMP, matrix=SHIFT)[0, :, 0].tolist() == [10, 20, 30, 0]
    assert fn.warp_perspective(RAMP, matrix=SHIFT, inverse_map=False)[0, :, 0].tolist() == [0, 0, 10, 20]
    half = [1.0, 0, 0.5, 0, 1, 0, 0, 0, 1]
    assert fn.warp_perspective(RAMP, matrix=half)[0, :, 0].tolist() == [5, 15, 25, 15]  # 30 and the fill value 0
    assert fn.warp_perspective(RAMP, matrix=half, interp_type=types.INTERP_NN)[0, :, 0].tolist() == [0, 20, 20, 0]
    double = [2.0, 0, 0, 0, 2, 0, 0, 0, 1]
    # the corner of the first pixel stays: (0.5 * 2 - 0.5, the same) lies between four pixels of 0 10 50 60
    assert fn.warp_perspective(RAMP, matrix=double)[0, :2, 0].tolist() == [30, 50]
    assert fn.warp_perspective(RAMP, matrix=double, pixel_origin="center")[0, :2, 0].tolist() == [0, 20]
    # places are divided by two: (0.5 / 2 - 0.5) is a quarter outside, on both axes
    far = fn.warp_perspective(RAMP, matrix=[1.0, 0, 0, 0, 1, 0, 0, 0, 2], size=(2, 2))
    assert far[..., 0].tolist() == [[0, 2], [9, 15]]


@pytest.mark.parametrize(
    ("border", "row"),
    [
        ("constant", [20, 30, 7, 7, 7, 7]), ("replicate", [20, 30, 30, 30, 30, 30]), ("reflect", [20, 30, 30, 20, 10, 0]),
        ("reflect_101", [20, 30, 20, 10, 0, 10]), ("wrap", [20, 30, 0, 10, 20, 30]),
    ],
)  # fmt: skip
def test_borders_by_hand(border, row):
    """A row 0 10 20 30, looked up from its third pixel on."""
    for interpolation in (types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC):
        matrix = [1.0, 0, 2, 0, 1, 0, 0, 0, 1]
        options = {"border_mode": border, "fill_value": 7.0, "size": (4, 6), "interp_type": interpolation}
        assert fn.warp_perspective(RAMP, matrix=matrix, **options)[0, :, 0].tolist() == row


@pytest.mark.parametrize("interpolation", [types.INTERP_LINEAR, types.INTERP_CUBIC], ids=str)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect_101", "wrap"])
def test_perspective_as_opencv_does_it(border, interpolation):
    """Pixel centres at whole numbers and floats: the only differences are OpenCV's roundings of places."""
    rng = np.random.default_rng(3)
    image = rng.normal(0, 50, (31, 44, 3)).astype(F)
    matrix = np.array([0.9, 0.2, 3, -0.1, 1.1, 2, 0.001, 0.002, 1]).reshape(3, 3)
    flags = cv2.WARP_INVERSE_MAP | (cv2.INTER_LINEAR if interpolation == types.INTERP_LINEAR else cv2.INTER_CUBIC)
    mode = getattr(cv2, f"BORDER_{border.upper()}".replace("REFLECT_101", "REFLECT101"))
    expected = cv2.warpPerspective(image, matrix, (50, 40), flags=flags, borderMode=mode, borderValue=(5, 5, 5))
    options = {"border_mode": border, "fill_value": 5.0, "pixel_origin": "center", "interp_type": interpolation}
    found = fn.warp_perspective(image, matrix=matrix, size=(40, 50), **options)
    assert np.abs(found - expected).mean() < 1.0
    assert np.abs(found - expected).max() < 12  # a sixty-fourth of a pixel in noise of 50


def test_an_affine_matrix_gives_what_warp_affine_gives():
    """The same six numbers with 0 0 1 below them."""
    affine = [0.9, 0.2, 3.0, -0.1, 1.1, 2.0]
    left = fn.warp_perspective(IMAGE, matrix=[*affine, 0, 0, 1], fill_value=9.0).astype(int)
    right = fn.warp_affine(IMAGE, matrix=affine, fill_value=9).astype(int)
    assert np.abs(left - right).max() <= 1
    assert (left != right).mean() < 0.05


def test_layouts_matrices_and_types_of_perspective():
    """Planes and frames are warped one by one; the matrix may be data, and the type stays."""
    matrix = [0.9, 0.2, 3.0, -0.1, 1.1, 2.0, 0.001, 0.002, 1.0]
    expected = fn.warp_perspective(IMAGE, matrix=matrix, fill_value=(1.0, 2.0, 3.0))
    planes = TensorListCPU([IMAGE.transpose(2, 0, 1).copy()], "CHW")
    found = fn.warp_perspective(planes, matrix=matrix, fill_value=(1.0, 2.0, 3.0))
    assert found.layout() == "CHW"
    assert (np.asarray(found.at(0)).transpose(1, 2, 0) == expected).all()
    assert (fn.warp_perspective(IMAGE, F(matrix).reshape(3, 3), fill_value=(1.0, 2.0, 3.0)) == expected).mean() > 0.999
    assert (fn.warp_perspective(IMAGE[..., 0], matrix=matrix, fill_value=1.0) == expected[..., 0]).all()
    assert (fn.experimental.warp_perspective(IMAGE, matrix=matrix, fill_value=(1.0, 2.0, 3.0)) == expected).all()
    for dtype in (np.int16, np.float64, np.float16, np.uint32):
        found = fn.warp_perspective(IMAGE.astype(dtype), matrix=matrix, fill_value=(1.0, 2.0, 3.0))
        assert found.dtype == dtype
        assert np.abs(found.astype(float) - expected).max() <= 1.01


def test_wrong_warps_are_explained():
    """Matrices, borders, origins, interpolations and fill values that cannot be."""
    warp = fn.warp_perspective
    refused("3 x 3 values, got 0", ValueError, lambda: warp(IMAGE))
    refused("3 x 3 values, got 6", ValueError, lambda: warp(IMAGE, matrix=[1.0] * 6))
    refused("cannot be inverted", ValueError, lambda: warp(IMAGE, matrix=[0.0] * 9, inverse_map=False))
    refused("border_mode must be one of constant", ValueError, lambda: warp(IMAGE, matrix=SHIFT, border_mode="clamp"))
    refused("pixel_origin must be 'corner'", ValueError, lambda: warp(IMAGE, matrix=SHIFT, pixel_origin="x"))
    refused("INTERP_CUBIC, got", ValueError, lambda: warp(IMAGE, matrix=SHIFT, interp_type=types.INTERP_LANCZOS3))
    refused(
        "fill_value has 2 values, the image has 3", ValueError, lambda: warp(IMAGE, matrix=SHIFT, fill_value=(1.0, 2.0))
    )
    refused("the image has no pixels", ValueError, lambda: warp(IMAGE[:0], matrix=SHIFT))


def test_the_last_pixel_of_a_row_may_come_from_the_first_of_the_image():
    """RGB bytes move four at a time but for the last of a row, which is copied or filled by itself."""
    image = np.arange(1, 13, dtype=np.uint8).reshape(2, 2, 3)
    turned = fn.rotate(image, angle=180.0, interp_type=types.INTERP_NN, keep_size=True)
    assert turned.tolist() == image[::-1, ::-1].tolist()
    outside = fn.warp_affine(image, matrix=[-1.0, 0.0, 1.0, 0.0, 1.0, 0.0], interp_type=types.INTERP_NN, fill_value=99)
    assert outside.tolist() == [[[1, 2, 3], [99] * 3], [[7, 8, 9], [99] * 3]]


def test_remap_by_hand_and_by_opencv():
    """Maps say where each pixel comes from; outside is 0, and the output is as large as the maps."""
    across, down = np.array([[2.5, 1.0, -4.0]], F), np.array([[0.5, 1.0, 0.5]], F)
    # (2.5, 0.5) is the centre of the third pixel; (1, 1) lies between four of 0 10 50 60
    assert fn.remap(RAMP, across, down)[..., 0].tolist() == [[20, 30, 0]]
    assert fn.remap(RAMP, across, down, interp=types.INTERP_NN)[..., 0].tolist() == [[20, 0, 0]]
    rng = np.random.default_rng(4)
    maps = rng.uniform(-4, 50, (2, 20, 26)).astype(F)
    expected = cv2.remap(IMAGE.astype(F), *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    found = fn.experimental.remap(IMAGE.astype(F), *maps, pixel_origin="center")
    assert found.shape == (20, 26, 3)
    assert np.abs(found - expected).max() < 16
    assert np.abs(found - expected).mean() < 1.5
    nowhere = np.full((2, 2), np.nan, F)
    assert (fn.remap(IMAGE, nowhere, nowhere) == 0).all()
    refused("the maps differ in shape", ValueError, lambda: fn.remap(IMAGE, maps[0], maps[1, 1:]))
    refused(r"a map has the shape \(height, width\)", ValueError, lambda: fn.remap(IMAGE, maps, maps))
    refused("interp must be", ValueError, lambda: fn.remap(IMAGE, *maps, interp=types.INTERP_GAUSSIAN))


def test_water_by_hand():
    """One pixel sideways where the sine is one; nothing without amplitude; the nearest pixel is the one a place lies in."""
    moved = {"ampl_y": 0.0, "freq_x": 0.0, "phase_x": np.pi / 2, "fill_value": 99.0}
    assert fn.water(RAMP, ampl_x=1.0, **moved)[0, :, 0].tolist() == [10, 20, 30, 99]
    assert fn.water(RAMP, ampl_x=0.7, **moved)[0, :, 0].tolist() == [0, 10, 20, 30]
    assert fn.water(RAMP, ampl_x=-0.3, **moved)[0, :, 0].tolist() == [99, 0, 10, 20]
    assert (fn.water(IMAGE, ampl_x=0.0, ampl_y=0.0) == IMAGE).all()
    assert (fn.water(IMAGE, mask=0) == IMAGE).all()


def test_water_by_its_formula():
    """Every pixel by plain NumPy."""
    options = {"ampl_x": 3.0, "ampl_y": 2.0, "freq_x": 0.4, "freq_y": 0.7, "phase_x": 0.3, "phase_y": 1.1}
    y, x = np.mgrid[:31, :44]
    across = np.floor(x + 3 * np.sin(0.4 * y + 0.3)).astype(int)
    down = np.floor(y + 2 * np.cos(0.7 * x + 1.1)).astype(int)
    inside = (across >= 0) & (across < 44) & (down >= 0) & (down < 31)
    expected = np.where(inside[..., None], IMAGE[down.clip(0, 30), across.clip(0, 43)], 4)
    assert (fn.water(IMAGE, fill_value=4.0, **options) == expected).all()


def test_sphere_by_hand():
    """5 x 5: the middle row's neighbours of the centre are half as far from it, the corners lie outside."""
    ramp = (np.arange(5) * 10 + np.arange(5)[:, None] * 50).astype(np.uint8)[..., None]
    found = fn.sphere(ramp, fill_value=99.0)[..., 0]
    assert found[0].tolist() == [99, 10, 20, 30, 99]
    assert found[1].tolist() == [50, 60, 120, 80, 90]
    assert found[2].tolist() == [100, 120, 120, 130, 140]


def test_jitter_takes_pixels_from_near_by():
    """Each one from at most half of nDegree away, everywhere about the same, and others for another key."""
    y, x = np.mgrid[:60, :70].astype(np.uint8)
    image = np.stack([x, y, np.full_like(x, 255)], -1)
    for degree in (2, 7):
        found = fn.jitter(image, nDegree=degree, key=3).astype(int)
        inside = found[..., 2] == 255
        away = found - np.stack([x, y, np.zeros_like(x)], -1).astype(int)
        assert np.abs(away[inside][:, :2]).max() == degree // 2
        assert inside[8:-8, 8:-8].all()
        assert abs(away[8:-8, 8:-8, :2].mean()) < 0.1
    assert (fn.jitter(image, nDegree=7, key=4) != fn.jitter(image, nDegree=7, key=3)).any()
    assert (fn.jitter(image, nDegree=0, key=4) == image).all()
    refused("INTERP_NN or INTERP_LINEAR, got", ValueError, lambda: fn.jitter(image, interp_type=types.INTERP_CUBIC))


def test_inverse_matrices():
    """The inverse of a matrix, of any size of its numbers, is that of NumPy; a singular one is refused."""
    rng = np.random.default_rng(2)
    for scale in (1e-3, 1.0, 1e5):
        matrix = rng.normal(size=(3, 3)) * scale
        expected = np.linalg.inv(matrix).ravel()
        assert np.allclose(perspective_matrix(matrix, False), expected, rtol=1e-9, atol=0)
        assert (perspective_matrix(matrix, True) == matrix.ravel()).all()
    refused("cannot be inverted", ValueError, lambda: perspective_matrix([1, 2, 3, 2, 4, 6, 0, 0, 1], False))
