"""fn.readers.nemo_asr: entries of manifests, parts of recordings, filters, order, and wrong manifests."""

import json

import numpy as np
import pytest
import soundfile
from readers.conformance import check_reader

import pipeflow.fn as fn
from pipeflow import pipeline_def, types
from pipeflow.errors import BadData
from pipeflow.operators.readers.nemo_asr import NemoAsrReader

RATE = 8000


@pytest.fixture
def recordings(tmp_path):
    """Three recordings: {name: int16 samples}; the last is stereo."""
    rng = np.random.default_rng(1)
    sounds = {
        "a.wav": rng.integers(-9000, 9000, 8000, dtype=np.int16),
        "sub/b.flac": rng.integers(-9000, 9000, 16000, dtype=np.int16),
        "c.wav": rng.integers(-9000, 9000, (4000, 2), dtype=np.int16),
    }
    (tmp_path / "sub").mkdir()
    for name, samples in sounds.items():
        soundfile.write(tmp_path / name, samples, RATE)
    return sounds


def manifest(folder, *entries, name="manifest.json"):
    path = folder / name
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries) + "\n\n")
    return str(path)


ENTRIES = (
    {"audio_filepath": "a.wav", "duration": 1.0, "text": "hello"},
    {"audio_filepath": "sub/b.flac", "duration": 2.0, "text": "wörld"},
    {"audio_filepath": "c.wav", "duration": 0.5},
    {"audio_filepath": "sub/b.flac", "offset": 0.5, "duration": 0.25, "text": "part"},
    {"audio_filepath": "a.wav"},
)


def expected(sounds, dtype=np.float32):
    a, b, c = (sounds[name].astype(np.float32) / 32768 for name in sounds)
    samples = [a, b, c.mean(axis=1), b[4000:6000], a]
    texts = [b"hello", "wörld".encode(), b"", b"part", b""]
    return [
        (sound, np.array(RATE, np.float32), np.frombuffer(text, np.uint8), np.array([number], np.int64))
        for number, (sound, text) in enumerate(zip(samples, texts))
    ]


def test_the_reader_keeps_every_readers_promises(tmp_path, recordings):
    """Samples, parts of recordings, transcripts and numbers; and order, epochs, shards, padding and state."""
    path = manifest(tmp_path, *ENTRIES)
    check_reader(lambda: NemoAsrReader(manifest_filepaths=path, read_idxs=True), expected(recordings))


def test_outputs_are_what_is_asked_for(tmp_path, recordings):
    """In a pipeline: one to four outputs, several manifests, types and channels."""
    paths = [manifest(tmp_path, *ENTRIES[:2]), manifest(tmp_path, *ENTRIES[2:], name="more.json")]

    @pipeline_def(batch_size=5, num_threads=2, device_id=None)
    def everything(arguments):
        outputs = fn.readers.nemo_asr(manifest_filepaths=paths, **arguments)
        return tuple(outputs) if isinstance(outputs, (list, tuple)) else outputs

    wanted = expected(recordings)
    samples, rates, texts, numbers = everything({"read_idxs": True}).run()
    for index in range(5):
        np.testing.assert_array_equal(samples.at(index), wanted[index][0])
        assert rates.at(index) == RATE
        assert texts.at(index).tobytes() == wanted[index][2].tobytes()
        assert numbers.at(index) == [index]
    plain = {"read_text": False, "read_sample_rate": False, "dtype": types.INT16, "downmix": False}
    (alone,) = everything(plain).run()
    np.testing.assert_array_equal(alone.at(2), recordings["c.wav"])
    assert alone.at(0).shape == (8000, 1)


def test_sample_rate_resamples(tmp_path, recordings):
    """The samples are those of fn.audio_resample, and the rate that is read is the new one."""
    reader = NemoAsrReader(manifest_filepaths=manifest(tmp_path, *ENTRIES), sample_rate=6000)
    samples, rate, _ = reader.fetch(3)
    whole = expected(recordings)[3][0]
    np.testing.assert_array_equal(samples, fn.audio_resample(whole, in_rate=RATE, out_rate=6000))
    assert rate == 6000


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [
        ({"max_duration": 1.0}, [0, 2, 3, 4]),
        ({"min_duration": 0.5}, [0, 1, 2, 4]),
        ({"min_duration": 0.3, "max_duration": 0.9}, [2, 4]),
    ],
)
def test_durations_choose_entries(tmp_path, recordings, limits, numbers):
    """Limits are inclusive; entries without a duration stay; numbers count the chosen ones."""
    reader = NemoAsrReader(manifest_filepaths=manifest(tmp_path, *ENTRIES), read_idxs=True, **limits)
    wanted = expected(recordings)
    assert len(reader) == len(numbers)
    for index, number in enumerate(numbers):
        found = reader.fetch(index)
        np.testing.assert_array_equal(found[0], wanted[number][0])
        assert found[3] == [index]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("junk", "manifest.json, line 2 is not JSON"),
        ("[1]", "manifest.json, line 2 has no audio_filepath"),
        ('{"text": "x"}', "manifest.json, line 2 has no audio_filepath"),
        ('{"audio_filepath": "a.wav", "duration": "long"}', "line 2: duration must be a number of seconds, got 'long'"),
        ('{"audio_filepath": "a.wav", "offset": -1}', "line 2: offset must be a number of seconds, got -1"),
    ],
)
def test_wrong_lines_are_named(tmp_path, recordings, line, message):
    """The manifest and the line are in the message."""
    with pytest.raises(BadData, match=message):
        NemoAsrReader(manifest_filepaths=manifest(tmp_path, ENTRIES[0], line))


def test_wrong_arguments(tmp_path, recordings):
    """Nothing chosen, no manifest, a missing one, and impossible types, qualities and rates."""
    path = manifest(tmp_path, *ENTRIES[:3])
    with pytest.raises(BadData, match=r"no recordings of the wanted duration in .*: 3 are listed"):
        NemoAsrReader(manifest_filepaths=path, max_duration=0.1)
    with pytest.raises(ValueError, match="'manifest_filepaths' is an empty list"):
        NemoAsrReader(manifest_filepaths=[])
    with pytest.raises(FileNotFoundError):
        NemoAsrReader(manifest_filepaths="missing.json")
    with pytest.raises(ValueError, match="dtype must be FLOAT, INT16 or INT32, got uint8"):
        NemoAsrReader(manifest_filepaths=path, dtype=np.dtype(np.uint8))
    with pytest.raises(ValueError, match="quality must be from 0 to 100, got 101"):
        NemoAsrReader(manifest_filepaths=path, quality=101)
    with pytest.raises(ValueError, match=r"sample_rate must be positive, or -1 .* got nan"):
        NemoAsrReader(manifest_filepaths=path, sample_rate=float("nan"))


def test_a_bad_recording_is_named(tmp_path, recordings):
    """A cut file, and an offset behind the end, are errors that name the file, in a pipeline too."""
    whole = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:500])
    path = manifest(tmp_path, {"audio_filepath": "cut.wav"}, {"audio_filepath": "a.wav", "offset": 5.0})

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        return fn.readers.nemo_asr(manifest_filepaths=path, read_text=False, read_sample_rate=False)

    pipe = pipeline()
    with pytest.raises(ValueError, match="it is truncated") as caught:
        pipe.run()
    assert any("cut.wav" in note for note in caught.value.__notes__)
    with pytest.raises(IndexError, match=r"a\.wav is shorter than the offset 5\.0 s of its entry"):
        NemoAsrReader(manifest_filepaths=path).fetch(1)
