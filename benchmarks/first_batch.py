"""How long is it from `build()` to the first batch, in a process that has done it before and in a new one?

Warm means that the cache on disk has the compiled kernels: the warm-up round puts them there.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, start, table, verdicts

BATCH = 64


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


def timed(library: str, with_function: bool) -> float:
    pipe = make(library, with_function)
    begin = perf_counter()
    pipe.build()
    pipe.run()
    return perf_counter() - begin


CASES = {"operators alone": False, "with a Python function": True, "new process, with a Python function": True}


def prepare_with(library: str):
    def prepare(name: str):
        if not name.startswith("new process"):
            return lambda: {"seconds": timed(library, CASES[name])}
        program = f"import first_batch; print(first_batch.timed({library!r}, True))"
        command = [sys.executable, "-c", program]
        folder = __file__.rpartition("/")[0]

        def repetition() -> Measures:
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            return {"seconds": float(result.stdout.split()[-1])}

        return repetition

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow")), Side("dali", prepare_with("nvidia.dali"), "dali")]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    results = measure(__file__, SIDES, CASES, {})
    costs = {
        (case, side): median(rows, lambda row: row["seconds"] * 1e3)
        for case, by_side in results.items()
        for side, rows in by_side.items()
    }
    table(
        "Milliseconds from build() to the first batch", ["case", "side", "median"], [(*k, v) for k, v in costs.items()]
    )
    targets = [Target(f"{case}: ms", value, 50.0) for (case, side), value in costs.items() if side == "pipeflow"]
    verdicts(targets)
    save("first_batch", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
