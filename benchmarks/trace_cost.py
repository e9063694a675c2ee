"""What does a trace cost? The same pipeline with and without one, in turn, in processor time.

Two pipelines of the same process take turns: a few batches of one, a few of the other. The figure is the median of the
ratios of neighbours, so that other programs disturb both sides in the same way.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import _pictures
import numpy as np
from _harness import Target, header, processor_seconds, save, table, verdicts

from pipeflow import fn, pipeline_def
from pipeflow.executor.trace import Trace
from pipeflow.watching.perfetto import write

BATCH, BATCHES, ROUNDS = 32, 12, 60


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def photographs(folder: str):
    files, labels = fn.readers.file(file_root=folder, files=sorted(map(str, Path(folder).glob("*.jpg"))))
    images = fn.random_resized_crop(fn.decoders.image(files), size=(224, 224))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip()), labels


def half(number):
    return number / 2


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def numbers(_folder: str):
    values = fn.external_source(lambda sample: np.full(64, sample.idx_in_epoch, np.float32), batch=False)
    return fn.python_function(values, function=half)


def main() -> int:
    reading = header(__doc__)
    rows, found = [], {}
    with tempfile.TemporaryDirectory() as folder:
        _pictures.write(Path(folder), 64, 480, 640)
        for name, made, batches in (
            ("photographs", photographs, BATCHES),
            ("an array of 64 numbers", numbers, 20 * BATCHES),
        ):
            plain, traced, trace = made(folder), made(folder), Trace()
            traced.build()
            trace.over(traced._compiled())
            for pipe in (plain, traced):
                processor_seconds(pipe, batches)
            pairs = []
            for number in range(ROUNDS):
                trace.events.clear()  # a trace that is full would cost less
                first = processor_seconds(plain if number % 2 else traced, batches)
                second = processor_seconds(traced if number % 2 else plain, batches)
                pairs.append((first, second) if number % 2 else (second, first))
            size = write(trace, str(Path(folder, "trace.json")))
            ratio = statistics.median(after / before for before, after in pairs)
            each = statistics.median(before for before, _ in pairs) / batches
            rows.append((name, 1e3 * each, size / batches, 100 * (ratio - 1)))
            found[name] = {"ratio": ratio, "milliseconds a batch": 1e3 * each, "events a batch": size / batches}
            del plain, traced
    table("Processor time of a batch of 32", ["pipeline", "ms a batch", "events", "cost of the trace, %"], rows)
    targets = [Target("photographs: cost of a trace, %", rows[0][3], 1.0)]
    verdicts(targets)
    save("trace_cost", reading, found, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
