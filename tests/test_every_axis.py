"""Every operator that is given axes does along each of them what it does along the first, by number or by name."""

import numpy as np
import pytest
from generate_docs import public

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

X = np.random.default_rng(2).uniform(1, 9, (4, 3, 5)).astype(np.float32)
LABELS = np.random.default_rng(2).integers(0, 4, (4, 3, 5)).astype(np.int32)


def of(name, *rest, **arguments):
    """The call of an operator on data along ``axes``, of one axis each."""
    return lambda x, **axes: getattr_path(name)(x, *[other(x) for other in rest], **arguments, **axes)


def getattr_path(name):
    found = fn
    for part in name.split("."):
        found = getattr(found, part)
    return found


def shifted(x):
    return TensorListCPU([np.asarray(x[0]) + 1], layout=x.layout()) if isinstance(x, TensorListCPU) else x + 1


def halves(x):
    """Numbers to take variances around, without axes."""
    return np.float32(0.5)


# Operators whose results have the axes of the data.
KEEP = {
    "cat": of("cat", shifted),
    "erase": of("erase", anchor=[1.0], shape=[1.0], fill_value=7),
    "mfcc": of("mfcc", n_mfcc=2),
    "normalize": of("normalize"),
    "pad": of("pad", shape=[6], fill_value=3),
    "power_spectrum": of("power_spectrum", nfft=4),
    "slice": of("slice", start=[1], shape=[2]),
    "tensor_resize": of("tensor_resize", sizes=[6.0]),
}
# Those that take the axis away.
REMOVE = {
    f"reductions.{name}": of(f"reductions.{name}", keep_dims=False)
    for name in ("max", "mean", "mean_square", "min", "rms", "sum")
} | {f"reductions.{name}": of(f"reductions.{name}", halves) for name in ("std_dev", "variance")}
# Those that add one.
ADD = {"stack": of("stack", shifted), "expand_dims": of("expand_dims"), "one_hot": of("one_hot", num_classes=4)}
ELSEWHERE = {
    "decoders.image_slice": "its data is a file: test_a_part_of_a_file",
    "squeeze": "the axis must have an extent of 1: test_every_axis_can_be_squeezed",
    "rotate": "the axis is a vector",
    "transforms.rotation": "the axis is a vector",
}


def axes_of(op):
    """The names of the arguments that give axes by number, and by name."""
    names = {param.name for param in op.params}
    return [next((name for name in found if name in names), None) for found in (("axes", "axis"), NAMED)]


NAMED = ("axis_names", "axis_name", "new_axis_names")
OPERATORS = {op.name: op for op in public() if axes_of(op)[0]}
BY_NAME = [name for name in {**KEEP, **REMOVE} if axes_of(OPERATORS[name])[1]]


def along(name, axis):
    """The argument that gives one axis by its number."""
    argument = axes_of(OPERATORS[name])[0]
    return {argument: axis if argument == "axis" else [axis]}


def test_every_operator_with_axes_is_here():
    """Or says where its axes are tested."""
    assert set(OPERATORS) == {*KEEP, *REMOVE, *ADD, *ELSEWHERE}


@pytest.mark.parametrize("axis", range(X.ndim))
@pytest.mark.parametrize("name", KEEP)
def test_along_each_axis_it_does_the_same(name, axis):
    """The result for data whose first axis was moved is the result for the data, with the axis moved."""
    expected = np.moveaxis(np.asarray(KEEP[name](X, **along(name, 0))), 0, axis)
    found = np.asarray(KEEP[name](np.moveaxis(X, 0, axis), **along(name, axis)))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert not np.array_equal(expected, np.moveaxis(X, 0, axis))


@pytest.mark.parametrize("axis", range(X.ndim))
@pytest.mark.parametrize("name", REMOVE)
def test_each_axis_can_be_taken_away(name, axis):
    """Whichever it is, the same numbers are joined."""
    expected = np.asarray(REMOVE[name](X, **along(name, 0)))
    assert expected.shape == X.shape[1:]
    found = np.asarray(REMOVE[name](np.moveaxis(X, 0, axis), **along(name, axis)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("axis", range(X.ndim + 1))
@pytest.mark.parametrize("name", ADD)
def test_a_new_axis_can_be_at_each_place(name, axis):
    """The result is the one with the new axis first, with the axis moved."""
    data = LABELS if name == "one_hot" else X
    expected = np.moveaxis(np.asarray(ADD[name](data, **along(name, 0))), 0, axis)
    np.testing.assert_array_equal(np.asarray(ADD[name](data, **along(name, axis))), expected)


@pytest.mark.parametrize("axis", range(X.ndim))
@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_is_a_number(name, axis):
    """An axis is the same by its letter in the layout."""
    call, argument = {**KEEP, **REMOVE}[name], axes_of(OPERATORS[name])[1]
    (expected,) = call(TensorListCPU([X], layout="DHW"), **along(name, axis))
    (found,) = call(TensorListCPU([X], layout="DHW"), **{argument: "DHW"[axis]})
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("axis", range(X.ndim))
def test_every_axis_can_be_squeezed(axis):
    """By number and by name, and no other one is."""
    data = np.expand_dims(X[0], axis)
    np.testing.assert_array_equal(np.asarray(fn.squeeze(data, axes=[axis])), X[0])
    (found,) = fn.squeeze(TensorListCPU([data], layout="DHW"), axis_names="DHW"[axis])
    np.testing.assert_array_equal(np.asarray(found), X[0])


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 0)])
def test_a_part_of_a_file(axes, named):
    """A decoder with a window along one axis, or both in any order, gives the part of the picture."""
    picture = np.random.default_rng(1).integers(0, 256, (9, 12, 3), np.uint8)
    header = f"P6 {picture.shape[1]} {picture.shape[0]} 255\n".encode()
    start, shape = [2, 5], [4, 6]
    given = {"start": [start[axis] for axis in axes], "shape": [shape[axis] for axis in axes]}
    given |= {"axis_names": "".join("HW"[axis] for axis in axes)} if named else {"axes": list(axes)}
    found = fn.decoders.image_slice(np.frombuffer(header + picture.tobytes(), np.uint8), **given)
    window = tuple(slice(start[a], start[a] + shape[a]) if a in axes else slice(None) for a in (0, 1))
    np.testing.assert_array_equal(np.asarray(found), picture[window])
