"""How fast are AutoAugment, RandAugment and TrivialAugment, compared with DALI's own?"""

from __future__ import annotations

import importlib
import sys
import warnings
from time import perf_counter

import numpy as np
from _harness import Measures, Side, Target, header, measure, save, spread, start, table, verdicts

BATCH = 32
BATCHES = 8
SIZE = 224
MODES = ("auto_augment", "rand_augment", "trivial_augment")


def photographs() -> list[np.ndarray]:
    """Smooth shapes with noise on them: some 200 different values in each channel."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    waves = [np.stack([np.sin(6 * (x * a + y * b) + c) for c in range(3)], -1) for a, b in rng.random((BATCH, 2))]
    return [np.clip(128 + 90 * wave + rng.normal(0, 8, wave.shape), 5, 250).astype(np.uint8) for wave in waves]


def prepare(package: str, case: str):
    warnings.simplefilter("ignore")  # DALI's own augmentations use deprecated names of its operators
    library = importlib.import_module(package)
    modules = {name: importlib.import_module(f"{package}.auto_aug.{name}") for name in MODES}
    images = photographs()

    @library.pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=7, enable_conditionals=True)
    def define():
        data = library.fn.external_source(source=lambda: images, batch=True, layout="HWC")
        if case == "auto_augment":
            return modules[case].auto_augment(data, "image_net")
        if case == "rand_augment":
            return modules[case].rand_augment(data, n=2, m=17)
        return modules[case].trivial_augment_wide(data)

    pipe = define()
    pipe.build()

    def repetition() -> Measures:
        begun = perf_counter()
        for _ in range(BATCHES):
            pipe.run()
        return {"an image": (perf_counter() - begun) / (BATCH * BATCHES)}

    return repetition


SIDES = [
    Side("pipeflow", lambda case: prepare("pipeflow", case)),
    Side("DALI", lambda case: prepare("nvidia.dali", case), environment="dali"),
]


def main() -> int:
    reading = header(__doc__ or "")
    results = measure(__file__, SIDES, MODES, {})
    lines, targets = [], []
    for mode, sides in results.items():
        medians = {}
        for side, rows in sides.items():
            medians[side], low, high = spread(rows, lambda row: row["an image"] * 1e6)
            lines.append((mode, side, medians[side], f"{low:.4g} .. {high:.4g}"))
        if "DALI" in medians:
            ratio = medians["DALI"] / medians["pipeflow"]
            targets.append(Target(f"{mode}: times as fast as DALI", ratio, 1.5, at_most=False))
    table(f"Microseconds an image of {SIZE} x {SIZE}, one thread", ["", "side", "median", "smallest .. largest"], lines)
    verdicts(targets)
    save("auto_augment", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
