"""What does the way over Ray cost: two workers on this machine against the same two cores in one process?

A row is a JPEG image of 640x480 that is decoded, cropped at random and resized to 224x224; both sides give all rows of
one epoch of several seconds. Ray takes some tenths of a second to begin, whatever the size of the job.
Needs an environment with Ray: .venvs/adapters (make test-adapters makes it).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from _harness import ROOT, Measures, Side, Target, header, measure, save, spread, start, table, verdicts
from PIL import Image

from pipeflow import fn, pipeline_def

IMAGES = 200
PASSES = 15  # each file is read so often in an epoch
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

    def repetition() -> Measures:
        begin = perf_counter()
        rows = sum(len(batch[0]) for batch in pipe.epoch())
        return {"seconds": perf_counter() - begin, "rows": float(rows)}

    return repetition


def prepare_ray(name: str):
    del name
    import ray

    from pipeflow.distributed.ray import read

    os.environ["PYTHONPATH"] = str(ROOT)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.2",
             object_store_memory=1500 * 2**20, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
    ray.data.DataContext.get_current().enable_progress_bars = False
    pipe = prepare_images(images(), num_threads=1)

    def repetition() -> Measures:
        begin = perf_counter()
        dataset = read(pipe, 8, ["image", "label"])
        rows = sum(len(batch["image"]) for batch in dataset.iter_batches(batch_size=None))
        return {"seconds": perf_counter() - begin, "rows": float(rows)}

    return repetition


SIDES = [Side("one process, two threads", prepare_local, "adapters"), Side("Ray, two workers", prepare_ray, "adapters")]


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {}, repetitions=3)
    rates, rows = {}, []
    for side, measured in results[CASES[0]].items():
        rates[side], low, high = spread(measured, lambda row: row["rows"] / row["seconds"])
        rows.append((side, rates[side], f"{low:.4g} .. {high:.4g}"))
    table("Images a second", ["side", "median", "smallest .. largest"], rows)
    if len(rates) < 2:
        return 1
    ratio = rates["Ray, two workers"] / rates["one process, two threads"]
    targets = [Target("Ray on two workers, share of one process", ratio, 0.85, at_most=False)]
    verdicts(targets)
    save("ray_path", reading, results, targets)
    wrong = [side for side, measured in results[CASES[0]].items() if not all(row["rows"] == IMAGES * PASSES for row in measured)]
    for side in wrong:
        print(f"FAILED: {side} lost or repeated rows")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
