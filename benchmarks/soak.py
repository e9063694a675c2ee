"""Do memory, file descriptors and threads grow over many batches, epochs and pipelines?

python benchmarks/soak.py                                              (some minutes)
python benchmarks/soak.py --batches 1000000 --epochs 20000             (an hour)
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _harness import header, save, table

from pipeflow import fn, pipeline_def

GROWTH_MB = 8.0  # allocators keep some slack; a leak of one 1 kB block a batch would be 20 MB in the short run


def reading_now() -> dict[str, float]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "RSS, MB": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "file descriptors": float(len(os.listdir("/proc/self/fd"))),
        "threads": float(threading.active_count()),
    }


class Watch:
    """The measurement after the first tenth of the run, and the largest measurement after it."""

    def __init__(self, total: int) -> None:
        self.marks = {total * tenth // 10 for tenth in range(1, 11)}
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}

    def look(self, done: int) -> None:
        if done not in self.marks:
            return
        reading = reading_now()
        if not self.before:
            self.before = reading
        self.after = {name: max(value, self.after.get(name, 0.0)) for name, value in reading.items()}


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=1)
def pipeline(source):
    """Dense and ragged slots, a random argument, arithmetic and two kinds of Python function."""
    arrays = fn.external_source(source, batch=True)
    scale = fn.random.uniform(range=(0.5, 1.5))
    scaled = fn.python_function(arrays, scale, function=lambda x, s: x * s)
    ragged = fn.python_function(arrays, function=lambda x: x[: int(x.flat[0] * 10) + 1], parallel="threads")
    return scaled + 1.0, ragged


def source():
    rng = np.random.default_rng(0)
    while True:
        yield list(rng.random((4, 32, 8), dtype=np.float32))


@pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=1)
def short_epochs(items):
    """Five shuffled samples: an epoch has three batches, and the last one is smaller."""
    number, text = fn.readers.dataset(dataset=items, num_outputs=2, random_shuffle=True, name="items")
    return number + fn.random.uniform(range=(0.0, 1.0)), text


def many_batches(count: int) -> Watch:
    pipe, watch = pipeline(source), Watch(count)
    pipe.build()
    for i in range(count):
        outputs = pipe.run()
        watch.look(i + 1)
    del outputs
    return watch


def many_epochs(count: int) -> Watch:
    pipe = short_epochs([(np.float32(i), np.arange(i + 1)) for i in range(5)])
    watch = Watch(count)
    pipe.build()
    for i in range(count):
        for _ in pipe.epoch():
            pass
        watch.look(i + 1)
    return watch


def many_pipelines(count: int) -> Watch:
    watch = Watch(count)
    for i in range(count):
        pipe = pipeline(source)
        pipe.build()
        pipe.run()
        del pipe  # while it is still making batches ahead
        watch.look(i + 1)
    return watch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=2_000)
    parser.add_argument("--pipelines", type=int, default=300)
    counts = parser.parse_args()
    runs: dict[str, tuple[Callable[[int], Watch], int]] = {
        "batches": (many_batches, counts.batches),
        "epochs": (many_epochs, counts.epochs),
        "pipelines": (many_pipelines, counts.pipelines),
    }
    machine = header(__doc__.splitlines()[0])
    results, rows, grown = {}, [], []
    for name, (run, count) in runs.items():
        began = time.perf_counter()
        watch = run(count)
        results[f"{count} {name}"] = {
            "before": watch.before,
            "after": watch.after,
            "seconds": time.perf_counter() - began,
        }
        for what, value in watch.after.items():
            allowed = GROWTH_MB if "MB" in what else 0.0
            rows.append((f"{count:,} {name}", what, watch.before[what], value))
            if value - watch.before[what] > allowed:
                grown.append(f"{count} {name}: {what} grew from {watch.before[what]:.6g} to {value:.6g}")
    table("After the first tenth, and the most since then", ["run", "what", "then", "the most"], rows)
    save("soak", machine, results)
    for line in grown:
        print(f"FAILED: {line}")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
