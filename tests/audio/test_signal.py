"""Preemphasis and the search for silence against plain formulas and SciPy."""

import numpy as np
import pytest
import scipy.signal

from pipeflow import fn, types


@pytest.fixture
def noise():
    return np.random.default_rng(9).normal(size=5000).astype(np.float32)


@pytest.mark.parametrize(("border", "before"), [("clamp", 0), ("reflect", 1), ("zero", None)])
@pytest.mark.parametrize("coefficient", [0.97, 0.0, -1.5])
def test_preemphasis_is_a_filter_with_two_taps(noise, border, before, coefficient):
    """scipy.signal.lfilter with the state that the border means, to 1e-6 of the largest value."""
    first = 0.0 if before is None else float(noise[before])
    expected, _ = scipy.signal.lfilter([1, -coefficient], [1], noise.astype(np.float64), zi=[-coefficient * first])
    found = fn.preemphasis_filter(noise, preemph_coeff=coefficient, border=border)
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


def test_preemphasis_of_short_signals():
    """One sample, none, and a scalar."""
    assert fn.preemphasis_filter(np.ones(1, np.float32), border="reflect", preemph_coeff=0.25) == [0.75]
    assert fn.preemphasis_filter(np.zeros(0, np.float32)).shape == (0,)
    assert fn.preemphasis_filter(np.float32(4), border="zero") == 4


def test_preemphasis_filters_each_channel(noise):
    """Time runs along the first axis: each channel is what it would be alone."""
    wide = noise.reshape(-1, 2)
    found = fn.preemphasis_filter(wide)
    for channel in range(2):
        np.testing.assert_allclose(
            found[:, channel], fn.preemphasis_filter(np.ascontiguousarray(wide[:, channel])), atol=1e-6
        )


def test_preemphasis_of_integers_and_to_integers():
    """Integers are taken as they are; integer results are rounded half away from zero and saturated."""
    whole = np.array([1, 2, 4, 8, -7], np.int16)
    options = {"preemph_coeff": 0.5, "border": "zero"}
    np.testing.assert_array_equal(fn.preemphasis_filter(whole, **options), [1, 1.5, 3, 6, -11])
    np.testing.assert_array_equal(fn.preemphasis_filter(whole, dtype=types.INT16, **options), [1, 2, 3, 6, -11])
    np.testing.assert_array_equal(fn.preemphasis_filter(whole, dtype=types.UINT8, **options), [1, 2, 3, 6, 0])
    assert fn.preemphasis_filter(whole, dtype=types.FLOAT16, **options).dtype == np.float16


def test_preemphasis_bad_arguments(noise):
    """An unknown border, an undefined coefficient and a type that is no number are errors."""
    with pytest.raises(ValueError, match="must be 'clamp' or 'zero' or 'reflect', got 'wrap'"):
        fn.preemphasis_filter(noise, border="wrap")
    with pytest.raises(ValueError, match="argument 'preemph_coeff': must be finite, got nan"):
        fn.preemphasis_filter(noise, preemph_coeff=float("nan"))
    with pytest.raises(ValueError, match="dtype must be an integer or float type, got bool"):
        fn.preemphasis_filter(noise, dtype=types.BOOL)


def by_definition(signal, window, cutoff_db, reference):
    squares = signal.astype(np.float64) ** 2
    power = np.convolve(squares, np.ones(window))[: len(signal)] / window
    level = (reference or power.max()) * 10 ** (cutoff_db / 10)
    loud = np.flatnonzero(power >= level * (1 - 1e-12))
    if not len(loud):
        return 0, 0
    begin = max(loud[0] - window + 1, 0)
    return begin, loud[-1] - begin + 1


@pytest.mark.parametrize("window", [1, 2, 100, 1024, 6000])
@pytest.mark.parametrize(("cutoff", "reference"), [(-20.0, 0.0), (-5.0, 0.5), (-60.0, 0.0), (30.0, 1.0)])
def test_nonsilent_region_is_its_definition(noise, window, cutoff, reference):
    """The first and the last short-time power above the cutoff, the window reaching back from each."""
    signal = noise * np.exp(-(((np.arange(5000) - 2500) / 700) ** 2)).astype(np.float32)
    found = fn.nonsilent_region(signal, window_length=window, cutoff_db=cutoff, reference_power=reference)
    assert tuple(int(value) for value in found) == by_definition(signal, window, cutoff, reference)
    assert all(value.dtype == np.int32 for value in found)


def test_nonsilent_region_does_not_drift():
    """Digital silence after something very loud is silent, however long the recording."""
    signal = np.zeros(100_000, np.float32)
    signal[:50] = 1e6
    begin, length = fn.nonsilent_region(signal, window_length=64, reference_power=1.0)
    assert (int(begin), int(length)) == (0, 50 + 63)


def test_nonsilent_region_of_silence():
    """Zeros reach their own maximum everywhere, as in DALI; against a fixed reference nowhere. Nothing is (0, 0)."""
    zeros = np.zeros(4096, np.float32)
    assert [int(value) for value in fn.nonsilent_region(zeros)] == [0, 4096]
    assert [int(value) for value in fn.nonsilent_region(zeros, reference_power=1.0)] == [0, 0]
    assert [int(value) for value in fn.nonsilent_region(zeros[:0])] == [0, 0]


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.int64, np.float64])
def test_nonsilent_region_takes_numbers_of_any_type(dtype):
    """A burst of 1000 samples is found with the window reaching back 63 samples on the left."""
    signal = np.zeros(4096, dtype)
    signal[1000:2000] = 50
    assert [int(value) for value in fn.nonsilent_region(signal, window_length=64)] == [937, 1126]


def test_nonsilent_region_bad_input(noise):
    """NaN and infinity are errors with their place; so are impossible arguments and several channels."""
    noise[1500] = np.nan
    with pytest.raises(ValueError, match="the signal has nan at index 1500"):
        fn.nonsilent_region(noise)
    noise[1500] = np.inf
    with pytest.raises(ValueError, match="the signal has inf at index 1500"):
        fn.nonsilent_region(noise)
    with pytest.raises(ValueError, match="window_length must be positive, got 0"):
        fn.nonsilent_region(noise, window_length=0)
    with pytest.raises(ValueError, match=r"reference_power must be positive, or 0 .* got -1\.0"):
        fn.nonsilent_region(noise, reference_power=-1.0)
    with pytest.raises(ValueError, match=r"must have one channel, got shape \(2500, 2\)"):
        fn.nonsilent_region(noise.reshape(-1, 2))
