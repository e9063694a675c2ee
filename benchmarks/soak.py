"""Do memory, file descriptors and threads stay where they were, over 20,000 batches and 300 pipelines?"""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path

import numpy as np
from _harness import header, save, table

from pipeflow import fn, pipeline_def

BATCHES = 20_000
WARM = 500
PIPELINES = 300
GROWTH_MB = 8.0  # allocators keep some slack; a leak of one 1 kB block a batch would be 20 MB


def reading_now() -> dict[str, float]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "RSS, MB": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "file descriptors": float(len(os.listdir("/proc/self/fd"))),
        "threads": float(threading.active_count()),
    }


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=1)
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
        yield list(rng.random((16, 32, 8), dtype=np.float32))


def many_batches() -> tuple[dict[str, float], dict[str, float]]:
    pipe = pipeline(source)
    pipe.build()
    before = {}
    for i in range(BATCHES):
        outputs = pipe.run()
        if i == WARM:
            before = reading_now()
    del outputs
    return before, reading_now()


def many_pipelines() -> tuple[dict[str, float], dict[str, float]]:
    before = {}
    for i in range(PIPELINES):
        pipe = pipeline(source)
        pipe.build()
        pipe.run()
        del pipe  # with prefetched batches in flight
        if i == PIPELINES // 4:
            before = reading_now()
    return before, reading_now()


def main() -> int:
    machine = header(__doc__)
    results, rows, grown = {}, [], []
    for name, run in ((f"{BATCHES} batches", many_batches), (f"{PIPELINES} pipelines", many_pipelines)):
        before, after = run()
        results[name] = {"before": before, "after": after}
        for what, value in after.items():
            allowed = GROWTH_MB if "MB" in what else 0.0
            rows.append((name, what, before[what], value))
            if value - before[what] > allowed:
                grown.append(f"{name}: {what} grew from {before[what]:.6g} to {value:.6g}")
    table("After the warm-up and at the end", ["run", "what", "then", "at the end"], rows)
    save("soak", machine, results)
    for line in grown:
        print(f"FAILED: {line}")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
