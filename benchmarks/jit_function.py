"""How much faster is `jit=True` or `jit="auto"` than the plain Python loop, and how much slower than a kernel written by hand?

The marginal cost of a step is (the pipeline with the function - the same pipeline without it) / samples. The hand-written kernel
is called in a loop over the samples of the batch that the pipeline without the function returns, and writes into memory that was
allocated before; its cost too is less that of this pipeline. The pipeline with `jit="auto"` is measured once its compiled code
has taken over. All times are CPU time; the pipelines have one thread. A turn is as long for each kernel: it has fewer batches if
the kernel takes milliseconds. The plain loop takes up to a fifth of a second a sample, so its batches have one sample.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time

import numba
import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

SHAPE = (224, 224, 3)  # 150 kB
BATCH = 32
MOST_BATCHES, LEAST_BATCHES = 12, 3  # of a turn
TURN_SECONDS = 0.25  # that the kernel takes in a turn
SETTLED = 24  # batches before the first measurement: a chain looks for compiled code again after 16
TRIES = 50  # batches until compiled code has taken over, at most


# --- the functions: plain Python, and the same by hand -------------------------------------------------
def gamma(x):
    result = np.empty(x.shape, np.uint8)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = 255.0 * (x[i, j, c] / 255.0) ** 0.8
    return result


def contrast(x):
    result = np.empty(x.shape, np.uint8)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = min(max(1.5 * x[i, j, c] - 20.0, 0.0), 255.0)
    return result


def inverted(x):
    result = np.empty(x.shape, np.uint8)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = 255 - int(x[i, j, c]) if x[i, j, c] > 100 else x[i, j, c]
    return result


@numba.njit(nogil=True)
def gamma_kernel(x, result):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = 255.0 * (x[i, j, c] / 255.0) ** 0.8


@numba.njit(nogil=True)
def contrast_kernel(x, result):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = min(max(1.5 * x[i, j, c] - 20.0, 0.0), 255.0)


@numba.njit(nogil=True)
def inverted_kernel(x, result):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = 255 - int(x[i, j, c]) if x[i, j, c] > 100 else x[i, j, c]


CASES: dict[str, tuple[Callable, Callable]] = {
    "gamma curve": (gamma, gamma_kernel),
    "contrast, clipped": (contrast, contrast_kernel),
    "bright values inverted": (inverted, inverted_kernel),
}
AUTO = {"bright values inverted": "auto"}  # the others may round in the last bit: they need a tolerance
DATA = np.random.default_rng(0).integers(0, 256, (BATCH, *SHAPE)).astype(np.uint8)


# --- the sides ------------------------------------------------------------------------------------------
def pipeline_with(function: Callable | None, samples: int, **arguments: object):
    from pipeflow import fn, pipeline_def  # only the sides that need it load it

    @pipeline_def(batch_size=samples, num_threads=1, seed=1)
    def pipeline():
        data = fn.external_source(lambda: DATA[:samples])
        return data if function is None else fn.python_function(data, function=function, **arguments)

    pipe = pipeline()
    pipe.build()
    return pipe


def turn(step: Callable[[], object], batches: int, samples: int = BATCH) -> float:
    step()
    step()
    begin = process_time()  # of all threads of this process: the work of other programs is not counted
    for _ in range(batches):
        step()
    return (process_time() - begin) / (batches * samples)


def batches_of(kernel: Callable) -> int:
    """The number of batches of a turn."""
    result = np.empty(SHAPE, np.uint8)
    kernel(DATA[0], result)
    begin = process_time()
    kernel(DATA[0], result)
    batch = (process_time() - begin) * BATCH
    return max(LEAST_BATCHES, min(MOST_BATCHES, int(TURN_SECONDS / batch)))


def prepare_pipeline(samples: int = BATCH, **arguments: object):
    def prepare(name: str):
        given = dict(arguments)
        function, kernel = CASES[name]
        batches = batches_of(kernel)
        if given.get("jit") == "auto":
            given["jit"] = AUTO.get(name, "auto:1e-6")
        plain, full = pipeline_with(None, samples), pipeline_with(function, samples, **given)
        expected = np.empty(SHAPE, np.uint8)
        kernel(DATA[0], expected)
        if isinstance(given.get("jit"), str) and not any(compiled(full) for _ in range(TRIES)):
            raise SystemExit(f"compiled code has not taken over: {full.settings()}")
        for _ in range(SETTLED if "jit" in given else 0):  # the first batches load code
            full.run()

        def repetition() -> Measures:
            times = {
                "without": turn(plain.run, batches, samples),
                "with": turn(full.run, batches if "jit" in given else 1, samples),
            }
            return {**times, "equal": float(np.array_equal(full.run()[0].at(0), expected))}

        return repetition

    return prepare


def compiled(pipe) -> bool:
    """True once compiled code has taken over."""
    pipe.run()
    return any(choice.name.startswith("jit of") and choice.value == "compiled" for choice in pipe.settings())


def prepare_by_hand(name: str):
    kernel = CASES[name][1]
    batches = batches_of(kernel)
    results = np.empty(DATA.shape, np.uint8)
    plain = pipeline_with(None, BATCH)

    def step() -> None:
        for x, result in zip(plain.run()[0].as_array(), results):
            kernel(x, result)

    return lambda: {"without": turn(plain.run, batches), "with": turn(step, batches), "equal": 1.0}


SIDES = [
    Side("plain Python", prepare_pipeline(1)),
    Side("jit=True", prepare_pipeline(jit=True)),
    Side('jit="auto"', prepare_pipeline(jit="auto")),
    Side("by hand", prepare_by_hand),
]


def marginal(row: Measures) -> float:
    return (row["with"] - row["without"]) * 1e6


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    results = measure(__file__, SIDES, CASES, {}, repetitions=5)
    rows = []
    targets = []
    for case, by_side in results.items():
        for side, measured in by_side.items():
            middle, low, high = spread(measured, marginal)
            rows.append((case, side, middle, f"{low:.4g} .. {high:.4g}"))
        cost = {side: median(measured, marginal) for side, measured in by_side.items()}
        gain = cost["plain Python"] / cost["jit=True"]
        targets.append(Target(f"{case}: times the plain loop", gain, 20.0, at_most=False))
        targets.append(Target(f"{case}: times by hand", cost["jit=True"] / cost["by hand"], 1.05))
        automatic = cost['jit="auto"'] / cost["by hand"]
        targets.append(Target(f'{case}: jit="auto", times by hand', automatic, 1.05))
    title = f"Microseconds a sample of {'x'.join(map(str, SHAPE))} (median of 5 alternated runs)"
    table(title, ["case", "side", "marginal", "smallest .. largest"], rows)
    verdicts(targets)
    save("jit_function", reading, results, targets)
    wrong = [case for case, sides in results.items() if not all(row["equal"] for s in sides.values() for row in s)]
    for case in wrong:
        print(f"FAILED: {case}: the results differ from the kernel written by hand")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
