"""How fast do sound files become padded batches of normalised log-mel spectrograms?

    python benchmarks/audio_pipeline.py [folder of recordings]      (or PIPEFLOW_RECORDINGS=folder)

The recordings (FLAC or wav; generated if there are none) are stored at 22.05 kHz as FLAC and as wav. Each side reads
and decodes them, mixes them to mono, resamples to 16 kHz, applies preemphasis, computes a spectrogram (nfft 512, window
320, step 160), 80 mel bands and decibels, normalises over time, and pads a batch of 32 to one length.
"""

from __future__ import annotations

import glob
import importlib
import io
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, process_time

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, start, table, verdicts

BATCH = 32
BATCHES = 20
READY = 4  # batches made ahead in another side's turn: they are taken first and not counted
STORED, WANTED = 22050, 16000
SETTINGS: dict[str, str] = {}
CASES = [f"{kind}, {threads}" for kind in ("flac", "wav") for threads in ("1 thread", "2 threads")]


def files_of(case: str) -> tuple[list[str], int]:
    kind, threads = case.split(", ")
    files = sorted(glob.glob(f"{SETTINGS['folder']}/*.{kind}"))
    return files * -(-BATCH * BATCHES // len(files)), int(threads.split()[0])


def declared(library: str):
    """The pipeline; its code is the same for both libraries."""

    def prepare(case: str):
        fn = importlib.import_module(f"{library}.fn")
        files, threads = files_of(case)

        def pipeline():
            encoded, _ = fn.readers.file(files=files)
            sound, _ = fn.decoders.audio(encoded, sample_rate=WANTED, downmix=True)
            sound = fn.preemphasis_filter(sound)
            spectrum = fn.spectrogram(sound, nfft=512, window_length=320, window_step=160)
            mel = fn.mel_filter_bank(spectrum, nfilter=80, sample_rate=WANTED)
            decibels = fn.to_decibels(mel, cutoff_db=-80.0)
            return fn.pad(fn.normalize(decibels, axes=[1]), axes=[1])

        define = importlib.import_module(library).pipeline_def
        pipe = define(batch_size=BATCH, num_threads=threads, device_id=None)(pipeline)()
        pipe.build()
        first = np.asarray(pipe.run()[0].as_array())
        return repetition(lambda: pipe.run()[0], first)

    return prepare


def by_hand(case: str):
    """soundfile, soxr and scipy.fft in a pool of threads."""
    soundfile, soxr, fft = (importlib.import_module(name) for name in ("soundfile", "soxr", "scipy.fft"))
    mel_filters = importlib.import_module("librosa").filters.mel(sr=WANTED, n_fft=512, n_mels=80)
    files, threads = files_of(case)
    window = (np.sin(np.pi * (np.arange(320) + 0.5) / 320) ** 2).astype(np.float32)
    pool = ThreadPoolExecutor(threads)
    place = 0

    def one(path: str) -> np.ndarray:
        with open(path, "rb") as file:
            sound, _ = soundfile.read(io.BytesIO(file.read()), dtype="float32")
        sound = soxr.resample(sound, STORED, WANTED, "HQ")
        sound[1:] = sound[1:] - np.float32(0.97) * sound[:-1]
        padded = np.pad(sound, 160, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, 320)[::160] * window
        spectrum = fft.rfft(frames, 512)
        power = spectrum.real**2 + spectrum.imag**2
        mel = mel_filters @ power.T
        decibels = np.maximum(10 * np.log10(np.maximum(mel / mel.max(), 1e-20)), -80)
        decibels -= decibels.mean(axis=1, keepdims=True)
        return decibels / decibels.std(axis=1, keepdims=True)

    def batch() -> np.ndarray:
        nonlocal place
        chosen = [files[(place + i) % len(files)] for i in range(BATCH)]
        place += BATCH
        rows = list(pool.map(one, chosen))
        result = np.zeros((BATCH, 80, max(row.shape[1] for row in rows)), np.float32)
        for target, row in zip(result, rows):
            target[:, : row.shape[1]] = row
        return result

    return repetition(batch, batch())


def repetition(batch, first: np.ndarray):
    # Two figures by which the sides are compared: the spread of the values and their order in time.
    fingerprint = {"power": float((first**2).mean()), "shape": float(np.abs(np.diff(first, axis=2)).mean())}

    def run() -> Measures:
        for _ in range(READY):
            batch()
        wall, used = perf_counter(), process_time()
        for _ in range(BATCHES):
            batch()
        return {"seconds": perf_counter() - wall, "cpu": process_time() - used, **fingerprint}

    return run


SIDES = [
    Side("pipeflow", declared("pipeflow")),
    Side("dali", declared("nvidia.dali"), "dali"),
    Side("scipy + soxr", by_hand),
]


def store_recordings(folder: str) -> None:
    """Writes the recordings at 22.05 kHz, each as FLAC and as wav."""
    soundfile = importlib.import_module("soundfile")
    fn = importlib.import_module("pipeflow.fn")
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PIPEFLOW_RECORDINGS", "")
    paths = sorted(glob.glob(f"{given}/*.flac") or glob.glob(f"{given}/*.wav")) if given else []
    if paths:
        sounds = [soundfile.read(path, dtype="float32") for path in paths]
        print(f"{len(paths)} recordings of {given}")
    else:
        rng = np.random.default_rng(0)
        lengths = rng.integers(2 * WANTED, 7 * WANTED, 12)
        envelopes = [np.sin(np.arange(n) / 3000) ** 2 for n in lengths]
        sounds = [((rng.normal(size=e.size).cumsum() % 1 - 0.5) * e * 0.5, WANTED) for e in envelopes]
        print("12 made-up recordings; name a folder of real ones, whose FLAC files are smaller")
    for number, (sound, rate) in enumerate(sounds):
        mono = np.asarray(sound, np.float32).reshape(len(sound), -1).mean(axis=1)
        stored = fn.audio_resample(mono, in_rate=rate, out_rate=STORED, quality=100)
        for kind in ("flac", "wav"):
            soundfile.write(f"{folder}/{number:03}.{kind}", stored.clip(-1, 1), STORED, subtype="PCM_16")


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory() as folder:
        store_recordings(folder)
        results = measure(__file__, SIDES, CASES, {"folder": folder})

    def rate(case: str, side: str, clock: str = "seconds") -> float:
        rows = results[case].get(side)
        return BATCH * BATCHES / median(rows, lambda row: row[clock]) if rows else float("nan")

    sides = [side.name for side in SIDES]
    for title, clock in (("Samples a second", "seconds"), ("Samples a second of CPU time", "cpu")):
        lines = []
        for case in CASES:
            rates = [rate(case, side, clock) for side in sides]
            lines.append(
                (case, *(round(r) if r == r else "-" for r in rates), rates[0] / rates[1], rates[0] / rates[2])
            )
        table(title, ["case", *sides, "x DALI", "x scipy"], lines)
    targets = [
        Target("flac, 1 thread: x DALI", rate(CASES[0], "pipeflow") / rate(CASES[0], "dali"), 1.7, at_most=False),
        Target("wav, 1 thread: x DALI", rate(CASES[2], "pipeflow") / rate(CASES[2], "dali"), 2.5, at_most=False),
        Target("flac: 2 threads x 1", rate(CASES[1], "pipeflow") / rate(CASES[0], "pipeflow"), 1.85, at_most=False),
        Target("wav: 2 threads x 1", rate(CASES[3], "pipeflow") / rate(CASES[2], "pipeflow"), 1.85, at_most=False),
    ]
    verdicts(targets)
    save("audio_pipeline", reading, results, targets)
    wrong = []
    for case, by_side in results.items():
        expected = by_side["pipeflow"][0]
        for side, rows in by_side.items():
            # The sides' resampling filters differ near the limit of the band, and DALI's has aliasing: a few per cent.
            off = [name for name in ("power", "shape") if abs(rows[0][name] / expected[name] - 1) > 0.08]
            wrong += [f"{case}: {side}: {name} is {rows[0][name]:.4g}, ours {expected[name]:.4g}" for name in off]
    for line in wrong:
        print(f"FAILED: {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
