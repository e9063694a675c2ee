"""How long do a checkpoint and its restoration take, whatever the position?"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, spread, start, table, verdicts

from pipeflow import fn, pipeline_def

SIZE = 10**9
CASES = {"at the start": 1, "after a million batches": 10**6, "after ten million batches": 10**7}


class Numbers:
    """A billion samples that take no memory."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> np.ndarray:
        return np.array(index)


@pipeline_def(batch_size=32, num_threads=1, seed=1, enable_checkpointing=True)
def load():
    number = fn.readers.dataset(dataset=Numbers(), random_shuffle=True)
    return number, fn.random.uniform(), fn.random.normal()


def prepare(name: str):
    pipe, other = load(), load()
    pipe.build()
    other.build()
    pipe.seek(CASES[name])
    pipe.run()

    def repetition() -> Measures:
        begin = perf_counter()
        text = pipe.checkpoint()
        middle = perf_counter()
        other.load_state_dict(pipe.state_dict())
        end = perf_counter()
        equal = all(np.array_equal(a.as_array(), b.as_array()) for a, b in zip(pipe.run(), other.run()))
        return {"take": middle - begin, "restore": end - middle, "bytes": float(len(text)), "equal": float(equal)}

    return repetition


SIDES = [Side("pipeflow", prepare)]


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {})
    rows, worst, wrong = [], 0.0, []
    for case, by_side in results.items():
        measured = by_side["pipeflow"]
        take = spread(measured, lambda row: row["take"] * 1e3)[0]
        restore = spread(measured, lambda row: row["restore"] * 1e3)[0]
        worst = max(worst, take, restore)
        rows.append((case, take, restore, int(measured[0]["bytes"])))
        if not all(row["equal"] for row in measured):
            wrong.append(case)
    table("Milliseconds, a shuffled reader of 10^9 samples", ["case", "checkpoint", "state and restore", "bytes"], rows)
    targets = [Target("checkpoint and restore, the slower of all: ms", worst, 5.0)]
    verdicts(targets)
    save("checkpoint", reading, results, targets)
    for case in wrong:
        print(f"FAILED: the restored pipeline gave other numbers: {case}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
