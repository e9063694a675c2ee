"""Ten pipelines that are not among the forty (`_forty.py`): no constant of the model was chosen with them."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from _forty import DEPTHS, THREADS, WAYS, Case, called, computing, resting

from pipeflow import fn

PLAIN = (*THREADS, *DEPTHS)
CALLS = (*WAYS, {"parallel": "threads", "num_threads": 4}, {"num_threads": 1}, {"prefetch_queue_depth": 4})
_RECORD = np.frombuffer(json.dumps([{"box": [1, 2, 3, 4], "id": number} for number in range(40)]).encode(), np.uint8)
_PACKED = np.frombuffer(zlib.compress(np.arange(40_000, dtype=np.int32).tobytes()), np.uint8)
_WAVE = np.random.default_rng(1).standard_normal(8192).astype(np.float32)


def records(sample):
    return np.roll(_RECORD, 0) if sample.idx_in_epoch % 2 else _RECORD


def packed(_sample):
    return _PACKED


def waves(_sample):
    return _WAVE


def indices(sample):
    return np.int64(sample.idx_in_epoch)


def boxes(text):
    return np.array([row["box"] for row in json.loads(text.tobytes())], np.int32)


def unpacked(data):
    return np.frombuffer(zlib.decompress(data.tobytes()), np.int32).copy()


def transformed(wave):
    return np.abs(np.fft.rfft(wave))


def answered(number):
    """A server whose answers take between 0.2 and 4 ms."""
    time.sleep(0.0002 * (1 + int(number) * 7 % 20))
    return number


def looked_up(number):
    time.sleep(0.001)
    return number * 2


def brighter(image):
    return np.clip(image * np.float32(1.2), 0, 255).astype(np.uint8)


def sums(images):
    return [np.int64(image.sum()) for image in images]


def cases(folder: Path) -> list[Case]:
    """All ten."""

    def decoded(name: str):
        return fn.decoders.image(fn.readers.file(files=sorted(map(str, (folder / name).iterdir())))[0])

    def blurred(_parallel: str):
        return fn.gaussian_blur(decoded("small"), window_size=5)

    def twisted(_parallel: str):
        image = fn.random_resized_crop(decoded("middle"), size=(160, 160), seed=3)
        return fn.flip(fn.color_twist(image, brightness=1.1, saturation=1.2), horizontal=1)

    def in_the_middle(parallel: str):
        image = fn.python_function(decoded("small"), function=brighter, parallel=parallel)
        return fn.resize(image, size=(96, 96))

    def two_sources(parallel: str):
        one = fn.python_function(fn.external_source(indices, batch=False), function=looked_up, parallel=parallel)
        other = fn.python_function(fn.external_source(records, batch=False), function=boxes, parallel=parallel)
        return one, other

    def whole_batches(_parallel: str):
        return fn.python_function(decoded("small"), function=sums, batch_processing=True)

    def rotated(_parallel: str):
        return fn.rotate(decoded("middle"), angle=10.0, fill_value=0)

    def of(name: str, graph: Any, settings: Any, batch_size: int = 16, **more: Any) -> Case:
        return Case("held out", name, graph, settings, batch_size, **more)

    return [
        of("blurred pictures", blurred, PLAIN),
        of("pictures, cropped, twisted and flipped", twisted, PLAIN, 8),
        of("rotated pictures, slow loop", rotated, PLAIN, 8, loop=computing(6)),
        of("a function between operators", in_the_middle, CALLS),
        of("records of JSON", called(records, boxes), CALLS, 32),
        of("unpacked data", called(packed, unpacked), CALLS),
        of("Fourier transforms", called(waves, transformed), CALLS, 32),
        of("answers of a server", called(indices, answered), CALLS, 8, loop=resting(0.004)),
        of("two sources with functions", two_sources, CALLS, 8),
        of("a function of whole batches", whole_batches, PLAIN),
    ]
