"""Resizing to planes with the sums that pick pixels from registers."""

import numba
import numpy as np
import pytest

from pipeflow.kernels.cpu import fused, resample
from pipeflow.kernels.cpu.everyday import CUBIC, GAUSSIAN, LANCZOS3, LINEAR, NEAREST, TRIANGULAR
from pipeflow.kernels.cpu.simd import columns, instructions
from pipeflow.kernels.cpu.simd.instructions import LANES

MEAN, SCALE = np.array([110.5, 120.25, 3.0], np.float32), np.array([0.017, 0.018, -1.5], np.float32)
# Height and width of the image, and of the result: rows of one group, of several, of parts of groups; as few taps and as many as
# there are cases for; groups that read 32 pixels, more, and more than can be picked from.
SHAPES = [
    ((40, 30), (23, LANES)),
    ((9, 70), (8, LANES + 1)),
    ((33, 224), (16, 224)),
    ((50, 400), (31, 224)),
    ((50, 500), (31, 224)),
    ((20, 500), (7, 139)),
    ((20, 640), (7, 40)),
    ((5, 7), (12, 90)),
    ((1, 1), (3, 33)),
    ((12, 30), (5, LANES - 1)),
]


def expected(image, y, x, rounding, height, width):
    """The same by the general kernel and NumPy."""
    wide = np.empty((height, width, 3), np.float32)
    resample.resample_image(image.astype(np.float32), y, x, wide)
    if rounding:
        wide = np.floor(np.clip(wide + np.float32(0.5), 0, 255))
    return np.moveaxis((wide - MEAN) * SCALE + np.float32(0.25), 2, 0)


def tables(image, height, width, kind, mirror=False):
    return tuple(
        resample.axis_taps(size, 0, size, full, kind, True, mirror=turned)
        for size, full, turned in zip(image.shape, (height, width), (False, mirror), strict=False)
    )


@pytest.mark.parametrize("kind", [NEAREST, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN])
@pytest.mark.parametrize(("size", "result"), SHAPES)
def test_planes_are_those_of_the_general_resize(size, result, kind):
    rng = np.random.default_rng(kind)
    for number, dtype in enumerate((np.uint8, np.float32)):
        image = rng.integers(0, 256, (*size, 3)).astype(dtype)
        y, x = tables(image, *result, kind, mirror=number == 1)
        for rounding in (False, True):
            out = np.full((3, *result), np.nan, np.float32)
            fused.resample_normalize(image, y, x, MEAN, SCALE, 0.25, rounding, out, True)
            np.testing.assert_array_equal(out, expected(image, y, x, rounding, *result))


def test_picked_and_gathered_sums_agree(monkeypatch):
    """The instructions of this processor, and those for processors that cannot pick."""
    compiled = [numba.njit(fused.pick_to_planes.py_func) for _ in range(2)]
    for size, result in [((9, 70), (6, LANES + 5)), ((9, 120), (6, LANES * 2)), ((9, 24), (6, 37))]:
        image = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
        y, x = tables(image, *result, TRIANGULAR)
        low, high = resample.extent(*x)
        groups = fused.in_groups(x, low)
        outs = []
        for kernel, known in zip(compiled, (instructions.extensions(), frozenset())):
            monkeypatch.setattr(columns, "extensions", lambda known=known: known)  # what is compiled now
            out = np.zeros(3 * result[0] * result[1], np.float32)
            rows = image.reshape(size[0], -1)
            kernel(rows, y, x, low, high, groups, MEAN, SCALE, 0.25, True, out, *result)
            outs.append(out)
        np.testing.assert_array_equal(*outs)
        np.testing.assert_array_equal(outs[0].reshape(3, *result), expected(image, y, x, True, *result))


def test_groups_end_with_the_row():
    """Twenty outputs: columns 0 to 15 and 4 to 19. Output i reads the pixels 2 i and 2 i + 1 with the weights i and 1."""
    starts = 2 * np.arange(20)
    weights = np.stack([np.arange(20), np.ones(20)], 1).astype(np.float32)
    begins, places, turned, reach = fused.in_groups((starts + 5, weights), 5)
    assert begins.tolist() == [0, 8]
    assert reach == 32  # pixels 0 to 31
    assert places.tolist() == [*range(0, 32, 2)] * 2
    assert turned.tolist() == [*range(16), *[1] * 16, *range(4, 20), *[1] * 16]
    assert fused.in_groups((starts[::-1].copy(), weights), 0)[0].tolist() == [8, 0]
