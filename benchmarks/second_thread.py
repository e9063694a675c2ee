"""What does a second thread bring, what could it bring, and how long does a sample hold the interpreter?

    python benchmarks/second_thread.py [names of cases]

A second process with a pipeline of its own shares no interpreter with the first: two processes at the same time are what the
machine can give (memory, caches, clock). Each figure is a ratio of turns that follow one another: one process with one
thread, two such processes at the same time, one process with two threads.

The time that a sample holds the interpreter is the processor time of the process with one thread, without the time in
calls that do not hold it: those of chains, those that read files, those that pad, and waits for other threads. Other
compiled code counts as held, so the figure is an upper limit. Most of this time is the same for each batch, so it is
shown for a batch too, and two cases have larger batches. Photographs and recordings are those of image_pipeline.py and
audio_pipeline.py.
"""

from __future__ import annotations

import glob
import multiprocessing
import statistics
import sys
import tempfile
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, process_time, thread_time_ns
from typing import Any

import audio_pipeline
import image_pipeline
from _harness import Target, header, save, table, verdicts

from pipeflow import fn, pipeline_def
from pipeflow.executor.crew import Gate
from pipeflow.kernels import cpu as kernels

ROUNDS = 7
LARGE, LARGE_WAV = "rn50-train of 256", "wav of 128"
CASES = {"rn50-train": 64, LARGE: 256, "rn50-val": 64, "flac": 32, "wav": 32, LARGE_WAV: 128}  # samples of a batch
BATCHES = {"rn50-train": 8, LARGE: 3, "rn50-val": 8, "flac": 16, "wav": 32, LARGE_WAV: 8}  # of a turn
LONGEST = 400  # seconds in which kernels are compiled
READY = 4  # batches that were made ahead in another turn: they are taken first and not counted
SIZE = (image_pipeline.SIDE, image_pipeline.SIDE)
NUMBERS = {"mean": image_pipeline.MEAN, "std": image_pipeline.STD}


def images(folder: str, train: bool) -> Any:
    """The pipelines of image_pipeline.py."""
    files, labels = fn.readers.file(file_root=folder, random_shuffle=train, name="files")
    if train:
        pictures = fn.resize(fn.decoders.image_random_crop(files), size=SIZE)
        return fn.crop_mirror_normalize(pictures, mirror=fn.random.coin_flip(), **NUMBERS), labels
    pictures = fn.resize(fn.decoders.image(files), resize_shorter=256)
    return fn.crop_mirror_normalize(pictures, crop=SIZE, **NUMBERS), labels


def sounds(folder: str, kind: str, batch: int) -> Any:
    """The pipeline of audio_pipeline.py."""
    files = sorted(glob.glob(f"{folder}/*.{kind}"))
    encoded, _ = fn.readers.file(files=files * -(-batch // len(files)))
    sound, _ = fn.decoders.audio(encoded, sample_rate=audio_pipeline.WANTED, downmix=True)
    spectrum = fn.spectrogram(fn.preemphasis_filter(sound), nfft=512, window_length=320, window_step=160)
    mel = fn.mel_filter_bank(spectrum, nfilter=80, sample_rate=audio_pipeline.WANTED)
    return fn.pad(fn.normalize(fn.to_decibels(mel, cutoff_db=-80.0), axes=[1]), axes=[1])


def built(case: str, folder: str, threads: int) -> Any:
    """The pipeline of a case."""
    batch = CASES[case]
    kind = case.split()[0]
    work = partial(images, folder, "train" in case) if "rn50" in case else partial(sounds, folder, kind, batch)
    pipe = pipeline_def(lambda: work(), batch_size=batch, num_threads=threads, device_id=None, seed=1)()
    pipe.build()
    return pipe


class Outside:
    """Counts the nanoseconds of processor time in calls that do not hold the interpreter: a few calls for each batch."""

    def __init__(self) -> None:
        self.total = 0
        run, read = self.counted(kernels.kernel_calls.runner()), self.counted(kernels.whole_files.reader())
        kernels.kernel_calls.runner, kernels.whole_files.reader = lambda: run, lambda: read
        kernels.moving.frame_columns = self.counted(kernels.moving.frame_columns)
        Gate.wait = self.counted(Gate.wait)  # type: ignore[method-assign]

    def counted(self, function: Any) -> Any:
        """The function, with its time added."""

        def call(*arguments: Any) -> Any:
            begun = thread_time_ns()
            result = function(*arguments)
            self.total += thread_time_ns() - begun
            return result

        return call


def compiled(case: str) -> bool:
    """True if compiled kernels do the work."""
    switch = kernels.jpeg_switch.decoding
    return not kernels.start.state.starting and kernels.kernel_calls.loaded() and ("rn50" not in case or switch.on)


def serve(connection: Connection, case: str, folder: str, threads: int) -> None:
    """A process with one pipeline: it makes the batches of a turn for each message."""
    pipe = built(case, folder, threads)
    begun = perf_counter()
    while (
        not compiled(case) and perf_counter() - begun < LONGEST
    ):  # another process may have to compile the kernels first
        pipe.run()
    for _ in range(24):
        pipe.run()
    outside = Outside() if threads == 1 else None
    connection.send(None)
    while connection.recv():
        for _ in range(READY):
            pipe.run()
        inside = 0 if outside is None else outside.total
        begun, busy = perf_counter(), process_time()
        for _ in range(BATCHES[case]):
            pipe.run()
        seconds, busy = perf_counter() - begun, process_time() - busy
        held = busy - (0 if outside is None else outside.total - inside) / 1e9
        connection.send((seconds, busy, held))


class Process:
    """A process that serves."""

    def __init__(self, *work: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, *work), daemon=True)
        self.process.start()
        self.connection.recv()

    def end(self) -> None:
        """Ends it."""
        self.connection.send(False)
        self.process.join()


def turn(*processes: Process) -> list[tuple[float, float, float]]:
    """The figures of processes that work at the same time."""
    for one in processes:
        one.connection.send(True)
    return [one.connection.recv() for one in processes]


def figures(case: str, folder: str) -> dict[str, float]:
    """Medians of the rounds."""
    first, second = (Process(case, folder, 1) for _ in range(2))
    both = Process(case, folder, 2)
    rounds: list[dict[str, float]] = []
    samples = CASES[case] * BATCHES[case]
    for _ in range(ROUNDS):
        (alone, busy, held) = turn(first)[0]
        pair = max(seconds for seconds, _, _ in turn(first, second))
        (shared, more, _) = turn(both)[0]
        rounds.append(
            {
                "held": held / samples * 1e6,
                "held a batch": held / BATCHES[case] * 1e6,
                "sample": busy / samples * 1e6,
                "threads": alone / shared,
                "processes": 2 * alone / pair,
                "work": more / busy,
            }
        )
    for one in (first, second, both):
        one.end()
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def main() -> None:
    """Measures and prints."""
    reading = header("What does a second thread bring, and how long does a sample hold the interpreter?")
    chosen = [case for case in CASES if not sys.argv[1:] or any(word in case for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as pictures, tempfile.TemporaryDirectory() as recordings:
        if any("rn50" in case for case in chosen):
            print(image_pipeline.make_files(Path(pictures), image_pipeline.PHOTOGRAPHS))
        if not all("rn50" in case for case in chosen):
            sys.argv[1:] = []
            audio_pipeline.store_recordings(recordings)
        results = {case: figures(case, pictures if "rn50" in case else recordings) for case in chosen}
    names = ["us a sample", "held", "held a batch", "2 threads / 1", "2 processes / 1", "work of 2 threads / 1"]
    keys = ["sample", "held", "held a batch", "threads", "processes", "work"]
    table("Medians", ["case", *names], [(case, *[found[key] for key in keys]) for case, found in results.items()])
    targets = [Target(f"{case}: 2 threads / 1", found["threads"], 1.9, False) for case, found in results.items()]
    targets += [
        Target(f"{case}: us a sample that hold the interpreter", results[case]["held"], 8)
        for case in ("rn50-train", LARGE, "wav", LARGE_WAV)
        if case in results
    ]
    verdicts(targets)
    save("second_thread", reading, results, targets)


if __name__ == "__main__":
    main()
