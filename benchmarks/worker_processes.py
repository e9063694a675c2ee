"""What do worker processes cost, how long is their start, and how much do two of them help if a function holds the GIL?

The function of about 1 ms is the same fixed number of interpreted steps on every side. DALI and pipeflow run the same
pipeline code; torch runs its documented equivalent, a Dataset whose items are made in two workers of a DataLoader. Two
workers use both cores, so on a machine with other work the times of the clock say little. The CPU time of all
processes of a side, as a multiple of the function's own time, is a better figure: with both cores free the time would
be half of it. The overhead of worker processes is the time per image that a function which returns its input adds to a
pipeline, for the way to the worker and back; with and without the function the images come from a source on the
pipeline's threads.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time, sleep

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts
from python_function_cost import SETTINGS, calibrate, hold_gil

BATCH = 32
BATCHES = 24
SETTLE = 0.3  # seconds after a turn, so that workers finish the batches they make ahead before the next side's turn
WORKERS = 2
IMAGES = np.random.default_rng(0).integers(0, 256, (BATCH, 224, 224, 3), dtype=np.uint8)

HEAVY = "holds the GIL 1 ms"
IDENTITY = "overhead of a 150 kB image in and out"
STARTING = "start of 2 workers"
REPLACING = "replacement of a dead worker"
CASES = [HEAVY, IDENTITY, STARTING, REPLACING]


def identity(x):
    return x


def heavy(steps: int):
    """The function with its work as a plain number, so that it means the same in every process."""

    def hold(x):
        total = 0
        for i in range(steps):
            total += i
        return x

    return hold


def turn(step, batches: int = BATCHES) -> float:
    """Seconds per sample; the queues are filled before."""
    for _ in range(5):
        step()
    begin = perf_counter()
    for _ in range(batches):
        step()
    seconds = (perf_counter() - begin) / (batches * BATCH)
    sleep(SETTLE)
    return seconds


def processor_seconds() -> float:
    """The CPU time of this process and of all its descendants, without threads that have ended."""
    parents: dict[int, int] = {}
    for folder in os.listdir("/proc"):
        if folder.isdigit():
            with contextlib.suppress(OSError):
                parents[int(folder)] = int(Path(f"/proc/{folder}/stat").read_text().rpartition(")")[2].split()[1])
    family = {os.getpid()}
    for process in sorted(parents):
        line = [process]
        while line[-1] in parents and line[-1] not in family:
            line.append(parents[line[-1]])
        if line[-1] in family:
            family.update(line)
    total = 0
    for process in family:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                total += int(Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()[0])
    return total / 1e9


def measured(step, is_equal) -> Measures:
    """One turn of a side with the function that holds the GIL, and the CPU time of all its processes together."""
    begin = processor_seconds()
    seconds = turn(step)
    worked = processor_seconds() - begin
    samples = (BATCHES + 5) * BATCH
    alone = process_time()
    for image in IMAGES:
        hold_gil(image)
    alone = (process_time() - alone) / BATCH
    return {"seconds": seconds, "work": worked / samples / alone, "equal": float(is_equal())}


# --- pipelines -----------------------------------------------------------------------------------------
def pipeline_of(library: str, function, **arguments):
    fn = importlib.import_module(f"{library}.fn")
    ours = library == "pipeflow"
    rows = list(IMAGES)

    def source():
        while True:
            yield rows

    options = {"py_num_workers": WORKERS} if ours else {}

    @importlib.import_module(library).pipeline_def(
        batch_size=BATCH, num_threads=WORKERS, device_id=None, seed=1, **options
    )
    def pipeline():
        images = fn.external_source(source, batch=True)
        return images if function is None else fn.python_function(images, function=function, **arguments)

    pipe = pipeline()
    pipe.build()
    return pipe


def prepare_pipeflow(name: str):
    if name == STARTING:
        return lambda: {"seconds": in_a_new_process("time_to_two_workers()")}
    if name == REPLACING:
        return lambda: {"seconds": time_to_replacement()}
    if name == IDENTITY:
        bare, called = pipeline_of("pipeflow", None), pipeline_of("pipeflow", identity, parallel="processes")
        return lambda: overhead(bare.run, called.run)
    pipe = pipeline_of("pipeflow", heavy(SETTINGS["steps"]), parallel="processes")
    return lambda: measured(pipe.run, lambda: equal(pipe.run()[0]))


def prepare_dali(name: str):
    if name != HEAVY:
        return None
    pipe = pipeline_of("nvidia.dali", hold_gil)
    return lambda: measured(pipe.run, lambda: equal(pipe.run()[0]))


def equal(batch) -> bool:
    return all(np.array_equal(np.asarray(batch.at(i)), image) for i, image in enumerate(IMAGES))


def prepare_torch(name: str):
    if name != HEAVY:
        return None
    torch = importlib.import_module("torch")
    data = importlib.import_module("torch.utils.data")

    class Images(data.Dataset):
        def __len__(self):
            return BATCH * 1_000_000

        def __getitem__(self, i):
            return torch.from_numpy(hold_gil(IMAGES[i % BATCH]))

    loader = iter(data.DataLoader(Images(), batch_size=BATCH, num_workers=WORKERS))
    return lambda: measured(lambda: next(loader), lambda: np.array_equal(next(loader).numpy(), IMAGES))


# --- the pool alone --------------------------------------------------------------------------------------
def new_pool():
    return importlib.import_module("pipeflow.executor.workers.pool").WorkerPool(WORKERS)


def in_a_new_process(call: str) -> float:
    """The result of a function of this file in a process that has only imported the library."""
    program = f"import pipeflow, worker_processes; print(worker_processes.{call})"
    folder = __file__.rpartition("/")[0]
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return float(result.stdout)


def time_to_two_workers() -> float:
    """Seconds from the start until both workers have returned a result, with the start of the fork server."""
    begin = perf_counter()
    pool = new_pool()
    handle = pool.register(lambda: os.getpid())
    answered: set[int] = set()
    while len(answered) < WORKERS:
        tickets = [pool.submit(handle, [()]) for _ in range(WORKERS)]
        answered.update(pid for ticket in tickets for pid in ticket.result())
    seconds = perf_counter() - begin
    pool.close()
    return seconds


def time_to_replacement() -> float:
    """Seconds from the kill of one of two workers until the worker that replaces it has answered."""
    with new_pool() as pool:
        handle = pool.register(lambda: os.getpid())
        before: set[int] = set()
        while len(before) < WORKERS:
            tickets = [pool.submit(handle, [()]) for _ in range(WORKERS)]
            before.update(pid for ticket in tickets for pid in ticket.result())
        begin = perf_counter()
        os.kill(min(before), signal.SIGKILL)
        while True:
            tickets = [pool.submit(handle, [()]) for _ in range(WORKERS)]
            if any(pid not in before for ticket in tickets for pid in ticket.result()):
                return perf_counter() - begin


def overhead(bare, called) -> Measures:
    """The time that the function adds to a sample: by the clock, and as CPU time of this process's two threads."""
    begin = process_time()
    without = turn(bare, 40)
    between = process_time()
    seconds = turn(called, 40)
    samples = (40 + 5) * BATCH
    return {
        "seconds": seconds - without,
        "cpu": (process_time() - 2 * between + begin) / samples,
        "equal": float(equal(called()[0])),
    }


SIDES = [
    Side("pipeflow", prepare_pipeflow),
    Side("dali", prepare_dali, "dali"),
    Side("torch DataLoader", prepare_torch, "torch"),
]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    results = measure(__file__, SIDES, CASES, calibrate())
    rows = []
    for case, by_side in results.items():
        for side, measured in by_side.items():
            unit, scale = ("us a sample", 1e6) if case in (HEAVY, IDENTITY) else ("ms", 1e3)
            middle, low, high = spread(measured, lambda row, scale=scale: row["seconds"] * scale)
            rows.append((case, side, unit, middle, f"{low:.3g} .. {high:.3g}"))
    for side, runs in results[HEAVY].items():
        middle, low, high = spread(runs, lambda row: row["work"])
        rows.append(
            (f"{HEAVY}: CPU time of all processes", side, "times the function", middle, f"{low:.3g} .. {high:.3g}")
        )
    here = spread(results[IDENTITY]["pipeflow"], lambda row: row["cpu"] * 1e6)
    rows.append((IDENTITY, "of it CPU time of this process", "us a sample", here[0], f"{here[1]:.3g} .. {here[2]:.3g}"))
    table("Medians of 7 runs in turn", ["case", "side", "unit", "median", "smallest .. largest"], rows)

    def seconds(case: str, side: str = "pipeflow") -> float:
        return median(results[case][side], lambda row: row["seconds"])

    targets = [
        Target("overhead of an image in and out: us", seconds(IDENTITY) * 1e6, 30.0),
        Target("start of 2 workers: ms", seconds(STARTING) * 1e3, 500.0),
        Target("replacement of a dead worker: ms", seconds(REPLACING) * 1e3, 50.0),
    ]
    for side, times in (("dali", 1.75), ("torch DataLoader", 1.1)):
        if side in results[HEAVY]:
            ratio = seconds(HEAVY, side) / seconds(HEAVY)
            targets.append(Target(f"1 ms holding the GIL, 2 workers: times {side}", ratio, times, at_most=False))
    verdicts(targets)
    save("worker_processes", reading, results, targets)
    failures = [
        f"{case}: the results of {side} differ from the input"
        for case, by_side in results.items()
        for side, measured in by_side.items()
        if not all(row.get("equal", 1.0) for row in measured)
    ]
    for failure in failures:
        print(f"FAILED: {failure}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
