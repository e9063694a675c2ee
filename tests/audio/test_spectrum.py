"""Spectrograms, mel bands, decibels and MFCC against librosa, SciPy and plain formulas."""

import librosa
import numpy as np
import pytest
import scipy.fft
import scipy.signal

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU

RATE = 16000


@pytest.fixture
def sound():
    """Two seconds of noise under a moving envelope."""
    rng = np.random.default_rng(5)
    envelope = np.sin(np.linspace(0, 9, 2 * RATE)) ** 2 + 0.01
    return (rng.normal(size=2 * RATE) * envelope).astype(np.float32)


def relative_error(found, expected):
    """The largest difference, relative to the largest expected value."""
    return np.abs(found - expected).max() / np.abs(expected).max()


def hann(size):
    return np.sin(np.pi * (np.arange(size) + 0.5) / size) ** 2


def by_definition(signal, nfft, window, step, center, reflect):
    """Frames cut one by one and transformed by the definition of the discrete Fourier transform, in float64."""
    width = len(window)
    if center:
        mode = {"mode": "reflect"} if reflect else {}
        signal = np.pad(signal.astype(np.float64), (width // 2, width), **mode)
        count = (len(signal) - width - width // 2) // step + 1
    else:
        count = (len(signal) - width) // step + 1
    frames = np.stack([signal[t * step : t * step + width] * window for t in range(count)])
    angles = np.arange(nfft // 2 + 1)[:, None] * np.arange(width) * (-2j * np.pi / nfft)
    return np.abs(np.exp(angles) @ frames.T) ** 2


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("reflect", [True, False])
@pytest.mark.parametrize(
    ("nfft", "window_length", "step"),
    [
        (512, 400, 160),
        (400, 400, 160),
        (64, 63, 17),
        (48, 30, 30),
        (101, 90, 40),
        (14, 14, 3),
        (4, 3, 2),
        (2, 2, 1),
        (1, 1, 5),
    ],
)
def test_spectrogram_is_the_definition(sound, nfft, window_length, step, center, reflect):
    """Every size, also odd ones and ones with large prime factors, is the transform's definition to 2e-6."""
    signal = sound[:3001]
    found = fn.spectrogram(
        signal, nfft=nfft, window_length=window_length, window_step=step, center_windows=center, reflect_padding=reflect
    )
    expected = by_definition(signal, nfft, hann(window_length), step, center, reflect)
    assert found.shape == expected.shape
    assert relative_error(found, expected) < 2e-6


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("nfft", "window_length"), [(512, 512), (512, 320), (400, 400), (2048, 1024)])
def test_spectrogram_agrees_with_librosa(sound, power, nfft, window_length):
    """librosa.stft with the same window, to 5e-6 of the largest value."""
    window = scipy.signal.get_window("hamming", window_length)
    found = fn.spectrogram(
        sound, nfft=nfft, window_length=window_length, window_step=160, window_fn=window.tolist(), power=power
    )
    options = {"n_fft": nfft, "win_length": window_length, "hop_length": 160, "pad_mode": "reflect"}
    expected = np.abs(librosa.stft(sound.astype(np.float64), window=window, **options))
    assert relative_error(found, expected**power) < 5e-6


def test_layout_tf_is_the_transpose(sound):
    """``layout="tf"`` holds the same values with time first, whole blocks of frames and the rest of them."""
    for length in (160 * 15, 160 * 31 + 3, 160 * 40):
        options = {"nfft": 512, "window_length": 320, "window_step": 160}
        frequency_first = fn.spectrogram(sound[:length], **options)
        np.testing.assert_array_equal(fn.spectrogram(sound[:length], layout="tf", **options), frequency_first.T)


@pytest.mark.parametrize("length", [1, 2, 3, 100, 255, 256, 257])
def test_short_signals_are_reflected_as_often_as_it_takes(length):
    """A centred window longer than the signal sees it reflected again and again; 2e-6 against an unrolled copy."""
    signal = np.random.default_rng(length).normal(size=length).astype(np.float32)
    period = np.concatenate([signal, signal[-2:0:-1]]) if length > 1 else signal
    unrolled = np.array([period[i % len(period)] for i in range(-256, length + 512)])
    frames = length // 256 + 1
    expected = by_definition(unrolled[: 512 + 256 * (frames - 1)], 512, hann(512), 256, False, False)
    found = fn.spectrogram(signal)
    assert found.shape == (257, frames)
    assert relative_error(found, expected) < 2e-6


def test_a_value_outside_the_window_has_no_influence(sound):
    """NaN in one sample stays in the frames that contain it, although frames are computed in blocks."""
    spoiled = sound.copy()
    spoiled[5000] = np.nan
    options = {"nfft": 512, "window_length": 333, "window_step": 160, "center_windows": False}
    clean, found = fn.spectrogram(sound, **options), fn.spectrogram(spoiled, **options)
    starts = np.arange(clean.shape[1]) * 160
    touched = (starts <= 5000) & (starts > 5000 - 333)
    assert np.isnan(found[:, touched]).all()
    np.testing.assert_array_equal(found[:, ~touched], clean[:, ~touched])


def test_spectrogram_takes_signals_with_one_channel(sound):
    """Extents of 1 do not matter, and a scalar is a signal of one sample; several channels are an error."""
    expected = fn.spectrogram(sound)
    np.testing.assert_array_equal(fn.spectrogram(sound[:, None]), expected)
    np.testing.assert_array_equal(fn.spectrogram(sound[None]), expected)
    np.testing.assert_array_equal(fn.spectrogram(sound.astype(np.float64)), expected)
    assert fn.spectrogram(np.float32(3)).shape == (257, 1)
    with pytest.raises(ValueError, match=r"must have one channel, got shape \(16000, 2\)"):
        fn.spectrogram(sound.reshape(-1, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window_step": 0}, "window_step must be positive, got 0"),
        ({"window_length": -3}, "window_length must be positive, got -3"),
        ({"nfft": 0}, "nfft must be positive, got 0"),
        ({"nfft": 256, "window_length": 400}, "window_length 400 must not be larger than nfft 256"),
        ({"power": 3}, "power must be 1 or 2, got 3"),
        ({"layout": "xx"}, "must be 'ft' or 'tf', got 'xx'"),
        ({"window_fn": [1.0] * 5}, "window_fn has 5 values and window_length is 512"),
    ],
)
def test_spectrogram_refuses_impossible_arguments(sound, arguments, message):
    """The message says which argument, its value and what it must be."""
    with pytest.raises(ValueError, match=message):
        fn.spectrogram(sound, **arguments)


def test_spectrogram_refuses_signals_without_a_frame(sound):
    """An empty signal, an uncentred window longer than the signal, and integers are errors that say what to do."""
    with pytest.raises(ValueError, match="the signal is empty"):
        fn.spectrogram(sound[:0])
    with pytest.raises(ValueError, match="the signal has 511 samples, fewer than window_length 512: pad it"):
        fn.spectrogram(sound[:511], center_windows=False)
    with pytest.raises(TypeError, match="does not take int16"):
        fn.spectrogram(np.zeros(1000, np.int16))


@pytest.mark.parametrize("formula", ["slaney", "htk"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("nfilter", "low", "high"), [(80, 0.0, 0.0), (40, 300.0, 4000.0), (64, 20.0, 7600.0)])
def test_mel_filter_bank_agrees_with_librosa(formula, normalize, nfilter, low, high):
    """librosa's filters applied in float64, to 1e-5; the same for frequency-first, time-first and three axes."""
    rng = np.random.default_rng(1)
    filters = librosa.filters.mel(
        sr=RATE,
        n_fft=512,
        n_mels=nfilter,
        fmin=low,
        fmax=high or None,
        htk=formula == "htk",
        norm="slaney" if normalize else None,
        dtype=np.float64,
    )
    options = {
        "nfilter": nfilter,
        "sample_rate": RATE,
        "freq_low": low,
        "freq_high": high,
        "mel_formula": formula,
        "normalize": normalize,
    }
    for frames in (1, 7, 16, 37):
        spectrum = rng.exponential(size=(257, frames)).astype(np.float32)
        expected = filters @ spectrum.astype(np.float64)
        assert relative_error(fn.mel_filter_bank(spectrum, **options), expected) < 1e-5
        stacked = fn.mel_filter_bank(np.stack([spectrum, 2 * spectrum]), **options)
        assert relative_error(stacked, np.stack([expected, 2 * expected])) < 1e-5
        batch = TensorListCPU([np.ascontiguousarray(spectrum.T)], "tf")
        turned = fn.mel_filter_bank(batch, **options)
        assert turned.layout() == "tf"
        assert relative_error(turned.at(0), expected.T) < 1e-5
    one = fn.mel_filter_bank(spectrum[:, 0].copy(), **options)
    assert relative_error(one, expected[:, 0]) < 1e-5


def test_more_bands_than_frequencies_leaves_empty_bands():
    """Bands narrower than the distance of two frequencies are 0, as in librosa and DALI."""
    spectrum = np.ones((33, 4), np.float32)
    found = fn.mel_filter_bank(spectrum, nfilter=100, sample_rate=RATE)
    with pytest.warns(UserWarning, match="Empty filters"):
        filters = librosa.filters.mel(sr=RATE, n_fft=64, n_mels=100)
    assert relative_error(found, filters @ spectrum) < 1e-5
    assert (found == 0).all(axis=1).sum() > 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nfilter": 0}, "nfilter must be positive, got 0"),
        ({"sample_rate": 0.0}, "sample_rate must be positive, got 0.0"),
        ({"sample_rate": -1.0}, "sample_rate must be positive, got -1.0"),
        ({"freq_low": -1.0}, "freq_low -1.0"),
        ({"freq_low": 500.0, "freq_high": 100.0}, "freq_low 500.0, freq_high 100.0"),
        ({"sample_rate": 16000.0, "freq_high": 9000.0}, "freq_high 9000.0, sample_rate 16000.0"),
        ({"mel_formula": "bark"}, "must be 'slaney' or 'htk', got 'bark'"),
    ],
)
def test_mel_filter_bank_refuses_impossible_bands(arguments, message):
    """The message names the frequencies in conflict."""
    with pytest.raises(ValueError, match=message):
        fn.mel_filter_bank(np.ones((257, 3), np.float32), **arguments)


def test_mel_filter_bank_needs_a_frequency_axis():
    """A layout without f is an error that quotes the layout."""
    with pytest.raises(ValueError, match="the layout 'xy' has no frequency axis f"):
        fn.mel_filter_bank(TensorListCPU([np.ones((3, 4), np.float32)], "xy"))


def test_to_decibels_agrees_with_librosa():
    """librosa.power_to_db with a cutoff relative to the maximum, over 26 orders of magnitude, to 3e-5 dB."""
    values = np.exp(np.random.default_rng(2).uniform(-30, 30, (80, 501))).astype(np.float32)
    expected = librosa.power_to_db(values.astype(np.float64), ref=np.max, amin=1e-30, top_db=80.0)
    assert np.abs(fn.to_decibels(values, cutoff_db=-80.0) - expected).max() < 3e-5
    expected = librosa.amplitude_to_db(values.astype(np.float64), ref=2.5, amin=1e-30, top_db=None)
    assert np.abs(fn.to_decibels(values, multiplier=20.0, reference=2.5, cutoff_db=-400.0) - expected).max() < 6e-5


def test_to_decibels_of_what_has_no_logarithm():
    """Zero, negative values and NaN become the cutoff exactly; infinity stays; the reference ignores NaN."""
    values = np.array([0, 1e-30, 0.5, 1, 2, -1, np.nan, np.inf, 1e-42], np.float32)
    found = fn.to_decibels(values, reference=1.0)
    half = 10 * np.log10(2)
    np.testing.assert_allclose(found, [-200, -200, -half, 0, half, -200, -200, np.inf, -200], rtol=1e-6)
    np.testing.assert_array_equal(fn.to_decibels(np.array([np.nan, 1, 100], np.float32)), [-200, -20, 0])
    np.testing.assert_array_equal(fn.to_decibels(np.zeros(3, np.float32)), [-200] * 3)
    assert fn.to_decibels(np.zeros((0, 4), np.float32)).shape == (0, 4)
    assert fn.to_decibels(np.float32(10)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"multiplier": 0.0}, "multiplier must be positive, got 0.0"),
        ({"reference": -1.0}, "reference must be positive, or 0 for the largest value, got -1.0"),
    ],
)
def test_to_decibels_refuses_impossible_arguments(arguments, message):
    """A multiplier or reference without a meaning is an error."""
    with pytest.raises(ValueError, match=message):
        fn.to_decibels(np.ones(3, np.float32), **arguments)


@pytest.mark.parametrize(
    ("kind", "normalize"), [(1, False), (2, False), (2, True), (3, False), (3, True), (4, False), (4, True)]
)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_mfcc_is_the_cosine_transform_of_scipy(kind, normalize, axis):
    """scipy.fft.dct (halved where it is not orthonormal), to 1e-6, along every axis."""
    values = np.random.default_rng(3).normal(size=(21, 18, 37)).astype(np.float32)
    expected = scipy.fft.dct(values.astype(np.float64), type=kind, axis=axis, norm="ortho" if normalize else None)
    expected = np.take(expected, np.arange(13), axis=axis) * (1 if normalize else 0.5)
    found = fn.mfcc(values, axis=axis, dct_type=kind, normalize=normalize, n_mfcc=13)
    assert found.shape == expected.shape
    assert relative_error(found, expected) < 1e-6


def test_mfcc_lifter_agrees_with_librosa():
    """librosa.feature.mfcc on the same decibels with lifter 22, to 1e-6."""
    values = np.random.default_rng(4).normal(size=(40, 50)).astype(np.float32) * 20
    expected = librosa.feature.mfcc(S=values.astype(np.float64), n_mfcc=13, lifter=22)
    assert relative_error(fn.mfcc(values, n_mfcc=13, lifter=22.0, normalize=True), expected) < 1e-6


def test_mfcc_has_no_more_coefficients_than_values():
    """``n_mfcc`` above the extent gives the extent, as in DALI; empty axes stay empty."""
    assert fn.mfcc(np.ones((5, 3), np.float32), n_mfcc=30).shape == (5, 3)
    assert fn.mfcc(np.ones((5, 0), np.float32), n_mfcc=3).shape == (3, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dct_type": 5}, "dct_type must be 1 or 2 or 3 or 4, got 5"),
        ({"n_mfcc": 0}, "n_mfcc must be positive, got 0"),
        ({"normalize": True, "dct_type": 1}, "normalize is not defined for dct_type 1"),
        ({"axis": 2}, "axis 2 is out of range for 2 dimensions"),
    ],
)
def test_mfcc_refuses_impossible_arguments(arguments, message):
    """The message says which argument and what it must be."""
    with pytest.raises(ValueError, match=message):
        fn.mfcc(np.ones((4, 3), np.float32), **arguments)
    with pytest.raises(ValueError, match="type 1 needs more than one value"):
        fn.mfcc(np.ones((1, 3), np.float32), dct_type=1)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("axis", "nfft"), [(0, None), (-1, 16), (1, 5), (-2, 37)])
def test_power_spectrum_is_the_transform_of_scipy(power, axis, nfft):
    """scipy.fft.rfft along any axis, cut or padded to nfft, to 1e-6."""
    values = np.random.default_rng(6).normal(size=(24, 31)).astype(np.float32)
    expected = np.abs(scipy.fft.rfft(values.astype(np.float64), nfft, axis=axis)) ** power
    found = fn.power_spectrum(values, axis=axis, nfft=nfft, power=power)
    assert found.dtype == np.float32
    assert relative_error(found, expected) < 1e-6


def test_power_spectrum_refuses_impossible_arguments():
    """An axis out of range, an unknown power and an empty signal are errors."""
    signal = np.ones(8, np.float32)
    with pytest.raises(ValueError, match=r"axis 5 is out of range for shape \(8,\)"):
        fn.power_spectrum(signal, axis=5)
    with pytest.raises(ValueError, match="power must be 1 or 2, got 3"):
        fn.power_spectrum(signal, power=3)
    with pytest.raises(ValueError, match="empty signal"):
        fn.power_spectrum(signal[:0])


def test_the_whole_chain_agrees_with_librosa(sound):
    """Preemphasis, spectrogram, 80 mel bands and decibels of speech models: 3e-4 dB of 80 from float64 librosa."""
    emphasised = fn.preemphasis_filter(sound, preemph_coeff=0.97)
    spectrum = fn.spectrogram(emphasised, nfft=512, window_length=320, window_step=160)
    mel = fn.mel_filter_bank(spectrum, nfilter=80, sample_rate=RATE)
    found = fn.to_decibels(mel, cutoff_db=-80.0)

    wide = sound.astype(np.float64)
    wide = wide - 0.97 * np.concatenate([wide[:1], wide[:-1]])
    options = {"n_fft": 512, "win_length": 320, "hop_length": 160, "pad_mode": "reflect"}
    magnitude = np.abs(librosa.stft(wide, window=hann(320), **options))
    filters = librosa.filters.mel(sr=RATE, n_fft=512, n_mels=80, dtype=np.float64)
    expected = librosa.power_to_db(filters @ magnitude**2, ref=np.max, amin=1e-30, top_db=80)
    assert np.abs(found - expected).max() < 3e-4


def test_results_keep_layouts_and_types(sound):
    """The spectrogram names its axes and the operators after it keep the names; everything is FLOAT."""
    spectrum = fn.spectrogram([sound, sound[:4000]], layout="ft")
    assert spectrum.layout() == "ft"
    for result in (fn.mel_filter_bank(spectrum), fn.to_decibels(spectrum), fn.mfcc(spectrum)):
        assert result.layout() == "ft"
        assert result.dtype == types.FLOAT
