"""The GPU forms of the operators that cut, mirror and pad give on the host what the CPU gives, bit for bit."""

import numpy as np
import pytest
from host_device import HostMemory, assert_same, call_of, on_host

from pipeflow import fn, types
from pipeflow.device.calls import DeviceCall
from pipeflow.operators.on_gpu.moves import Box, around, divider, joined, move, split
from pipeflow.tensors import TensorListCPU

SIZES = [(5, 7), (1, 1), (33, 2), (64, 65)]
DTYPES = [np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
DTYPES += [np.float16, np.float32, np.float64]


def images(dtype=np.uint8, channels=3, sizes=SIZES):
    """Ragged images of random bytes."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 100, (*size, channels)).astype(dtype) for size in sizes]


def clips(layout="FHWC"):
    """Two sequences of unlike length."""
    rng = np.random.default_rng(2)
    extents = {"D": 3, "H": 9, "W": 22, "C": 3}
    shapes = [tuple(extents.get(letter, frames) for letter in layout) for frames in (1, 3)]
    return TensorListCPU([rng.integers(0, 255, shape, np.uint8) for shape in shapes], layout)


def per_sample(*values):
    """One argument value a sample."""
    return TensorListCPU([np.asarray(value) for value in values])


# ----------------------------------------------------------------------------------------------------
# boxes


def test_dividers_divide():
    """Multiplier and shift give the quotient of every number below 2**31."""
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.integers(0, 1 << 31, 1000), [0, 1, (1 << 31) - 1]]).astype(np.uint64)
    for extent in [
        1,
        2,
        3,
        5,
        7,
        224,
        255,
        256,
        257,
        641,
        65535,
        (1 << 31) - 1,
        *rng.integers(1, 1 << 31, 50).tolist(),
    ]:
        multiplier, shift = divider(extent)
        exact = numbers // np.uint64(extent)
        found = (((numbers * np.uint64(multiplier)) >> np.uint64(32)) + numbers) >> np.uint64(shift)
        np.testing.assert_array_equal(found, exact, err_msg=str(extent))


def test_axes_are_joined_where_both_sides_pass_them_alike():
    """A crop of an image keeps two axes, a whole image one, a transposed one all that differ."""
    assert joined((4, 5, 3), (15, 3, 1), (15, 3, 1)) == [(60, 1, 1)]
    assert joined((2, 5, 3), (30, 3, 1), (15, 3, 1)) == [(2, 30, 15), (15, 1, 1)]
    assert joined((3, 4, 5), (1, 15, 3), (20, 5, 1)) == [(3, 1, 20), (20, 3, 1)]


def test_what_lies_around_a_box_covers_everything_else_once():
    """The boxes around a box do not overlap and leave nothing out; around nothing lies everything."""
    for low, extents in (([1, 0, 2], [2, 3, 1]), ([0, 0, 0], [4, 3, 5]), ([2, 1, 1], [0, 2, 2])):
        counts = np.zeros((4, 3, 5), int)
        counts[tuple(np.s_[a : a + e] for a, e in zip(low, extents))] += 1
        for begin, size in around(counts.shape, low, extents):
            counts[tuple(np.s_[a : a + e] for a, e in zip(begin, size))] += 1
        assert (counts == 1).all()


def test_large_boxes_are_split_along_their_outermost_axes():
    """No part has more elements than asked, and together they are the box."""
    box = Box(0, 0, (5, 7, 11), (77, 11, 1), (77, 11, 1), 385)
    for most in (400, 100, 11, 3):
        seen = np.zeros(385, int)
        for part in split(box, most):
            assert np.prod(part.extents) <= most
            index = np.indices(part.extents).reshape(3, -1)
            assert part.input == part.output
            seen[part.input + np.array(part.inputs) @ index] += 1
        assert (seen == 1).all()


@pytest.mark.parametrize("run", [1, 15, 16, 17, 31, 47, 48, 49, 64, 100])
def test_runs_of_bytes_from_every_place_to_every_place(run):
    """Every alignment of source and target; what lies before and behind the target stays."""
    memory = HostMemory()
    source = np.arange(200, dtype=np.uint8)
    for start in range(0, 20, 3):
        for goal in range(17):
            place, target = memory.upload(source[: start + run]), memory.scratch(140)
            move(
                DeviceCall(None, [], memory),
                [Box(place + start, target + goal, (run,), (1,), (1,), place + start + run)],
                1,
            )
            found = memory.blocks[target]
            np.testing.assert_array_equal(found[goal : goal + run], source[start : start + run])
            assert (np.delete(found, np.s_[goal : goal + run]) == 0xA5).all()
    assert set(memory.launches) == {"move.cu:move_runs<unsigned char>"}


# ----------------------------------------------------------------------------------------------------
# operators


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", [{}, {"vertical": 1}, {"horizontal": 0, "vertical": 1}, {"horizontal": 0}])
def test_flip(dtype, axes):
    """Every element size, every pair of axes."""
    assert_same(lambda: fn.flip(images(dtype), **axes))


def test_flip_of_sequences_and_volumes():
    """Frames are mirrored one by one; volumes also front to back; each sample as its own argument says."""
    assert_same(lambda: fn.flip(clips()))
    assert_same(lambda: fn.flip(clips("DHWC"), depthwise=1))
    assert_same(lambda: fn.flip(clips("FDHWC"), depthwise=1, vertical=1))
    assert_same(lambda: fn.flip(clips("CDHW"), horizontal=per_sample(0, 1), depthwise=1))
    assert_same(lambda: fn.flip(images(sizes=[(0, 4), (3, 3), (2, 0)])))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_crop(dtype, layout):
    """Windows inside, given as constants or for each sample, of either layout."""
    batch = images(dtype, sizes=[(40, 70), (33, 35), (64, 65)])
    if layout == "CHW":
        batch = [np.ascontiguousarray(x.transpose(2, 0, 1)) for x in batch]
    batch = TensorListCPU(batch, layout)
    assert_same(lambda: fn.crop(batch, crop=(20, 31), crop_pos_x=0.3, crop_pos_y=0.9))
    assert_same(lambda: fn.crop(batch, crop_w=per_sample(3.0, 20.0, 9.0), crop_pos_x=per_sample(0.0, 1.0, 0.5)))


@pytest.mark.parametrize("policy", ["pad", "trim_to_shape"])
def test_crop_out_of_bounds(policy):
    """Windows larger than the image: fill values, one a channel or one for all, or what there is."""
    options = {"crop": (20, 31), "out_of_bounds_policy": policy, "crop_pos_x": 0.3}
    assert_same(lambda: fn.crop(images(sizes=SIZES), **options, fill_values=(1, 2, 3)))
    assert_same(lambda: fn.crop(images(np.float32, sizes=SIZES), **options, fill_values=7.5))
    assert_same(lambda: fn.crop(images(np.float16, sizes=[(0, 5), (4, 4)]), **options))


def test_crop_with_another_type():
    """The window is converted as a cast would."""
    assert_same(lambda: fn.crop(images(np.float32), crop=(1, 1), dtype=types.UINT8))
    assert_same(lambda: fn.crop(images(), crop=(70, 70), dtype=types.FLOAT, out_of_bounds_policy="pad", fill_values=3))


def test_crop_of_sequences_and_volumes():
    """Every frame of a sequence and every layout with an axis for the depth."""
    for layout in ("FHWC", "FCHW", "CFHW", "DHWC", "CDHW", "FDHWC", "FCDHW", "CFDHW"):
        assert_same(lambda layout=layout: fn.crop(clips(layout), crop=(4, 11), crop_pos_y=0.2))


def test_a_crop_that_leaves_the_image_is_refused():
    """The error is that of the CPU, and is blamed on the sample."""
    call = call_of(lambda: fn.crop(images(sizes=[(9, 9), (3, 9)]), crop=(5, 5)))
    with pytest.raises(RuntimeError, match="Slice can't be placed out of bounds") as caught:
        on_host(call)
    assert caught.value.sample_index == 1


def test_slice():
    """Starts, ends and shapes in elements and as shares, along named and numbered axes."""
    batch = TensorListCPU(images(sizes=[(40, 70), (33, 35), (64, 65)]), "HWC")
    assert_same(lambda: fn.slice(batch, start=(5, 8), shape=(10, 12), axes=(0, 1)))
    assert_same(lambda: fn.slice(batch, rel_start=(0.1, 0.2), rel_end=(0.9, 0.7)))
    assert_same(lambda: fn.slice(batch, start=per_sample(3, 0, 20), end=per_sample(7, 30, 21), axis_names="H"))
    assert_same(lambda: fn.slice(batch, start=(-5, 8), end=(80, 12), out_of_bounds_policy="pad", fill_values=(1, 2, 3)))
    assert_same(lambda: fn.slice(batch, start=(-5, 8), end=(80, 12), out_of_bounds_policy="trim_to_shape"))
    assert_same(lambda: fn.slice([np.arange(9.0), np.arange(20.0)], start=2, shape=5, axes=0, dtype=types.INT32))


def test_slice_by_inputs():
    """Anchor and shape as inputs: elements if they are integers, shares of the extents if they are floats."""
    batch = TensorListCPU(images(), "HWC")
    rng = np.random.default_rng(8)
    size = len(batch)
    anchor, shape = (TensorListCPU([rng.integers(1, 9, 2) for _ in range(size)]) for _ in range(2))
    shares = TensorListCPU([rng.uniform(0.1, 0.5, 2).astype(np.float32) for _ in range(size)])
    assert_same(lambda: fn.slice(batch, anchor, shape, out_of_bounds_policy="pad"))
    assert_same(lambda: fn.slice(batch, shares, shares, axis_names="HW"))
    assert_same(lambda: fn.slice(batch, anchor, rel_shape=(0.3, 0.4), out_of_bounds_policy="trim_to_shape"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pad(dtype):
    """To the largest of the batch, to a shape and to multiples; the fill value in every type."""
    assert_same(lambda: fn.pad(images(dtype)))
    assert_same(lambda: fn.pad(images(dtype), fill_value=1, axes=(0, 1), shape=(70, -1), align=(1, 16)))


def test_pad_by_the_samples_own_arguments():
    """Vectors, empty samples, a value and an alignment for each."""
    vectors = [np.arange(n, dtype=np.float32) for n in (5, 0, 130)]
    assert_same(lambda: fn.pad(vectors, fill_value=per_sample(-1.0, 2.0, 3.0), align=per_sample(1, 4, 256)))
    assert_same(lambda: fn.pad(TensorListCPU(images(), "HWC"), axis_names="W", align=32, fill_value=5))


@pytest.mark.parametrize("dtype", DTYPES)
def test_erase(dtype):
    """Several rectangles, some of them partly or wholly outside; one value or one a channel."""
    batch = TensorListCPU(images(dtype), "HWC")
    options = {
        "anchor": (0.0, 1.0, 20.0, -3.0, 90.0, 0.0),
        "shape": (3.0, 4.0, 30.0, 9.0, 5.0, 5.0),
        "axis_names": "HW",
    }
    assert_same(lambda: fn.erase(batch, **options, fill_value=(1, 0, 1)))
    assert_same(lambda: fn.erase(batch, **options, fill_value=1))


def test_erase_by_shares_and_of_sequences():
    """Shares of the extents, centred anchors, per-sample rectangles, frames."""
    batch = TensorListCPU(images(), "HWC")
    assert_same(lambda: fn.erase(batch, anchor=(0.5, 0.5), shape=(0.3, 0.4), normalized=True, centered_anchor=True))
    anchors = per_sample([1.0, 1.0], [0.0, 0.0], [3.0, 0.0], [5.0, 5.0])
    assert_same(lambda: fn.erase(batch, anchor=anchors, shape=(2.0, 3.0), fill_value=9))
    assert_same(lambda: fn.erase(clips(), axis_names="HW", anchor=(1.0, 3.0), shape=(2.0, 3.0), fill_value=9))
