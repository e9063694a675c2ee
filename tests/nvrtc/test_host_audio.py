"""The GPU forms of the audio operators give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.operators.on_gpu import audio
from pipeflow.tensors import TensorListCPU

LENGTHS = [1, 2, 900, 5003, 16]
FLOATS = [np.float16, np.float32, np.float64]


def signals(dtype=np.float32, lengths=LENGTHS, channels=()):
    """Ragged signals: tones and noise in -1 ... 1, or as fractions of the full scale of integers."""
    rng = np.random.default_rng(1)
    waves = [0.6 * np.sin(np.arange(n) / 7) + rng.uniform(-0.3, 0.3, n) for n in lengths]
    if channels:
        waves = [np.stack([wave * (1 - 0.2 * c) for c in range(channels[0])], axis=1) for wave in waves]
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return [wave.astype(dtype) for wave in waves]
    limits = np.iinfo(dtype)
    if dtype.kind == "u":
        return [((wave + 1) / 2 * limits.max).astype(dtype) for wave in waves]
    return [(wave * limits.max).astype(dtype) for wave in waves]


@pytest.mark.parametrize("dtype", [*FLOATS, np.int16, np.uint8, np.int32])
@pytest.mark.parametrize("border", ["clamp", "zero", "reflect"])
@pytest.mark.parametrize("channels", [(), (2,), (9,)])
def test_preemphasis(dtype, border, channels):
    """Every border, one channel and several, to other types; each signal with its own coefficient."""
    data = signals(dtype, channels=channels)
    assert_same(lambda: fn.preemphasis_filter(data, border=border))
    factors = TensorListCPU([np.float32(n / 4) for n in range(len(LENGTHS))])
    assert_same(lambda: fn.preemphasis_filter(data, preemph_coeff=factors, border=border, dtype=np.int16))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int16, np.uint8, np.int32])
def test_nonsilent_region(dtype):
    """Sound between silences, silence only, windows longer than the signal."""
    rng = np.random.default_rng(2)
    scale = 1 if np.dtype(dtype).kind == "f" else 100
    data = []
    for length, begin, end in (
        (9000, 2000, 6100),
        (50, 10, 11),
        (1, 0, 1),
        (3000, 0, 3000),
        (0, 0, 0),
        (500, 500, 500),
    ):
        sound = np.zeros(length)
        sound[begin:end] = scale * (0.3 + rng.uniform(0, 1, end - begin))
        data.append(sound.astype(dtype))
    for options in ({}, {"window_length": 64}, {"window_length": 7, "cutoff_db": -10.0}, {"reference_power": 1e6}):
        assert_same(lambda options=options: fn.nonsilent_region(data, **options))


def test_the_loudest_sample_is_found_by_any_thread():
    """It decides what counts as silence, wherever it is in a tile, and the first and last sample that count too."""
    signals = []
    for place in (0, 1, 84, 85, 127, 128, 170, 171, 200, 254, 255, 256 + 171, 2048 + 200, 2999):
        signal = np.full(3000, 0.1, np.float32)
        signal[place] = 1.0
        signals.append(signal)
    assert_same(lambda: fn.nonsilent_region(signals, window_length=1, cutoff_db=-10.0))


def test_no_sound_is_found_from_a_nan_on():
    """The CPU refuses such a signal; a kernel cannot."""
    signal = np.ones(5000, np.float32)
    signal[3000] = np.nan
    (begins, lengths), _ = on_host(call_of(lambda: fn.nonsilent_region([signal], window_length=16)))
    assert (begins[0], begins[0] + lengths[0]) == (0, 3000)


def test_one_channel_is_wanted():
    """With the CPU's messages."""
    with pytest.raises(ValueError, match="the signal must have one channel"):
        on_host(call_of(lambda: fn.nonsilent_region([np.zeros((3, 2), np.float32)])))
    with pytest.raises(ValueError, match="use downmix=True or pick one"):
        on_host(call_of(lambda: fn.spectrogram([np.zeros((3, 2), np.float32)])))


@pytest.mark.parametrize(
    "ratio", [(16000, 8000), (8000, 16000), (22050, 16000), (16000, 16000.7), (3, 7.123), (48000, 440)]
)
@pytest.mark.parametrize("quality", [0.0, 50.0, 100.0])
def test_resampling(ratio, quality):
    """Exact ratios and blended phases, up and down, of all qualities."""
    rates = {"in_rate": ratio[0], "out_rate": ratio[1]}
    for antialias in (True, False):
        assert_same(
            lambda antialias=antialias: fn.audio_resample(signals(), **rates, quality=quality, antialias=antialias),
            atol=2e-6,
        )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.float16, np.float32])
@pytest.mark.parametrize("target", [None, np.float32, np.int16, np.uint8])
def test_resampling_of_types(dtype, target):
    """Integers are fractions of their full scale; to the last digits of float32."""
    given = {} if target is None else {"dtype": target}
    data, kind = signals(dtype, channels=(2,)), np.dtype(target or dtype)
    limit = {1: 1, 2: 1 if kind.kind in "iu" else 1e-3, 4: 1e-6 if kind == np.float32 else 2000}[kind.itemsize]
    assert_same(lambda: fn.audio_resample(data, scale=0.7, **given), atol=limit)
    assert_same(lambda: fn.audio_resample(data, scale=1.0, **given), atol=limit)
    lengths = TensorListCPU([np.int32(n + 5) for n in range(len(LENGTHS))])
    assert_same(lambda: fn.audio_resample(data, out_length=lengths, **given), atol=limit)


def test_transforms_of_few_sizes(monkeypatch):
    """Batches of any number of frames need few plans of cuFFT: a transform has up to an eighth more frames."""
    sizes = [audio.common_size(count) for count in range(2000)]
    assert all(count <= size <= count * 9 / 8 for count, size in enumerate(sizes))
    assert len(set(sizes[1:])) <= 8 * 11
    seen = set()
    transform = audio._transform

    def noted(module, frames, spectra):
        seen.add(len(frames))
        transform(module, frames, spectra)

    monkeypatch.setattr(audio, "_transform", noted)
    for length in range(200, 232):
        assert_same(
            lambda n=length: fn.spectrogram([np.ones(n, np.float32)] * 2, window_length=16, window_step=4), atol=1e-3
        )
    assert seen == {104, 112, 120}


@pytest.mark.parametrize("layout", ["ft", "tf"])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_spectrogram(layout, power, dtype):
    """Both layouts and powers."""
    options = {"window_length": 64, "window_step": 20, "layout": layout, "power": power}
    assert_same(lambda: fn.spectrogram(signals(dtype), **options), atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"nfft": 100, "window_length": 64},
        {"nfft": 35, "window_length": 35, "window_step": 3},
        {"reflect_padding": False},
        {"center_windows": False, "window_length": 16, "window_step": 16},
        {"window_length": 3, "window_fn": [1.0, 2.0, 3.0]},
        {"nfft": 1024, "window_length": 1000, "window_step": 1000},
        {"window_length": 1},
    ],
    ids=str,
)
def test_windows_of_spectrograms(options):
    """Sizes of the transform, paddings and windows."""
    data = signals(lengths=[16, 900, 5003] if options.get("center_windows") is False else LENGTHS)
    assert_same(lambda: fn.spectrogram(data, **options), atol=2e-2, rtol=1e-4)


def test_many_frames_are_transformed_in_parts(monkeypatch):
    """A batch whose frames would take much memory goes through it in turns."""
    monkeypatch.setattr("pipeflow.operators.on_gpu.audio.FRAMES_AT_ONCE", 64 * 60)
    assert_same(lambda: fn.spectrogram(signals(), window_length=64, window_step=20), atol=5e-2, rtol=1e-4)


def spectra(dtype=np.float32, shapes=((33, 9), (33, 1), (33, 70))):
    """Ragged spectrograms."""
    rng = np.random.default_rng(3)
    return [rng.uniform(0, 9, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("formula", ["slaney", "htk"])
def test_mel_filter_bank(dtype, formula):
    """Frequencies first or last, as the layout says; more bands than frequencies."""
    options = {"nfilter": 10, "sample_rate": 8000.0, "mel_formula": formula}
    assert_same(lambda: fn.mel_filter_bank(spectra(dtype), **options), rtol=1e-5)
    turned = TensorListCPU([x.T.copy() for x in spectra(dtype)], "tf")
    assert_same(lambda: fn.mel_filter_bank(turned, **options, normalize=False), rtol=1e-5)
    assert_same(lambda: fn.mel_filter_bank(spectra(dtype), nfilter=80, freq_low=100.0), rtol=1e-5)
    ragged = TensorListCPU(spectra(dtype, ((9, 5), (33, 4))), "ft")
    assert_same(lambda: fn.mel_filter_bank(ragged, nfilter=4), rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reference", [0.0, 2.5])
def test_to_decibels(dtype, reference):
    """Against the largest value of each sample, or a given one; zeros, negative numbers, NaN and infinities."""
    data = spectra(dtype)
    data[0][0, :5] = [0, -1, np.nan, 1e-6, 1e-4]
    data[1][:] = 0
    assert_same(lambda: fn.to_decibels(data, reference=reference), atol=3e-5, rtol=1e-5)
    assert_same(
        lambda: fn.to_decibels(data, multiplier=20.0, cutoff_db=-30.0, reference=reference), atol=3e-5, rtol=1e-5
    )
    data[2][0, 0] = np.inf
    if reference:
        assert_same(lambda: fn.to_decibels(data, reference=reference), atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_mfcc(kind, axis):
    """All cosine transforms along any axis, with and without a lifter."""
    data = spectra(shapes=((33, 9), (20, 2), (33, 70)))
    assert_same(lambda: fn.mfcc(data, axis=axis, dct_type=kind, n_mfcc=13), atol=1e-4, rtol=1e-4)
    options = {"lifter": 22.0, "normalize": kind != 1}
    assert_same(lambda: fn.mfcc(data, axis=axis, dct_type=kind, n_mfcc=5, **options), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_mfcc_of_types(dtype):
    """Other floats are cast first."""
    assert_same(lambda: fn.mfcc(spectra(dtype), n_mfcc=13), atol=1e-4, rtol=1e-4)
