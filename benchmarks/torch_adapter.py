"""How much time does the torch iterator add to the pipeline's own run(), for a batch of 64x3x224x224 floats?"""

from __future__ import annotations

import importlib
import sys
from time import perf_counter

import numpy as np
from _harness import ENVIRONMENTS, Measures, Side, Target, header, measure, save, spread, start, table, verdicts

BATCHES = 30
SHAPE = (64, 3, 224, 224)
CASES = ["dense batches"]


def prepare_with(library: str):
    def prepare(name: str):
        del name
        if library != "pipeflow":  # torch is no part of DALI's environment
            sys.path += [str(path) for path in ENVIRONMENTS.glob("torch/lib/python*/site-packages")]
        fn = importlib.import_module(f"{library}.fn")
        plugin = importlib.import_module(f"{library}.plugin.pytorch")
        data = np.random.default_rng(0).random(SHAPE, dtype=np.float32)
        make = importlib.import_module(library).pipeline_def(
            lambda: fn.external_source(lambda _: data, no_copy=library == "pipeflow"),
            batch_size=SHAPE[0],
            num_threads=1,
            device_id=None,
        )
        plain, iterated = make(), make()
        plain.build()
        iterator = plugin.DALIGenericIterator(iterated, ["data"])

        def repetition() -> Measures:
            begin = perf_counter()
            for _ in range(BATCHES):
                (batch,) = plain.run()
            middle = perf_counter()
            for _ in range(BATCHES):
                tensor = next(iterator)[0]["data"]
            end = perf_counter()
            equal = bool((tensor.numpy() == np.asarray(batch.as_array())).all())
            return {"plain": middle - begin, "iterated": end - middle, "equal": float(equal)}

        return repetition

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow"), "torch"), Side("dali", prepare_with("nvidia.dali"), "dali")]


def added(row: Measures) -> float:
    return (row["iterated"] - row["plain"]) / BATCHES * 1e6


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {})
    rows = []
    for side, measured in results[CASES[0]].items():
        middle, low, high = spread(measured, added)
        run = spread(measured, lambda row: row["plain"] / BATCHES * 1e6)[0]
        rows.append((side, run, middle, f"{low:.3g} .. {high:.3g}"))
    table("Microseconds a batch", ["side", "run() alone", "added by the iterator", "smallest .. largest"], rows)
    cost = spread(results[CASES[0]]["pipeflow"], added)[0]
    targets = [Target("the torch iterator adds: us a batch", cost, 150.0)]
    verdicts(targets)
    save("torch_adapter", reading, results, targets)
    wrong = [side for side, measured in results[CASES[0]].items() if not all(row["equal"] for row in measured)]
    for side in wrong:
        print(f"FAILED: {side} gave other numbers than were put in")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
