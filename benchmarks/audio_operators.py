"""What does each audio operator cost by itself?

Each pipeline has one thread. A batch has 8 signals of 5 seconds at 16 kHz, or data computed from them. The time is CPU
time, minus the CPU time of a pipeline that only reads the shapes.
"""

from __future__ import annotations

import importlib
import sys
from time import process_time

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, start, table, verdicts

# So few that a batch stays in the cache, as in a pipeline in which the step before has just made it.
BATCH = 8
BATCHES = 40
RATE = 16000
SPEECH = {"nfft": 512, "window_length": 320, "window_step": 160}


def signals() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=5 * RATE).astype(np.float32) for _ in range(BATCH)]


def spectra(rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.exponential(size=(rows, 501)).astype(np.float32) for _ in range(BATCH)]


# Name -> (input, the call of the operator, which is the same for both libraries).
CASES = {
    "spectrogram": (signals, lambda fn, x: fn.spectrogram(x, **SPEECH)),
    "spectrogram, nfft 400": (signals, lambda fn, x: fn.spectrogram(x, nfft=400, window_length=400, window_step=160)),
    "mel_filter_bank": (lambda: spectra(257), lambda fn, x: fn.mel_filter_bank(x, nfilter=80, sample_rate=RATE)),
    "audio_resample, 22.05 to 16 kHz": (signals, lambda fn, x: fn.audio_resample(x, in_rate=22050, out_rate=16000)),
    "audio_resample, 16 to 22.05 kHz": (signals, lambda fn, x: fn.audio_resample(x, in_rate=16000, out_rate=22050)),
    "audio_resample, scale 0.93217": (signals, lambda fn, x: fn.audio_resample(x, scale=0.93217)),
    "to_decibels": (lambda: spectra(80), lambda fn, x: fn.to_decibels(x, cutoff_db=-80.0)),
    "mfcc": (lambda: spectra(80), lambda fn, x: fn.mfcc(x, n_mfcc=20)),
    "preemphasis_filter": (signals, lambda fn, x: fn.preemphasis_filter(x)),
    "nonsilent_region": (signals, lambda fn, x: fn.nonsilent_region(x)[0]),
}


def prepare_with(library: str):
    def prepare(case: str):
        fn = importlib.import_module(f"{library}.fn")
        data, operator = CASES[case]
        batch = data()

        def make(with_operator: bool):
            def pipeline():
                source = fn.external_source(lambda: batch, batch=True, no_copy=True)
                return operator(fn, source) if with_operator else source.shape()

            define = importlib.import_module(library).pipeline_def
            pipe = define(batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1)(pipeline)()
            pipe.build()
            return pipe

        full, empty = make(True), make(False)

        def used(pipe) -> float:
            begin = process_time()
            for _ in range(BATCHES):
                pipe.run()
            return process_time() - begin

        def repetition() -> Measures:
            without = used(empty)
            return {"seconds": used(full) - without}

        return repetition

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow")), Side("dali", prepare_with("nvidia.dali"), "dali")]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    results = measure(__file__, SIDES, CASES, {})
    rows, targets = [], []
    aims = ("spectrogram", "mel_filter_bank", "audio_resample, 22.05 to 16 kHz")
    for case, by_side in results.items():
        ours, theirs = (
            median(by_side[side], lambda row: row["seconds"]) / (BATCH * BATCHES) * 1e6
            if side in by_side
            else float("nan")
            for side in ("pipeflow", "dali")
        )
        rows.append((case, ours, theirs, theirs / ours))
        if case in aims:
            targets.append(Target(f"{case}: x DALI", theirs / ours, 1.5, at_most=False))
    table("Microseconds a sample", ["operator", "pipeflow", "dali", "x DALI"], rows)
    verdicts(targets)
    save("audio_operators", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
