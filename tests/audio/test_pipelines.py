"""Audio in pipelines: the same as sample by sample, whatever the threads; what a bad file does; the example."""

import io
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeflow import fn, pipeline_def

ROOT = Path(__file__).parents[2]
RATE = 22050


@pytest.fixture
def files(tmp_path):
    """Ten recordings of different lengths, wav and FLAC in turn, two of them stereo."""
    rng = np.random.default_rng(1)
    paths = []
    for number in range(10):
        shape = (int(rng.integers(3000, 9000)), 2) if number % 5 == 4 else int(rng.integers(3000, 9000))
        path = tmp_path / f"{number}.{'wav' if number % 2 else 'flac'}"
        soundfile.write(path, rng.normal(size=shape) * 0.2, RATE)
        paths.append(str(path))
    return paths


def log_mel(sound):
    spectrum = fn.spectrogram(fn.preemphasis_filter(sound), nfft=512, window_length=320, window_step=160)
    return fn.to_decibels(fn.mel_filter_bank(spectrum, nfilter=80, sample_rate=16000), cutoff_db=-80.0)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_pipeline_gives_what_single_calls_give(files, threads):
    """Files to padded log-mel batches: each sample is bit for bit the eager result, for any number of threads."""

    @pipeline_def(batch_size=5, num_threads=threads, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.file(files=files)
        sound, rate = fn.decoders.audio(encoded, sample_rate=16000, downmix=True)
        mel = log_mel(sound)
        return fn.pad(mel, axes=[1], fill_value=-80.0), mel.shape(), rate

    pipe = pipeline()
    pipe.build()
    for first in (0, 5, 0):
        padded, shapes, rates = pipe.run()
        assert padded.layout() == "ft"
        longest = max(int(shapes.at(i)[1]) for i in range(5))
        for i in range(5):
            encoded = np.fromfile(files[first + i], np.uint8)
            expected = log_mel(fn.decoders.audio(encoded, sample_rate=16000, downmix=True)[0])
            assert padded.at(i).shape == (80, longest)
            np.testing.assert_array_equal(padded.at(i)[:, : expected.shape[1]], expected)
            assert (padded.at(i)[:, expected.shape[1] :] == -80).all()
            assert rates.at(i) == 16000


def test_speed_perturbation_is_keyed_to_the_sample(files):
    """A random factor a sample: the same numbers for any number of threads, other ones for another seed."""

    def run(threads, seed):
        @pipeline_def(batch_size=10, num_threads=threads, device_id=None, seed=seed)
        def pipeline():
            encoded, _ = fn.readers.file(files=files)
            sound, _ = fn.decoders.audio(encoded, downmix=True)
            return fn.audio_resample(sound, scale=fn.random.uniform(range=(0.9, 1.1)))

        pipe = pipeline()
        pipe.build()
        (sounds,) = pipe.run()
        return [np.array(sounds.at(i)) for i in range(10)]

    one, two, other = run(1, 7), run(3, 7), run(1, 8)
    for a, b in zip(one, two):
        np.testing.assert_array_equal(a, b)
    assert [len(a) for a in one] != [len(a) for a in other]


def test_a_damaged_file_is_named(files):
    """One cut file in a batch: the error says which operator, which file and what is wrong."""
    whole = Path(files[3]).read_bytes()
    Path(files[3]).write_bytes(whole[: len(whole) // 2])

    @pipeline_def(batch_size=5, num_threads=2, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.file(files=files)
        return fn.decoders.audio(encoded, downmix=True)[0]

    pipe = pipeline()
    pipe.build()
    with pytest.raises(RuntimeError, match="it is truncated") as caught:
        pipe.run()
    notes = "\n".join(caught.value.__notes__)
    assert "fn.decoders.audio" in notes
    assert files[3] in notes


def test_silence_is_trimmed_inside_a_pipeline():
    """nonsilent_region gives per-sample arguments of slice."""
    sound = np.zeros(6000, np.float32)
    sound[2000:3500] = 0.5

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline():
        signal = fn.external_source(lambda: [sound, sound[:5000]])
        begin, length = fn.nonsilent_region(signal, window_length=1)
        return fn.slice(signal, start=begin, shape=length, axes=[0])

    pipe = pipeline()
    pipe.build()
    (trimmed,) = pipe.run()
    for i in range(2):
        np.testing.assert_array_equal(trimmed.at(i), sound[2000:3500])


@pytest.mark.parametrize("augment", ["operators", "function"])
def test_the_example_learns(augment, tmp_path, monkeypatch, capsys):
    """examples/audio_mel.py classifies files it has not heard, and draws its picture."""
    picture = tmp_path / "mel.png"
    arguments = ["audio_mel.py", "--augment", augment, "--steps", "40", "--picture", str(picture)]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(ROOT / "examples" / "audio_mel.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert int(printed.split("after training:")[1].split("%")[0]) >= 60
    assert picture.stat().st_size > 10_000


def test_the_example_reads_a_folder(tmp_path, monkeypatch, capsys):
    """With a folder it shows one batch of what is in there."""
    for kind in ("a", "b"):
        (tmp_path / kind).mkdir()
        file = io.BytesIO()
        soundfile.write(file, np.random.default_rng(2).normal(size=9000) * 0.1, RATE, format="OGG")
        (tmp_path / kind / "x.ogg").write_bytes(file.getvalue())
    arguments = ["audio_mel.py", str(tmp_path), "--picture", str(tmp_path / "mel.png")]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(ROOT / "examples" / "audio_mel.py"), run_name="__main__")
    assert "a batch: (32, 80, " in capsys.readouterr().out
