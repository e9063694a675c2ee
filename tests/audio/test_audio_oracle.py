"""Audio programs run under the real DALI and here give the same numbers, to the tolerance that each states."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.oracle

START = """
import io, wave
rng = np.random.default_rng(1)
noise = (rng.normal(size=3000) * 0.3).astype(np.float32)
spectrum = rng.exponential(size=(257, 21)).astype(np.float32)
def wav(samples, rate):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(samples.shape[1]); writer.setsampwidth(2); writer.setframerate(rate)
        writer.writeframes(samples.astype("<i2").tobytes())
    return np.frombuffer(file.getvalue(), np.uint8)
def run(data, operator):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe():
        result = operator(fn.external_source(lambda: [data, data]))
        return tuple(result) if isinstance(result, (list, tuple)) else result
    p = pipe()
    p.build()
    return p.run()
def each(data, operator, *choices):
    for options in choices:
        attempt(lambda: run(data, lambda x: operator(x, **options)))
"""

# Name -> (tolerance relative to the largest value, program).
PROGRAMS = {
    "spectrogram": (2e-5, """
each(noise, fn.spectrogram, {}, dict(nfft=512, window_length=400, window_step=160), dict(nfft=400, window_length=320,
     window_step=160, layout="tf"), dict(center_windows=False), dict(reflect_padding=False), dict(power=1), dict(nfft=12,
     window_length=10, window_step=5), dict(window_length=64, window_fn=[0.5] * 64), dict(nfft=401, window_length=400))
each(noise[:100], fn.spectrogram, {}, dict(reflect_padding=False))
"""),
    "mel_filter_bank": (2e-5, """
each(spectrum, fn.mel_filter_bank, dict(nfilter=80, sample_rate=16000.0), dict(mel_formula="htk", nfilter=40),
     dict(normalize=False), dict(freq_low=300.0, freq_high=4000.0, nfilter=40, sample_rate=16000.0), dict(nfilter=300))
"""),
    "to_decibels": (1e-5, """
values = np.array([0, 1e-30, 0.5, 1, 2, -1, 100], np.float32)
each(values, fn.to_decibels, {}, dict(reference=1.0), dict(multiplier=20.0, cutoff_db=-80.0, reference=3.0))
each(np.zeros(3, np.float32), fn.to_decibels, {})
each(np.array([np.nan, 1, 100], np.float32), fn.to_decibels, {})
"""),
    "mfcc": (2e-5, """
small = rng.normal(size=(40, 9)).astype(np.float32)
for kind in (1, 2, 3, 4):
    each(small, fn.mfcc, dict(dct_type=kind), dict(dct_type=kind, lifter=22.0, n_mfcc=13), dict(dct_type=kind, axis=1))
    each(small, fn.mfcc, *([] if kind == 1 else [dict(dct_type=kind, normalize=True)]))
each(small, fn.mfcc, dict(n_mfcc=90))
"""),
    "preemphasis_filter": (1e-6, """
for border in ("clamp", "zero", "reflect"):
    each(noise, fn.preemphasis_filter, dict(border=border), dict(border=border, preemph_coeff=0.5))
whole = (noise * 1000).astype(np.int16)
each(whole, fn.preemphasis_filter, {}, dict(dtype=types.INT16), dict(dtype=types.UINT8))
"""),
    "power_spectrum": (2e-5, """
each(noise, fn.power_spectrum, {}, dict(power=1), dict(nfft=4096))
each(noise[:2944].reshape(64, 46), fn.power_spectrum, dict(axis=0), dict(axis=1))
"""),
    "nonsilent_region": (0, """
bump = noise * np.exp(-((np.arange(3000) - 1400) / 300.0) ** 2).astype(np.float32)
each(bump, fn.nonsilent_region, *(dict(window_length=w, cutoff_db=c) for w in (1, 16, 128) for c in (-10.0, -25.0)))
each(np.zeros(4096, np.float32), fn.nonsilent_region, {}, dict(reference_power=1.0))
"""),
    # DALI interpolates its filter from a coarse table, which is what differs.
    "audio_resample, up": (2e-3, """
each(noise, fn.audio_resample, dict(scale=1.5), dict(scale=2.0, quality=0.0), dict(in_rate=16000, out_rate=22050),
     dict(in_rate=16000, out_rate=44100, quality=100.0), dict(out_length=4000), dict(scale=1.2345678))
each(np.stack([noise, -noise], 1), fn.audio_resample, dict(scale=1.25))
each((noise * 9000).astype(np.int16), fn.audio_resample, dict(scale=1.5), dict(scale=1.5, dtype=types.FLOAT))
"""),
    "audio_resample, down as DALI does": (3e-3, """
import inspect
def down(x, **options):
    antialias = {"antialias": False} if "pipeflow" in fn.__name__ else {}
    return fn.audio_resample(x, **antialias, **options)
each(noise, down, dict(scale=0.5), dict(in_rate=22050, out_rate=16000), dict(scale=0.3125, quality=80.0))
"""),
    "decoders.audio": (2e-3, """
stereo = np.stack([noise, noise[::-1]], 1) * 20000
data = wav(stereo, 22050)
each(data, fn.decoders.audio, {}, dict(downmix=True), dict(dtype=types.INT16), dict(sample_rate=32000.0, downmix=True))
each(wav(stereo[:, :1], 8000), fn.decoders.audio, {}, dict(downmix=True), dict(dtype=types.INT32))
"""),
    "errors": (0, """
each(noise, fn.spectrogram, dict(window_length=400, nfft=100))
each(noise[:10], fn.spectrogram, dict(center_windows=False))
each(np.arange(100, dtype=np.uint8), fn.decoders.audio, {})
"""),
}  # fmt: skip


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What each program showed: {name: (here, DALI)}."""
    folder = tmp_path_factory.mktemp("oracle")
    questions = folder / "questions"
    questions.write_bytes(pickle.dumps({name: START + text for name, (_, text) in PROGRAMS.items()}))
    answers = []
    for python, library in ((sys.executable, "pipeflow"), (os.environ["PIPEFLOW_ORACLE_PYTHON"], "nvidia.dali")):
        command = [python, ROOT / "tests/oracle/side.py", library, questions, folder / library]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, check=True, timeout=280, stderr=subprocess.DEVNULL)
        answers.append(pickle.loads((folder / library).read_bytes()))
    return {name: (answers[0][name], answers[1][name]) for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_numbers_as_dali(shown, name):
    """Shapes, types and layouts are equal, values to the tolerance; what raises there raises here."""
    tolerance = PROGRAMS[name][0]
    ours, theirs = shown[name]
    assert len(ours) == len(theirs) > 0
    for call, (mine, other) in enumerate(zip(ours, theirs)):
        if isinstance(other, dict):
            assert "raised" in other
            assert "raised" in mine, f"call {call}: DALI raises {other['message'][:200]}"
            continue
        assert not isinstance(mine, dict), f"call {call}: {mine}"
        for left, right in zip(mine, other, strict=True):
            assert (left["layout"] or "") == (right["layout"] or "")
            for a, b in zip(left["samples"], right["samples"], strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape), f"call {call}"
                allowed = tolerance * max(1e-30, float(np.abs(b).max())) + (b.dtype.kind in "iu" and tolerance > 0)
                difference = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
                assert difference <= allowed, f"call {call}: {difference} > {allowed}"
