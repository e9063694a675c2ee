"""What does Ray cost: two Ray workers on this machine, compared with one process on the same two cores?

A row is a JPEG image of 640x480 that is decoded, cropped at random and resized to 224x224; both sides return all rows
of one epoch. The sides take turns. The first turn of each is not counted, because in it Ray starts its workers, and
these import and load their kernels. Two rates are measured for every epoch: over the whole epoch, and over the rows
after the first quarter. In the first quarter only one of the two workers works, because Ray Data learns a second
later, when it looks at the cluster again, that the second core is free. The target is for the second rate. The
processor time per row, of all processes of a side, shows what Ray costs on a machine that is not idle. The benchmark
needs an environment with Ray: .venvs/adapters (make test-adapters makes it).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil
from _harness import ROOT, Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts
from PIL import Image

from pipeflow import fn, pipeline_def

IMAGES = 200
PASSES = 60  # how often each file is read in an epoch
SHARDS = 4  # some seconds each: Ray Data looks at its tasks ten times a second, and a core waits in between
CASES = ["one epoch"]
FOLDER = Path(tempfile.gettempdir()) / "pipeflow-ray-path"


def images() -> list[str]:
    FOLDER.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    for number in range(IMAGES):
        path = FOLDER / f"{number:04}.jpg"
        if not path.exists():
            coarse = Image.fromarray(generator.integers(0, 255, (60, 80, 3), np.uint8))
            coarse.resize((640, 480), Image.Resampling.BICUBIC).save(path, quality=90)
    return [str(path) for path in sorted(FOLDER.glob("*.jpg"))] * PASSES


@pipeline_def(batch_size=16, seed=1)
def prepare_images(files):
    data, label = fn.readers.file(files=files, random_shuffle=True)
    image = fn.resize(fn.decoders.image_random_crop(data), size=[224, 224])
    return fn.flip(image, horizontal=fn.random.coin_flip()), label


def prepare_local(name: str):
    del name
    pipe = prepare_images(images(), num_threads=2)

    return lambda: timed(len(batch[0]) for batch in pipe.epoch())


def timed(sizes: Iterable[int]) -> Measures:
    """Seconds of an epoch, of the rows after its first quarter, and on processors (this process and its children)."""
    spent, begin = processor_seconds(), perf_counter()
    rows, mark, marked = 0, 0, begin
    for size in sizes:
        rows += size
        if not mark and rows >= IMAGES * PASSES / 4:
            mark, marked = rows, perf_counter()
    end = perf_counter()
    return {
        "rows": float(rows),
        "seconds": end - begin,
        "later rows": float(rows - mark),
        "later seconds": end - marked,
        "processor seconds": processor_seconds() - spent,
    }


def processor_seconds() -> float:
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def prepare_ray(name: str):
    del name
    import ray

    from pipeflow.distributed.ray import read

    os.environ["PYTHONPATH"] = str(ROOT)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.2",
        object_store_memory=1500 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    pipe = prepare_images(images(), num_threads=1)

    def repetition() -> Measures:
        dataset = read(pipe, SHARDS, ["image", "label"])
        return timed(len(batch["image"]) for batch in dataset.iter_batches(batch_size=None))

    return repetition


SIDES = [Side("one process, two threads", prepare_local, "adapters"), Side("Ray, two workers", prepare_ray, "adapters")]


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {}, repetitions=3)
    measured, rows, rates = results[CASES[0]], [], {}
    for side, repetitions in measured.items():
        rates[side], low, high = spread(repetitions, lambda row: row["later rows"] / row["later seconds"])
        whole = median(repetitions, lambda row: row["rows"] / row["seconds"])
        cost = median(repetitions, lambda row: 1000 * row["processor seconds"] / row["rows"])
        rows.append((side, rates[side], f"{low:.4g} .. {high:.4g}", whole, cost))
    columns = ["side", "behind the first quarter", "smallest .. largest", "whole epoch", "processor ms an image"]
    table("Images a second (medians)", columns, rows)
    if len(rates) < 2:
        return 1
    ratio = rates["Ray, two workers"] / rates["one process, two threads"]
    targets = [Target("Ray on two workers, share of one process", ratio, 0.85, at_most=False)]
    verdicts(targets)
    save("ray_path", reading, results, targets)
    wrong = [side for side, rows in measured.items() if not all(row["rows"] == IMAGES * PASSES for row in rows)]
    for side in wrong:
        print(f"FAILED: {side} lost or repeated rows")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
