"""What does it cost to watch a pipeline whose settings are chosen while it runs, once they are settled?

Two pipelines of the same process take turns: one with automatic settings, and one with the settings that it has chosen. The
cost of this pair is the median of the ratios of neighbours in processor time, so that other programs disturb both sides in the
same way. Two pipelines with equal settings differ by one or two percent, whichever is measured; so the figure is the median of
several pairs, and the table has the smallest and the largest of them.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _harness import Target, header, processor_seconds, save, table, verdicts

from pipeflow import fn, pipeline_def

BATCH, PAIRS, ROUNDS = 32, 7, 16


def half(number):
    return number / 2


def sums(image):
    return np.float32(image.sum())


def numbers():
    values = fn.external_source(lambda sample: np.full(64, sample.idx_in_epoch, np.float32), batch=False)
    return fn.python_function(values, function=half)


def images():
    noise = fn.random.uniform(range=(0.0, 255.0), shape=(64, 64, 3))
    return fn.python_function(fn.resize(noise, size=(96, 96)), function=sums, parallel="threads")


def made(graph, **settings):
    pipe = pipeline_def(graph, batch_size=BATCH, device_id=None, seed=1, **settings)()
    pipe.run()
    return pipe


def pair(graph, batches: int) -> tuple[float, float]:
    """The ratio of a watched pipeline to one with fixed settings, and the seconds of a batch of this."""
    watched = made(graph, num_threads="auto", prefetch_queue_depth="auto")
    while not watched.settings().settled:
        watched.run()
    plain = made(graph, **{name: watched.settings()[name].value for name in ("num_threads", "prefetch_queue_depth")})
    for pipe in (plain, watched):
        processor_seconds(pipe, batches)
    found = []
    for number in range(ROUNDS):
        first = processor_seconds(plain if number % 2 else watched, batches)
        second = processor_seconds(watched if number % 2 else plain, batches)
        found.append((first, second) if number % 2 else (second, first))
    ratio = statistics.median(after / before for before, after in found)
    return ratio, statistics.median(before for before, _ in found) / batches


def main() -> int:
    reading = header(__doc__)
    rows, found, targets = [], {}, []
    for name, graph, batches in (("an array of 64 numbers", numbers, 200), ("images", images, 24)):
        ratios, times = zip(*(pair(graph, batches) for _ in range(PAIRS)))
        ratio, each = statistics.median(ratios), statistics.median(times)
        costs = [100 * (one - 1) for one in (ratio, min(ratios), max(ratios))]
        rows.append((name, 1e3 * each, *costs))
        found[name] = {"ratio": ratio, "milliseconds a batch": 1e3 * each}
        targets.append(Target(f"{name}: cost of watching, %", costs[0], 1.0))
    table(
        "Processor time of a batch of 32",
        ["pipeline", "ms a batch", "cost of watching, %", "smallest", "largest"],
        rows,
    )
    verdicts(targets)
    save("watching_cost", reading, found, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
