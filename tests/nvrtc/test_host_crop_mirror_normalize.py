"""The GPU form of crop_mirror_normalize gives on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host
from test_host_geometry import DTYPES, clips, images, per_sample

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU

OUTPUTS = [types.FLOAT, types.FLOAT16, types.UINT8, types.INT8, types.INT16, types.UINT16, types.INT32, types.FLOAT64]
NUMBERS = {"mean": [40.0, 50.5, 60.0], "std": [20.0, 0.5, 3.0], "scale": 1.5, "shift": 2.0}
SIZES = [(40, 70), (33, 35), (64, 65), (9, 8)]


def tolerance(dtype):
    """The CPU rounds product and sum apart where it has no kernel of its own; half precision keeps eleven bits."""
    if dtype in (types.FLOAT, types.FLOAT64):
        return {"rtol": 1e-6, "atol": 1e-5}
    return {"rtol": 1e-3, "atol": 1e-2} if dtype == types.FLOAT16 else {"atol": 1.0}


@pytest.mark.parametrize("dtype", OUTPUTS)
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("mirror", [0, 1])
def test_bytes_of_three_channels(dtype, layout, mirror):
    """Every output type and both layouts; widths of every remainder by four."""
    options = {**NUMBERS, "output_layout": layout, "mirror": mirror, "dtype": dtype}
    exact = {} if dtype in (types.FLOAT, types.FLOAT16, types.UINT8, types.INT8) else tolerance(dtype)
    for width in (8, 7, 6, 5, 1):
        assert_same(
            lambda width=width: fn.crop_mirror_normalize(images(sizes=SIZES), crop=(8, width), **options), **exact
        )
    assert_same(lambda: fn.crop_mirror_normalize(images(), **options), **exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("planar", [False, True])
def test_every_input(dtype, channels, planar):
    """Every type, planes and interleaved pixels of any number of channels, to both layouts."""
    batch = images(dtype, channels)
    if planar:
        batch = [np.ascontiguousarray(x.transpose(2, 0, 1)) for x in batch]
    batch = TensorListCPU(batch, "CHW" if planar else "HWC")
    numbers = {"mean": [float(10 + c) for c in range(channels)], "std": [float(1 + c) for c in range(channels)]}
    for target in ("CHW", "HWC"):
        for mirror in (0, 1):
            options = {**numbers, "output_layout": target, "mirror": mirror}
            assert_same(lambda options=options: fn.crop_mirror_normalize(batch, **options), **tolerance(types.FLOAT))


@pytest.mark.parametrize("source", [np.uint8, np.float32])
@pytest.mark.parametrize("target", OUTPUTS[:4])
@pytest.mark.parametrize("planar", [False, True])
def test_kernels_of_their_own(source, target, planar):
    """The pairs of types that have a kernel of their own, by planes and by pixels of three channels."""
    batch = images(source)
    if planar:
        batch = [np.ascontiguousarray(x.transpose(2, 0, 1)) for x in batch]
    batch = TensorListCPU(batch, "CHW" if planar else "HWC")
    options = {**NUMBERS, "dtype": target, "mirror": per_sample(0, 1, 1, 0)}
    assert_same(lambda: fn.crop_mirror_normalize(batch, **options), **tolerance(target))
    assert_same(lambda: fn.crop_mirror_normalize(batch, output_layout="HWC", **options), **tolerance(target))


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_borders(layout):
    """Windows that leave the image, added channels, and both at once, mirrored or not for each sample."""
    close = tolerance(types.FLOAT)
    options = {**NUMBERS, "output_layout": layout, "mirror": per_sample(0, 1, 1, 0), "fill_values": (7.0, 8.0, 9.0)}
    outside = {**options, "crop": (20, 31), "out_of_bounds_policy": "pad", "crop_pos_x": 0.2}
    assert_same(lambda: fn.crop_mirror_normalize(images(), **outside), **close)
    assert_same(lambda: fn.crop_mirror_normalize(images(), pad_output=True, **options), **close)
    both = {**options, "crop": (20, 31), "pad_output": True}
    assert_same(lambda: fn.crop_mirror_normalize(images(), out_of_bounds_policy="pad", **both), **close)
    assert_same(lambda: fn.crop_mirror_normalize(images(), out_of_bounds_policy="trim_to_shape", **both), **close)
    assert_same(lambda: fn.crop_mirror_normalize(images(sizes=[(0, 3), (2, 2)]), output_layout=layout))


def test_sequences_and_volumes():
    """Frames and slices, each sample by its own numbers."""
    options = {**NUMBERS, "crop": (5, 12), "mirror": per_sample(0, 1)}
    for layout in ("FHWC", "FCHW", "DHWC", "CDHW", "FDHWC", "FCDHW"):
        assert_same(lambda layout=layout: fn.crop_mirror_normalize(clips(layout), **options), **tolerance(types.FLOAT))
    means = per_sample([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert_same(lambda: fn.crop_mirror_normalize(clips(), mean=means, std=per_sample(2.0, 3.0)))


def test_wrong_numbers_are_refused():
    """The errors are those of the CPU."""
    for options, message in (
        ({"crop": (90, 5)}, "Slice can't be placed"),
        ({"mean": [1.0, 2.0]}, "mean has 2 values for 3 channels"),
        ({"std": 0.0}, "std must not be 0"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=message):
            on_host(call_of(lambda options=options: fn.crop_mirror_normalize(images(), **options)))
