"""What GPU forms plan for a sample, worked out by hand: axes, taps, codes of types. No kernel runs."""

import io

import numpy as np
import pytest
from helpers import calls_of
from PIL import Image
from test_tables import Recorder, planned

from pipeflow import fn, math, types
from pipeflow.declare import Args
from pipeflow.device.calls import DevicePlanner, SampleValues, View
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators.on_gpu import decoders
from pipeflow.operators.on_gpu.reductions import Reduction
from pipeflow.operators.on_gpu.resize_rows import tap_counts
from pipeflow.operators.sampling import Axis, axes_row
from pipeflow.tensors import TensorListCPU


def reduction(shape, axes):
    """The plan for float32 numbers of a shape."""
    return Reduction.of(View(0, shape, np.dtype(np.float32)), axes)


@pytest.mark.parametrize(
    ("shape", "axes", "inner", "kept", "reduced", "spread"),
    [
        # strides of 2 x 3 x 4: 12, 4, 1; the results of axis 0 are 4 apart, those of axis 2 are neighbours
        ((2, 3, 4), [1], 4, [(2, 12)], [(3, 4)], [(2, 4), (3, 0), (4, 1)]),
        ((3, 2, 4), [1], 4, [(3, 8)], [(2, 4)], [(3, 4), (2, 0), (4, 1)]),  # of two rows each
        ((4, 3, 2), [0, 1], 2, [], [(12, 2)], [(12, 0), (2, 1)]),  # neighbours of one kind are one axis
        ((4, 3, 2), [2], 1, [(12, 2)], [(2, 1)], [(12, 1), (2, 0)]),
        ((5, 1, 3), [0], 3, [], [(5, 3)], [(5, 0), (3, 1)]),  # an axis of one element has no share
        ((2, 2), [0, 1], 1, [], [(4, 1)], [(4, 0)]),
    ],
)
def test_the_axes_of_a_reduction(shape, axes, inner, kept, reduced, spread):
    """Extents and strides, outermost first."""
    found = reduction(shape, axes)
    assert (found.inner, found.kept, found.reduced, found.spread) == (inner, kept, reduced, spread)
    assert found.results * found.count == np.prod(shape)


@pytest.mark.parametrize(
    ("kind", "antialias", "size", "result", "taps"),
    [
        (types.INTERP_LINEAR, False, 100, 50, 2),
        (types.INTERP_LINEAR, True, 100, 50, 4),  # a triangle of the scale, 2, to each side
        (types.INTERP_LINEAR, True, 50, 100, 2),
        (types.INTERP_CUBIC, False, 50, 100, 4),
        (types.INTERP_LANCZOS3, False, 50, 100, 6),
        (types.INTERP_LANCZOS3, True, 60, 30, 12),
        (types.INTERP_LANCZOS3, False, 5, 100, 5),  # never more than there are pixels
        (types.INTERP_NN, False, 50, 100, 1),
        (types.INTERP_LINEAR, False, 50, 50, 1),  # every output is exactly at a pixel
    ],
)
def test_how_many_pixels_an_output_is_computed_from(kind, antialias, size, result, taps):
    """Twice the radius of the filter, in pixels of the input."""
    rows = axes_row([Axis(size, 0.0, float(size), result)], Args(interp_type=kind, min_filter=None, mag_filter=None))
    assert tap_counts(rows[None], antialias).tolist() == [[taps]]


def operand_types(*dtypes):
    """The types by which the maximum of two arrays reads its operands."""
    call, memory = (
        calls_of(lambda: math.max(*[TensorListCPU([np.zeros(3, dtype)]) for dtype in dtypes]))[-1],
        Recorder(),
    )
    views = [View(memory.new(3 * np.dtype(dtype).itemsize, "input"), (3,), np.dtype(dtype)) for dtype in dtypes]
    DevicePlanner(call.op, call.constants, 1)([SampleValues(views, {}, 0)], ["", ""], memory)
    ((launch,),) = memory.launches.values()
    return launch[2]["operands"]["type"][0, :2].tolist()


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        (np.int32, np.int64, [np.int32, np.int64]),
        (np.uint64, np.int8, [np.int64, np.int8]),  # they meet in int64: a high number turns negative by its sign bit
        (np.uint64, np.uint8, [np.uint64, np.uint8]),
        (np.uint64, np.float32, [np.uint64, np.float32]),
    ],
)
def test_operands_are_read_by_their_own_types(first, second, read):
    """Only uint64 that meets a signed type is read as another type."""
    assert operand_types(first, second) == [TYPE_CODES[np.dtype(kind)] for kind in read]


def test_a_resize_to_more_values_than_the_kernels_count_is_refused():
    """A volume of 2**31 values or more; nothing is allocated for the plan."""
    volume = TensorListCPU([np.zeros((2, 2, 2, 1), np.int16)], "DHWC")
    planned(calls_of(lambda: fn.resize(volume, size=(1290, 1290, 1290)))[-1], False)
    with pytest.raises(ValueError, match=r"resizes to fewer than 2\*\*31 values at a time, got 2197000000"):
        planned(calls_of(lambda: fn.resize(volume, size=(1300, 1300, 1300)))[-1], False)


@pytest.mark.parametrize(
    ("window", "alone"),
    [
        ((0, 0, 6, 8), True),
        ((1, 2, 5, 6), True),  # up to the last row and column
        ((5, 7, 1, 1), True),
        ((-1, 0, 3, 3), False),
        ((0, -1, 3, 3), False),
        ((1, 0, 6, 8), False),
        ((0, 1, 6, 8), False),
        ((0, 0, 7, 8), False),
        ((0, 0, 6, 9), False),
        ((0, 0, 0, 8), False),
        ((0, 0, 6, 0), False),
    ],
)
def test_only_windows_inside_an_image_are_decoded_on_the_gpu(window, alone):
    """One that leaves the image by any side is decoded on the CPU, as is one without pixels."""
    file = io.BytesIO()
    Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(file, "JPEG")
    reason, found = decoders._part(np.frombuffer(file.getvalue(), np.uint8), "RGB", True, lambda height, width: window)
    assert found == window
    assert reason == ("" if alone else decoders.OUTSIDE)
