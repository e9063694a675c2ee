"""Images looked up at other places on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU
from pipeflow.types import NUMBERS, in_order

F = np.float32
TYPES = [dtype for dtype in in_order(NUMBERS) if dtype.kind != "b"]
SIZES = [(5, 7), (1, 1), (33, 2), (24, 65)]
BORDERS = ["constant", "replicate", "reflect", "reflect_101", "wrap"]
INTERPOLATIONS = [types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC]
MATRIX = [0.9, 0.2, 3.0, -0.15, 1.1, -2.0, 0.004, 0.006, 1.0]


def images(dtype=np.uint8, sizes=SIZES, channels=3):
    """Ragged images of random numbers."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 120, (*size, channels)).astype(dtype) for size in sizes]


def close(dtype):
    """Places and blends are fused in another order: a byte may be one off where it lies between two."""
    return {"atol": 1, "few": 0.03} if np.dtype(dtype).kind in "ui" else {"rtol": 2e-3, "atol": 2e-3}


@pytest.mark.parametrize("interpolation", INTERPOLATIONS, ids=str)
@pytest.mark.parametrize("border", BORDERS)
def test_perspective_borders(border, interpolation):
    """Every way of going on outside the image, far outside too."""
    options = {"matrix": MATRIX, "border_mode": border, "interp_type": interpolation, "fill_value": (9.0, 8.0, 7.0)}
    exact = interpolation == types.INTERP_NN
    assert_same(lambda: fn.warp_perspective(images(), **options), **({} if exact else close(np.uint8)))
    options["size"] = (31, 47)
    assert_same(lambda: fn.warp_perspective(images(F), pixel_origin="center", **options), **close(F))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_perspective_types_and_layouts(dtype):
    """Every type; HW, CHW and sequences of them."""
    options = {"matrix": MATRIX, "fill_value": 6.0}
    assert_same(lambda: fn.warp_perspective(images(dtype), **options), **close(dtype))
    assert_same(lambda: fn.experimental.warp_perspective(images(dtype), interp_type=types.INTERP_NN, **options))
    planes = [x[..., 0] for x in images(dtype)]
    assert_same(lambda: fn.warp_perspective(TensorListCPU(planes, "HW"), **options), **close(dtype))
    planes = [x.transpose(2, 0, 1).copy() for x in images(dtype)]
    assert_same(lambda: fn.warp_perspective(TensorListCPU(planes, "CHW"), **options), **close(dtype))
    clips = TensorListCPU([np.stack([x, x[::-1]]) for x in images(dtype)], "FHWC")
    assert_same(lambda: fn.warp_perspective(clips, **options), **close(dtype))


@pytest.mark.parametrize("inverse", [True, False])
def test_perspective_matrices_on_the_gpu(inverse):
    """A matrix for each image as the second input, turned round where that is asked."""
    matrices = [F(MATRIX).reshape(3, 3) + n / 50 for n in range(len(SIZES))]
    assert_same(lambda: fn.warp_perspective(images(), matrices, inverse_map=inverse), **close(np.uint8))
    many = TensorListCPU([m.ravel() for m in matrices])
    assert_same(lambda: fn.warp_perspective(images(), matrix=many, inverse_map=inverse), **close(np.uint8))
    with pytest.raises(TypeError, match="must be float32"):
        on_host(call_of(lambda: fn.warp_perspective(images(), [m.astype(np.float64) for m in matrices])))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS, ids=str)
@pytest.mark.parametrize("origin", ["corner", "center"])
def test_remap(origin, interpolation):
    """Maps of other sizes than the image, with a channel or without, that point outside and nowhere."""
    rng = np.random.default_rng(2)
    maps = [rng.uniform(-3, 9, (2, 4 + n, 6)).astype(F) for n in range(len(SIZES))]
    maps[0][0, 1, 1] = np.nan
    options = {"interp": interpolation, "pixel_origin": origin}
    tolerance = {} if interpolation == types.INTERP_NN else close(np.uint8)
    assert_same(lambda: fn.remap(images(), [m[0] for m in maps], [m[1] for m in maps], **options), **tolerance)
    wide = [m[..., None].astype(np.float64) for m in maps]
    assert_same(
        lambda: fn.experimental.remap(images(F), [m[0] for m in wide], [m[1] for m in wide], **options), **close(F)
    )
    with pytest.raises(ValueError, match="the maps differ in shape"):
        on_host(call_of(lambda: fn.remap(images()[:1], [maps[0][0]], [maps[0][1, 1:]])))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS[:2], ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16, np.float64])
def test_effects(dtype, interpolation):
    """Waves, a lens and a scatter; samples whose mask is 0 stay as they are."""
    options = {
        "interp_type": interpolation,
        "fill_value": 5.0,
        "mask": TensorListCPU([np.int32(n != 2) for n in range(4)]),
    }
    tolerance = {} if interpolation == types.INTERP_NN else close(dtype)
    waves = {"ampl_x": 3.0, "ampl_y": 2.0, "freq_x": 0.5, "phase_y": 1.0}
    assert_same(lambda: fn.water(images(dtype), **waves, **options), **tolerance)
    assert_same(lambda: fn.sphere(images(dtype), **options), **tolerance)
    assert_same(lambda: fn.jitter(images(dtype), nDegree=5, **options), **tolerance)
    assert_same(lambda: fn.jitter(images(dtype), mask=0))
    with pytest.raises(ValueError, match="the image has no pixels"):
        on_host(call_of(lambda: fn.sphere([np.zeros((0, 3, 3), dtype)])))
