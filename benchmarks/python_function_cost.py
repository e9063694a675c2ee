"""What does a Python function in the pipeline cost, and how much do a second thread and a released GIL help?

The marginal cost is (the pipeline with the function - the same pipeline without it) / samples. Both pipelines
of a side run in turn within each repetition. pipeflow and DALI run the same pipeline code; only the import
differs. TensorFlow runs its documented equivalent, `tf.numpy_function` in a `tf.data` map.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

BATCH = 256
SETTINGS: dict[str, int] = {}  # work of the heavy functions, calibrated by the parent and equal for all sides


# --- the functions ------------------------------------------------------------------------------------
def identity(x):
    return x


def identity_random(x, rng):  # noqa: ARG001  (the name asks for a generator)
    return x


def hold_gil(x):
    """About 1 ms of interpreted work: a fixed number of steps; with a deadline the calls of threads would overlap."""
    total = 0
    for i in range(SETTINGS["steps"]):
        total += i
    return x


def release_gil(x):
    """About 2 ms of hashing, during which the interpreter is free."""
    hashlib.sha256(memoryview(BUFFER)[: SETTINGS["bytes"]]).digest()
    return x


BUFFER = bytes(32 << 20)


def calibrate() -> dict[str, int]:
    """Finds the amount of work with which the heavy functions take 1 ms and 2 ms on this machine."""

    def best(function: Callable, repeats: int = 15) -> float:
        times = []
        for _ in range(repeats):
            begin = perf_counter()
            function(None)
            times.append(perf_counter() - begin)
        return min(times)

    SETTINGS.update(steps=20_000, bytes=1 << 20)
    steps = int(SETTINGS["steps"] * 1e-3 / best(hold_gil))
    size = min(int(SETTINGS["bytes"] * 2e-3 / best(release_gil)), len(BUFFER))
    SETTINGS.update(steps=steps, bytes=size)
    return SETTINGS


# --- the cases ------------------------------------------------------------------------------------------
def tiny_arrays() -> np.ndarray:
    return np.random.default_rng(0).random((BATCH, 4), dtype=np.float32)


def ragged_images() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    sizes = rng.integers(200, 249, size=(BATCH, 2))
    return [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in sizes]


class Case:
    def __init__(self, function, data=tiny_arrays, batch=BATCH, batches=100, threads=1, ours_only=False, **arguments):
        self.function, self.data, self.batch, self.batches, self.threads = (function, data, batch, batches, threads)
        self.ours_only, self.arguments = ours_only, arguments


CASES = {
    "tiny, per sample": Case(identity),
    "tiny, per batch": Case(identity, batch_processing=True),
    "tiny, takes rng": Case(identity_random, ours_only=True),
    "ragged 224x224x3, per sample": Case(identity, ragged_images, batches=10),
    "holds the GIL 1 ms, 1 thread": Case(hold_gil, batch=32, batches=4),
    "holds the GIL 1 ms, 2 threads": Case(hold_gil, batch=32, batches=4, threads=2),
    "releases the GIL 2 ms, 1 thread": Case(release_gil, batch=32, batches=4),
    "releases the GIL 2 ms, 2 threads": Case(release_gil, batch=32, batches=4, threads=2),
}


def alternate(plain: Callable[[], object], full: Callable[[], object], case: Case) -> Callable[[], Measures]:
    """A repetition: some batches without the function, and as many with it; the queues are filled before each part."""

    def turn(step: Callable[[], object]) -> tuple[float, float]:
        for _ in range(3):
            step()
        begin, cpu = perf_counter(), process_time()
        for _ in range(case.batches):
            step()
        samples = case.batches * case.batch
        return (perf_counter() - begin) / samples, (process_time() - cpu) / samples

    def repetition() -> Measures:
        (without, cpu_without), (with_function, cpu_with) = turn(plain), turn(full)
        return {"without": without, "with": with_function, "cpu": cpu_with - cpu_without}

    return repetition


# --- pipeflow and DALI: the same code ----------------------------------------------------------------
def pipeline_of(library, case: Case, function, **arguments):
    fn = importlib.import_module(f"{library}.fn")
    pipeline_def = importlib.import_module(library).pipeline_def
    data = case.data()[: case.batch]

    def source():
        while True:
            yield data

    @pipeline_def(batch_size=case.batch, num_threads=case.threads, device_id=None, seed=1)
    def pipeline():
        samples = fn.external_source(source, batch=True)
        return fn.python_function(samples, function=function, **case.arguments, **arguments) if function else samples

    pipe = pipeline()
    pipe.build()
    return pipe


def same(outputs, case: Case) -> bool:
    (batch,) = outputs
    return len(batch) == case.batch and all(
        np.array_equal(np.asarray(batch.at(i) if hasattr(batch, "at") else batch[i]), expected)
        for i, expected in enumerate(case.data()[: case.batch])
    )


def wrong_dtype_passes(library) -> bool:
    """True if a pipeline accepts a function whose 200th result has another dtype than the others."""
    calls: Iterator[int] = iter(range(1, 1 << 30))

    def wrong_at_200(x):
        return x.astype(np.float64) if next(calls) == 200 else x

    pipe = pipeline_of(library, Case(wrong_at_200), wrong_at_200)
    try:
        pipe.run()
    except Exception as error:  # the type differs between the libraries; what counts is that it is refused
        print(f"{library} refuses the 200th result: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
        return False
    return True


def prepare_with(library: str, **arguments):
    def prepare(name: str):
        if name == "wrong dtype":
            return lambda: {"passes": float(wrong_dtype_passes(library))}
        case = CASES[name]
        if (case.ours_only and library != "pipeflow") or (arguments and case.threads == 1):
            return None
        plain = pipeline_of(library, case, None)
        full = pipeline_of(library, case, case.function, **arguments)
        repetition = alternate(plain.run, full.run, case)
        return lambda: {**repetition(), "equal": float(same(full.run(), case))}

    return prepare


def prepare_tensorflow(name: str):
    if name == "wrong dtype":
        return None
    tf = importlib.import_module("tensorflow")
    case = CASES[name]
    if case.ours_only:
        return None
    ragged = case.data is ragged_images
    data = case.data()[: case.batch]
    signature = tf.TensorSpec((None, None, 3) if ragged else (4,), tf.uint8 if ragged else tf.float32)

    def pipeline(function):
        whole = case.arguments.get("batch_processing", False)
        if ragged:
            samples = tf.data.Dataset.from_generator(lambda: iter(data), output_signature=signature)
        else:
            samples = tf.data.Dataset.from_tensor_slices(data)
        samples = samples.cache().repeat()
        if function and not whole:
            samples = samples.map(
                lambda x: tf.ensure_shape(tf.numpy_function(function, [x], x.dtype), signature.shape),
                num_parallel_calls=case.threads,
            )
        samples = samples.ragged_batch(case.batch) if ragged else samples.batch(case.batch)
        if function and whole:
            samples = samples.map(lambda x: tf.numpy_function(function, [x], x.dtype))
        options = tf.data.Options()
        options.threading.private_threadpool_size = case.threads
        return iter(samples.with_options(options).prefetch(2))

    plain, full = pipeline(None), pipeline(case.function)
    repetition = alternate(lambda: next(plain), lambda: next(full), case)

    def equal(batch) -> bool:
        rows = [batch[i].to_tensor() if ragged else batch[i] for i in range(case.batch)]
        return all(np.array_equal(row.numpy(), expected) for row, expected in zip(rows, data))

    return lambda: {**repetition(), "equal": float(equal(next(full)))}


SIDES = [
    Side("pipeflow", prepare_with("pipeflow")),
    Side("pipeflow, parallel", prepare_with("pipeflow", parallel="threads")),
    Side("dali", prepare_with("nvidia.dali"), "dali"),
    Side("tf.numpy_function", prepare_tensorflow, "tensorflow", {"TF_CPP_MIN_LOG_LEVEL": "3"}),
]


def marginal(row: Measures) -> float:
    return (row["with"] - row["without"]) * 1e6


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    results = measure(__file__, SIDES, CASES, calibrate())
    wrong = measure(__file__, SIDES[:1], ["wrong dtype"], SETTINGS, repetitions=1)
    rows = []
    for case, by_side in results.items():
        for side, measured in by_side.items():
            middle, low, high = spread(measured, marginal)
            gross = median(measured, lambda row: row["with"] * 1e6)
            cpu = median(measured, lambda row: row["cpu"] * 1e6)
            rows.append((case, side, middle, f"{low:.3g} .. {high:.3g}", gross, cpu))
    table(
        "Microseconds a sample (median of 7 alternated runs)",
        ["case", "side", "marginal", "smallest .. largest", "gross", "marginal CPU time"],
        rows,
    )
    failures = [
        f"{case}: the results of {side} differ from the input"
        for case, by_side in results.items()
        for side, measured in by_side.items()
        if not all(row["equal"] for row in measured)
    ]
    if any(row["passes"] for row in wrong["wrong dtype"]["pipeflow"]):
        failures.append("a function whose 200th result has a wrong dtype passed")

    def cost(case: str, side: str = "pipeflow") -> float:
        return median(results[case][side], marginal)

    targets = [
        Target("tiny, per sample: us", cost("tiny, per sample"), 1.0),
        Target("tiny, per batch: us a sample", cost("tiny, per batch"), 0.5),
        Target("tiny, takes rng: us", cost("tiny, takes rng"), 2.5),
    ]
    if "dali" in results["releases the GIL 2 ms, 2 threads"]:
        case = "releases the GIL 2 ms, 2 threads"
        ratio = cost(case, "dali") / cost(case, "pipeflow, parallel")
        targets.append(Target("releases the GIL, 2 threads: times DALI", ratio, 1.8, at_most=False))
    verdicts(targets)
    save("python_function_cost", reading, results, targets)
    for failure in failures:
        print(f"FAILED: {failure}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
