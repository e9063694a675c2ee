"""The FLAC decoder against libsndfile: every kind of block, many channels and widths, and damage."""

import io

import numpy as np
import pytest
import soundfile
from audio.made_flac import flac

from pipeflow import fn
from pipeflow.kernels import cpu as kernels

TIME = np.arange(20000) / 22050
SOUNDS = {
    "noise": lambda rng: rng.normal(size=20000) * 0.2,
    "silence": lambda rng: np.zeros(20000),
    "tone": lambda rng: np.sin(2 * np.pi * 440 * TIME) * 0.9,
    "drift": lambda rng: rng.normal(size=20000).cumsum() * 0.005,
    "square": lambda rng: np.sign(rng.normal(size=20000)),
    "few values": lambda rng: np.round(np.sin(TIME * 300) * 30) / 32,
    "bursts": lambda rng: rng.normal(size=20000) * (rng.random(20000) > 0.999) + 1e-4 * rng.normal(size=20000),
}


def encoded(values, subtype="PCM_16", level=0.5):
    file = io.BytesIO()
    soundfile.write(file, values.clip(-1, 1), 22050, format="FLAC", subtype=subtype, compression_level=level)
    return np.frombuffer(file.getvalue(), np.uint8)


def decode(data):
    """What the decoder gives; None where it refuses the file, in words or for the general library to judge."""
    try:
        return kernels.audio_flac.decode(data, 1 << 26)
    except kernels.audio_wav.BrokenAudio:
        return None


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_mono_is_what_libsndfile_decodes(name, subtype, level):
    """Constant, verbatim, fixed and linear predictors, escaped partitions and long codes give the same integers."""
    data = encoded(SOUNDS[name](np.random.default_rng(len(name))), subtype, level)
    decoded = decode(data)
    assert decoded is not None
    dtype = "int16" if subtype == "PCM_16" else "int32"
    expected, rate = soundfile.read(io.BytesIO(data), dtype=dtype, always_2d=True)
    assert decoded[1] == rate
    np.testing.assert_array_equal(decoded[0], expected)


@pytest.mark.parametrize("channels", [2, 3, 8])
@pytest.mark.parametrize("likeness", [0.0, 0.9, -0.9])
def test_channels_that_resemble_each_other(channels, likeness):
    """Left/side, right/side and mid/side coding are undone, with sums that lost their lowest bit."""
    rng = np.random.default_rng(channels)
    common = rng.normal(size=(9000, 1)).cumsum(axis=0) * 0.01
    values = likeness * common + 0.01 * rng.normal(size=(9000, channels)) + 0.2 * common * np.arange(channels)
    for subtype in ("PCM_16", "PCM_24"):
        data = encoded(values, subtype)
        dtype = "int16" if subtype == "PCM_16" else "int32"
        np.testing.assert_array_equal(decode(data)[0], soundfile.read(io.BytesIO(data), dtype=dtype)[0])


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 4095, 4096, 4097])
def test_short_and_uneven_lengths(length):
    """Blocks of every length, the last one shorter."""
    data = encoded(np.random.default_rng(length).normal(size=length) * 0.1)
    decoded = decode(data)
    assert decoded is not None
    np.testing.assert_array_equal(decoded[0], soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)[0])


@pytest.mark.parametrize("depth", [4, 8, 12, 16, 20, 24, 25, 31, 32])
@pytest.mark.parametrize("kind", ["verbatim", "fixed", "constant"])
@pytest.mark.parametrize("side", [False, True])
def test_every_depth_and_files_without_a_stated_length(depth, kind, side):
    """4 to 32 bits, the difference of two channels of 32 bits too; the length may be left open, and a tag may follow."""
    rng = np.random.default_rng(depth)
    largest = (1 << depth - 1) - 1
    values = np.clip(rng.normal(size=(1300, 2)).cumsum(axis=0) * largest / 40, -largest - 1, largest).astype(np.int64)
    if kind == "verbatim":
        values[:4] = [[largest, -largest - 1], [-largest - 1, largest], [0, largest], [-largest - 1, 0]]
    if kind == "constant":
        values = np.repeat(values[:1], 1300, axis=0)
    expected = values if depth == 16 else values << 32 - depth
    for stated in (True, False):
        data = flac(values, depth, stated=stated, kind=kind, side=side)
        for whole in (data, np.concatenate([data, np.frombuffer(b"TAG" + bytes(125), np.uint8)])):
            samples, rate = decode(whole)
            assert rate == 22050
            np.testing.assert_array_equal(samples, expected)
    floats, _ = fn.decoders.audio(data)
    np.testing.assert_allclose(floats, values / (1 << depth - 1), rtol=0, atol=2.0**-24)


@pytest.mark.parametrize(("depth", "stated"), [(16, False), (32, True), (32, False)])
def test_cut_files_that_libsndfile_does_not_read_are_errors(depth, stated):
    """Inside a frame always; between two frames where the length is stated."""
    values = np.random.default_rng(1).integers(-1000, 1000, (700, 1))
    data = flac(values, depth, stated=stated, block=256)
    for size in range(60, len(data), 11):
        with pytest.raises(ValueError, match="flac: a frame is damaged, or the file is truncated"):
            fn.decoders.audio(data[:size])
    changed = data.copy()
    changed[-5] ^= 1
    with pytest.raises(ValueError, match="flac: a frame is damaged, or the file is truncated"):
        fn.decoders.audio(changed)


def test_a_code_without_an_end_is_damage_whatever_the_checksum():
    """The first value is chosen so that the checksum is 0: from the code to the end of the file there are only zeros."""
    values = np.zeros((16, 1), int)
    values[0] = -23136
    file = flac(values, 16, kind="endless")
    assert file[-2:].tolist() == [0, 0]
    assert decode(file) is None
    with pytest.raises(ValueError, match="flac"):
        fn.decoders.audio(file)


def test_each_frame_is_accepted_with_its_checksum_only():
    """A changed bit anywhere in the frames is noticed: the answer is None, never other sound."""
    data = encoded(np.random.default_rng(3).normal(size=3000) * 0.1)
    begin = kernels.audio_flac._after_metadata(data)
    rng = np.random.default_rng(4)
    for place in rng.integers(begin, len(data), 300):
        broken = data.copy()
        broken[place] ^= 1 << rng.integers(0, 8)
        assert decode(broken) is None


def test_a_cut_or_overwritten_file_is_refused_fuzz(mutants):
    """Cut at any byte or overwritten at random, the answer is None or the true length; memory is never left."""
    data = encoded(np.random.default_rng(5).normal(size=(600, 2)) * 0.1)
    for length in range(len(data)):
        assert decode(data[:length]) is None
    rng = np.random.default_rng(6)
    for _ in range(mutants * 5):
        broken = data.copy()
        places = rng.integers(0, len(broken), rng.integers(1, 40))
        broken[places] = rng.integers(0, 256, len(places))
        decoded = decode(broken)
        assert decoded is None or decoded[0].nbytes <= max(64 * len(broken), 1 << 24)


def test_damage_behind_valid_checksums_stays_inside_memory_fuzz(mutants):
    """Random frames with a right checksum reach every branch of the parser and change nothing outside its arrays."""
    rng = np.random.default_rng(7)
    data = encoded(rng.normal(size=(4096, 2)) * 0.1)
    begin = kernels.audio_flac._after_metadata(data)
    tables = kernels.audio_flac.CHECKSUMS
    for _ in range(mutants * 5):
        broken = data.copy()
        places = rng.integers(begin + 6, begin + 400, rng.integers(1, 20))
        broken[places] = rng.integers(0, 256, len(places))
        total = kernels.audio_flac._checksum(broken, begin, len(broken) - 2, tables)
        broken[-2:] = total >> 8, total & 255
        decoded = decode(broken)
        assert decoded is None or decoded[0].shape == (4096, 2)
