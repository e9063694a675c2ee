"""What DALI renamed goes on working, with a warning that says the name of today."""

import numpy as np
import pytest

from pipeflow import fn, ops, types
from pipeflow.declare import class_name, registry
from pipeflow.operators.former_names import FORMER_NAMES

IMAGE = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)


@pytest.mark.parametrize("former", sorted(FORMER_NAMES))
def test_every_former_operator_has_its_present_one(former):
    """The name is there, is none of today's, and leads to an operator that is."""
    place = fn
    for part in former.split("."):
        place = getattr(place, part)
    assert callable(place)
    assert former not in registry
    assert FORMER_NAMES[former] in registry


@pytest.mark.parametrize("op", [op for op in registry.values() if op.former], ids=lambda op: op.name)
def test_former_arguments_belong_to_the_declaration(op):
    """An operator says itself which of its arguments had another name, and still accepts that."""
    for former, present in op.former.items():
        assert present in op.arguments
        assert former not in op.arguments
    assert {"crop", "crop_mirror_normalize", "lookup_table", "rotate", "slice", "warp_affine"} <= {
        one.name for one in registry.values() if one.former == {"output_dtype": "dtype"}
    }


def test_former_operators_do_the_same_and_warn_at_the_callers_line():
    """The result is that of today's operator; the warning names it and points into this file."""
    text = "fn.fast_resize_crop_mirror is a former name: write fn.resize_crop_mirror"
    with pytest.warns(DeprecationWarning, match=text) as seen:
        former = fn.fast_resize_crop_mirror(IMAGE, size=(4, 4), crop=(2, 2))
    assert seen[0].filename == __file__
    assert np.array_equal(former, fn.resize_crop_mirror(IMAGE, size=(4, 4), crop=(2, 2)))


def test_former_classes():
    """``ops`` has them too, under DALI's spelling."""
    assert class_name("tfrecord_reader") == "TFRecordReader"
    with pytest.warns(
        DeprecationWarning, match=r"ops.FastResizeCropMirror is a former name: write ops.ResizeCropMirror"
    ):
        former = ops.FastResizeCropMirror(size=(4, 4), crop=(2, 2))
    assert np.array_equal(former(IMAGE), fn.resize_crop_mirror(IMAGE, size=(4, 4), crop=(2, 2)))
    with pytest.warns(DeprecationWarning, match=r"write ops.random.CoinFlip"):
        ops.CoinFlip(probability=0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda **x: fn.crop(IMAGE, crop=(2, 2), **x),
        lambda **x: fn.crop_mirror_normalize(IMAGE, **x),
        lambda **x: fn.slice(IMAGE, start=(0, 0), shape=(2, 2), axes=(0, 1), **x),
        lambda **x: fn.rotate(IMAGE, angle=10.0, **x),
        lambda **x: fn.warp_affine(IMAGE, matrix=(1.0, 0.0, 1.0, 0.0, 1.0, 0.0), **x),
        lambda **x: fn.lookup_table(IMAGE, keys=[1], values=[2.0], **x),
    ],
)
def test_output_dtype_is_dtype(call):
    """The argument's former name has its effect; both names at once are one too many."""
    with pytest.warns(DeprecationWarning, match="the argument 'output_dtype' is called 'dtype' now") as seen:
        former = call(output_dtype=types.FLOAT16)
    assert seen[0].filename == __file__
    assert np.array_equal(former, call(dtype=types.FLOAT16))
    with (
        pytest.warns(DeprecationWarning, match="output_dtype"),
        pytest.raises(TypeError, match="'output_dtype' is the former name of 'dtype': give one of them"),
    ):
        call(output_dtype=types.FLOAT16, dtype=types.FLOAT)


def test_image_type_is_accepted_where_it_once_meant_something():
    """It has had no effect for long."""
    assert np.array_equal(fn.crop(IMAGE, crop=(2, 2), image_type=types.RGB), fn.crop(IMAGE, crop=(2, 2)))
    assert np.array_equal(fn.resize(IMAGE, size=(2, 2), image_type=types.RGB), fn.resize(IMAGE, size=(2, 2)))


def test_other_operators_know_no_former_argument():
    """Where DALI never had the name it is an unknown argument."""
    with pytest.raises(TypeError, match='Argument "output_dtype" is not defined'):
        fn.flip(IMAGE, output_dtype=types.FLOAT)
