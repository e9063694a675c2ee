"""How much faster are image operators that `build()` fuses than the same operators one after another?

    python benchmarks/fusion.py [names of cases]

One process has both pipelines, with `fuse=True` and `fuse=False`, on one thread; turns of each follow one another. The figures
are processor times of a sample. Images of 384 x 512 pixels are given by a Python function; the photographs are those of
image_pipeline.py.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import image_pipeline
import numpy as np
import second_thread
from _harness import header, save, table

from pipeflow import fn, pipeline_def, types

BATCH, ROUNDS, BATCHES, READY = 32, 9, 6, 4
SIZE = second_thread.SIZE
NUMBERS = second_thread.NUMBERS
RNG = np.random.default_rng(0)
ROUGH = np.kron(RNG.integers(0, 236, (24, 32, 3)), np.ones((16, 16, 1))).astype(np.uint8)
IMAGES = [ROUGH + RNG.integers(0, 20, ROUGH.shape, dtype=np.uint8) for _ in range(BATCH)]


def images() -> Any:
    """The images of a batch."""
    return fn.external_source(lambda: IMAGES, layout="HWC", dtype=types.UINT8, ndim=3)


def normalized(data: Any, **options: Any) -> Any:
    """Planes of floats."""
    return fn.crop_mirror_normalize(data, **NUMBERS, **options)


def cropped_and_turned() -> Any:
    """Four operators."""
    window = fn.crop(fn.resize(images(), size=(256, 256)), crop=SIZE)
    return normalized(fn.flip(window, horizontal=fn.random.coin_flip()))


def lighter() -> Any:
    """Two operators on bytes."""
    return fn.contrast(fn.brightness(images(), brightness=1.1), contrast=1.2)


CASES: dict[str, Callable[[], Any]] = {
    "resize, normalise": lambda: normalized(fn.resize(images(), size=SIZE)),
    "resize, crop and normalise": lambda: normalized(fn.resize(images(), resize_shorter=256), crop=SIZE),
    "resize, crop, flip, normalise": cropped_and_turned,
    "random_resized_crop, normalise": lambda: normalized(fn.random_resized_crop(images(), size=SIZE)),
    "brightness, contrast": lighter,
    "brightness, contrast, cast to float": lambda: fn.cast(lighter(), dtype=types.FLOAT),
}


def seconds_of(pipe: Any) -> float:
    """The processor time of a sample in a turn."""
    for _ in range(READY):  # made ahead in another turn
        pipe.run()
    begun = process_time()
    for _ in range(BATCHES):
        pipe.run()
    return (process_time() - begun) / BATCHES / BATCH


def figures(name: str, define: Callable[[], Any]) -> dict[str, float]:
    """Medians of a case."""
    both = {}
    for fuse in (True, False):
        pipe = pipeline_def(define, batch_size=BATCH, num_threads=1, device_id=None, seed=1, fuse=fuse)()
        pipe.build()
        both[fuse] = pipe
    for pipe in both.values():
        begun = perf_counter()
        while not second_thread.compiled(name) and perf_counter() - begun < second_thread.LONGEST:
            pipe.run()
        for _ in range(24):
            pipe.run()
    rounds = [(seconds_of(both[True]), seconds_of(both[False])) for _ in range(ROUNDS)]
    fused, separate = (statistics.median(column) * 1e6 for column in zip(*rounds))
    gain = statistics.median(other / one for one, other in rounds)
    return {"fused": fused, "separate": separate, "separate / fused": gain}


def main() -> None:
    """Measures and prints."""
    reading = header("How much faster are image operators that are fused?")
    with tempfile.TemporaryDirectory() as folder:
        image_pipeline.make_files(Path(folder), image_pipeline.PHOTOGRAPHS)
        cases = CASES | {
            f"rn50-{part}": partial(second_thread.images, folder, part == "train") for part in ("train", "val")
        }
        chosen = [name for name in cases if name in sys.argv[1:] or len(sys.argv) == 1]
        results = {name: figures(name, cases[name]) for name in chosen}
    names = ["fused", "separate", "separate / fused"]
    rows = [(name, *[found[key] for key in names]) for name, found in results.items()]
    table("Microseconds of a sample", ["case", *names], rows)
    save("fusion", reading, results, [])


if __name__ == "__main__":
    main()
