"""How long do saving and restoring a checkpoint take at any position, and what does a journal cost per batch?"""

from __future__ import annotations

import os
import sys
import tempfile
from time import perf_counter, thread_time

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, spread, start, table, verdicts

from pipeflow import fn, pipeline_def
from pipeflow.resume import RunJournal

SIZE = 10**9
RECORDS = 1000
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


def journal_seconds(pipe) -> float:
    """Processor time that a journal adds to a batch: it records that one is done, and marks the next as handed out."""
    with tempfile.TemporaryDirectory() as folder:
        journal = RunJournal(os.path.join(folder, "run.journal"))
        journal.take_up([pipe], 0, 1)
        begin = thread_time()
        for _ in range(RECORDS):
            journal.done([pipe])
            journal.handed_out()
        seconds = (thread_time() - begin) / RECORDS
        journal.close()
    return seconds


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
        record = journal_seconds(other)
        equal = all(np.array_equal(a.as_array(), b.as_array()) for a, b in zip(pipe.run(), other.run()))
        return {
            "take": middle - begin,
            "restore": end - middle,
            "journal": record,
            "bytes": float(len(text)),
            "equal": float(equal),
        }

    return repetition


SIDES = [Side("pipeflow", prepare)]


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {})
    rows, worst, slowest, wrong = [], 0.0, 0.0, []
    for case, by_side in results.items():
        measured = by_side["pipeflow"]
        take = spread(measured, lambda row: row["take"] * 1e3)[0]
        restore = spread(measured, lambda row: row["restore"] * 1e3)[0]
        journal = spread(measured, lambda row: row["journal"] * 1e6)[0]
        worst, slowest = max(worst, take, restore), max(slowest, journal)
        rows.append((case, take, restore, journal, int(measured[0]["bytes"])))
        if not all(row["equal"] for row in measured):
            wrong.append(case)
    table(
        "Milliseconds, a shuffled reader of 10^9 samples",
        ["case", "checkpoint", "state and restore", "journal, us a batch", "bytes"],
        rows,
    )
    targets = [
        Target("checkpoint and restore, the slower of all: ms", worst, 5.0),
        Target("journal, the slowest of all: us a batch", slowest, 50.0),
    ]
    verdicts(targets)
    save("checkpoint", reading, results, targets)
    for case in wrong:
        print(f"FAILED: the restored pipeline gave other numbers: {case}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
