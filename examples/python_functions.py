"""Drawn pictures through random arguments and two Python functions, with a picture of what they did.

    python examples/python_functions.py [--batches 20] [--picture python_functions.png]

`tilt` and `swirl` are plain Python functions inside the pipeline, and the loop in `run` is where a model would be
trained. It runs the pipeline with one function at a time and with two threads side by side.
"""

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    import cv2
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install opencv-python-headless") from None

SIDE = 224
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


def run(batches, threads, parallel):
    """Images a second, and the last batch."""
    pipe = pipeline(num_threads=threads, parallel=parallel)
    pipe.build()
    outputs = pipe.run()
    begin = perf_counter()
    for _ in range(batches):
        outputs = pipe.run()
    return batches * pipe.max_batch_size / (perf_counter() - begin), outputs


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
    for threads, parallel in ((1, "serial"), (2, "threads")):
        speed, (before, after, normalised, labels) = run(options.batches, threads, parallel)
        how = "side by side" if parallel == "threads" else "one call after another"
        print(f"  {threads} thread{'s' if threads > 1 else ' '}, functions {how}: {speed:,.0f} images/s")
    batch = normalised.as_array()
    print(f"last batch: {batch.shape} {batch.dtype}, mean {batch.mean():+.3f}, labels {labels.as_array()[:8]} ...")

    options.picture.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(options.picture), contact_sheet(before, after)[..., ::-1])
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
