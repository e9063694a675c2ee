"""How long does it take to pack ten million documents into rows, and how full are the rows?

The lengths are drawn from a log-normal distribution like that of text, 400 tokens in the middle and at most 2048, the length of a
row. A repetition calls `pipeflow.pack` with the offsets of the documents: the plan of all rows is made, and no token is read. The
second case fills rows in the order of the documents, the third splits long documents. The least part of a row that can be free is
known from the lengths alone: the table has the number of rows and the least number that any method needs. Grain's first-fit
packing fills rows while it reads, so it is measured with its documents, ten thousand of them.
"""

from __future__ import annotations

import importlib
import sys
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

DOCUMENTS = 10_000_000
FEW = 10_000  # documents that are read and packed one by one
LENGTH = 2048
BEST, ORDER, SPLIT, READ = "best fit", "in order", "best fit, long documents split", "read and packed"
CASES = [BEST, ORDER, SPLIT, READ]


def lengths_of(case: str) -> np.ndarray:
    """The lengths of the documents of a case."""
    drawn = np.random.default_rng(0).lognormal(6, 1, FEW if case == READ else DOCUMENTS)
    return np.clip(drawn, 1, 8 * LENGTH if case == SPLIT else LENGTH).astype(np.int64)


def prepare(case: str):
    import pipeflow

    offsets = np.concatenate([[0], np.cumsum(lengths_of(case))])
    tokens = np.broadcast_to(np.int32(0), offsets[-1:])  # no memory, however many there are

    def repetition() -> Measures:
        begin = perf_counter()
        made = pipeflow.pack((tokens, offsets), LENGTH, method="in_order" if case == ORDER else "best_fit")
        if case == READ:
            for row in range(len(made)):
                made[row]
        seconds = perf_counter() - begin
        return {"seconds": seconds, "fill": made.fill, "rows": len(made), "least": -(-int(offsets[-1]) // LENGTH)}

    return repetition


def prepare_grain(case: str):
    if case != READ:
        return None
    grain = importlib.import_module("grain")
    lengths = lengths_of(case)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.zeros(offsets[-1], np.int32)

    def repetition() -> Measures:
        begin = perf_counter()
        documents = grain.MapDataset.source(range(FEW)).map(lambda n: {"tokens": tokens[offsets[n] : offsets[n + 1]]})
        packed = grain.experimental.FirstFitPackIterDataset(
            documents.to_iter_dataset(), length_struct={"tokens": LENGTH}, num_packing_bins=64
        )
        rows = sum(1 for _ in packed)
        seconds = perf_counter() - begin
        least = -(-int(offsets[-1]) // LENGTH)
        return {"seconds": seconds, "fill": offsets[-1] / (rows * LENGTH), "rows": rows, "least": least}

    return repetition


SIDES = [Side("pipeflow", prepare), Side("grain", prepare_grain, "grain")]


def main() -> None:
    """Prints every figure, and the targets."""
    reading = header(__doc__.splitlines()[0])
    results = measure(__file__, SIDES, CASES, {}, 5)
    rows = []
    for case, by_side in results.items():
        for side, measured in by_side.items():
            middle, low, high = spread(measured, lambda row: row["seconds"])
            last = measured[-1]
            percent = 100 * last["fill"]
            rows.append((case, side, middle, f"{low:.3g} .. {high:.3g}", f"{percent:.2f}", last["rows"], last["least"]))
    table("Packing", ["case", "side", "seconds", "range", "filled %", "rows", "least rows"], rows)
    best = results[BEST]["pipeflow"]
    targets = [
        Target("best fit: seconds for ten million documents", median(best, lambda row: row["seconds"]), 1.0),
        Target("best fit: percent of the places with a token", 100 * best[-1]["fill"], 99.5, at_most=False),
    ]
    verdicts(targets)
    save("packing", reading, results, targets)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
