"""How fast is `pipeflow.loader` on an unchanged Dataset with two workers, compared with torch's DataLoader and SPDL?

There are three Datasets: one holds the GIL for half a millisecond per item, one draws and resizes with Pillow, and one
takes rows of arrays. One more side is two processes that only read the items: no loader can be faster than they are.
On a machine with other work the time of the clock says little, so the table also has the CPU time of all processes of
a side: on two free processors two workers would need half of it. The memory of a worker is its proportional share
(PSS) and its own part (USS), read while a loop runs. The time to the first batch is measured with four workers, from
the call of the loader.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

WORKERS = 2
ROUNDS = 5
HEAVY, PILLOW, NUMERIC = "Python-heavy", "Pillow", "numeric"
FIRST = "first batch of 4 workers"
SIZES = {HEAVY: (1600, 16), PILLOW: (800, 16), NUMERIC: (60000, 256)}  # items, batch
CASES = [*SIZES, FIRST]


class Heavy:
    """Holds the GIL."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        total = 0
        for step in range(12000):
            total += step & index
        return np.full((32, 32), total % 251, np.uint8), index


class Pillow:
    """Resizes by Pillow."""

    def __init__(self, size):
        self.size = size
        self.image = None
        self.pixels = np.random.default_rng(0).integers(0, 256, (8, 300, 400, 3), dtype=np.uint8)

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        self.image = self.image or importlib.import_module("PIL.Image")
        image = self.image.fromarray(self.pixels[index % 8]).resize((224, 224), self.image.BILINEAR)
        return {"image": np.asarray(image).transpose(2, 0, 1).copy(), "label": index % 10}


class Numeric:
    """Takes rows."""

    def __init__(self, size):
        rng = np.random.default_rng(0)
        self.x, self.y = rng.standard_normal((size, 32), dtype=np.float32), rng.integers(0, 10, size)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def data_set(case: str):
    """The Dataset of a case: plain Python, without a base class."""
    size, _ = SIZES.get(case, (4000, 16))
    return {HEAVY: Heavy, PILLOW: Pillow, NUMERIC: Numeric}.get(case, Pillow)(size)


def memory_of_children() -> tuple[float, float]:
    """(PSS, USS) in MB of the largest process below this one."""
    found = [(0.0, 0.0)]
    parents = {}
    for folder in os.listdir("/proc"):
        if folder.isdigit():
            with contextlib.suppress(OSError):
                parents[int(folder)] = int(Path(f"/proc/{folder}/stat").read_text().rpartition(")")[2].split()[1])
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if process == os.getpid() or above != os.getpid():
            continue
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
            sizes = {line.split()[0]: int(line.split()[1]) / 1024 for line in lines}
            found.append((sizes["Pss:"], sizes["Private_Clean:"] + sizes["Private_Dirty:"]))
    return max(found)


def pass_over(loader) -> tuple[float, float, float]:
    """Seconds to the first batch, PSS and USS of a worker, of a whole epoch."""
    begin = perf_counter()
    first, memory, batches = 0.0, (0.0, 0.0), 0
    for number, _ in enumerate(loader()):
        first = first or perf_counter() - begin
        batches = number + 1
        if number == 20:
            memory = memory_of_children()
    assert batches
    return first, *memory


def read_alone(case: str) -> Measures:
    """The items of an epoch, read by two processes that do nothing else: no loader can be faster."""
    data = data_set(case)
    size = SIZES.get(case, (4, 0))[0]
    begin, worked = perf_counter(), sum(os.times()[:4])
    children = []
    for number in range(WORKERS):
        children.append(os.fork())
        if not children[-1]:
            for index in range(number, size, WORKERS):
                data[index]
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    clock = perf_counter() - begin
    return {"clock": clock, "processor": sum(os.times()[:4]) - worked, "first": 0.0, "pss": 0.0, "uss": 0.0}


def prepare_with(library: str):
    def prepare(case: str):
        if library == "alone":
            return partial(read_alone, case)
        torch_data = importlib.import_module("torch.utils.data")
        importlib.import_module("torch").set_num_threads(1)
        data = data_set(case)
        _, batch = SIZES.get(case, (0, 16))
        workers = 4 if case == FIRST else WORKERS
        if library == "torch":

            def loader():
                return torch_data.DataLoader(data, batch, num_workers=workers)

        elif library == "pipeflow":
            call = importlib.import_module("pipeflow").loader

            def loader():
                return call(data, batch, num_workers=workers)

        else:
            call = importlib.import_module("spdl.dataloader").get_pytorch_dataloader

            def loader():
                return call(data, batch_size=batch, num_workers=workers)

        def repetition() -> Measures:
            if case == FIRST:
                begin = perf_counter()
                batches = iter(loader())
                next(batches)
                return {"first": perf_counter() - begin}
            begin, worked = perf_counter(), sum(os.times()[:4])
            first, pss, uss = pass_over(loader)
            return {
                "clock": perf_counter() - begin,
                "processor": sum(os.times()[:4]) - worked,
                "first": first,
                "pss": pss,
                "uss": uss,
            }

        return repetition

    return prepare


SIDES = [
    Side("pipeflow", prepare_with("pipeflow"), "loader"),
    Side("torch", prepare_with("torch"), "loader"),
    Side("spdl", prepare_with("spdl"), "loader"),
    Side("data set alone", prepare_with("alone"), "loader"),
]


def main() -> None:
    """Prints every figure, and the targets."""
    reading = header(__doc__)
    results = measure(__file__, SIDES, CASES, {}, ROUNDS)
    rows, targets = [], []
    for case in SIZES:
        sides = results[case]
        items = SIZES[case][0]
        own = sides["pipeflow"]
        for name, measured in sides.items():
            clock, least, most = spread(measured, lambda row: items / row["clock"])  # noqa: B023
            rows.append(
                (
                    case,
                    name,
                    clock,
                    f"{least:.3g}..{most:.3g}",
                    median(measured, lambda row: items / row["processor"]),  # noqa: B023
                    1000 * median(measured, lambda row: row["first"]),
                    median(measured, lambda row: row["pss"]),
                    median(measured, lambda row: row["uss"]),
                )
            )
        if "torch" in sides:
            for kind in ("clock", "processor"):
                faster = median(sides["torch"], lambda row: row[kind]) / median(own, lambda row: row[kind])  # noqa: B023
                what = "time" if kind == "clock" else "processor time"
                targets.append(Target(f"{case}: {what} of torch / pipeflow", faster, 1.2, at_most=False))
            bound = median(sides["torch"], lambda row: row["processor"]) / median(
                sides["data set alone"], lambda row: row["processor"]
            )
            targets.append(
                Target(
                    f"{case}: processor time of torch / data set alone, the most that can be", bound, 1.0, at_most=False
                )
            )
            share = median(own, lambda row: row["uss"]) / median(sides["torch"], lambda row: row["uss"])
            targets.append(Target(f"{case}: a worker's own memory, part of torch's", share, 0.25))
    header_line = ["data set", "side", "items/s", "range", "items/s of processor", "first ms", "PSS MB", "USS MB"]
    table("An epoch with two workers", header_line, rows)
    first = {
        name: 1000 * median(measured, lambda row: row["first"])
        for name, measured in results[FIRST].items()
        if name != "data set alone"
    }
    table("First batch of four workers", ["side", "ms"], first.items())
    targets.append(Target("first batch of 4 workers, s", first["pipeflow"] / 1000, 0.5))
    verdicts(targets)
    save("loader", reading, results, targets)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
