"""Colours that are drawn: every result is that of plain steps in some order, and the light of a glowing body."""

from itertools import permutations

import numpy as np
import pytest

from pipeflow import fn, types
from pipeflow.operators import color_draws

RNG = np.random.default_rng(6)
IMAGE = RNG.random((6, 7, 3), dtype=np.float32)
# Luma and chroma of YIQ to three decimals, as the reference says.
YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])


def chroma(image, saturation, hue):
    cos, sin = np.cos(np.radians(hue)), np.sin(np.radians(hue))
    turn = np.array([[1, 0, 0], [0, saturation * cos, saturation * sin], [0, -saturation * sin, saturation * cos]])
    return image @ (np.linalg.inv(YIQ) @ turn @ YIQ).T


STEPS = {
    "brightness": lambda x: 1.3 * x,
    "contrast": lambda x: 0.5 + 0.6 * (x - 0.5),
    "saturation": lambda x: chroma(x, 1.7, 0),
    "hue": lambda x: chroma(x, 1, 25),
}
FIXED = {"brightness": (1.3, 1.3), "contrast": (0.6, 0.6), "saturation": (1.7, 1.7), "hue": (25.0, 25.0)}


def results_of(orders):
    found = []
    for names in orders:
        image = IMAGE.astype(np.float64)
        for name in names:
            image = STEPS[name](image)
        found.append(image)
    return found


def nearest(result, candidates):
    differences = [np.abs(result - x).max() for x in candidates]
    assert min(differences) < 1e-4
    return int(np.argmin(differences))


def test_jitter_is_four_steps_in_any_order():
    """Nothing is cut off or rounded between them; what cannot be told apart from contrast before or after brightness is not."""
    candidates = results_of(permutations(STEPS))
    found = {nearest(fn.color_jitter(IMAGE, **FIXED, key=key), candidates) for key in range(40)}
    assert len(found) >= 2  # the place of brightness and that of contrast matter, those of the colours do not


def test_jitter_draws_from_its_ranges():
    """With the others fixed a factor is anywhere in its range, and bytes are rounded once."""
    grey = np.full((1, 1, 3), 100, np.uint8)
    rest = {"contrast": (1.0, 1.0), "saturation": (1.0, 1.0), "hue": (0.0, 0.0)}
    values = [int(fn.color_jitter(grey, brightness=(0.5, 1.5), **rest, key=key)[0, 0, 0]) for key in range(200)]
    assert 50 <= min(values) < 60
    assert 140 < max(values) <= 150
    floats = fn.color_jitter(grey, brightness=(0.5, 1.5), **rest, dtype=types.FLOAT, key=3)
    assert abs(floats[0, 0, 0] - values[3]) <= 0.501


def test_photometric_distort():
    """Each change is made or left out, contrast is before or after the colours, and channels may change places."""
    orders = []
    for mask in range(16):
        chosen = [name for bit, name in enumerate(STEPS) if mask >> bit & 1]
        orders += [chosen, [x for x in ("brightness", "saturation", "hue", "contrast") if x in chosen]]
    candidates = [x[..., list(order)] for x in results_of(orders) for order in permutations(range(3))]
    found = {nearest(fn.photometric_distort(IMAGE, **FIXED, key=key), candidates) for key in range(60)}
    assert len(found) > 20
    assert np.abs(fn.photometric_distort(IMAGE, **FIXED, prob=0.0, key=1) - IMAGE).max() < 1e-6
    nearest(fn.photometric_distort(IMAGE, **FIXED, prob=1.0, key=1), candidates[-12:])  # all four, in one of two orders


@pytest.mark.parametrize(
    ("temperature", "x", "y"),
    [
        (2000.0, 0.5267, 0.4133),
        (2855.5, 0.4476, 0.4074),
        (4000.0, 0.3805, 0.3768),
        (6500.0, 0.3135, 0.3237),
        (10000.0, 0.2807, 0.2884),
    ],
)
def test_chromaticity_of_glowing_bodies(temperature, x, y):
    """The published places of black bodies in the CIE 1931 diagram."""
    found = color_draws.tristimulus(temperature)
    assert abs(found[0] / found.sum() - x) < 0.004
    assert abs(found[1] / found.sum() - y) < 0.004


def test_planckian_jitter():
    """Daylight changes nothing; below it red grows and blue falls; the temperature is drawn from the range."""
    image = np.full((1, 1, 3), 0.5, np.float32)
    np.testing.assert_allclose(fn.planckian_jitter(image, temperature=6504.0), 0.5, atol=1e-4)
    red, green, blue = fn.planckian_jitter(image, temperature=3000.0)[0, 0]
    assert red > green > blue
    assert abs(0.299 * red + 0.587 * green + 0.114 * blue - 0.5) < 1e-5
    red, green, blue = fn.planckian_jitter(image, temperature=12000.0)[0, 0]
    assert red < green < blue
    drawn = [fn.planckian_jitter(image, key=key)[0, 0] for key in range(60)]
    reddest, bluest = (fn.planckian_jitter(image, temperature=end)[0, 0] for end in (3000.0, 15000.0))
    assert all(bluest[0] - 1e-5 <= x[0] <= reddest[0] + 1e-5 for x in drawn)
    assert np.ptp([x[0] for x in drawn]) > 0.8 * (reddest[0] - bluest[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fn.color_jitter(IMAGE, hue=(3.0, 1.0)),
            r"hue must be two numbers, the smaller one first, got \(3.0, 1.0\)",
        ),
        (lambda: fn.color_jitter(IMAGE, brightness=(-1.0, 1.0)), r"brightness must not be negative, got \(-1.0, 1.0\)"),
        (lambda: fn.color_jitter(IMAGE[..., :1]), "color_jitter needs 3 channels, the image has 1"),
        (lambda: fn.photometric_distort(IMAGE, prob=2.0), "prob must be from 0 to 1, got 2.0"),
        (lambda: fn.planckian_jitter(IMAGE, temperature=500.0), "temperature must be from 1000 to 40000, got 500"),
        (
            lambda: fn.planckian_jitter(IMAGE, between=(9000.0, 3000.0)),
            "between must be two numbers from 1000 to 40000",
        ),
    ],
)
def test_what_is_refused(call, message):
    """The message has the value."""
    with pytest.raises(ValueError, match=message):
        call()
