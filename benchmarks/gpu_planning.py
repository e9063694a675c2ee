"""What does the host do for a batch on the GPU, and how long does it take?

    python benchmarks/gpu_planning.py [names of cases]

The host draws random numbers, computes windows, and writes the descriptors of all launches. Here the device is a
runtime that does nothing, so no GPU is needed and only the host is measured: processor time of a batch of 128 images of
different sizes, minus that of a pipeline that only copies them with ``.gpu()``. The images are small, because what a
copy takes is not the subject. The shapes of two hundred batches differ, so that nothing is found in a cache of shapes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Callable
from time import thread_time
from types import SimpleNamespace
from typing import Any

import numpy as np
from _harness import Target, header, save, table, verdicts

from pipeflow import backends, fn, pipeline_def, types

BATCH, BATCHES, ROUNDS = 128, 40, 7
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
RNG = np.random.default_rng(0)


class NullRuntime:
    """A device.runtime.Runtime that queues nothing; addresses are numbers without memory."""

    module = np
    device = (2, 0)
    copying, computing, returning = (SimpleNamespace(ptr=number) for number in (11, 12, 13))

    def __init__(self) -> None:
        self._end = 1 << 40

    def active(self) -> Any:
        return contextlib.nullcontext()

    def using(self, _stream: Any) -> Any:
        return contextlib.nullcontext()

    def event(self) -> Any:
        return object()

    def external(self, handle: int) -> Any:
        return handle

    def current(self) -> int:
        return 1

    def holder(self, _handle: int) -> Any:
        return None

    def allocate(self, nbytes: int) -> Any:
        self._end += nbytes + 4096 & -4096
        return SimpleNamespace(address=self._end - (nbytes + 4096 & -4096), nbytes=nbytes)

    def pinned(self, nbytes: int) -> np.ndarray:
        return np.zeros(nbytes, np.uint8)

    def done(self, _event: Any) -> bool:
        return True

    def _nothing(self, *_: Any) -> None:
        """Work that a device would do."""

    record = wait = synchronize = drain = drain_all = free = upload = download = copy = launch = run = _nothing
    prepare = require = close = _nothing


def batches() -> Any:
    """Batches of images whose heights and widths all differ."""
    pool = RNG.integers(0, 256, 1 << 16, np.uint8)
    for _ in range(200):
        sizes = RNG.integers(20, 90, (BATCH, 2))
        yield [pool[: 3 * height * width].reshape(height, width, 3) for height, width in sizes.tolist()]


IMAGES = list(batches())


def random_resized_crop(images: Any) -> Any:
    return fn.random_resized_crop(images, size=(224, 224))


def crop_mirror_normalize(images: Any) -> Any:
    return fn.crop_mirror_normalize(images, crop=(16, 16), mirror=fn.random.coin_flip(), mean=MEAN, std=STD)


def flip(images: Any) -> Any:
    return fn.flip(images, horizontal=fn.random.coin_flip())


def color_twist(images: Any) -> Any:
    def drawn() -> Any:
        return fn.random.uniform(range=(0.5, 1.5))

    return fn.color_twist(images, hue=drawn(), saturation=drawn(), brightness=drawn(), contrast=drawn())


def chain(images: Any) -> Any:
    images = fn.random_resized_crop(fn.resize(images, resize_shorter=256), size=(224, 224))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=MEAN, std=STD, dtype=types.FLOAT16)


def crop(images: Any) -> Any:
    return fn.crop(images, crop=(16, 16), crop_pos_x=fn.random.uniform(range=(0.0, 1.0)))


def resize(images: Any) -> Any:
    return fn.resize(images, size=(224, 224))


def cast(images: Any) -> Any:
    return fn.cast(images, dtype=types.FLOAT)


def brightness_contrast(images: Any) -> Any:
    return fn.brightness_contrast(images, brightness=fn.random.uniform(range=(0.5, 1.5)), contrast=1.2)


CASES = {case.__name__: case for case in (random_resized_crop, crop_mirror_normalize, flip, color_twist, crop, resize)}
CASES |= {case.__name__: case for case in (cast, brightness_contrast, chain)}
AIMS = dict.fromkeys(("random_resized_crop", "crop_mirror_normalize", "flip", "color_twist"), 0.5) | {"chain": 1.5}


def pipeline(change: Callable[[Any], Any] | None) -> Any:
    """A pipeline that makes its batches in the calling thread."""

    def define() -> Any:
        images = fn.external_source(IMAGES, cycle="quiet", no_copy=True, layout="HWC").gpu()
        return images if change is None else change(images)

    options = {"batch_size": BATCH, "num_threads": 1, "device_id": 0, "seed": 1}
    pipe = pipeline_def(define, **options, exec_pipelined=False, exec_async=False, prefetch_queue_depth=1)()
    for _ in range(3):
        pipe.run()
    return pipe


def milliseconds(pipe: Any) -> float:
    """Processor time of the calling thread for a batch."""
    begun = thread_time()
    for _ in range(BATCHES):
        pipe.run()
    return (thread_time() - begun) / BATCHES * 1e3


WINDOW = np.dtype([("place", "<u8"), ("top", "<f4"), ("left", "<f4"), ("height", "<f4"), ("width", "<f4")], align=True)


def yardstick(heights: np.ndarray, widths: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """A fixed piece of work with NumPy: ten random windows for each image, of which the first that fits is chosen. Its time tells
    how fast a machine is at such work, so that figures of different machines can be compared.
    """
    numbers = keys[:, None] + np.arange(1, 41, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    drawn = ((numbers >> np.uint64(11)) * 2.0**-53).reshape(len(keys), 10, 4)
    areas = (heights * widths)[:, None] * (0.1 + 0.9 * drawn[:, :, 0])
    ratios = np.exp(np.log(0.75) + drawn[:, :, 1] * np.log(16 / 9))
    tall, wide = np.rint(np.sqrt(areas / ratios)), np.rint(np.sqrt(areas * ratios))
    fits = (tall > 0) & (wide > 0) & (tall <= heights[:, None]) & (wide <= widths[:, None])
    rows, first = np.arange(len(keys)), fits.argmax(1)
    table = np.empty(len(keys), WINDOW)
    height, width = (np.where(fits.any(1), x[rows, first], 1.0) for x in (tall, wide))
    table["place"], table["height"], table["width"] = keys, height, width
    table["top"] = np.floor(drawn[rows, first, 2] * (heights - height + 1))
    table["left"] = np.floor(drawn[rows, first, 3] * (widths - width + 1))
    return table


def milliseconds_of_yardstick() -> float:
    """Processor time of the yardstick for a batch."""
    sides = np.array([image.shape[:2] for image in IMAGES[0]], np.float64)
    keys = np.arange(BATCH, dtype=np.uint64)
    begun = thread_time()
    for _ in range(BATCHES):
        yardstick(sides[:, 0], sides[:, 1], keys)
    return (thread_time() - begun) / BATCHES * 1e3


def main() -> None:
    """Measures and prints."""
    os.environ.setdefault("PIPEFLOW_START", "wait")  # else a thread loads compiled code during the first rounds
    backends.gpu.open_device = lambda _number: NullRuntime()  # type: ignore[assignment, return-value]
    reading = header("How long does the host plan a batch for the GPU?")
    chosen = [name for name in CASES if name in sys.argv[1:] or len(sys.argv) == 1]
    plain, pipes = pipeline(None), {name: pipeline(CASES[name]) for name in chosen}
    figures: dict[str, list[float]] = {name: [] for name in chosen}
    yard: list[float] = []
    for _ in range(ROUNDS):
        yard.append(milliseconds_of_yardstick())
        base = milliseconds(plain)
        for name, pipe in pipes.items():
            figures[name].append(milliseconds(pipe) - base)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    unit = statistics.median(yard)
    rows = [(name, value, value / BATCH * 1e3, value / unit) for name, value in medians.items()]
    table(f"batches of {BATCH}", ["operator", "ms a batch", "us a sample", "yardsticks"], rows)
    print(f"\nThe yardstick, a fixed piece of work with NumPy, takes {unit:.3f} ms on this machine.")
    targets = [Target(f"{name}: ms a batch", medians[name], AIMS[name]) for name in chosen if name in AIMS]
    verdicts(targets)
    save("gpu_planning", reading, medians, targets)


if __name__ == "__main__":
    main()
