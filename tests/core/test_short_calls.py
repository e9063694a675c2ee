"""Repeated calls on arrays make the kernel calls that an operator declares, without its body."""

from copy import copy

import numba
import numpy as np
import pytest
from helpers import the_whole_way

from pipeflow import fn, types
from pipeflow.declare import registry
from pipeflow.declare.parameters import Args
from pipeflow.declare.short_calls import short_form
from pipeflow.declare.specs import Spec
from pipeflow.declare.tables import NoTable
from pipeflow.kernels import cpu as kernels

IMAGE = np.random.default_rng(4).integers(0, 256, (9, 11, 3), dtype=np.uint8)
SIGNAL = np.random.default_rng(5).standard_normal(300).astype(np.float32)
CALLS = {
    "color_space_conversion": lambda: fn.color_space_conversion(IMAGE, image_type=types.RGB, output_type=types.YCbCr),
    "grayscale": lambda: fn.grayscale(IMAGE, channels=1),
    "preemphasis_filter": lambda: fn.preemphasis_filter(SIGNAL),
    "spectrogram": lambda: fn.spectrogram(SIGNAL, window_length=64, window_step=16),
    "to_decibels": lambda: fn.to_decibels(np.abs(SIGNAL)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_body_is_not_called_again(name, monkeypatch):
    """The third call has the result of the body, which does not run."""
    op, call = registry[name], CALLS[name]
    op.forget_calls()
    expected = the_whole_way(call)
    call()
    call()
    monkeypatch.setattr(op, "body", None)
    np.testing.assert_array_equal(call(), expected)


@numba.njit
def first_and_size(values):
    return np.int64(values[0]), np.int64(values.size)


@numba.njit
def last_of(values):
    return np.int64(values[-1])


@numba.njit
def copied_from(values, begin, room, out):
    room[:] = values[0]
    for i in range(out.size):
        out[i] = values[begin + i] + room[i]


def cut_calls(calls):
    """values[first : last + 1] + first, for a first element of at least 1; another record if the last one differs."""
    first, size = calls.read(first_and_size, calls.input)
    calls.require(first >= 1)
    (last,) = calls.read(last_of, calls.input)
    if int(last) % 2 == 0:
        last = last + 0
    calls.require(last < size)
    length = last - first + 1
    room = calls.scratch((length,), np.dtype(np.float64))
    calls.call(copied_from, calls.input, first, room, calls.output((length,), np.dtype(np.float64)))
    calls.give(1, np.array(7.0, np.float32))


def test_numbers_that_kernels_return_decide_extents():
    """One record is for inputs of all lengths; a sample that it does not describe is an error, after which the body runs."""
    data = np.array([1.0, 5, 6, 7, 2])
    copied_from(data, 0, np.empty(1), np.empty(1))
    first_and_size(data)
    last_of(data)
    op = copy(registry["decoders.audio"])
    op.calls_hook, op.calls_for = cut_calls, None
    form = short_form(op, [data], [Spec.exact(data, "")], Args(), False)
    for values in (data, np.array([1.0, 8, 5, 6, 3, 8, 2])):
        low, high = int(values[0]), int(values[-1])
        cut, constant = form(values)
        np.testing.assert_array_equal(cut, values[low : high + 1] + low)
        assert constant == 7
    with pytest.raises(NoTable):
        form(np.array([0.0, 1]))
    with pytest.raises(NoTable):
        form(np.array([1.0, 4, 4, 3]))
    assert form(data)[1] is not form(data)[1]


def test_a_result_that_is_the_memory_of_its_input_stays_so():
    """As in the first call."""
    registry["squeeze"].forget_calls()
    data = np.zeros((2, 1, 3), np.float32)
    for _ in range(4):
        assert np.shares_memory(fn.squeeze(data, axes=1), data)


@pytest.mark.parametrize("dtype", [None, types.FLOAT])
def test_frames_whose_values_are_computed_alone_are_one_image(dtype):
    """Brightness of a sequence is that of its frames."""
    registry["brightness"].forget_calls()
    frames = np.stack([IMAGE, 255 - IMAGE])
    for data in (frames, frames[:, ::-1], frames[:, ::2, 1:], frames):
        found = [fn.brightness(data, brightness=1.3, dtype=dtype) for _ in range(3)]
        expected = np.stack([fn.brightness(frame, brightness=1.3, dtype=dtype) for frame in data])
        for result in found:
            np.testing.assert_array_equal(result, expected)


def test_calls_that_do_not_describe_the_input_give_no_form():
    """The body reports the error of an image with four channels."""
    image = np.zeros((4, 4, 4), np.uint8)
    assert short_form(registry["grayscale"], [image], [Spec.exact(image, "HWC")], Args(channels=1), True) is None


def test_only_kept_kernels_are_called():
    """A kernel is not compiled for a repeated call."""

    @numba.njit
    def nothing(values):
        pass

    @numba.njit
    def total(values):
        return values.sum()

    data = np.zeros(3)
    assert kernels.jit.kept_code_of(nothing, data) is None
    assert kernels.jit.kept_code_of(np.sum, data) is None
    nothing(data)
    total(data)
    assert kernels.jit.kept_code_of(nothing, data)[1] == 0
    code, count = kernels.jit.kept_code_of(total, data)
    assert (code(data), count) == (0.0, -1)
