"""The GPU forms of rotate and warp_affine give on the host what the CPU gives, by the same matrices."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host
from test_host_geometry import DTYPES, clips, images, per_sample

from pipeflow import fn, types
from pipeflow.operators.on_gpu import warp as on_gpu
from pipeflow.tensors import TensorListCPU

MATRIX = (0.9, 0.2, 3.0, -0.1, 1.1, -2.0)
SPATIAL = (0.9, 0.2, 0.1, 1.0, -0.1, 1.1, 0.0, -2.0, 0.1, 0.0, 0.8, 0.5)
NEAREST = {"interp_type": types.INTERP_NN}


def close(dtype):
    """Sums differ in the last bits; an integer by one at an exact half."""
    return {"rtol": 1e-5, "atol": 1e-3} if np.dtype(dtype).kind == "f" else {"atol": 1.0, "rtol": 1e-7, "few": 0.02}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_every_type(dtype, channels):
    """Every type to itself, to bytes and to floats; nearest pixels bit for bit."""
    batch = images(dtype, channels)
    for fill in (None, 7.0):
        for target in (None, types.UINT8, types.FLOAT, types.INT16):
            found = dtype if target is None else types.as_dtype(target)
            tolerance = {"rtol": 2e-3, "atol": 1e-2} if found == np.float16 else close(found)
            options = {"matrix": MATRIX, "fill_value": fill, "dtype": target}
            assert_same(lambda options=options: fn.warp_affine(batch, **options), **tolerance)
            assert_same(lambda options=options: fn.warp_affine(batch, **options, **NEAREST))


def test_more_elements_than_32_bits_count(monkeypatch):
    """Other images are warped by the kernel that counts in 64 bits, with the same result."""
    launches: list[str] = []
    on_host(call_of(lambda: fn.rotate(images(), angle=20.0)), launches)
    monkeypatch.setattr(on_gpu, "LARGE", 1)
    on_host(call_of(lambda: fn.rotate(images(), angle=20.0)), launches)
    assert launches == ["warp.cu:warp<unsigned char, unsigned char>", "warp.cu:warp_any<float>"]
    assert_same(lambda: fn.rotate(images(), angle=20.0), **close(np.uint8))


@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0, -135.5])
def test_rotate(angle):
    """The canvas grows, keeps its size or is given; borders are repeated or filled."""
    for options in ({}, {"keep_size": True}, {"size": (20, 31)}, {"fill_value": 50.0}):
        assert_same(lambda options=options: fn.rotate(images(), angle=angle, **options), **close(np.uint8))
        assert_same(lambda options=options: fn.rotate(images(np.float32), angle=angle, **options), **close(np.float32))
        assert_same(lambda options=options: fn.rotate(images(), angle=angle, **options, **NEAREST))


def test_angles_and_matrices_of_each_sample():
    """Per-sample numbers, inverse maps, other sizes, the identity."""
    assert_same(lambda: fn.rotate(images(), angle=per_sample(10.0, 20.0, -30.0, 180.0)), **close(np.uint8))
    matrices = per_sample(*[np.array(MATRIX, np.float32).reshape(2, 3) * s for s in (1, 0.5, 2, -1)])
    assert_same(lambda: fn.warp_affine(images(), matrix=matrices, size=(30, 41), fill_value=3), **close(np.uint8))
    assert_same(lambda: fn.warp_affine(images(), matrix=matrices, inverse_map=False), **close(np.uint8))
    assert_same(lambda: fn.warp_affine(images()))


@pytest.mark.parametrize("inverse_map", [True, False])
def test_matrices_on_the_device(inverse_map):
    """A matrix that is data is read, and turned round, by the kernel."""
    rng = np.random.default_rng(6)
    flat = [np.eye(2, 3, dtype=np.float32) + rng.normal(0, 0.2, (2, 3)).astype(np.float32) for _ in range(4)]
    assert_same(lambda: fn.warp_affine(images(), flat, inverse_map=inverse_map), **close(np.uint8))
    deep = [np.eye(3, 4, dtype=np.float32) + rng.normal(0, 0.1, (3, 4)).astype(np.float32) for _ in range(2)]
    volumes = TensorListCPU([x.astype(np.float32) for x in clips("DHWC").samples()], "DHWC")
    assert_same(lambda: fn.warp_affine(volumes, deep, inverse_map=inverse_map, fill_value=5), rtol=1e-3, atol=2e-2)
    with pytest.raises(TypeError, match="must be float32"):
        on_host(call_of(lambda: fn.warp_affine(images(), [x.astype(np.float64) for x in flat])))
    with pytest.raises(ValueError, match="2 x 3 values"):
        on_host(call_of(lambda: fn.warp_affine(images(), [x[:1] for x in flat])))


@pytest.mark.parametrize("fill", [None, 9.0])
def test_volumes_and_sequences(fill):
    """Volumes in space, frames one by one, with an angle for each frame."""
    for layout in ("DHWC", "FDHWC"):
        assert_same(
            lambda layout=layout: fn.warp_affine(clips(layout), matrix=SPATIAL, fill_value=fill), **close(np.uint8)
        )
        assert_same(lambda layout=layout: fn.warp_affine(clips(layout), matrix=SPATIAL, fill_value=fill, **NEAREST))
        turn = {"angle": 40.0, "axis": (0.3, 1, 0.2), "fill_value": fill}
        assert_same(lambda layout=layout, turn=turn: fn.rotate(clips(layout), **turn), **close(np.uint8))
    angles = TensorListCPU([np.array([5.0]), np.array([5.0, 45.0, 90.0])], "F")
    for keep in (True, False):
        assert_same(
            lambda keep=keep: fn.rotate(clips(), angle=angles, keep_size=keep, fill_value=fill), **close(np.uint8)
        )


def test_images_without_pixels_are_refused():
    """The error is that of the CPU."""
    with pytest.raises(ValueError, match="no pixels"):
        on_host(call_of(lambda: fn.warp_affine(images(sizes=[(0, 4)]), matrix=MATRIX)))
