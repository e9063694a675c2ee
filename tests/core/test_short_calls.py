"""Repeated calls on arrays make the kernel calls that an operator declares, without its body."""

import numba
import numpy as np
import pytest
from helpers import the_whole_way

from pipeflow import fn, types
from pipeflow.declare import registry
from pipeflow.declare.parameters import Args
from pipeflow.declare.short_calls import short_form
from pipeflow.declare.specs import Spec
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
    spec = Spec((4, 4, 4), np.dtype(np.uint8), "HWC")
    assert short_form(registry["grayscale"], [spec], Args(channels=1)) is None


def test_only_kept_kernels_without_results_are_called():
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
    assert kernels.jit.kept_code_of(nothing, data)(data) is None
    assert kernels.jit.kept_code_of(total, data) is None
