"""Infinity and NaN where an operator wants places, sizes and strengths: one message for all, in the sample they belong to.

And numbers that are finite but far from any image: an answer, in the time of any other call.
"""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.declare import registry

INFINITE = [float("inf"), float("-inf"), float("nan")]
IMAGE = (np.arange(3 * 65 * 3) % 251).astype(np.uint8).reshape(3, 65, 3)
SOUND = np.random.default_rng(0).normal(size=3000).astype(np.float32)

# Operators whose every number may be anything: elements, or limits that may be open.
OPEN = {
    "default_value", "fill_value", "fill_values", "max_duration", "min_duration", "off_value", "on_value", "timeout", "values"
}  # fmt: skip


def numbers():
    for name, op in sorted(registry.items()):
        if op.hidden:  # its arguments come from another operator, which is among the rest
            continue
        for argument, param in op.arguments.items():
            if param.type in (float, "floats") and argument not in OPEN:
                yield name, argument


def called(name):
    place = fn
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


@pytest.mark.parametrize(("name", "argument"), list(numbers()))
def test_no_operator_takes_infinite_numbers(name, argument):
    """The error names the operator, the argument and the value, whatever else is missing or wrong."""
    operator = called(name)
    if operator is None:
        pytest.fail(f"fn.{name} is not there")
    for value in INFINITE:
        with pytest.raises((ValueError, TypeError)) as caught:
            operator(**{argument: value})
        words = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert f"argument {argument!r}: must be finite, got" in words
        assert repr(value) in words


def batch_of(function, values):
    """A pipeline whose argument differs from sample to sample."""

    @pipeline_def(batch_size=len(values), num_threads=1, device_id=None)
    def define():
        image = fn.external_source(lambda info: IMAGE, batch=False)
        value = fn.external_source(lambda info: values[info.idx_in_batch], batch=False)
        return function(image, value)

    return define()


@pytest.mark.parametrize(
    "function",
    [
        lambda image, value: fn.resize(image, resize_x=value),
        lambda image, value: fn.rotate(image, angle=value),
        lambda image, value: fn.crop(image, crop_w=value, crop_h=1.0),
        lambda image, value: fn.brightness(image, brightness=value),
        lambda image, value: fn.slice(image, rel_start=value, rel_end=1.0, axes=[0]),
        lambda image, value: fn.gaussian_blur(image, sigma=value),
    ],
)
@pytest.mark.parametrize("value", INFINITE)
def test_the_sample_with_the_infinite_number_is_named(function, value):
    """In a batch, only the odd sample is to blame."""
    good = np.array(0.5, np.float32)
    pipe = batch_of(function, [good, good, np.array(value, np.float32), good])
    with pytest.raises(ValueError, match="must be finite, got") as caught:
        pipe.run()
    assert "sample 2 of batch 0" in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_numbers_that_become_elements_may_be_infinite():
    """A value to fill with is one."""
    padded = fn.pad(SOUND[:3], axes=[0], shape=[5], fill_value=float("inf"))
    assert padded[3:].tolist() == [float("inf")] * 2
    assert fn.one_hot(np.array(1), num_classes=2, dtype=types.FLOAT, on_value=float("inf")).tolist() == [
        0,
        float("inf"),
    ]


def test_infinite_data_of_a_slice_is_refused():
    """Anchor and shape as inputs."""
    good = np.array([0.1, 0.1], np.float32)
    for value in INFINITE:
        bad = np.array([0.1, value], np.float32)
        for anchor, shape, name in ((bad, good, "anchor"), (good, bad, "shape")):
            with pytest.raises(ValueError, match=rf"argument '{name}': must be finite, got \(0\.1"):
                fn.slice(IMAGE, anchor, shape)


# ----------------------------------------------------------------------------------------------------
# Far away


@pytest.mark.parametrize("far", [1e5, 1e9, 1e20, 1e300])
@pytest.mark.parametrize("kind", [types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC, types.INTERP_LANCZOS3])
def test_a_region_of_interest_may_lie_anywhere(far, kind):
    """A box of a billion pixels gives the pixels of the border, and does not weigh a billion of them."""
    border = IMAGE[1:2, -1:].astype(int)
    for start, end in (((0, 0), (3, far)), ((0, far), (3, 2 * far)), ((0, far), (3, far)), ((0, far), (3, 0))):
        result = fn.resize(IMAGE, size=(3, 4), roi_start=start, roi_end=end, interp_type=kind)
        assert result.shape == (3, 4, 3)
        outermost = result[1, -1 if start[1] < end[1] or start[1] > 0 == end[1] else 0]
        if far >= 1e9 and start[1] <= end[1]:
            assert np.abs(outermost - border[0, 0]).max() <= 1
    assert fn.resize(IMAGE, resize_x=4, roi_start=(far, far), roi_end=(far, far)).shape == (4, 4, 3)
    assert fn.resize(IMAGE, size=(3, 4), roi_start=(-far, -far), roi_end=(far, far), subpixel_scale=False).shape == (
        3,
        4,
        3,
    )


def test_regions_near_the_image_are_what_they_were():
    """What is less than 65,536 pixels away is weighed as it is: the border goes on."""
    wide = np.pad(IMAGE, [(0, 0), (0, 935), (0, 0)], "edge")
    for end in (100, 1000):
        got = fn.resize(IMAGE, size=(3, 7), roi_start=(0, 0), roi_end=(3, end))
        expected = fn.resize(wide, size=(3, 7), roi_start=(0, 0), roi_end=(3, end))
        assert np.abs(got.astype(int) - expected).max() <= 1


def test_calls_with_nothing_in_them():
    """No channels, no samples, no bands, a cutoff beyond all numbers: an empty answer, or an error in words."""
    empty = np.zeros((4, 5, 0), np.float32)
    assert fn.cat(empty, empty, axis=2).shape == (4, 5, 0)
    assert fn.audio_resample(SOUND, out_length=0).shape == (0,)
    assert fn.audio_resample(SOUND[:0], out_length=5).tolist() == [0] * 5
    with pytest.raises(ValueError, match=r"the spectrum has no frequencies: its shape is \(0, 9\)"):
        fn.mel_filter_bank(np.zeros((0, 9), np.float32))
    assert [int(x) for x in fn.nonsilent_region(SOUND, cutoff_db=1e300)] == [0, 0]
    assert [int(x) for x in fn.nonsilent_region(SOUND, cutoff_db=-1e300)] == [0, 3000]
    assert fn.coord_transform(np.zeros((0, 2), np.float32), M=[1, 0, 0, 1.0], T=[0, 0.0]).shape == (0, 2)
