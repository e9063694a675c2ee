"""What does each image operator cost on one thread, compared with DALI?

Each operator has one pipeline with 16 images of 480 x 360 from memory. The figures are microseconds of CPU time per
sample, minus those of the same pipeline with only the shapes of the images as output (the row "source": in DALI a
pipeline that returned the images would copy them, which the pipeline of an operator does not do). The last column
compares the whole pipelines. If an operator takes less than its source, in one library or both, the difference measures
mostly what differs between the sources: three shapes, as the source of `select_masks` returns, take DALI as long as the
operator. Then the whole pipelines are compared with the aim, and the row is marked with *; in all other rows the
differences are. Both ratios are always printed.

Both libraries work in short turns, one after the other, and the medians of their turns count. The smallest figures would
not do: some machines have twice their usual speed for a tenth of the time, which only one of the two may meet.
`python benchmarks/image_operators.py resize flip` measures only the cases whose names begin with
these words; pieces that are measured on one day are put together in the results. `BATCH=256 python ...` measures batches of
another size, and only prints the table. The cases are in `_operator_cases.py`.

For operators without input there is nothing to subtract, so the figure is that of a whole pipeline: for 16 samples the time
of a batch itself is most of it.
"""

from __future__ import annotations

import importlib
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import process_time

from _harness import Measures, Side, Target, header, measure, save, start, table, verdicts, with_earlier
from _operator_cases import BATCH, CASES, SETTINGS, write_files

USUAL = 16  # samples in a batch
LEAST = 0.003  # seconds of processor time that a figure takes
AGAIN = 2  # batches at the beginning of a turn that do not count: the other library has just used the caches
TURNS, SECONDS = 9, 1.2  # the least number of turns of a case, and for how long they go on
WARM = 30  # batches before the first figure


def prepare_with(library: str):
    def prepare(name: str):
        fn = importlib.import_module(f"{library}.fn")
        os.chdir(SETTINGS["folder"])  # dump_image writes files into it
        samples, layout, call, _ = CASES[name]
        samples = samples() if callable(samples) else samples
        several = samples if isinstance(samples, tuple) else (samples,)

        def source() -> tuple:
            if samples is None:
                return ()
            if not isinstance(samples, tuple):
                return (fn.external_source(lambda: samples, layout=layout or None, no_copy=True),)
            layouts = [layout, *[""] * (len(several) - 1)]
            return tuple(fn.external_source(lambda: several, num_outputs=len(several), layout=layouts, no_copy=True))

        def build(work):
            @importlib.import_module(library).pipeline_def(
                batch_size=BATCH, num_threads=1, device_id=None, seed=1, prefetch_queue_depth=1
            )
            def pipeline():
                result = work(*source())
                return tuple(result) if isinstance(result, list | tuple) else result

            pipe = pipeline()
            pipe.build()
            return pipe

        def shapes(*data):
            return tuple(one.shape() for one in data)

        own = build(lambda *data: call(fn, *data))
        without = build(shapes) if samples is not None and name != "source" else None

        def cost(pipe) -> float:
            for _ in range(AGAIN):
                pipe.run()
            begin, batches = process_time(), 0
            while batches < 2 or process_time() - begin < LEAST:
                pipe.run()
                batches += 1
            return (process_time() - begin) / (batches * BATCH) * 1e6

        begun, batches = process_time(), 0
        while batches < WARM and process_time() - begun < 0.5:  # memory that is touched for the first time is slow
            own.run()
            batches += 1
        return lambda: {"operator": cost(own), "source": cost(without) if without else 0.0}

    return prepare


# The first batches, until the kernels are loaded, are another benchmark (first_batch.py).
SIDES = [
    Side("pipeflow", prepare_with("pipeflow"), variables={"PIPEFLOW_START": "wait"}),
    Side("dali", prepare_with("nvidia.dali"), "dali"),
]


def middle(rows: list[Measures], name: str) -> float:
    """The median of all turns."""
    return statistics.median(row[name] for row in rows)


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    asked = [name for name in CASES if not sys.argv[1:] or name.startswith(tuple(sys.argv[1:]))]
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        measured = measure(__file__, SIDES, asked, {"folder": folder}, repetitions=TURNS, seconds=SECONDS)
    results = with_earlier("image_operators", reading, measured) if BATCH == USUAL else measured
    rows, targets = [], []
    for case, by_side in results.items():
        whole = {side: middle(values, "operator") for side, values in by_side.items()}
        sources = {side: middle(values, "source") for side, values in by_side.items()}
        costs = {side: whole[side] - sources[side] for side in whole}
        both = "dali" in whole
        ratio = costs["dali"] / max(costs["pipeflow"], 0.1) if both else float("nan")
        of_all = whole["dali"] / whole["pipeflow"] if both else float("nan")
        small = any(costs[side] < sources[side] for side in whole)
        rows.append((f"{case} *" if small else case, *costs.values(), ratio, of_all))
        if CASES[case][3] and both:
            counted = of_all if small else ratio
            targets.append(Target(f"{case}: times DALI", counted, CASES[case][3], at_most=False))
    names = [side.name for side in SIDES if side.installed]
    columns = ["operator", *names, "times DALI", "with its source"]
    table("Microseconds of one thread per sample, without the source (*: less than the source)", columns, rows)
    verdicts(targets)
    if BATCH == USUAL:
        save("image_operators", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
