"""How many of thirty functions does `jit="auto"` compile, are the results right, and how near are they to kernels by hand?

The functions are in `_functions_for_jit.py`: expressions, masks, slices, loops, early returns, dictionaries, closures, random
numbers. The cost of a function is that of a pipeline with it, less that of the same pipeline without it. The kernel is called
in a loop over the samples of the batch that the pipeline without the function returns, and writes into memory that was allocated
before; its cost too is less that of this pipeline. The loop reads samples that the pipeline has just copied. The compiled
function reads the array of the source where it is: its pipeline is without that copy, and its cost is less by as much (3 to 5
microseconds a sample of floats, 1 of bytes). In the next column the source has `no_copy=True` on both sides, so nothing is
copied. A loop over the same arrays all the time is in the column after it. A function that gives the same results when it is
compiled, and is not faster, goes on as plain NumPy, and is compared as it runs. The kernels are plain loops; for slices and
simple expressions NumPy is faster than these, so a figure below 1 says little. What a step takes for a batch, less than a tenth
of a millisecond, is a part of its cost: 2 microseconds a sample. All take turns, with two
batches that are not counted before each; each batch is made by the call for it; all times are processor time of one thread. Every
result of the pipeline, before and after the compiled code has taken over, is compared with the plain function, bit by bit.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any

import numpy as np
from _functions_for_jit import SET, Written
from _harness import Target, header, save, table, verdicts

from pipeflow import fn, pipeline_def

SHAPE, BATCH, ROUNDS, BATCHES = (112, 112, 3), 32, 20, 6
SETTLED = 24  # batches before the first measurement: a chain looks for compiled code again after 16
FIGURES = ("microseconds by hand", "ratio", "ratio, nothing copied", "ratio to the cache")
LONGEST_SECONDS = 30.0  # until compiled code has taken over, at most
_rng = np.random.default_rng(0)
DATA = {"u": _rng.integers(0, 256, (BATCH, *SHAPE)).astype(np.uint8), "f": _rng.random((BATCH, *SHAPE), np.float32)}


def pipeline_with(kind: str, case: Written | None, no_copy: bool = False) -> Any:
    # Each call makes its batch itself: a thread would make one of the next batches while another side is measured.
    @pipeline_def(batch_size=BATCH, num_threads=1, seed=1, device_id=None, exec_pipelined=False, exec_async=False)
    def pipeline():
        data = fn.external_source(lambda: DATA[kind], no_copy=no_copy)
        return data if case is None else fn.python_function(data, function=case.function, jit=case.jit)

    pipe = pipeline()
    pipe.build()
    return pipe


def plain_pipeline(case: Written) -> Any:
    @pipeline_def(batch_size=BATCH, num_threads=1, seed=1, device_id=None)
    def pipeline():
        return fn.python_function(fn.external_source(lambda: DATA[case.kind]), function=case.function)

    return pipeline()


def same(left: Any, right: Any) -> bool:
    pairs = [(np.asarray(left.at(place)), np.asarray(right.at(place))) for place in range(BATCH)]
    return all((x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()) for x, y in pairs)


def state_of(pipe: Any) -> tuple[str, str]:
    """The state of the trial, and its reason, without the folder in which it was found."""
    (choice,) = [choice for choice in pipe.settings() if choice.name.startswith("jit of")]
    return choice.value, re.sub(r"\S*/benchmarks/", "benchmarks/", choice.reason)


def spent(step: Callable[[], object], times: int = BATCHES) -> float:
    """Processor seconds of a sample. Two batches before bring the memory of this side into the cache."""
    step()
    step()
    begun = process_time()
    for _ in range(times):
        step()
    return (process_time() - begun) / (times * BATCH)


def by_hand(case: Written, like: np.ndarray, batch: Callable[[], np.ndarray]) -> Callable[[], None]:
    """Calls the kernel for the samples of a batch."""
    kernel, results = case.kernel, np.empty((BATCH, *like.shape), like.dtype)
    more = (np.random.default_rng(1),) if "rng" in case.function.__code__.co_varnames else ()
    assert kernel is not None

    def step() -> None:
        for number, x in enumerate(batch()):
            kernel(x, results[number, ...], *more)

    return step


def measured(case: Written) -> dict[str, Any]:
    """Whether it was compiled and right, and the ratios to the kernel: medians over rounds."""
    pipe, plain = pipeline_with(case.kind, case), plain_pipeline(case)
    right = all(same(pipe.run()[0], plain.run()[0]) for _ in until_settled(pipe, 8))
    state, reason = state_of(pipe)
    found: dict[str, Any] = {"runs as": state, "reason": reason, "right": right}
    found["compiles"] = state == "compiled" or reason.endswith("is not faster")
    if not found["compiles"] or case.kernel is None:
        return found
    like = np.asarray(pipe.run()[0].at(0))
    cached = by_hand(case, like, lambda: DATA[case.kind])
    rows = in_turns(pipe.run, *without_function(case, like), cached)
    found["microseconds by hand"] = 1e6 * statistics.median(kernel - without for _, without, kernel, _ in rows)
    found["ratio"] = statistics.median((full - without) / (kernel - without) for full, without, kernel, _ in rows)
    found["ratio to the cache"] = statistics.median((full - without) / kernel for full, without, _, kernel in rows)
    pipe = pipeline_with(case.kind, case, no_copy=True)
    for _ in until_settled(pipe, 0):
        pipe.run()
    rows = in_turns(pipe.run, *without_function(case, like, no_copy=True))
    found["ratio, nothing copied"] = statistics.median(
        (full - without) / (kernel - without) for full, without, kernel in rows
    )
    return found


def until_settled(pipe: Any, more: int) -> Iterator[None]:
    """Once for each batch until it is decided whether compiled code runs, and for so many after it."""
    begun = time.monotonic()
    while state_of(pipe)[0] in ("not called yet", "compiling", "comparing"):
        if time.monotonic() - begun > LONGEST_SECONDS:
            break
        yield
    for _ in range(more):
        yield


def without_function(case: Written, like: np.ndarray, no_copy: bool = False) -> Sequence[Callable[[], object]]:
    """The pipeline without the function, and the kernel by hand on what another such pipeline returns."""
    empty, other = pipeline_with(case.kind, None, no_copy), pipeline_with(case.kind, None, no_copy)
    return empty.run, by_hand(case, like, lambda: other.run()[0].as_array())


def in_turns(*steps: Callable[[], object]) -> Sequence[Sequence[float]]:
    """Processor seconds of a sample, for each side in each round."""
    for step in steps:
        spent(step, SETTLED)
    return [[spent(step) for step in steps] for _ in range(ROUNDS)]


def main() -> int:
    reading = header(__doc__ or "")
    words = sys.argv[1:]
    results, rows = {}, []
    for case in SET:
        name = case.function.__name__
        if words and name not in words:
            continue
        found = results[name] = measured(case)
        figures = [found.get(key, "") for key in FIGURES]
        rows.append((name, found["runs as"], found["right"], *figures, found["reason"][:70]))
    columns = [
        "function",
        "runs as",
        "right",
        "us by hand",
        "times by hand",
        "nothing copied",
        "times in the cache",
        "reason",
    ]
    table(f"Functions of {SHAPE}", columns, rows)
    ratios = [found["ratio"] for found in results.values() if "ratio" in found]
    strict = [found["ratio, nothing copied"] for found in results.values() if "ratio" in found]
    targets = [
        Target("functions that compile", sum(found["compiles"] for found in results.values()), 20, at_most=False),
        Target(
            "functions whose results are right", sum(found["right"] for found in results.values()), len(results), False
        ),
        Target("median of the times by hand", statistics.median(ratios), 1.1),
        Target(
            "share of the compiled functions within 1.1",
            sum(ratio <= 1.1 for ratio in ratios) / len(ratios),
            1.0,
            False,
        ),
        Target("most times by hand", max(ratios), 1.1),
        Target("most times by hand, nothing copied", max(strict), 1.1),
    ]
    verdicts(targets)
    save("jit_set", reading, results, targets)
    return int(not all(found["right"] for found in results.values()))


if __name__ == "__main__":
    sys.exit(main())
