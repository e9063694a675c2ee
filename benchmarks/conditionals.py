"""What do conditions cost: tracing 20 ifs, and a two-way branch over ready arrays?"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, spread, start, table, verdicts

BATCH = 64
BATCHES = 300
RNG = np.random.default_rng(0)
FIRST = RNG.random((BATCH, 32, 32), dtype=np.float32)
SECOND = RNG.random((BATCH, 32, 32), dtype=np.float32)
COIN = RNG.random(BATCH) < 0.5
MERGED = np.where(COIN[:, None, None], FIRST, SECOND)

# One function with 20 ifs, and one with an `if` that is called 20 times. DALI runs only the second: the time of its
# first analysis doubles with every `if` of a function (8 take 0.9 s here, 10 take 2.7 s, 12 take 10.8 s).
IFS = "".join(f"    if x > {k}:\n        y{k} = x + 1\n    else:\n        y{k} = x - 1\n" for k in range(20))
SUM = " + ".join(f"y{k}" for k in range(20))
SOURCE = "fn.external_source(source=lambda: np.arange(8, dtype=np.int32))"
HEAD = "import numpy as np\n\ndef g(x, k):\n    if x > k:\n        y = x + 1\n    else:\n        y = x - 1\n    return y\n\n"
HEAD += f"def f():\n    x = {SOURCE}\n"
CALLS = " + ".join(f"g(x, {k})" for k in range(20))
COUNTER = itertools.count()

TRACE = "20 ifs in one function"
TRACE_CALLS = "one if, called 20 times"
MODULES = {TRACE: f"{HEAD}{IFS}    return {SUM}\n", TRACE_CALLS: f"{HEAD}    return {CALLS}\n"}
READY = "ready arrays"
WORK = "a copy in each branch"


def fresh_function(fn, case):
    """A function with 20 ifs from a file that has not been read before."""
    path = Path(tempfile.mkdtemp()) / f"many_ifs_{next(COUNTER)}.py"
    path.write_text(MODULES[case])
    os.utime(path, (0, 0))  # an old file, as a user's file is when it is run
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.fn = fn
    return module.f


def sources(fn):
    def source_of(array):
        return lambda: array

    return [fn.external_source(source=source_of(x), batch=True, no_copy=True) for x in (FIRST, SECOND, COIN)]


def prepare_with(library: str):
    def prepare(case: str):
        fn = importlib.import_module(f"{library}.fn")
        pipeline_def = importlib.import_module(library).pipeline_def
        options = {"num_threads": 1, "device_id": None, "enable_conditionals": True, "seed": 1}

        def trace() -> Measures:
            definition = pipeline_def(fresh_function(fn, case), batch_size=8, **options)
            times = []
            for _ in range(2):
                begin = perf_counter()
                pipe = definition()
                times.append(perf_counter() - begin)
            pipe.build()
            numbers = np.asarray(pipe.run()[0].as_array()).tolist()
            expected = [sum(x + 1 if x > k else x - 1 for k in range(20)) for x in range(8)]
            return {"first": times[0], "again": times[1], "equal": float(numbers == expected)}

        def plain():
            first, second, coin = sources(fn)
            return (first if case == READY else fn.copy(first)), second, coin

        def branch():
            first, second, coin = sources(fn)
            if coin:
                out = first if case == READY else fn.copy(first)
            else:
                out = second if case == READY else fn.copy(second)
            return out, second, coin

        def both():
            pipes = [pipeline_def(f, batch_size=BATCH, **options)() for f in (plain, branch)]
            for pipe in pipes:
                pipe.build()

            def repetition() -> Measures:
                times = [0.0, 0.0]
                for _ in range(BATCHES // 50):
                    for position, pipe in enumerate(pipes):
                        begin = perf_counter()
                        for _ in range(50):
                            batch = pipe.run()[0]
                        times[position] += perf_counter() - begin
                return {
                    "plain": times[0] / BATCHES,
                    "branch": times[1] / BATCHES,
                    "equal": float(np.array_equal(np.stack([np.asarray(batch.at(k)) for k in range(BATCH)]), MERGED)),
                }

            return repetition

        if case in MODULES:
            return trace if library == "pipeflow" or case == TRACE_CALLS else None
        return both()

    return prepare


SIDES = [Side("pipeflow", prepare_with("pipeflow")), Side("dali", prepare_with("nvidia.dali"), "dali")]


def main() -> int:
    reading = header(__doc__)
    results = measure(__file__, SIDES, [TRACE, TRACE_CALLS, READY, WORK], {})
    wrong = [
        f"{side}, {case}"
        for case, sides in results.items()
        for side, rows in sides.items()
        if not all(row["equal"] for row in rows)
    ]
    lines = []
    for case, which in itertools.product((TRACE, TRACE_CALLS), ("first", "again")):
        for side, rows in results[case].items():
            middle, low, high = spread(rows, lambda row, which=which: row[which] * 1e3)
            lines.append((f"{case}, {which} time", side, middle, f"{low:.3g} .. {high:.3g}"))
    table("Milliseconds to record a pipeline with 20 ifs", ["", "side", "median", "smallest .. largest"], lines)

    def added(row: Measures) -> float:
        return (row["branch"] - row["plain"]) * 1e6

    lines = []
    for case in (READY, WORK):
        for side, rows in results[case].items():
            middle, low, high = spread(rows, added)
            without = spread(rows, lambda row: row["plain"] * 1e6)[0]
            lines.append((case, side, without, middle, f"{low:.3g} .. {high:.3g}"))
    columns = ["", "side", "without", "added", "smallest .. largest"]
    table("Microseconds that a two-way branch adds to a batch of 64", columns, lines)
    ours = {case: results[case]["pipeflow"] for case in results}
    targets = [
        Target("recording 20 ifs the first time, ms", spread(ours[TRACE], lambda row: row["first"] * 1e3)[0], 10.0),
        Target("a two-way branch over ready arrays, us a batch of 64", spread(ours[READY], added)[0], 30.0),
    ]
    verdicts(targets)
    save("conditionals", reading, results, targets)
    for case in wrong:
        print(f"FAILED: a wrong result: {case}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
