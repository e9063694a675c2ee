"""How much processor time does a batch take now, compared with an earlier commit?

    python benchmarks/two_versions.py [--before COMMIT] [case ...]      (without it: the commit before the present one)

Both versions run the same pipelines with the same libraries. The place of objects in memory differs from process to process
and changes the time of small batches by a tenth, and other work on the machine only adds time. So every round has processes of
its own, and the figure is the median over the processes of each one's shortest repetition. Measuring begins when the kernels
are loaded and the pipeline has run for two seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import wave
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import _pictures
import numpy as np
from _harness import ROOT, Measures, Side, Worker, header, save, settle, start, table

ROUNDS = 7
REPETITIONS = 10
WARM_UP = 2.0
BATCH = 256
NEW_PIPELINES = 20
SETTINGS: dict[str, str] = {}
DATA = np.random.default_rng(0).random((BATCH, 4), dtype=np.float32)


def _batches() -> Iterator[list[np.ndarray]]:
    rows = list(DATA)
    while True:
        yield rows


def _dense() -> Iterator[np.ndarray]:
    while True:
        yield DATA


def _sample(info: Any) -> np.ndarray:
    return DATA[info.idx_in_batch]


def _same(value: Any) -> Any:
    return value


def _arrays(fn: Any, **function: Any) -> Any:
    data = fn.external_source(source=_batches, batch=True)
    return fn.python_function(data, function=_same, **function) if function else data


def _branch(fn: Any) -> Any:
    data = _arrays(fn)
    if fn.random.coin_flip():
        result = data + 1
    else:
        result = data * 2
    return result


def _add(value: Any) -> Any:
    return value + 1


def _files(fn: Any, kind: str) -> Any:
    return fn.readers.file(files=sorted(str(path) for path in Path(SETTINGS["folder"]).glob(f"*.{kind}")))[0]


def _decibels(fn: Any) -> Any:
    sound = fn.decoders.audio(_files(fn, "wav"), downmix=True)[0]
    spectrum = fn.spectrogram(sound, nfft=512, window_length=400, window_step=160)
    return fn.to_decibels(fn.mel_filter_bank(spectrum, sample_rate=16000, nfilter=80), cutoff_db=-80.0)


def _training(fn: Any) -> Any:
    pictures = fn.decoders.image_random_crop(_files(fn, "jpg"))
    pictures = fn.resize(pictures, resize_x=224, resize_y=224)
    return fn.crop_mirror_normalize(pictures, mirror=fn.random.coin_flip(), mean=[124.0, 116, 104], std=[58.0, 57, 57])


PICTURES = [np.random.default_rng(number).integers(0, 256, (256, 300, 3), dtype=np.uint8) for number in range(16)]
SOUNDS = [np.random.default_rng(number).random(16000, dtype=np.float32) - 0.5 for number in range(16)]
LABELS = [np.int32(number % 10) for number in range(16)]


def _operator(inputs: list[Any], operator: Any) -> tuple[int, int, Any]:
    """The case of a pipeline that only runs this operator on ready arrays."""

    def source() -> Iterator[list[Any]]:
        while True:
            yield inputs

    return 30, len(inputs), lambda fn: operator(fn, fn.external_source(source=source, batch=True))


# case: (batches in one repetition, samples in a batch, the pipeline); 0 batches: the first one of new pipelines
CASES: dict[str, tuple[int, int, Any]] = {
    "one array a batch": (100, BATCH, lambda fn: fn.external_source(source=_dense, batch=True)),
    "a list of arrays a batch": (100, BATCH, lambda fn: _arrays(fn)),
    "a callable a sample": (100, BATCH, lambda fn: fn.external_source(source=_sample, batch=False)),
    "python_function": (100, BATCH, lambda fn: _arrays(fn, batch_processing=False)),
    "python_function, whole batches": (100, BATCH, lambda fn: _arrays(fn, batch_processing=True)),
    "python_function, threads": (100, BATCH, lambda fn: _arrays(fn, parallel="threads")),
    "python_function, processes": (50, BATCH, lambda fn: _arrays(fn, parallel="processes")),
    "python_function, compiled": (100, BATCH, lambda fn: fn.python_function(_arrays(fn), function=_add, jit=True)),
    "arithmetic": (50, BATCH, lambda fn: _arrays(fn) * 2 + 1),
    "a branch": (50, BATCH, _branch),
    "random numbers": (50, BATCH, lambda fn: fn.random.uniform(range=[0.0, 1.0], shape=[4]) + _arrays(fn)),
    "wav files": (20, 32, lambda fn: fn.decoders.audio(_files(fn, "wav"), downmix=True)[0]),
    "wav files to another rate": (20, 32, lambda fn: fn.decoders.audio(_files(fn, "wav"), sample_rate=22050)[0]),
    "wav files to decibels": (20, 32, _decibels),
    "pictures": (3, 32, lambda fn: fn.decoders.image(_files(fn, "jpg"))),
    "pictures for training": (3, 32, _training),
    "the first batch": (0, BATCH, lambda fn: _arrays(fn)),
    "the first batch of python_function": (0, BATCH, lambda fn: _arrays(fn, batch_processing=False)),
    "one_hot": _operator(LABELS, lambda fn, labels: fn.one_hot(labels, num_classes=10)),
    "arithmetic on pictures": _operator(PICTURES, lambda _, x: x * 2 + 1),
    "cast": _operator(PICTURES, lambda fn, x: fn.cast(x, dtype=np.float32)),
    "slice": _operator(PICTURES, lambda fn, x: fn.slice(x, start=[10, 20], shape=[200, 200], axes=[0, 1])),
    "transpose": _operator(PICTURES, lambda fn, x: fn.transpose(x, perm=[2, 0, 1])),
    "pad": _operator(PICTURES, lambda fn, x: fn.pad(x, axes=[0, 1], shape=[300, 320])),
    "erase": _operator(
        PICTURES, lambda fn, x: fn.erase(x, anchor=[10.0, 20], shape=[100.0, 50], axes=[0, 1], fill_value=3)
    ),
    "crop_mirror_normalize": _operator(
        PICTURES, lambda fn, x: fn.crop_mirror_normalize(x, crop=[224, 224], mean=[124.0, 116, 104], std=[58.0, 57, 57])
    ),
    "normalize": _operator(PICTURES, lambda fn, x: fn.normalize(x)),
    "resize": _operator(PICTURES, lambda fn, x: fn.resize(x, resize_x=224, resize_y=224)),
    "color_twist": _operator(PICTURES, lambda fn, x: fn.color_twist(x, hue=10.0, saturation=1.2, brightness=1.1)),
    "hsv": _operator(PICTURES, lambda fn, x: fn.hsv(x, hue=10.0, saturation=1.2)),
    "gray": _operator(PICTURES, lambda fn, x: fn.color_space_conversion(x, image_type=0, output_type=2)),
    "preemphasis": _operator(SOUNDS, lambda fn, x: fn.preemphasis_filter(x)),
}


def prepare(case: str) -> Any:
    """A pipeline that is warm, and a function that runs it."""
    import pipeflow
    from pipeflow import fn

    if not pipeflow.__file__.startswith(os.environ["PYTHONPATH"]):
        raise SystemExit(f"{pipeflow.__file__} is not of the version in {os.environ['PYTHONPATH']}")
    batches, batch_size, definition = CASES[case]
    conditionals = case == "a branch"
    defined = pipeflow.pipeline_def(
        batch_size=batch_size, num_threads=1, device_id=None, seed=1, enable_conditionals=conditionals
    )(definition)
    pipe = defined(fn)
    pipe.build()
    begun = perf_counter()
    while perf_counter() - begun < WARM_UP:
        pipe.run()

    def repetition() -> Measures:
        begin = process_time()
        for _ in range(batches):
            pipe.run()
        return {"cpu": (process_time() - begin) / batches}

    def new_pipelines() -> Measures:
        pipelines = [defined(fn) for _ in range(NEW_PIPELINES)]
        begin = process_time()
        for new in pipelines:  # none ends during the measurement: versions differ in when its threads end
            new.build()
            new.run()
        return {"cpu": (process_time() - begin) / NEW_PIPELINES}

    return repetition if batches else new_pipelines


SIDES = [
    Side("before", prepare, variables={"PIPEFLOW_START": "wait"}),
    Side("now", prepare, variables={"PIPEFLOW_START": "wait"}),
]


def write_files(folder: Path) -> None:
    """Recordings of one to four seconds and pictures, equal in every run."""
    rng = np.random.default_rng(0)
    for number in range(16):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(rng.integers(-20000, 20000, 16000 + 3000 * number).astype("<i2").tobytes())
    _pictures.write(folder, 16, 480, 640, 20)


def unpack(commit: str, folder: Path) -> None:
    """The files of a commit."""
    archive = folder / "before.tar"
    subprocess.run(["git", "archive", "-o", archive, commit, "pipeflow"], cwd=ROOT, check=True)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")


def ratio(rounds: dict[str, list[list[float]]]) -> float:
    """Now over before: medians over the processes of the shortest repetition."""
    shortest = {side: statistics.median(min(row) for row in rows) for side, rows in rounds.items()}
    return shortest["now"] / shortest["before"]


def measured(case: str, settings: dict[str, str]) -> dict[str, list[list[float]]]:
    """For both sides the times of every round, whose processes live only for it; the sides begin in turn."""
    rounds: dict[str, list[list[float]]] = {side.name: [] for side in SIDES}
    for number in range(ROUNDS):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            worker = Worker(side, __file__, settings)
            worker.ask({"case": case})
            settle()
            rounds[side.name].append([worker.ask({"run": case})["cpu"] for _ in range(REPETITIONS)])
            worker.close()
    return rounds


def main() -> int:
    """Measures the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", default=list(CASES))
    parser.add_argument("--before", metavar="COMMIT", default="HEAD~1")
    given = parser.parse_args()
    if unknown := [case for case in given.case if case not in CASES]:
        parser.error(f"no case is named {', '.join(unknown)}: there are {', '.join(CASES)}")
    reading = {**header(__doc__), "before": given.before}
    results = {}
    with tempfile.TemporaryDirectory() as name:
        unpack(given.before, Path(name))
        write_files(Path(name))
        for side, tree in zip(SIDES, (name, str(ROOT)), strict=True):
            side.variables["PYTHONPATH"] = tree
        for case in given.case:
            results[case] = measured(case, {"folder": name})
            print(f"{case}: {ratio(results[case]):.3f}", flush=True)
    table(
        f"Processor time of a batch now / at {given.before}",
        ["case", "ratio"],
        [(case, ratio(rounds)) for case, rounds in results.items()],
    )
    save("two_versions", reading, results)
    return 0


if __name__ == "__main__" and start(SIDES, SETTINGS):
    sys.exit(main())
