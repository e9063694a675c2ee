"""Tones: every operator against plain loops over the pixels, in every layout, and what is refused."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.kernels.cpu import tones

RNG = np.random.default_rng(4)
IMAGES = [RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((13, 17, 3), (1, 1, 3), (40, 33, 1), (9, 8, 4))]
IMAGES += [RNG.integers(40, 200, (7, 300, 3)).astype(np.uint8), np.full((5, 6, 3), 7, np.uint8)]


def each_value(function):
    return lambda image: np.array([function(int(x)) for x in image.ravel()], np.uint8).reshape(image.shape)


def stretched(image):
    """Each channel by itself, in whole numbers: value 0..255 of (x - low) / (high - low), rounded."""
    out = image.copy()
    for k in range(image.shape[-1]):
        low, high = int(image[..., k].min()), int(image[..., k].max())
        for place, x in np.ndenumerate(image[..., k]):
            if high > low:
                out[(*place, k)] = round(255 * (int(x) - low) / (high - low))
    return out


def about_mean(factor):
    def apply(image):
        means = image.reshape(-1, image.shape[-1]).astype(np.float64).mean(0)
        grey = means @ [0.299, 0.587, 0.114] if image.shape[-1] == 3 else means.mean()
        return np.clip(np.rint(grey + (image - grey) * factor), 0, 255).astype(np.uint8)

    return apply


CASES = {
    "invert": (fn.invert, {}, each_value(lambda x: 255 - x), 0),
    "posterize": (fn.posterize, {"bits": 3}, each_value(lambda x: x // 32 * 32), 0),
    "posterize none": (fn.posterize, {"bits": 0}, each_value(lambda x: 0), 0),
    "posterize all": (fn.posterize, {"bits": 8}, each_value(lambda x: x), 0),
    "solarize": (fn.solarize, {}, each_value(lambda x: x if x < 128 else 255 - x), 0),
    "solarize part": (fn.solarize, {"threshold": 99.5}, each_value(lambda x: x if x < 99.5 else 255 - x), 0),
    "solarize all": (fn.solarize, {"threshold": -3.0}, each_value(lambda x: 255 - x), 0),
    "solarize none": (fn.solarize, {"threshold": 256.0}, each_value(lambda x: x), 0),
    "solarize_add": (fn.solarize_add, {"shift": 90}, each_value(lambda x: x + 90 if x < 128 else x), 0),
    "solarize_add down": (
        fn.solarize_add,
        {"shift": -90, "threshold": 200.5},
        each_value(lambda x: max(x - 90, 0) if x < 200.5 else x),
        0,
    ),
    "solarize_add far": (fn.solarize_add, {"shift": 999, "threshold": 999.0}, each_value(lambda x: 255), 0),
    "channel_shift": (fn.channel_shift, {"shift": [-70.0]}, each_value(lambda x: max(x - 70, 0)), 0),
    "channel_shift far": (fn.channel_shift, {"shift": [1e9]}, each_value(lambda x: 255), 0),
    "autocontrast": (fn.autocontrast, {}, stretched, 1),
    "contrast_about_mean": (fn.contrast_about_mean, {"contrast": 1.7}, about_mean(1.7), 1),
    "contrast_about_mean grey": (fn.contrast_about_mean, {"contrast": 0.0}, about_mean(0.0), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    """Of images of all shapes; where floats are rounded a half may fall to either side."""
    operator, arguments, formula, slack = CASES[name]
    for image in IMAGES:
        got = operator(image, **arguments)
        difference = np.abs(got.astype(int) - formula(image))
        assert difference.max() <= slack
        assert (difference > 0).mean() < 0.02


def test_sums_that_do_not_fit_32_bits():
    """The mean of an image of more bytes than 32 bits hold the sum of."""
    white = np.full(3 * tones.LANES * 40, 255, np.uint8)
    sums = np.zeros(3, np.int64)
    tones.totals(np.tile(white, 2500)[:-1], 3, sums)
    assert sums.tolist() == [255 * 64 * 100_000, 255 * 64 * 100_000, 255 * (64 * 100_000 - 1)]


@pytest.mark.parametrize("name", ["invert", "autocontrast"])
def test_layouts(name):
    """Planes, gray images and frames give what interleaved images do, each frame for itself."""
    operator = CASES[name][0]

    def run(data, layout):
        @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
        def define():
            return operator(fn.external_source(source=lambda: [data], batch=True, layout=layout))

        return np.asarray(define().run()[0].samples()[0])

    image = IMAGES[0]
    expected = operator(image)
    assert (run(image.transpose(2, 0, 1), "CHW") == expected.transpose(2, 0, 1)).all()
    assert (run(image[..., 1], "HW") == expected[..., 1]).all()
    video = np.stack([image, image // 2, image // 3])
    assert (run(video, "FHWC") == np.stack([operator(frame) for frame in video])).all()


def test_bits_out_of_range():
    """The message has the value."""
    with pytest.raises(ValueError, match="bits must be from 0 to 8, got 9"):
        fn.posterize(IMAGES[0], bits=9)


def test_each_channel_by_its_own_shift():
    """Numbers are rounded; two of them for three channels are refused."""
    image = IMAGES[0]
    expected = np.clip(image.astype(int) + [30, -10, 0], 0, 255)
    assert (fn.channel_shift(image, shift=[30.2, -9.6, 0.0]) == expected).all()
    with pytest.raises(ValueError, match="shift must be one number or 3, one a channel, got 2"):
        fn.channel_shift(image, shift=[1.0, 2.0])
