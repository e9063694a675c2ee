"""Drawn pictures through random arguments and two Python functions, with a picture of what they did.

    python examples/python_functions.py [--batches 20] [--picture python_functions.png]

`tilt` and `swirl` are plain Python functions inside the pipeline, and the loop in `turn` is where a model would be
trained. The pipeline runs with one call after another and with calls side by side on two threads. Both take turns, so that
other programs disturb both. At the end the example says why threads win, or why not on this machine.
"""

import argparse
import os
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    import cv2
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install opencv-python-headless") from None

SIDE = 224
ROUNDS = 5  # turns of each way
ROWS, COLUMNS = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) / SIDE - 0.5
DISTANCES = (np.hypot(ROWS, COLUMNS), np.maximum(abs(ROWS), abs(COLUMNS)), abs(ROWS) + abs(COLUMNS))


def draw(number):
    """A picture of a ring, a frame or a diamond, and which of them it is."""
    rng = np.random.default_rng(number)
    kind = int(rng.integers(3))
    background, colour = rng.integers(0, 90, 3), rng.integers(130, 256, 3)
    inside = (DISTANCES[kind] < rng.uniform(0.2, 0.35)) ^ (DISTANCES[kind] < 0.1)
    return np.where(inside[..., None], colour, background).astype(np.uint8), np.int32(kind)


DATA = [draw(number) for number in range(256)]


def source(sample):
    """One sample of the data set, endlessly; called for every sample of every batch."""
    return DATA[sample.idx_in_epoch % len(DATA)]


def tilt(image, angle):
    """Rotates a picture."""
    matrix = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), float(angle), 1.0)
    return cv2.warpAffine(image, matrix, (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)


def swirl(image, strength):
    """Turns every pixel around the middle, the more the nearer it is."""
    angle = strength * np.exp(-8 * DISTANCES[0])
    cos, sin = np.cos(angle), np.sin(angle)
    columns, rows = COLUMNS * cos + ROWS * sin, ROWS * cos - COLUMNS * sin
    return cv2.remap(
        image, (columns + 0.5) * SIDE, (rows + 0.5) * SIDE, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )


@pipeline_def(batch_size=64, device_id=None, seed=42)
def pipeline(parallel="serial"):
    images, labels = fn.external_source(
        source, num_outputs=2, batch=False, dtype=[types.UINT8, types.INT32], layout=["HWC", None]
    )
    angle = fn.random.uniform(range=(-45.0, 45.0))
    strength = fn.random.normal(mean=0.0, stddev=3.0)
    tilted = fn.python_function(images, angle, function=tilt, output_layouts="HWC", parallel=parallel)
    swirled = fn.python_function(tilted, strength, function=swirl, output_layouts="HWC", parallel=parallel)
    return images, swirled, (swirled - 127.5) / 64.0, labels


def turn(pipe, batches):
    """Seconds, seconds on processors, and the last batch."""
    begin, begin_processor = perf_counter(), process_time()
    for _ in range(batches):
        outputs = pipe.run()
    return perf_counter() - begin, process_time() - begin_processor, outputs


def reason(gain, used):
    """Why threads win, or why not; `used` is the number of processors that worked during the turns with threads."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if gain > 1.15:
        return (
            f"threads win, {gain:.2f} times: OpenCV and NumPy let go of the interpreter's lock while they compute, so "
            f"{used:.1f} processors worked at the same time"
        )
    if processors < 2:
        return f"threads do not win here ({gain:.2f} times): this machine has one processor"
    if used < 1.4:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        return (
            f"threads do not win here ({gain:.2f} times): they got {used:.1f} of {processors} processors, because other "
            f"programs are at work (load {load:.1f}) or the functions hold the interpreter's lock; try again on an idle machine"
        )
    return (
        f"threads do not win here ({gain:.2f} times), although {used:.1f} processors worked: the memory or the caches that "
        "they share are the limit"
    )


def contact_sheet(before, after, columns=8):
    """The first pictures of a batch, each above what became of it."""
    rows = [np.concatenate([batch.at(i)[::2, ::2] for i in range(columns)], 1) for batch in (before, after)]
    return np.concatenate(rows, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "python_functions.png")
    options = parser.parse_args()
    cv2.setNumThreads(1)

    print(f"{options.batches} batches of 64 pictures, {SIDE} x {SIDE}: tilt, swirl, normalise")
    ways = {"one call after another": pipeline(num_threads=1)}
    ways["calls side by side"] = pipeline(num_threads=2, parallel="threads")
    seconds, processor = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for pipe in ways.values():
        turn(pipe, 1)  # the first batch compiles and fills the queue
    each = max(1, options.batches // ROUNDS)
    for _ in range(options.batches // each):
        for how, pipe in ways.items():
            lasted, worked, (before, after, normalised, labels) = turn(pipe, each)
            seconds[how] += lasted
            processor[how] += worked
    count = 64 * each * (options.batches // each)
    for (how, lasted), threads in zip(seconds.items(), ("1 thread ", "2 threads")):
        print(f"  {threads}, {how:<22} {count / lasted:6,.0f} images/s")
    alone, together = seconds.values()
    print(reason(alone / together, processor["calls side by side"] / together))
    batch = normalised.as_array()
    print(f"last batch: {batch.shape} {batch.dtype}, mean {batch.mean():+.3f}, labels {labels.as_array()[:8]} ...")

    options.picture.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(options.picture), contact_sheet(before, after)[..., ::-1])
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
