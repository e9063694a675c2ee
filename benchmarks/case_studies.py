"""Three pipelines that are slow for three reasons: what shows the reason, what helps, and how much.

The variants of a study take turns in one process, so that other programs disturb all of them. The figures are medians.
`python tools/benchmark_pages.py --record` makes docs/case-studies.md of the results, with a plot for each study.
"""

from __future__ import annotations

import inspect
import statistics
import sys
import tempfile
import time
from pathlib import Path

import _pictures
import numpy as np
from _harness import header, save, table

from pipeflow import fn, pipeline_def

ROUNDS = 7


def count_dark(image):
    dark = 0
    for row in image:
        for value in row:
            if value < 40:
                dark += 1
    return np.float32(dark)


@pipeline_def(batch_size=16, num_threads=2, py_num_workers=2, device_id=None, seed=1)
def looping(**how):
    images = fn.random.uniform(range=(0.0, 255.0), shape=(96, 96))
    return fn.python_function(images, function=count_dark, **how)


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=1)
def photographs(folder, cache=False, small=False):
    files, _ = fn.readers.file(files=sorted(map(str, Path(folder).glob("*.jpg"))), random_shuffle=True, name="files")
    if small:
        images = fn.decoders.image_random_crop(files)
    else:
        images = fn.decoders.image(files)
        images = fn.resize(images, resize_shorter=256)
        images = fn.cache(images, memory=2**28) if cache else images
        images = fn.random_resized_crop(images, size=(224, 224))
    return fn.resize(images, size=(224, 224))


def download(sample):
    time.sleep(0.002)  # a server that answers after 2 ms
    return np.full((32, 32, 3), sample.idx_in_epoch % 256, np.uint8)


@pipeline_def(batch_size=16, num_threads=2, py_num_workers=4, device_id=None, seed=1)
def remote(parallel=False, threads=None):
    if threads is None:
        return fn.external_source(download, batch=False, parallel=parallel)
    numbers = fn.external_source(lambda sample: np.int64(sample.idx_in_epoch), batch=False)
    return fn.python_function(numbers, function=fetch, parallel="threads")


def fetch(number):
    time.sleep(0.002)
    return np.full((32, 32, 3), int(number) % 256, np.uint8)


def studies(folder: str):
    """(title, what was seen, code, variants, batches of a turn, what it teaches)"""
    yield (
        "A Python loop over pixels",
        (count_dark, looping),
        {
            "as it is": lambda: looping(),
            'parallel="threads"': lambda: looping(parallel="threads"),
            'parallel="processes"': lambda: looping(parallel="processes"),
            "jit=True": lambda: looping(jit=True),
        },
        4,
        "The loop holds the GIL, so threads do not help. Worker processes divide the work between the processors, and the "
        "compiled loop does not need the GIL.",
    )
    yield (
        "Photographs that are decoded in every epoch",
        (photographs,),
        {
            "as it is": lambda: photographs(folder),
            "decode only the crop": lambda: photographs(folder, small=True),
            "fn.cache of the resized image": lambda: photographs(folder, cache=True),
        },
        4,
        "Decoding takes most of the time. Decoding only the crop saves little with these pictures. A cache saves the work that "
        "is the same in every epoch, so only the random part remains.",
    )
    yield (
        "A source that waits for a server",
        (download, remote),
        {
            "as it is": lambda: remote(),
            "parallel=True, 4 workers": lambda: remote(parallel=True),
            'fetched by a function, parallel="threads"': lambda: remote(threads=True),
        },
        4,
        "The processors are idle. More requests at the same time help, in worker processes or on threads.",
    )


def turn(pipe, batches: int) -> float:
    begin = time.perf_counter()
    for _ in range(batches):
        try:
            pipe.run()
        except StopIteration:
            pipe.reset()
            pipe.run()
    return time.perf_counter() - begin


def main() -> int:
    reading = header(__doc__)
    found, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        _pictures.write(Path(folder), 64, 960, 1280)
        for title, code, variants, batches, lesson in studies(folder):
            pipes = {name: make() for name, make in variants.items()}
            laps: dict[str, list[float]] = {name: [] for name in pipes}
            for pipe in pipes.values():
                turn(pipe, 3 * batches)  # the first epoch fills a cache, and kernels are compiled
            for _ in range(ROUNDS):
                for name, pipe in pipes.items():
                    laps[name].append(turn(pipe, batches))
            first = next(iter(pipes.values()))
            with first.measure():
                turn(first, 2 * batches)
            advice = [str(item) for item in first.advice()][:2]
            rates = {name: 16 * batches / statistics.median(seconds) for name, seconds in laps.items()}
            rows += [(title, name, rate, rate / rates["as it is"]) for name, rate in rates.items()]
            found[title] = {
                "code": "\n\n".join(inspect.getsource(part) for part in code),
                "advice": [text.replace(str(Path(__file__).parents[1]) + "/", "") for text in advice],
                "rates": rates,
                "lesson": lesson,
            }
            del pipes, first, pipe
    table("Samples a second", ["study", "variant", "samples/s", "times"], rows)
    save("case_studies", reading, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
