"""Decoding sound files: every kind against libsndfile, damaged and truncated ones, rates and channels."""

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from audio.made_flac import silence

from pipeflow import fn, types
from pipeflow.errors import BadData
from pipeflow.kernels.cpu import audio_flac, audio_wav
from pipeflow.tensors import TensorListCPU

RATE = 22050
PCM = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]


def sound(frames=700, channels=2):
    """Noise that reaches both ends of the range."""
    values = np.random.default_rng(frames).normal(size=(frames, channels)) * 0.3
    values[:2] = [[1.0] * channels, [-1.0] * channels]
    return values.clip(-1, 1)


def encoded(values, kind, subtype=None, rate=RATE):
    """The bytes of a file with these samples."""
    file = io.BytesIO()
    soundfile.write(file, values, rate, format=kind, subtype=subtype)
    return np.frombuffer(file.getvalue(), np.uint8)


def reference(data, dtype="float32"):
    samples, rate = soundfile.read(io.BytesIO(data.tobytes()), dtype=dtype, always_2d=True)
    return samples, rate


@pytest.mark.parametrize("kind", ["WAV", "WAVEX"])
@pytest.mark.parametrize("subtype", PCM)
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_wav_equals_libsndfile(kind, subtype, channels):
    """The direct reader gives exactly what libsndfile gives, for every uncompressed kind and number of channels."""
    data = encoded(sound(channels=channels), kind, subtype)
    samples, rate = fn.decoders.audio(data)
    expected, _ = reference(data)
    assert samples.dtype == np.float32
    np.testing.assert_array_equal(samples, expected)
    assert rate.shape == ()
    assert rate == RATE


@pytest.mark.parametrize("subtype", PCM[:4])
@pytest.mark.parametrize("dtype", [types.INT16, types.INT32])
def test_integers_keep_their_bits(subtype, dtype):
    """INT16 and INT32 outputs are the stored integers moved to the upper bits, as libsndfile moves them."""
    data = encoded(sound(), "WAV", subtype)
    samples, _ = fn.decoders.audio(data, dtype=dtype)
    name = "int16" if dtype == types.INT16 else "int32"
    np.testing.assert_array_equal(samples, reference(data, name)[0])


@pytest.mark.parametrize(("kind", "subtype"), [("WAV", "FLOAT"), ("AIFF", "FLOAT"), ("RF64", "DOUBLE")])
def test_integers_from_stored_floats_are_scaled(kind, subtype):
    """Floats stored in -1...1 fill the range of the integer type; DALI would give -1, 0 and 1."""
    values = np.array([[1.0], [-1.0], [0.5], [0.0], [1.5]])
    samples, _ = fn.decoders.audio(encoded(values, kind, subtype), dtype=types.INT16)
    np.testing.assert_array_equal(samples[:, 0], [32767, -32767, 16384, 0, 32767])


@pytest.mark.parametrize(
    ("kind", "subtype", "rate"),
    [
        ("FLAC", "PCM_16", RATE),
        ("FLAC", "PCM_24", RATE),
        ("FLAC", "PCM_S8", RATE),
        ("OGG", "VORBIS", RATE),
        ("OGG", "OPUS", 24000),
        ("MP3", None, RATE),
        ("AIFF", "PCM_16", RATE),
        ("WAV", "ULAW", RATE),
        ("WAV", "IMA_ADPCM", RATE),
        ("RF64", "PCM_16", RATE),
    ],
)
def test_other_kinds_equal_libsndfile(kind, subtype, rate):
    """Every other kind of file gives what libsndfile gives: exactly, MP3 to the last bit of rounding."""
    data = encoded(sound(3000), kind, subtype, rate)
    expected, _ = reference(data)
    samples, found = fn.decoders.audio(data)
    np.testing.assert_allclose(samples, expected, rtol=0, atol=1e-6 if kind == "MP3" else 0)
    assert found == rate
    samples, _ = fn.decoders.audio(data, dtype=types.INT16)
    np.testing.assert_allclose(samples, reference(data, "int16")[0], rtol=0, atol=1 if kind == "MP3" else 0)


def test_downmix_is_the_mean_of_the_channels():
    """``downmix`` gives one-dimensional samples: the mean, exact for two channels; mono files lose their axis only."""
    data = encoded(sound(channels=2), "WAV", "PCM_16")
    samples, _ = fn.decoders.audio(data, downmix=True)
    np.testing.assert_array_equal(samples, reference(data)[0].mean(axis=1))
    mono = encoded(sound(channels=1), "WAV", "PCM_16")
    np.testing.assert_array_equal(fn.decoders.audio(mono, downmix=True)[0], reference(mono)[0][:, 0])
    whole, _ = fn.decoders.audio(data, downmix=True, dtype=types.INT16)
    expected = reference(data)[0].mean(axis=1) * 32768
    assert np.abs(whole - expected).max() <= 1


@pytest.mark.parametrize("downmix", [True, False])
def test_sample_rate_resamples(downmix):
    """``sample_rate`` gives what audio_resample gives on the decoded samples, and is the second output."""
    data = encoded(sound(2000), "WAV", "PCM_16")
    whole, _ = fn.decoders.audio(data, downmix=downmix)
    samples, rate = fn.decoders.audio(data, downmix=downmix, sample_rate=16000, quality=70)
    assert rate == 16000
    np.testing.assert_array_equal(samples, fn.audio_resample(whole, in_rate=RATE, out_rate=16000, quality=70))
    integers, _ = fn.decoders.audio(data, downmix=downmix, sample_rate=16000, quality=70, dtype=types.INT16)
    assert np.abs(integers - np.clip(samples * 32767, -32768, 32767)).max() <= 0.5 + 1e-2
    same, rate = fn.decoders.audio(data, downmix=downmix, sample_rate=RATE)
    np.testing.assert_array_equal(same, whole)
    assert rate == RATE


def test_sample_rate_may_differ_from_sample_to_sample():
    """The rate is a per-sample argument."""
    data = encoded(sound(2000, 1), "WAV", "PCM_16")
    rates = [np.array(rate, np.float32) for rate in (8000, 0, RATE)]
    samples, found = fn.decoders.audio([data] * 3, sample_rate=TensorListCPU(rates))
    assert [shape[0] for shape in samples.shape()] == [726, 2000, 2000]
    assert [float(np.asarray(rate)) for rate in found] == [8000, RATE, RATE]


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_impossible_rates_are_errors(rate):
    """A negative, infinite or undefined rate is an error with the value."""
    data = encoded(sound(), "WAV", "PCM_16")
    wanted = "positive, or 0 for the rate of the file" if rate == -1 else "finite"
    with pytest.raises(ValueError, match=f"sample_rate.* must be {wanted}, got {rate}"):
        fn.decoders.audio(data, sample_rate=rate)


def test_other_bad_arguments():
    """Types that DALI does not decode to, and a quality out of range, fail when the graph is built."""
    data = encoded(sound(), "WAV", "PCM_16")
    with pytest.raises(ValueError, match="dtype must be FLOAT, INT16 or INT32, got uint8"):
        fn.decoders.audio(data, dtype=types.UINT8)
    with pytest.raises(ValueError, match=r"quality must be from 0 to 100, got 200\.0"):
        fn.decoders.audio(data, quality=200)
    with pytest.raises(ValueError, match=r"array of bytes with one axis, got uint8 of shape \(2, "):
        fn.decoders.audio(data[: len(data) // 2 * 2].reshape(2, -1))
    with pytest.raises(TypeError, match="does not take int32"):
        fn.decoders.audio(data.astype(np.int32))


def test_a_file_without_samples():
    """Zero frames are not an error: the output has zero frames, resampled or not."""
    data = encoded(np.zeros((0, 2)), "WAV", "PCM_16")
    assert fn.decoders.audio(data)[0].shape == (0, 2)
    assert fn.decoders.audio(data, downmix=True, sample_rate=8000)[0].shape == (0,)


def test_chunks_before_the_samples_are_skipped():
    """Unknown chunks of odd and even length, and bytes after the samples, do not matter."""
    data = encoded(sound(50, 1), "WAV", "PCM_16").tobytes()
    extra = b"LIST" + struct.pack("<I", 5) + b"hello\0" + b"junk" + struct.pack("<I", 2) + b"ab"
    changed = np.frombuffer(data[:12] + extra + data[12:] + b"LIST\x02\0\0\0ab", np.uint8)
    np.testing.assert_array_equal(fn.decoders.audio(changed)[0], reference(np.frombuffer(data, np.uint8))[0])


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFF000, 0x7FFF0000, 0x7FFFFFFF, 0])
@pytest.mark.parametrize("whole", [0xFFFFFFFF, 0x7FFFF024, 36, 0])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_written_to_a_stream(size, whole, channels):
    """The sizes that writers to a stream leave mean until the end of the file, as libsndfile reads them."""
    data = encoded(sound(51, channels), "WAV", "PCM_16").copy()
    expected = reference(data)[0]
    data[4:8] = np.frombuffer(struct.pack("<I", whole), np.uint8)
    data[40:44] = np.frombuffer(struct.pack("<I", size), np.uint8)
    np.testing.assert_array_equal(fn.decoders.audio(data)[0], expected)
    if size not in (0, 0x7FFF0000):  # which libsndfile does not take for open
        np.testing.assert_array_equal(reference(data)[0], expected)
    odd = np.concatenate([data, np.zeros(1, np.uint8)])
    np.testing.assert_array_equal(fn.decoders.audio(odd)[0], expected)


def test_a_wav_whose_header_says_that_there_is_nothing():
    """No samples, and other chunks behind them: the file is empty, not open."""
    data = encoded(np.zeros((0, 1)), "WAV", "PCM_16").tobytes() + b"LIST" + struct.pack("<I", 6) + b"sounds"
    data = np.frombuffer(data[:4] + struct.pack("<I", len(data) - 8) + data[8:], np.uint8)
    assert fn.decoders.audio(data)[0].shape == (0, 1)


@pytest.mark.parametrize("size", [0x80000000, 0x7FFE0000, 1000])
def test_other_sizes_beyond_the_end_are_truncated_files(size):
    """A stated size is believed, however large."""
    data = encoded(sound(50, 1), "WAV", "PCM_16").copy()
    data[40:44] = np.frombuffer(struct.pack("<I", size), np.uint8)
    with pytest.raises(BadData, match=f"announces {size} bytes of samples, the file has 100: it is truncated"):
        fn.decoders.audio(data)


# ----------------------------------------------------------------------------------------------------
# Memory


def slow_wav(rate):
    """40 kB of sound that would last for hours, were it so slow."""
    return encoded(sound(20_000, 1), "WAV", "PCM_16", rate)


@pytest.mark.parametrize("data", [silence(10_000), silence(10_000, stated=False)], ids=["stated", "open"])
def test_silence_of_few_bytes_is_refused_and_can_be_meant(data):
    """A FLAC file may hold hours in kilobytes: unless the limit is given, a file gives 1024 times its size, or 64 MB."""
    with pytest.raises(
        BadData, match=r"samples of 4 bytes are more than max_bytes=\d+; raise max_bytes if it is meant"
    ):
        fn.decoders.audio(data, dtype=types.INT16)
    part = silence(60, stated=False)
    samples, _ = fn.decoders.audio(part, max_bytes=1 << 30)
    assert samples.shape[1] == 2
    assert not samples.any()
    with pytest.raises(BadData, match="more than max_bytes=100000; raise"):
        fn.decoders.audio(part, max_bytes=100_000)


def test_resampling_counts_too():
    """A file that says one sample a second, asked for at 48 kHz."""
    with pytest.raises(
        BadData, match=r"resampled from 1 to 48000 .* become 960000000: more than max_bytes=67108864; raise"
    ):
        fn.decoders.audio(slow_wav(1), sample_rate=48_000)
    samples, _ = fn.decoders.audio(slow_wav(1000), sample_rate=48_000, max_bytes=20_000 * 48 * 4)
    assert samples.shape == (960_000, 1)
    with pytest.raises(BadData, match="more than max_bytes=3839999"):
        fn.decoders.audio(slow_wav(1000), sample_rate=48_000, max_bytes=20_000 * 48 * 4 - 1)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_max_bytes_bounds_every_kind(kind):
    """The decoded samples in the type asked for, to the byte."""
    data = encoded(sound(30_000, 2), kind)
    size = len(fn.decoders.audio(data)[0]) * 8
    assert fn.decoders.audio(data, max_bytes=size)[0].nbytes == size
    with pytest.raises(BadData, match=f"max_bytes={size - 1}; raise max_bytes"):
        fn.decoders.audio(data, max_bytes=size - 1)
    with pytest.raises(ValueError, match="max_bytes must be at least 1, got 0"):
        fn.decoders.audio(data, max_bytes=0)


def test_the_size_of_the_result_is_known_before_anything_is_decoded(monkeypatch):
    """16 bits of FLAC become floats, which take twice the memory."""
    data, frames = encoded(sound(30_000, 2), "FLAC", "PCM_16"), 30_000
    stored = frames * 2 * 2
    assert fn.decoders.audio(data, dtype=types.INT16, max_bytes=stored)[0].nbytes == stored
    monkeypatch.setattr(audio_flac, "decode_frames", None)
    with pytest.raises(BadData, match=f"{frames} samples of 8 bytes are more than max_bytes={2 * stored - 1}; raise"):
        fn.decoders.audio(data, max_bytes=2 * stored - 1)


MEMORY = """
import resource, sys, numpy as np
sys.path[:0] = {path!r}
from audio.test_files import encoded, silence, slow_wav, sound, fn
for kind in ("WAV", "FLAC", "OGG"):
    fn.decoders.audio(encoded(sound(300, 2), kind), sample_rate=8000)
    fn.decoders.audio(silence(60, stated=False), max_bytes=1 << 30)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
files = [silence(10_000), slow_wav(1), silence(10_000, stated=False)]
for data in files:
    for limit in (1 << 20, 1 << 22):
        try:
            fn.decoders.audio(data, sample_rate=48_000, max_bytes=limit)
        except ValueError:
            pass
        else:
            print("decoded")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_refusing_takes_no_memory():
    """A process that refuses gigabytes grows by a few megabytes."""
    root = Path(__file__).parents[2]
    code = MEMORY.format(path=[str(root), str(root / "tests")])
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 20_000


def test_a_wav_of_empty_chunks_is_refused_soon():
    """Ten thousand chunks are the end."""
    data = encoded(sound(50, 1), "WAV", "PCM_16").tobytes()
    many = np.frombuffer(data[:12] + b"junk\0\0\0\0" * 200_000 + data[12:], np.uint8)
    with pytest.raises(BadData, match="without samples"):
        fn.decoders.audio(many)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "OPUS", "AIFF", "MULAW"])
def test_a_file_cut_at_any_byte_is_an_error(kind):
    """However a file is cut, decoding raises BadData, a kind of DALI's RuntimeError; it never crashes."""
    names = {"OPUS": ("OGG", "OPUS", 24000), "MULAW": ("WAV", "ULAW", RATE)}
    data = encoded(sound(300, 1), *names.get(kind, (kind, None)))
    fn.decoders.audio(data)
    for length in range(len(data)):
        with pytest.raises(BadData):
            fn.decoders.audio(data[:length])


def test_a_cut_mp3_never_crashes():
    """An MP3 file has no length; cut anywhere it is an error or shorter sound."""
    data = encoded(sound(3000, 1), "MP3")
    whole = fn.decoders.audio(data)[0]
    for length in range(0, len(data), 7):
        try:
            samples, _ = fn.decoders.audio(data[:length])
        except ValueError:
            continue
        assert len(samples) <= len(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:40], "the file ends after 40 bytes without samples: it is truncated"),
        (lambda data: data[:30], "the file ends inside the format: it is truncated"),
        (lambda data: data[:100], "the header announces 100 bytes of samples, the file has 56: it is truncated"),
        (lambda data: data[:22] + b"\0\0" + data[24:], "the format is impossible: 0 channels of 16 bits"),
        (lambda data: data[:24] + b"\0\0\0\0" + data[28:], "0 samples a second"),
        (lambda data: data[:32] + b"\7\0" + data[34:], "1 channels of 16 bits in 7 bytes"),
        (lambda data: data[:12] + data[36:], "the samples come before their format"),
        (lambda _: b"", "cannot be decoded: Format not recognised"),
        (lambda _: bytes(range(100)), "cannot be decoded: Format not recognised"),
    ],
)
def test_damaged_headers_say_what_is_wrong(change, message):
    """Each message says which part of the file is wrong."""
    data = encoded(sound(50, 1), "WAV", "PCM_16").tobytes()
    with pytest.raises(ValueError, match=message):
        fn.decoders.audio(np.frombuffer(change(data), np.uint8))


def test_truncated_ogg_says_so():
    """libsndfile plays what is left of a cut Ogg file; here it is an error that tells where the pages end."""
    data = encoded(sound(30000, 1), "OGG")
    with pytest.raises(ValueError, match="inside a page: it is truncated"):
        fn.decoders.audio(data[:-1])
    pages = [i for i in range(len(data) - 4) if data[i : i + 4].tobytes() == b"OggS"]
    assert len(pages) > 3
    with pytest.raises(ValueError, match=f"the last page, at byte {pages[-1]}, is not marked as the end"):
        fn.decoders.audio(data[: pages[-1]])


def test_how_much_memory_a_header_may_ask_for_at_once():
    """64 times the file, or 16 MiB."""
    assert audio_wav.believable(1 << 24, 10)
    assert not audio_wav.believable((1 << 24) + 1, 10)
    assert audio_wav.believable(64 << 20, 1 << 20)
    assert not audio_wav.believable((64 << 20) + 1, 1 << 20)


def test_several_ogg_recordings_in_a_row_are_refused():
    """libsndfile would give the first one and say nothing."""
    one = encoded(sound(300, 1), "OGG")
    with pytest.raises(
        ValueError, match=f"ogg: another recording begins at byte {len(one)}; files of several in a row"
    ):
        fn.decoders.audio(np.concatenate([one, one]))


def test_a_large_wav_that_is_cut_is_refused():
    """RF64 states its length in 64 bits."""
    data = encoded(sound(300, 1), "RF64", "PCM_16")
    np.testing.assert_array_equal(fn.decoders.audio(data)[0], reference(data)[0])
    stated = data.copy()
    stated[28:36] = list(struct.pack("<Q", 1 << 40))
    with pytest.raises(
        ValueError, match=f"announces {1 << 40} bytes of samples, the file has {len(data)}: it is truncated"
    ):
        fn.decoders.audio(stated)


IMPOSSIBLE = (b"\x7f\xff\x80", b"\xc0\x0d\x80", b"\x40\x1f\x80")


@pytest.mark.parametrize("rate", [bytes(10), *(begin + bytes(7) for begin in IMPOSSIBLE)])
def test_impossible_rates_of_aiff_are_refused(rate):
    """Zero, infinity, less than nothing, of which libsndfile makes 1 and 67108864, and 2**32."""
    data = encoded(sound(300, 1), "AIFF", "PCM_16").tobytes()
    place = data.index(b"COMM") + 16
    with pytest.raises(ValueError, match=f"aiff: an impossible rate, stored as {rate.hex()}"):
        fn.decoders.audio(np.frombuffer(data[:place] + rate + data[place + 10 :], np.uint8))


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "AIFF", "MP3"])
def test_damaged_files_never_crash_fuzz(kind, mutants):
    """Random bytes overwritten, anywhere or in the header, end in sound or in a ValueError."""
    rng = np.random.default_rng(len(kind))
    data = encoded(sound(400, 2), kind)
    for attempt in range(mutants):
        broken = data.copy()
        span = 64 if attempt % 2 else len(broken)
        places = rng.integers(0, min(span, len(broken)), rng.integers(1, 9))
        broken[places] = rng.integers(0, 256, len(places))
        try:
            samples, _ = fn.decoders.audio(broken)
        except ValueError:
            continue
        assert samples.ndim == 2
        assert samples.nbytes <= 1 << 28


def test_an_announced_length_takes_no_memory():
    """A FLAC header that announces 2**35 samples is an error, found without memory for them."""
    data = encoded(sound(300, 1), "FLAC").copy()
    # STREAMINFO begins at byte 8; the 36 bits of the length end at byte 26.
    data[21] |= 0x0F
    data[22:26] = 255
    with pytest.raises(ValueError, match=r"\d+ samples of 4 bytes are more than max_bytes=67108864"):
        fn.decoders.audio(data)
