"""The GPU forms of the operators that resize give on the host what the CPU gives, from the same tap tables."""

import numpy as np
import pytest
from host_device import ON_GPU, GpuMemory, HostMemory, assert_same, call_of, on_host
from test_host_geometry import DTYPES, clips, images, per_sample

from pipeflow import fn, types
from pipeflow.declare import Args
from pipeflow.device.calls import Launcher, View
from pipeflow.kernels.cpu.resample import axis_taps
from pipeflow.operators.on_gpu.resize import make_taps
from pipeflow.operators.on_gpu.resize_rows import TILE_FLOATS, TILE_ROWS, tap_counts, tile_widths
from pipeflow.operators.sampling import Axis, axes_row
from pipeflow.tensors import TensorListCPU

SIZES = [(40, 70), (1, 1), (33, 2), (64, 65)]
KINDS = [
    types.INTERP_NN,
    types.INTERP_LINEAR,
    types.INTERP_CUBIC,
    types.INTERP_LANCZOS3,
    types.INTERP_TRIANGULAR,
    types.INTERP_GAUSSIAN,
]


def close(dtype):
    """What summation may change: a unit of an integer at an exact half, the last bits of a float."""
    kind = np.dtype(dtype).kind
    return {"rtol": 1e-5, "atol": 1e-4} if kind == "f" else {"atol": 1.0, "rtol": 1e-7, "few": 0.02}


def batch(dtype=np.uint8, channels=3, planar=False):
    """Ragged images of either layout."""
    result = images(dtype, channels, SIZES)
    if planar:
        result = [np.ascontiguousarray(x.transpose(2, 0, 1)) for x in result]
    return TensorListCPU(result, "CHW" if planar else "HWC")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("planar", [True, False])
def test_every_filter(kind, antialias, planar):
    """Shrinking and stretching in one image, of bytes and of floats."""
    for dtype in (np.uint8, np.float32):
        for size in ((12, 90), (50, 1), (3, 3)):
            options = {"size": size, "interp_type": kind, "antialias": antialias}
            assert_same(
                lambda dtype=dtype, options=options: fn.resize(batch(dtype, 3, planar), **options), **close(dtype)
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_every_type(dtype, channels):
    """Every type to itself, to bytes and to floats, for any number of channels."""
    for target in (None, types.UINT8, types.FLOAT, types.INT16, types.FLOAT16):
        found = dtype if target is None else np.dtype(types.as_dtype(target))
        tolerance = {"rtol": 1e-3} if found == np.float16 else close(found)
        assert_same(lambda target=target: fn.resize(batch(dtype, channels), size=(9, 33), dtype=target), **tolerance)
    assert_same(lambda: fn.resize(batch(dtype, channels), size=(9, 33), interp_type=types.INTERP_NN))
    if dtype is not np.bool_:
        assert_same(
            lambda: fn.resize(batch(dtype, channels), size=(9, 33), interp_type=types.INTERP_NN, dtype=types.INT64)
        )


def test_sizes_modes_and_regions():
    """One extent for the other, limits, regions that mirror, sizes of each sample, saved attributes."""
    assert_same(lambda: fn.resize(batch(), resize_x=20), **close(np.uint8))
    assert_same(lambda: fn.resize(batch(), resize_shorter=per_sample(8.0, 3.0, 5.0, 30.0)), **close(np.uint8))
    assert_same(lambda: fn.resize(batch(), size=(20, 20), mode="not_larger", save_attrs=True), **close(np.uint8))
    assert_same(lambda: fn.resize(batch(), size=(20, -20), dtype=types.FLOAT), **close(np.float32))
    region = {"roi_start": (0.9, 0.2), "roi_end": (0.1, 1.3), "roi_relative": True}
    assert_same(lambda: fn.resize(batch(), size=7, **region), **close(np.uint8))


def test_shrinking_beyond_the_tiles():
    """Where a column alone needs more than the shared memory holds, each axis has its own pass."""
    wide = np.random.default_rng(4).integers(0, 255, (3, 2000, 3), np.uint8)
    axis = axes_of(Axis(2000, 0, 2000, 2))
    counts = tap_counts(axis[None], True)[0]
    assert tile_widths(axis, counts, counts, np.array([3]))[0] == 0
    assert_same(lambda: fn.resize([wide, wide[:, :900].copy()], size=(2, 2)), **close(np.uint8))


def axes_of(*axes, kind=types.INTERP_LINEAR):
    """Rows of these axes."""
    return axes_row(axes, Args(interp_type=kind, min_filter=None, mag_filter=None))


def any_axis(rng):
    """An axis of any scale, whole or a part, mirrored or not, with a region that may leave the image."""
    size, full = int(rng.integers(1, 400)), int(rng.integers(1, 300))
    low, high = rng.uniform(-0.2, 1.2, 2) * size if rng.random() < 0.6 else (0.0, float(size))
    if rng.random() < 0.2:
        low, high = 3.0, 3.0 + full  # pixels exactly as they are
    first = int(rng.integers(0, full))
    count = int(rng.integers(1, full - first + 1))
    return Axis(size, float(low), float(high if high != low else low + 1), full, first, count, bool(rng.random() < 0.5))


def test_tiles_fit_into_shared_memory():
    """Whatever the scale and the direction, a tile's blended rows fit."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        axis, pixel = any_axis(rng), int(rng.integers(1, 9))
        rows = axes_of(axis)
        counts = tap_counts(rows[None], True)[0]
        width = int(tile_widths(rows, counts, counts, np.array([pixel]))[0])
        starts, weights = axis_taps(axis.size, axis.low, axis.high, axis.full, 1, True, axis.first, axis.count)
        assert weights.shape[1] <= counts[0]
        starts = np.minimum(starts, axis.size - counts[0])
        for left in range(0, len(starts), width) if width else ():
            part = starts[left : left + width]
            span = (part.max() - part.min() + counts[0]) * pixel
            assert -(-span // 4) * 4 * TILE_ROWS <= TILE_FLOATS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("antialias", [True, False])
def test_taps_made_on_the_device(kind, antialias):
    """The tables are those of the CPU: a weight for each pixel, equal but for the last bits of sines and exponentials."""
    rng = np.random.default_rng(6)
    axes = [any_axis(rng) for _ in range(60)]
    rows = axes_of(*axes, kind=kind)
    memory = GpuMemory() if ON_GPU else HostMemory()
    (taps,) = make_taps(Launcher(memory), rows[:, None], antialias)
    for axis, starts, weights, count in zip(axes, *taps):
        exact, sums = axis_taps(
            axis.size, axis.low, axis.high, axis.full, int(kind), antialias, axis.first, axis.count, axis.mirror
        )
        found = memory.array(View(int(starts), (axis.count,), np.dtype(np.int32)))
        parts = memory.array(View(int(weights), (axis.count, int(count)), np.dtype(np.float32)))
        assert sums.shape[1] <= count <= axis.size
        assert ((found >= 0) & (found + count <= axis.size)).all()
        np.testing.assert_allclose(dense(found, parts, axis.size), dense(exact, sums, axis.size), rtol=3e-7, atol=1e-12)


def dense(starts, weights, size):
    """The weight of every pixel for every output."""
    result = np.zeros((len(starts), size))
    for row, start, values in zip(result, starts, weights):
        row[start : start + len(values)] = values
    return result


@pytest.mark.parametrize("layout", ["DHWC", "CDHW", "FDHWC", "FCDHW", "CFDHW", "FHWC", "FCHW", "CFHW"])
def test_sequences_and_volumes(layout):
    """Volumes along three axes, frames one by one."""
    size = (5, 4, 11) if "D" in layout else (4, 11)
    assert_same(lambda: fn.resize(clips(layout), size=size), **close(np.uint8))
    cubic = {"size": size, "dtype": types.FLOAT, "interp_type": types.INTERP_CUBIC}
    assert_same(lambda: fn.resize(clips(layout), **cubic), **close(np.float32))
    assert_same(lambda: fn.resize(clips(layout), size=size, interp_type=types.INTERP_NN))
    assert_same(lambda: fn.resize(clips(layout), size=size, save_attrs=True), **close(np.uint8))


def test_resize_crop_mirror():
    """The kept window, mirrored along either axis or both."""
    options = {"size": (30, 40), "crop": (20, 31), "crop_pos_x": 0.2}
    for mirror in range(4):
        assert_same(lambda mirror=mirror: fn.resize_crop_mirror(batch(), mirror=mirror, **options), **close(np.uint8))
    mirrors = per_sample(0, 1, 2, 3)
    assert_same(lambda: fn.resize_crop_mirror(batch(np.float32), mirror=mirrors, **options), **close(np.float32))
    with pytest.raises(ValueError, match="larger than the resized image"):
        on_host(call_of(lambda: fn.resize_crop_mirror(batch(), size=(30, 40), crop=(31, 4))))


def test_random_resized_crop():
    """The windows are the CPU's: the same numbers are drawn."""
    assert_same(lambda: fn.random_resized_crop(batch(), size=(20, 30)), **close(np.uint8))
    assert_same(
        lambda: fn.random_resized_crop(batch(np.float32), size=9, interp_type=types.INTERP_CUBIC), **close(np.float32)
    )
    assert_same(lambda: fn.random_resized_crop(clips(), size=(4, 9)), **close(np.uint8))


def test_images_without_pixels_are_refused():
    """The error is that of the CPU."""
    with pytest.raises(ValueError, match="no pixels"):
        on_host(call_of(lambda: fn.resize(images(sizes=[(0, 4)]), size=(3, 3))))
