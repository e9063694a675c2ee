"""Warps with positions exactly between two pixels, or nearly: every way to run them finds the same pixel."""

import math

import numpy as np
import pytest
from helpers import chains_counted, the_whole_way

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels.cpu.simd.instructions import has_multiply_add

ANGLES = [float(angle) for angle in range(0, 360, 15)]
SHAPES = [(9, 9), (10, 10), (33, 17), (12, 110)]  # long rows have a part in which no pixel is checked
WAYS = [{"keep_size": True, "fill_value": 5}, {"keep_size": True}, {"size": (14, 140), "fill_value": 5}, {}]


def image(shape, dtype=np.uint8):
    return np.random.default_rng(7).integers(0, 256, (*shape, 3)).astype(dtype)


def turn(shape, extents, angle):
    """The matrix of a rotation about the middle, from positions of the result to positions of the image."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    (height, width), y, x = shape, extents[0] / 2, extents[1] / 2
    return [[cos, -sin, width / 2 - (cos * x - sin * y)], [sin, cos, height / 2 - (sin * x + cos * y)]]


def in_one_step(a, b, c):
    """a * b + c, rounded once: Python divides whole numbers exactly, and rounds the quotient."""
    (a, by_a), (b, by_b), (c, by_c) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    return (a * b * by_c + c * by_a * by_b) / (by_a * by_b * by_c)


def in_two_steps(a, b, c):
    return a * b + c


def positions(matrix, extents, multiply_add):
    """x and y in the image of each pixel of the result."""
    found = []
    for own, other, shift in matrix:
        starts = [multiply_add(other, i + 0.5, shift) for i in range(extents[0])]
        found.append([[multiply_add(own, j + 0.5, start) for j in range(extents[1])] for start in starts])
    return np.array(found)


def nearest(source, matrix, extents, fill, multiply_add=None):
    """The pixels at the positions."""
    y, x = source.shape[:2]
    steps = multiply_add or (in_one_step if has_multiply_add() else in_two_steps)
    columns, rows = np.floor(positions(matrix, extents, steps)).astype(int)
    inside = (columns >= 0) & (rows >= 0) & (columns < x) & (rows < y)
    found = source[rows.clip(0, y - 1), columns.clip(0, x - 1)]
    return found if fill is None else np.where(inside[..., None], found, source.dtype.type(fill))


def linear(source, matrix, extents, fill):
    """The four pixels around each position, blended in float64."""
    x, y = positions(matrix, extents, in_two_steps) - 0.5
    margin = ((1, 1), (1, 1), (0, 0))
    if fill is None:
        framed = np.pad(source.astype(float), margin, "edge")
    else:
        framed = np.pad(source.astype(float), margin, constant_values=fill)
    height, width = source.shape[:2]
    x, y = (np.clip(value + 1, 0, extent + 1 - 1e-9)[..., None] for value, extent in ((x, width), (y, height)))
    left, top = x[..., 0].astype(int), y[..., 0].astype(int)
    u, v = x - left[..., None], y - top[..., None]
    upper = framed[top, left] * (1 - u) + framed[top, left + 1] * u
    return upper * (1 - v) + (framed[top + 1, left] * (1 - u) + framed[top + 1, left + 1] * u) * v


def every_way(operator, source, values, monkeypatch):
    """The results for these values of an argument: of calls, of calls that were made before, and of pipelines with and without
    chains. All must be equal.
    """
    results = [the_whole_way(lambda value=value: operator(source, value)) for value in values]
    for _ in range(3):
        for value, result in zip(values, results, strict=True):
            assert operator(source, value).tobytes() == result.tobytes()

    @pipeline_def(batch_size=len(values), num_threads=1, device_id=None)
    def pipeline():
        given = [np.asarray(value, np.float64) for value in values]
        value = fn.external_source(source=lambda: given)
        return operator(fn.external_source(source=lambda: [source] * len(values), layout="HWC"), value)

    for chained in (True, False):
        with chains_counted(monkeypatch, chained) as done:
            pipe = pipeline()
            pipe.build()
            (output,) = pipe.run()
            assert bool(done) == chained
        for result, value in zip(output, results, strict=True):
            assert np.asarray(result).shape == value.shape
            assert np.asarray(result).tobytes() == value.tobytes()
    return results


@pytest.mark.parametrize("shape", SHAPES)
def test_the_nearest_pixel_of_a_turned_image(shape, monkeypatch):
    """For some of these angles it depends on the roundings, which are those of one multiplication and addition in one step."""
    source = image(shape)
    for way in WAYS:
        results = every_way(
            lambda x, angle, way=way: fn.rotate(x, angle=angle, interp_type=types.INTERP_NN, **way),
            source,
            ANGLES,
            monkeypatch,
        )
        for angle, result in zip(ANGLES, results, strict=True):
            extents = result.shape[:2]
            wanted = nearest(source, turn(shape, extents, angle), extents, way.get("fill_value"))
            assert (result == wanted).all(), (way, angle)


def test_the_roundings_decide():
    """Without this, the test above would compare nothing that could differ."""
    for shape in SHAPES[2:]:
        source, differ = image(shape), 0
        for angle in ANGLES:
            matrix = turn(shape, shape, angle)
            one, two = (nearest(source, matrix, shape, 5, steps) for steps in (in_one_step, in_two_steps))
            differ += int((one != two).any(axis=-1).sum())
        assert differ > 0, shape


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_blended_pixels_of_a_turned_image(shape, dtype, monkeypatch):
    """Blended pixels do not jump where a position is exactly on a pixel."""
    source = image(shape, dtype)
    for way in WAYS:
        results = every_way(lambda x, angle, way=way: fn.rotate(x, angle=angle, **way), source, ANGLES, monkeypatch)
        for angle, result in zip(ANGLES, results, strict=True):
            extents = result.shape[:2]
            wanted = linear(source, turn(shape, extents, angle), extents, way.get("fill_value"))
            assert abs(result - wanted).max() <= (0.51 if dtype == np.uint8 else 0.02), (way, angle)


@pytest.mark.parametrize("fill", [None, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_warps_to_half_or_twice_the_size(shape, fill, monkeypatch):
    """Matrices of a rotation times one half or two, and some that only shift or shear, by nearest and blended pixels."""
    source = image(shape)
    matrices = [np.multiply(turn(shape, shape, angle), scale) for angle in ANGLES[::2] for scale in (0.5, 2.0)]
    matrices += [np.array([[1, 0, 0.5], [0, 1, -0.5]]), np.array([[1, 0.5, 0], [0.5, 1, 0]]), np.eye(2, 3) / 2]
    for interp, formula, most in ((types.INTERP_NN, nearest, 0), (types.INTERP_LINEAR, linear, 0.51)):
        results = every_way(
            lambda x, matrix, interp=interp: fn.warp_affine(x, matrix=matrix, interp_type=interp, fill_value=fill),
            source,
            [np.ravel(matrix).tolist() for matrix in matrices],
            monkeypatch,
        )
        for matrix, result in zip(matrices, results, strict=True):
            assert abs(result - formula(source, matrix.tolist(), shape, fill).astype(float)).max() <= most, matrix
