"""What part of the throughput of unshuffled rows of Parquet files is left if they are shuffled?

Rows with a text of about a kilobyte, a list of 64 numbers and a label are read by two threads. The figures are CPU time of all
threads for an epoch, in which the groups of rows are decoded again: each epoch has a new pipeline. A permutation of all rows is
measured where all groups fit into `decoded_bytes`, windows of a tenth of the rows where no group does.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

ROWS, GROUP = 20_000, 500
ORDERS = {
    "in order": {},
    "shuffled": {"random_shuffle": True},
    "in order, no room": {"decoded_bytes": 0},
    "in windows, no room": {"random_shuffle": True, "decoded_bytes": 0, "shuffle_window": ROWS // 10},
}


def write_files(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for number in range(2):
        rows = {
            "text": [rng.bytes(500).hex() for _ in range(ROWS // 2)],
            "tokens": list(rng.integers(0, 50_000, (ROWS // 2, 64)).astype(np.int32)),
            "label": rng.integers(0, 9, ROWS // 2),
        }
        parquet.write_table(pyarrow.table(rows), folder / f"{number}.parquet", row_group_size=GROUP)


def pipeline_over(folder: str, order: dict[str, object]):
    from pipeflow import fn, pipeline_def

    @pipeline_def(batch_size=64, num_threads=2, seed=1, device_id=None)
    def pipeline():
        return tuple(fn.readers.parquet(paths=folder, columns=["text", "tokens", "label"], name="rows", **order))

    return pipeline()


def prepare(_: str):
    folder = tempfile.TemporaryDirectory()
    write_files(Path(folder.name))

    def repetition() -> Measures:
        found = {}
        for name, order in ORDERS.items():
            pipe = pipeline_over(folder.name, order)
            begin, count = process_time(), 0
            for batch in pipe.epoch():
                count += len(batch[2])
            found[name], found[f"{name} rows"] = process_time() - begin, float(count)
        return found

    repetition.folder = folder  # as long as the repetitions
    repetition()
    return repetition


SIDES = [Side("pipeflow", prepare)]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    [by_side] = measure(__file__, SIDES, ["rows"], {}, repetitions=5).values()
    [measured] = by_side.values()
    rows = []
    for name in ORDERS:
        middle, low, high = spread(measured, lambda row, name=name: 1e6 * row[name] / ROWS)
        rows.append((name, middle, f"{low:.4g} .. {high:.4g}"))
    part = median(measured, lambda row: row["in order"] / row["shuffled"])
    windows = median(measured, lambda row: row["in order, no room"] / row["in windows, no room"])
    targets = [
        Target("shuffled throughput to that in order", part, 0.8, at_most=False),
        Target("the same in windows, where no group fits the cache", windows, 0.8, at_most=False),
    ]
    table("Microseconds of CPU time a row (median of 5 alternated runs)", ["order", "time", "range"], rows)
    verdicts(targets)
    save("parquet", reading, by_side, targets)
    return int(any(row[f"{name} rows"] != ROWS for row in measured for name in ORDERS))


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
