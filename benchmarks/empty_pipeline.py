"""What does the pipeline itself cost, if its input is ready arrays and its output is the same arrays?"""

from __future__ import annotations

import importlib
import sys
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, spread, start, table, verdicts

BATCH = 256
BATCHES = 200
DATA = np.random.default_rng(0).random((BATCH, 4), dtype=np.float32)


def dense():
    while True:
        yield DATA


def listed():
    rows = list(DATA)
    while True:
        yield rows


def single(info):
    return DATA[info.idx_in_batch]


CASES = {
    "one array a batch": {"source": dense, "batch": True},
    "a list of arrays a batch": {"source": listed, "batch": True},
    "a callable a sample": {"source": single, "batch": False},
}


def prepare_with(library: str):
    def prepare(name: str):
        fn = importlib.import_module(f"{library}.fn")
        pipe = importlib.import_module(library).pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=1)(
            lambda: fn.external_source(**CASES[name])
        )()
        pipe.build()

        def repetition() -> Measures:
            begin = perf_counter()
            for _ in range(BATCHES):
                (batch,) = pipe.run()
            seconds = perf_counter() - begin
            return {"seconds": seconds, "equal": float(np.array_equal(np.asarray(batch.as_array()), DATA))}

        return repetition

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow")), Side("dali", prepare_with("nvidia.dali"), "dali")]


def a_sample(row: Measures) -> float:
    return row["seconds"] / (BATCHES * BATCH) * 1e6


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {})
    rows, wrong = [], []
    for case, by_side in results.items():
        for side, measured in by_side.items():
            middle, low, high = spread(measured, a_sample)
            rows.append((case, side, middle, f"{low:.3g} .. {high:.3g}"))
            if not all(row["equal"] for row in measured):
                wrong.append(f"{side}, {case}")
    table("Microseconds a sample, batch 256 of 4 floats", ["case", "side", "median", "smallest .. largest"], rows)
    cost = spread(results["a list of arrays a batch"]["pipeflow"], a_sample)[0]
    targets = [Target("ready arrays to output: us a sample", cost, 2.0)]
    verdicts(targets)
    save("empty_pipeline", reading, results, targets)
    for case in wrong:
        print(f"FAILED: the output differs from the input: {case}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
