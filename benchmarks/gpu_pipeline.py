"""How fast is a whole pipeline on the GPU, and what share of the copies runs during kernels?

    python benchmarks/gpu_pipeline.py

The augmentation of ResNet-50: JPEG files of 500 x 375 from memory are decoded (by nvImageCodec if it is installed,
else on the CPU), cropped, resized, mirrored and normalised to float16 of 224 x 224, in batches of 128. Then the parts
are measured: raw images that are only copied to the GPU, kernels that only compute, and both together. The overlap is
the sum of the times of the parts minus the time of both together; it can be at most the time of the shorter part.
Launches and copies per batch come from the pipeline's own statistics.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from _harness import Target, header, save, table, verdicts
from PIL import Image

from pipeflow import backends, fn, pipeline_def, types

BATCH, BATCHES, THREADS = 128, 40, 8
RNG = np.random.default_rng(0)
ROWS, COLUMNS = np.mgrid[0:375, 0:500]
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]


def picture() -> np.ndarray:
    """Waves, which look more like a photograph to a JPEG decoder than noise does."""
    a, b, c = RNG.uniform(10, 40, 3)
    waves = np.stack([np.sin(ROWS / a), np.cos(COLUMNS / b), np.sin((ROWS + COLUMNS) / c)], -1)
    return (127 + 100 * waves + RNG.normal(0, 8, (375, 500, 3))).clip(0, 255).astype(np.uint8)


def jpeg(image: np.ndarray) -> np.ndarray:
    """The bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=90)
    return np.frombuffer(file.getvalue(), np.uint8)


PICTURES = [picture() for _ in range(16)]
FILES = [[jpeg(image) for image in PICTURES] * (BATCH // 16)]
IMAGES = [PICTURES * (BATCH // 16)]


def augmented(images: Any) -> Any:
    """The augmentation with which ResNet-50 is trained."""
    images = fn.random_resized_crop(images, size=(224, 224))
    mirror = fn.random.coin_flip()
    return fn.crop_mirror_normalize(images, mirror=mirror, dtype=types.FLOAT16, mean=MEAN, std=STD)


def resnet50() -> Any:
    """The whole pipeline, from files to tensors."""
    files = fn.external_source(FILES, cycle="quiet", no_copy=True)
    return augmented(fn.decoders.image(files, device="mixed"))


def copied() -> Any:
    """Raw images that go to the GPU, and nothing else."""
    return fn.external_source(IMAGES, cycle="quiet", no_copy=True, layout="HWC").gpu()


def both() -> Any:
    """Raw images that go to the GPU and are augmented there."""
    return augmented(copied())


def computed() -> Any:
    """Images that are made from small ones on the GPU, and augmented as often as the others."""
    small = fn.external_source([[image[:8, :8] for image in IMAGES[0]]], cycle="quiet", layout="HWC").gpu()
    return augmented(fn.resize(small, size=(375, 500)))


def measure(define: Callable[[], Any]) -> tuple[float, dict[str, Any]]:
    """Seconds per batch, measured until the GPU has finished all batches, and the statistics."""
    pipe = pipeline_def(define, batch_size=BATCH, num_threads=THREADS, device_id=0, seed=1)()
    for _ in range(5):
        batch = pipe.run()
    batch[0].as_cpu()
    before = pipe.executor_statistics()["gpu"]
    begun = perf_counter()
    for _ in range(BATCHES):
        batch = pipe.run()
    batch[0][0].as_cpu()  # the last one is done when all are
    seconds = (perf_counter() - begun) / BATCHES
    after = pipe.executor_statistics()["gpu"]
    each = {name: (after[name] - before[name]) / BATCHES for name in ("launches", "uploads", "allocations")}
    return seconds, {**each, "decoded_on_cpu": after["decoded_on_cpu"]}


def main() -> None:
    """Measures and prints."""
    reason = backends.gpu.why_not(0)
    if reason:
        print(f"gpu_pipeline.py measures nothing here: {reason}")
        return
    reading = header("How fast is a whole pipeline on the GPU, and how much of the copies is hidden?")
    decoder = "nvImageCodec" if backends.gpu.has_codec() else "the CPU"
    results: dict[str, Any] = {"decoded by": decoder}
    rows = []
    stories = {
        f"ResNet-50, decoded by {decoder}": resnet50,
        "copy": copied,
        "compute": computed,
        "copy and compute": both,
    }
    for name, define in stories.items():
        seconds, told = measure(define)
        results[name] = {"seconds": seconds, **told}
        rows.append(
            [name, f"{BATCH / seconds:.0f}", seconds * 1e3, told["launches"], told["uploads"], told["allocations"]]
        )
        for why, count in told["decoded_on_cpu"].items():
            print(f"decoded on the CPU: {count} images ({why})")
    table(
        "batches of 128", ["pipeline", "images/s", "ms a batch", "launches", "copies to the GPU", "allocations"], rows
    )
    parts = [results[name]["seconds"] for name in ("copy", "compute", "copy and compute")]
    hidden = (parts[0] + parts[1] - parts[2]) / min(parts[:2])
    nbytes = sum(image.nbytes for image in IMAGES[0])
    print(
        f"copies: {nbytes / parts[0] / 1e9:.1f} GB/s to the GPU, staging included; {hidden:.0%} of the shorter part is hidden"
    )
    results["hidden"] = hidden
    targets = [
        Target("launches a batch", results["copy and compute"]["launches"], 4),
        Target("copies to the GPU a batch", results["copy and compute"]["uploads"], 1),
        Target("share of the shorter part that is hidden", hidden, 0.7, at_most=False),
    ]
    verdicts(targets)
    reading["machine"]["gpu"] = backends.gpu.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    save("gpu_pipeline", reading, results, targets)


if __name__ == "__main__":
    main()
