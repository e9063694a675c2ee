"""Resampling against its formula, SciPy and soxr, and its behaviour at the ends, for integers and for bad input."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.signal
import soxr

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels.cpu import audio_resample
from pipeflow.tensors import TensorListCPU

PASSED = np.float32  # a factor that went through a column of a pipeline


def lobes(quality):
    return round(0.007 * quality**2 - 0.09 * quality + 3)


def by_formula(signal, scale, quality=50, antialias=True, length=None):
    """Every output as the sum over all inputs, in float64."""
    length = int(np.ceil(len(signal) * scale - 1e-9)) if length is None else length
    cutoff = min(1.0, scale) if antialias else 1.0
    distance = (np.arange(len(signal)) - np.arange(length)[:, None] / scale) * cutoff
    half = lobes(quality)
    window = np.where(np.abs(distance) < half, 0.5 + 0.5 * np.cos(np.pi * distance / half), 0)
    return (np.sinc(distance) * window * cutoff) @ signal.astype(np.float64)


@pytest.fixture
def noise():
    return np.random.default_rng(8).normal(size=1700).astype(np.float32)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("quality", [0, 50, 100])
@pytest.mark.parametrize("scale", [2.0, 1.5, 16000 / 22050, 0.3, 0.1, 8 / 441])
def test_exact_ratios_are_the_formula(noise, scale, quality, antialias):
    """Ratios of small integers follow the formula to 3e-6 of the largest value."""
    found = fn.audio_resample(noise, scale=scale, quality=quality, antialias=antialias)
    expected = by_formula(noise, scale, quality, antialias)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()


@pytest.mark.parametrize("scale", [1.2345678, 0.7654321, 0.0912345, np.pi])
def test_other_ratios_follow_the_formula_closely(noise, scale):
    """Ratios that are not of small integers blend tabulated phases: 5e-5 of the largest value."""
    found = fn.audio_resample(noise, scale=scale)
    expected = by_formula(noise, scale)
    assert np.abs(found - expected).max() < 5e-5 * np.abs(expected).max()


def test_rates_scale_and_length_are_the_same_thing(noise):
    """Rates, their quotient, the quotient after a passage through float32, and the length give the same samples."""
    expected = fn.audio_resample(noise, in_rate=22050, out_rate=16000)
    np.testing.assert_array_equal(fn.audio_resample(noise, scale=16000 / 22050), expected)
    np.testing.assert_array_equal(fn.audio_resample(noise, scale=float(PASSED(16000 / 22050))), expected)
    assert fn.audio_resample(noise, out_length=850).shape == (850,)
    np.testing.assert_array_equal(fn.audio_resample(noise, out_length=850), fn.audio_resample(noise, scale=0.5))


def test_the_length_counts_the_last_incomplete_sample():
    """ceil(length * scale), also where the product is not exact in binary."""
    lengths = {(30, 0.1): 3, (5, 0.5): 3, (10, 0.33): 4, (3, 1.5): 5, (3000, 0.3): 900, (1, 0.1): 1, (0, 2.0): 0}
    for (length, scale), expected in lengths.items():
        assert len(fn.audio_resample(np.zeros(length, np.float32), scale=scale)) == expected
    # Ratios of larger integers are no exact fractions here; 1111 * (1118 / 1111) is 1118.0000000000002 in binary.
    for length, wanted in ((1111, 1118), (1083, 2167), (1126, 2253)):
        assert len(fn.audio_resample(np.zeros(length, np.float32), scale=wanted / length)) == wanted
        assert len(fn.audio_resample(np.zeros(length + 1, np.float32), scale=wanted / length)) > wanted


@pytest.mark.parametrize(("up", "down"), [(2, 1), (3, 2), (320, 441), (1, 3)])
def test_agrees_with_scipy_on_what_both_can_hold(up, down):
    """Away from the ends a slow signal is what scipy.signal.resample_poly with a long filter makes of it: 1e-4."""
    time = np.arange(6000)
    limit = 0.25 * min(1, up / down)
    signal = sum(np.sin(2 * np.pi * limit * f * time + f) for f in (0.05, 0.4, 0.8)).astype(np.float32)
    taps = scipy.signal.firwin(2 * 40 * max(up, down) + 1, 1 / max(up, down), window=("kaiser", 10))
    expected = scipy.signal.resample_poly(signal.astype(np.float64), up, down, window=taps)
    found = fn.audio_resample(signal, in_rate=down, out_rate=up, quality=80)
    inside = slice(len(expected) // 8, -len(expected) // 8)
    assert np.abs(found - expected)[inside].max() < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize(("quality", "bound"), [(50, 1e-3), (80, 2e-4), (100, 2e-4)])
def test_agrees_with_soxr_on_speech_frequencies(quality, bound):
    """22.05 to 16 kHz of tones up to 6 kHz: the difference to soxr's very high quality, relative to the loudest."""
    time = np.arange(22050) / 22050
    signal = sum(np.sin(2 * np.pi * f * time) for f in (90, 440, 1500, 3300, 6000)).astype(np.float32)
    expected = soxr.resample(signal.astype(np.float64), 22050, 16000, "VHQ")
    found = fn.audio_resample(signal, in_rate=22050, out_rate=16000, quality=quality)
    assert found.shape == expected.shape
    assert np.abs(found - expected)[400:-400].max() < bound * np.abs(expected).max()


def test_going_down_removes_what_cannot_be_held():
    """A tone above the new limit vanishes (40 dB and more); with ``antialias=False`` it comes back as another tone."""
    tone = np.sin(2 * np.pi * 9500 * np.arange(22050) / 22050).astype(np.float32)
    rates = {"in_rate": 22050, "out_rate": 16000}
    removed = fn.audio_resample(tone, **rates)[500:-500]
    folded = fn.audio_resample(tone, antialias=False, **rates)[500:-500]
    assert removed.std() < 0.01 * tone.std()
    assert folded.std() > 0.9 * tone.std()


def test_outside_the_signal_is_silence():
    """One sample gives the filter's own shape, cut where the signal ends."""
    found = fn.audio_resample(np.ones(1, np.float32), scale=4.0)
    expected = by_formula(np.ones(1), 4.0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_channels_are_resampled_on_their_own(noise):
    """Each channel of time by channels is what it would be alone."""
    both = np.stack([noise, noise[::-1]], axis=1)
    found = fn.audio_resample(both, scale=0.8)
    np.testing.assert_array_equal(found[:, 0], fn.audio_resample(noise, scale=0.8))
    np.testing.assert_array_equal(found[:, 1], fn.audio_resample(noise[::-1].copy(), scale=0.8))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers_are_fractions_of_their_full_scale(noise, dtype):
    """Integer input and output are scaled by the full scale; unsigned silence is the middle. Within one step."""
    limits = np.iinfo(dtype)
    full = limits.max if limits.min else limits.max / 2
    silence = 0 if limits.min else limits.max / 2
    wave = np.tanh(noise * 0.3)
    stored = np.rint(wave.astype(np.float64) * full * 0.9 + silence).astype(dtype)
    expected = by_formula(((stored.astype(np.float64)) - silence) / full, 0.5)
    found = fn.audio_resample(stored, scale=0.5)
    assert found.dtype == dtype
    step = max(1, limits.max * 1e-6)
    assert np.abs(found.astype(np.float64) - (expected * full + silence)).max() <= step
    as_float = fn.audio_resample(stored, scale=0.5, dtype=types.FLOAT)
    assert np.abs(as_float - expected).max() < 1e-5
    from_float = fn.audio_resample(wave * np.float32(3), scale=0.5, dtype=types.as_dtype(dtype))
    assert from_float.min() >= limits.min
    assert from_float.max() > 0.9 * limits.max


def test_a_factor_of_one_changes_nothing(noise):
    """The same rate copies the samples, integers included."""
    np.testing.assert_array_equal(fn.audio_resample(noise, scale=1.0), noise)
    whole = (noise * 1000).astype(np.int16)
    np.testing.assert_array_equal(fn.audio_resample(whole, in_rate=8000, out_rate=8000), whole)


def test_a_factor_of_one_converts_the_type():
    """The same rate in another type is scaled by the full scales: 16384 of 32767 is a half."""
    stored = np.array([0, 16384, -32767, 32767], np.int16)
    found = fn.audio_resample(stored, scale=1.0, dtype=types.FLOAT)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, stored / 32767, atol=1e-6)
    back = fn.audio_resample(found, out_length=4, dtype=types.INT16)
    np.testing.assert_array_equal(back, stored)


def test_the_factor_may_differ_from_sample_to_sample(noise):
    """Speed perturbation: one factor a sample."""
    factors = TensorListCPU([np.float32(f) for f in (0.9, 1.0, 1.1)])
    found = fn.audio_resample([noise] * 3, scale=factors)
    for one, factor in zip(found, (0.9, 1.0, 1.1)):
        np.testing.assert_array_equal(np.asarray(one), fn.audio_resample(noise, scale=factor))


def test_nan_stays_near_where_it_was(noise):
    """NaN spreads over the width of the filter and no further."""
    noise[800] = np.nan
    found = fn.audio_resample(noise, scale=2.0)
    undefined = np.flatnonzero(np.isnan(found))
    assert 1600 - 32 <= undefined[0] <= undefined[-1] <= 1600 + 32


def test_the_deprecated_name_is_the_same_operator(noise):
    """fn.experimental.audio_resample still works, with a warning."""
    with pytest.warns(DeprecationWarning, match=r"write fn\.audio_resample"):
        found = fn.experimental.audio_resample(noise, scale=0.7)
    np.testing.assert_array_equal(found, fn.audio_resample(noise, scale=0.7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give exactly one of: scale; in_rate and out_rate; out_length"),
        ({"scale": 0.5, "out_length": 3}, "give exactly one of"),
        ({"in_rate": 16000}, "give exactly one of"),
        ({"scale": 0.0}, "scale must be positive, got 0.0"),
        ({"scale": -1.0}, "scale must be positive, got -1.0"),
        ({"scale": float("nan")}, "argument 'scale': must be finite, got nan"),
        ({"scale": float("inf")}, "argument 'scale': must be finite, got inf"),
        ({"in_rate": 0, "out_rate": 8000}, "in_rate must be positive, got 0.0"),
        ({"in_rate": 8000, "out_rate": -8000}, "out_rate must be positive, got -8000.0"),
        ({"out_length": -1}, "out_length must not be negative, got -1"),
        ({"scale": 0.5, "quality": -1}, "quality must be from 0 to 100, got -1.0"),
        ({"scale": 0.5, "dtype": types.BOOL}, "dtype must be an integer or float type, got bool"),
    ],
)
def test_impossible_arguments(noise, arguments, message):
    """The message says which argument, its value and what it must be."""
    with pytest.raises(ValueError, match=message):
        fn.audio_resample(noise, **arguments)


def test_impossible_factors_of_a_sample(noise):
    """A factor that is bad for one sample only is found when it is used."""
    with pytest.raises(ValueError, match=r"scale must be positive, got -2\.0"):
        fn.audio_resample([noise] * 2, scale=TensorListCPU([np.float32(1), np.float32(-2)]))
    with pytest.raises(ValueError, match=r"time, or time by channels, got shape \(1, 1, 1\)"):
        fn.audio_resample(np.zeros((1, 1, 1), np.float32), scale=1.0)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((8000, 16000), Fraction(1, 2)),
        ((16000, 48000), Fraction(1, 3)),
        ((48000, 16000), Fraction(3)),
        ((44100, 48000), Fraction(147, 160)),
        ((float(np.float32(16000 / 44100)), 1.0), Fraction(160, 441)),
    ],
)
def test_a_ratio_of_small_integers_is_exact(rates, expected):
    """Also one that has passed through float32, and one below a half; another ratio stays a float."""
    assert audio_resample.quotient(*rates) == expected
    assert isinstance(audio_resample.quotient(*rates), Fraction)
    assert isinstance(audio_resample.quotient(1.0, np.pi), float)


def test_a_rate_of_the_sample_equals_a_constant_one(noise):
    """One is float32 and the other is not; equal rates leave the signal as it is."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        rate = fn.external_source(lambda: [np.float32(2.7)])
        return fn.audio_resample(fn.external_source(lambda: [noise]), in_rate=2.7, out_rate=rate)

    np.testing.assert_array_equal(define().run()[0].at(0), noise)
