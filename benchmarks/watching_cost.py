"""What does it cost to watch a pipeline whose settings are chosen while it runs, once they are settled?

Two pipelines of the same process take turns: one with automatic settings, and one with the settings that it has chosen.
The figure is the median of the ratios of neighbours in processor time, so that other programs disturb both sides in the
same way.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _harness import Target, header, processor_seconds, save, table, verdicts

from pipeflow import fn, pipeline_def

BATCH, ROUNDS = 32, 100


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


def main() -> int:
    reading = header(__doc__)
    rows, found, targets = [], {}, []
    for name, graph, batches in (("an array of 64 numbers", numbers, 200), ("images", images, 24)):
        watched = made(graph, num_threads="auto", prefetch_queue_depth="auto")
        while not watched.settings().settled:
            watched.run()
        chosen = {setting: watched.settings()[setting].value for setting in ("num_threads", "prefetch_queue_depth")}
        plain = made(graph, **chosen)
        for pipe in (plain, watched):
            processor_seconds(pipe, batches)
        pairs = []
        for number in range(ROUNDS):
            first = processor_seconds(plain if number % 2 else watched, batches)
            second = processor_seconds(watched if number % 2 else plain, batches)
            pairs.append((first, second) if number % 2 else (second, first))
        ratio = statistics.median(after / before for before, after in pairs)
        each = statistics.median(before for before, _ in pairs) / batches
        rows.append((name, 1e3 * each, 100 * (ratio - 1), str(chosen)))
        found[name] = {"ratio": ratio, "milliseconds a batch": 1e3 * each}
        targets.append(Target(f"{name}: cost of watching, %", 100 * (ratio - 1), 1.0))
        del plain, watched
    table("Processor time of a batch of 32", ["pipeline", "ms a batch", "cost of watching, %", "chosen"], rows)
    verdicts(targets)
    save("watching_cost", reading, found, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
