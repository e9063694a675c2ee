"""The GPU forms of the operators for shape and order give on the host what the CPU gives, bit for bit."""

import numpy as np
import pytest
from host_device import HostMemory, assert_same, call_of, on_host
from test_host_geometry import DTYPES, SIZES, clips, images, per_sample

from pipeflow import fn, types
from pipeflow.operators import structure
from pipeflow.tensors import TensorListCPU


def test_views_launch_nothing(monkeypatch):
    """reshape, reinterpret, expand_dims, squeeze, per_frame and element_extract only look at their input in another way."""

    def launch(*_):
        raise AssertionError("a view launched a kernel")

    monkeypatch.setattr(HostMemory, "launch", launch)
    batch = TensorListCPU(images(sizes=[(4, 6), (2, 12)]), "HWC")
    assert_same(lambda: fn.reshape(batch, shape=(-1, 2)))
    assert_same(lambda: fn.reshape(batch, rel_shape=[0.5, 2, 1], layout="HWC"))
    assert_same(lambda: fn.reshape(batch, src_dims=(1, 0, 2)))
    assert_same(lambda: fn.reshape(batch, shape=per_sample([8, 9], [72, 1])))
    assert_same(lambda: fn.reinterpret(batch, shape=(-1,)))
    assert_same(lambda: fn.reinterpret([np.arange(24, dtype=np.int32)] * 2, dtype=types.UINT8))
    assert_same(lambda: fn.reinterpret([np.arange(24, dtype=np.uint8)] * 2, dtype=types.FLOAT))
    assert_same(lambda: fn.reshape(batch, TensorListCPU([np.array([8, 9]), np.array([-1, 2])])))
    assert_same(lambda: fn.reinterpret(batch, TensorListCPU([np.array([9, 2]), np.array([3, 6])]), dtype=types.INT32))
    assert_same(lambda: fn.expand_dims(batch, axes=(0, 4), new_axis_names="FN"))
    assert_same(lambda: fn.squeeze([x[None, :, None] for x in images()], axes=(0, 2)))
    assert_same(lambda: fn.squeeze(TensorListCPU(images(channels=1), "HWC"), axis_names="C"))
    assert_same(lambda: fn.per_frame([np.arange(5), np.arange(3)]))
    frames = TensorListCPU([np.arange(60).reshape(n, -1) for n in (3, 5)], "FX")
    call = call_of(lambda: fn.element_extract(frames, element_map=[2, 0, 2]))
    found, layouts = on_host(call)
    assert layouts == ("X",) * 3
    for column, index in zip(found, (2, 0, 2), strict=True):
        for x, sample in zip(column, frames.samples(), strict=True):
            np.testing.assert_array_equal(x, sample[index])


def test_wrong_shapes_are_refused():
    """The errors are those of the CPU."""
    for wrong, message in (
        (lambda: fn.reshape(images(), shape=(7, -1)), "do not fill the shape"),
        (lambda: fn.squeeze(images(), axes=2), "only axes of extent 1"),
        (lambda: fn.reinterpret(images(), dtype=types.INT32), "not a multiple"),
        (lambda: fn.element_extract(images(), element_map=[1]), "out of bounds for sample"),
        (lambda: fn.sequence_rearrange(images(), new_order=[4]), "names frame 4"),
        (lambda: fn.permute_batch(images(), indices=[0, 1, 2, 4]), "names sample 4"),
        (lambda: fn.cat(images(), [x[:1] for x in images()], axis=1), "must have equal extents except along axis 1"),
        (lambda: fn.stack(images(), [x[:1] for x in images()]), "must have one shape"),
        (lambda: fn.reshape(images(), TensorListCPU([np.array([3, 5, 7])] * 4)), "cannot take the shape"),
    ):
        with pytest.raises((ValueError, IndexError, RuntimeError), match=message):
            on_host(call_of(wrong))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("perm", [(2, 0, 1), (1, 0, 2), (0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_transpose(dtype, perm):
    """Every element type and order of three axes."""
    assert_same(lambda: fn.transpose(TensorListCPU(images(dtype), "HWC"), perm=perm))


def test_transpose_of_many_axes():
    """The default reverses; six axes, none of which can be joined; empty ones."""
    rng = np.random.default_rng(3)
    data = [rng.integers(0, 99, (2, 3, 4, 5, 2, 3)), rng.integers(0, 99, (1, 3, 1, 5, 2, 7))]
    assert_same(lambda: fn.transpose(data))
    assert_same(lambda: fn.transpose(data, perm=(5, 1, 3, 0, 4, 2)))
    assert_same(lambda: fn.transpose([np.zeros((0, 3)), np.zeros((2, 3))]))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int32, np.float64])
def test_cat_and_stack(dtype):
    """Along every axis, of two and three inputs, of extents that differ along the joint."""
    batch, flipped = images(dtype), [x[::-1].copy() for x in images(dtype)]
    for axis in (0, 1, 2, -1):
        assert_same(lambda axis=axis: fn.cat(batch, flipped, batch, axis=axis))
    for axis in (0, 1, 2, 3, -1):
        assert_same(lambda axis=axis: fn.stack(batch, flipped, axis=axis))
    assert_same(lambda: fn.cat(batch, [np.zeros((1, x.shape[1], 3), dtype) for x in batch]))
    assert_same(lambda: fn.cat(batch, [np.zeros((0, x.shape[1], 3), dtype) for x in batch]))
    assert_same(lambda: fn.stack(TensorListCPU(batch, "HWC"), TensorListCPU(flipped, "HWC"), axis=0, axis_name="F"))
    assert_same(lambda: fn.stack([np.array(3, dtype), np.array(4, dtype)], [np.array(5, dtype), np.array(6, dtype)]))


def test_sequences_and_batches():
    """Frames in another order, repeated, for each sample; samples of a batch in another order."""
    assert_same(lambda: fn.sequence_rearrange(clips("FHWC"), new_order=[0, 0, 0]))
    assert_same(lambda: fn.sequence_rearrange(clips("FHWC"), new_order=per_sample([0, 0], [2, 0])))
    assert_same(lambda: fn.permute_batch(images(), indices=[3, 3, 0, 1]))
    assert_same(lambda: fn.permute_batch(images(), indices=per_sample(1, 0, 3, 2)))


def test_subscripts():
    """Positions, ranges with steps in both directions, new axes, ranges of nothing."""
    batch = TensorListCPU(images(sizes=[(9, 8), (12, 7)]), "HWC")
    for plan in (
        [("at", 2)],
        [("at", -1), ("all",), ("at", 0)],
        [("range", 1, 7, 2)],
        [("range", None, None, -1)],
        [("all",), ("range", 6, 1, -2)],
        [("new", "F"), ("at", 3)],
        [("range", 5, 5, None)],
        [("all",), ("all",), ("new", None)],
    ):
        assert_same(lambda plan=plan: structure.subscript(batch, plan=plan))
    with pytest.raises(IndexError, match="out of bounds for axis 0"):
        on_host(call_of(lambda: structure.subscript(images(sizes=SIZES), plan=[("at", 5)])))


def test_copies_shapes_and_constants():
    """What the host knows arrives as it is."""
    for dtype in DTYPES:
        assert_same(lambda dtype=dtype: fn.copy(images(dtype)))
    assert_same(lambda: fn.copy([np.float32(3), np.float32(4)]))
    assert_same(lambda: fn.shapes(images()))
    assert_same(lambda: fn.shapes(images(), dtype=types.FLOAT))
    assert_same(lambda: structure.constant(value=np.arange(6.0).reshape(2, 3)))
