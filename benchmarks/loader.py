"""How does `pipeflow.loader` compare with torch's DataLoader, and SPDL, on one Dataset as it stands, with two workers?

Three Datasets: one that holds the GIL for half a millisecond an item, one that draws and resizes with Pillow, one that takes
rows of arrays. The clock of a machine with other work says little, so the CPU time of all processes of a side is there too: a
worker for each of two free processors takes half of it. The memory of a worker is its proportional share (PSS) and what is its
own (USS), read while a loop runs. The first batch is that of four workers, from the call of the loader.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts
from worker_processes import processor_seconds

WORKERS = 2
ROUNDS = 5
HEAVY, PILLOW, NUMERIC = "Python-heavy", "Pillow", "numeric"
FIRST = "first batch of 4 workers"
SIZES = {HEAVY: (1600, 16), PILLOW: (800, 16), NUMERIC: (60000, 256)}  # items, batch
CASES = [*SIZES, FIRST]


def data_set(case: str):
    """The Dataset of a case: plain Python, without a base class."""
    rng = np.random.default_rng(0)
    size, _ = SIZES.get(case, (4000, 16))

    class Heavy:
        def __len__(self):
            return size

        def __getitem__(self, index):
            total = 0
            for step in range(12000):
                total += step & index
            return np.full((32, 32), total % 251, np.uint8), index

    class Pillow:
        def __init__(self):
            self.image = importlib.import_module("PIL.Image")
            self.pixels = rng.integers(0, 256, (8, 300, 400, 3), dtype=np.uint8)

        def __len__(self):
            return size

        def __getitem__(self, index):
            image = self.image.fromarray(self.pixels[index % 8]).resize((224, 224), self.image.BILINEAR)
            return {"image": np.asarray(image).transpose(2, 0, 1).copy(), "label": index % 10}

    class Numeric:
        def __init__(self):
            self.x, self.y = rng.standard_normal((size, 32), dtype=np.float32), rng.integers(0, 10, size)

        def __len__(self):
            return size

        def __getitem__(self, index):
            return self.x[index], self.y[index]

    return {HEAVY: Heavy, PILLOW: Pillow, NUMERIC: Numeric}.get(case, Pillow)()


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


def prepare_with(library: str):
    def prepare(case: str):
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
            call = importlib.import_module("spdl.dataloader").PyTorchDataLoader

            def loader():
                return call(data, batch_size=batch, num_workers=workers)

        def repetition() -> Measures:
            if case == FIRST:
                begin = perf_counter()
                batches = iter(loader())
                next(batches)
                return {"first": perf_counter() - begin}
            begin, worked = perf_counter(), processor_seconds()
            first, pss, uss = pass_over(loader)
            return {
                "clock": perf_counter() - begin,
                "processor": processor_seconds() - worked,
                "first": first,
                "pss": pss,
                "uss": uss,
            }

        return repetition

    return prepare


SIDES = [
    Side("pipeflow", prepare_with("pipeflow"), "torch"),
    Side("torch", prepare_with("torch"), "torch"),
    Side("spdl", prepare_with("spdl"), "torch"),
]
