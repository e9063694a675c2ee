"""How long is it from `build()` to the first batch, in a process that has done it before and in a new one?

The images are the files and the pipeline of `image_pipeline.py` (rn50-train). In the last case no kernel has been compiled
for this user before; otherwise those that the warm-up round and earlier programs have left on the disk are used.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, chosen, header, measure, median, save, start, table, verdicts, with_earlier
from image_pipeline import BATCH, MEAN, PHOTOGRAPHS, SIDE, STD, make_files

SETTINGS: dict[str, str] = {}


def make(library: str, with_function: bool):
    fn = importlib.import_module(f"{library}.fn")
    data = np.random.default_rng(0).integers(0, 256, (BATCH, 32, 32, 3), dtype=np.uint8)

    @importlib.import_module(library).pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
    def pipeline():
        images = fn.external_source(lambda: data, batch=True, layout="HWC")
        angle = fn.random.uniform(range=(-10.0, 10.0))
        if with_function:
            images = fn.python_function(images, angle, function=lambda image, _: image[:, ::-1])
        return images, angle * 2

    return pipeline()


def make_images(library: str, folder: str):
    fn = importlib.import_module(f"{library}.fn")
    types = importlib.import_module(f"{library}.types")

    @importlib.import_module(library).pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
    def pipeline():
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True)
        images = fn.decoders.image_random_crop(files, output_type=types.RGB)
        images = fn.resize(images, resize_x=SIDE, resize_y=SIDE)
        mirror = fn.random.coin_flip(probability=0.5)
        return fn.crop_mirror_normalize(images, output_layout="CHW", mean=MEAN, std=STD, mirror=mirror), labels

    return pipeline()


def timed(library: str, with_function: bool, folder: str = "") -> float:
    pipe = make_images(library, folder) if folder else make(library, with_function)
    begin = perf_counter()
    pipe.build()
    pipe.run()
    return perf_counter() - begin


FUNCTION, IMAGES, COLD = (
    "new process, with a Python function",
    "new process, images",
    "new process, images, nothing compiled",
)
CASES = {"operators alone": False, "with a Python function": True, FUNCTION: True, IMAGES: False, COLD: False}
# Milliseconds.
LIMITS = {IMAGES: 300.0, COLD: 600.0}


def prepare_with(library: str):
    def prepare(name: str):
        if not name.startswith("new process"):
            return lambda: {"seconds": timed(library, CASES[name])}
        images = SETTINGS["folder"] if name in (IMAGES, COLD) else ""
        program = f"import first_batch; print(first_batch.timed({library!r}, {CASES[name]}, {images!r}))"
        command = [sys.executable, "-c", program]
        folder = __file__.rpartition("/")[0]

        def repetition() -> Measures:
            with tempfile.TemporaryDirectory() as empty:
                environment = {**os.environ, "PIPEFLOW_CACHE_DIR": empty} if name == COLD else None
                result = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, check=True, env=environment
                )
            return {"seconds": float(result.stdout.split()[-1])}

        return repetition

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow")), Side("dali", prepare_with("nvidia.dali"), "dali")]


def main() -> int:
    reading, cases = header(__doc__.splitlines()[0]), chosen(CASES)
    with tempfile.TemporaryDirectory() as folder:
        print(make_files(Path(folder), PHOTOGRAPHS))
        results = measure(__file__, SIDES, cases, {"folder": folder})
    results = with_earlier("first_batch", reading, results)
    costs = {
        (case, side): median(rows, lambda row: row["seconds"] * 1e3)
        for case, by_side in results.items()
        for side, rows in by_side.items()
    }
    table(
        "Milliseconds from build() to the first batch", ["case", "side", "median"], [(*k, v) for k, v in costs.items()]
    )
    targets = [
        Target(f"{case}: ms", value, LIMITS.get(case, 50.0))
        for (case, side), value in costs.items()
        if side == "pipeflow"
    ]
    verdicts(targets)
    save("first_batch", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
