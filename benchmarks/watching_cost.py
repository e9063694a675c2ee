"""What does it cost to watch a pipeline whose settings are chosen while it runs, once they are settled?

Two pipelines, one watched and one with fixed settings, differ by more than watching can cost, so the work of watching is measured
alone: the function that the executor calls after each batch, with the tuner of a real pipeline that has settled, and with
times as they come from it. Its processor time for a batch is divided by the processor time of a batch of that pipeline. Three
cases are measured: the review after the settings are settled, in which other settings are compared with them; the
first 4096 batches after it; and all later ones.

The time that a batch takes longer while other settings are in use is not part of this. The tuner counts it and rests, so that it
is at most 1 % (`REVIEW_COST` in `executor/tuning.py`; `tests/loop/test_tuning.py` checks it).
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import thread_time
from types import SimpleNamespace

import numpy as np
from _harness import Target, header, processor_seconds, save, table, verdicts

from pipeflow import fn, pipeline_def
from pipeflow.executor.automatic import adapt
from pipeflow.executor.tuning import Tuner

BATCH, ROUNDS = 32, 9
FIRST, LATER = 4096, 40_000  # batches


def half(number):
    return number / 2


def sums(image):
    return np.float32(image.sum())


def one_number():
    return fn.external_source(lambda _: np.zeros((BATCH, 4), np.float32)) * 2.0


def numbers():
    values = fn.external_source(lambda sample: np.full(64, sample.idx_in_epoch, np.float32), batch=False)
    return fn.python_function(values, function=half)


def images():
    noise = fn.random.uniform(range=(0.0, 255.0), shape=(64, 64, 3))
    return fn.python_function(fn.resize(noise, size=(96, 96)), function=sums, parallel="threads")


def settled(graph: Callable[[], object]) -> tuple[object, Tuner]:
    """A pipeline that has just settled, and its tuner."""
    settings = {"num_threads": "auto", "prefetch_queue_depth": "auto"}
    pipe = pipeline_def(graph, batch_size=BATCH, device_id=None, seed=1, **settings)()
    while not pipe.settings().settled:
        pipe.run()
    return pipe, pipe._compiled().tuner


class Watched:
    """The tuner of a pipeline, called as the executor calls it, at times that follow each other as the batches do."""

    def __init__(self, pipe: object, tuner: Tuner, pace: float) -> None:
        executor = pipe._compiled()
        self.tuner, self.pace, self.now = tuner, pace, executor.measures.last
        self.pool = executor.pool
        self.claims = SimpleNamespace(threads=tuner.threads, alone=tuner.alone)
        self.crew = SimpleNamespace(size=tuner.threads)
        self.crew.resize = lambda size: setattr(self.crew, "size", size)

    def batches(self, count: int, more: Callable[[], bool] = lambda: True) -> tuple[float, int]:
        """The processor seconds of watching so many batches, while ``more()``, and their number."""
        done, now, pace = 0, self.now, self.pace
        begun = thread_time()
        while done < count and more():
            now += pace
            adapt(self.tuner, None, self.claims, self.crew, self.pool, now, now - 0.5 * pace)
            done += 1
        self.now = now
        return thread_time() - begun, done


def costs(graph: Callable[[], object], batches: int) -> tuple[float, list[float]]:
    """The processor seconds of a batch, and of watching one: in the review, in the batches after it, and later."""
    pipe, tuner = settled(graph)
    tuner.reviewing = False  # nothing else is compared while the pipeline itself is measured
    tuner._skip = 10**9
    processor_seconds(pipe, batches)
    spent = statistics.median(processor_seconds(pipe, batches) / batches for _ in range(3))
    del pipe
    pipe, tuner = settled(graph)
    watched = Watched(pipe, tuner, spent)
    review, count = watched.batches(20_000, lambda: tuner.reviewing)
    first, _ = watched.batches(FIRST)
    later, _ = watched.batches(LATER)
    return spent, [review / max(1, count), first / FIRST, later / LATER]


def main() -> int:
    reading = header(__doc__ or "")
    rows, found, targets = [], {}, []
    for name, graph, batches in (
        ("4 numbers, batches made at once", one_number, 400),
        ("arrays of 64 numbers", numbers, 200),
        ("images", images, 24),
    ):
        rounds = [costs(graph, batches) for _ in range(ROUNDS)]
        each = statistics.median(spent for spent, _ in rounds)
        parts = [[100 * watching[place] / spent for spent, watching in rounds] for place in range(3)]
        middles = [statistics.median(part) for part in parts]
        ranges = [f"{min(part):.2f} to {max(part):.2f}" for part in parts]
        rows.append((name, 1e3 * each, *(value for pair in zip(middles, ranges) for value in pair)))
        kinds = ("review", "first batches", "later")
        found[name] = {
            "milliseconds a batch": 1e3 * each,
            **{f"{kind}, %": middle for kind, middle in zip(kinds, middles)},
        }
        targets += [Target(f"{name}: cost of watching, {kind}, %", middle, 1.0) for kind, middle in zip(kinds, middles)]
    table(
        "Processor time of watching, as a part of that of a batch of 32, in %",
        ["pipeline", "ms a batch", "review", "range", f"first {FIRST}", "range", "later", "range"],
        rows,
    )
    verdicts(targets)
    save("watching_cost", reading, found, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
