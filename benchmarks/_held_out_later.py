"""Ten more pipelines, written after the automatic settings compared in turns: no number of theirs was chosen with them."""

from __future__ import annotations

import hashlib
import re
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from _forty import DEPTHS, THREADS, WAYS, Case, Uneven, called, computing, resting

from pipeflow import fn

PLAIN = (*THREADS, *DEPTHS, {"prefetch_queue_depth": 8})
CALLS = (*WAYS, {"parallel": "threads", "num_threads": 4}, {"num_threads": 1}, {"prefetch_queue_depth": 8})
_TEXT = np.frombuffer((b"the quick brown fox jumps over 12 lazy dogs; " * 60), np.uint8)
_WORDS = re.compile(rb"[a-z]+|\d+")
_NOISE = np.random.default_rng(2).integers(0, 255, 60_000).astype(np.uint8)
_POINTS = np.random.default_rng(3).random((400, 3), np.float32)


def texts(sample):
    return _TEXT[: 1500 + sample.idx_in_epoch % 7 * 150]


def noise(_sample):
    return _NOISE


def clouds(_sample):
    return _POINTS


def indices(sample):
    return np.int64(sample.idx_in_epoch)


def labels(number):
    return np.full(256, number % 10, np.int64)


def tokens(text):
    return np.array([len(word) for word in _WORDS.findall(text.tobytes())], np.int32)


def packed(data):
    return np.frombuffer(zlib.compress(data, 1), np.uint8).copy()


def fetched(number):
    """Computes outside of the interpreter, and then waits."""
    hashlib.sha256(_NOISE).digest()
    time.sleep(0.0006)
    return number


def stored(number):
    """A disk that is busy from time to time: two samples in 40 wait for long."""
    if int(number) % 40 in (7, 8):
        time.sleep(0.015)
    return number


def turned(points):
    angle = float(points[0, 0])
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]], np.float32)
    return points @ turn


def nearest(points):
    return ((points[:, None] - points[None, :40]) ** 2).sum(-1).argmin(1)


class Alternating:
    """A source of batches that are read from two places, one slower than the other."""

    def __call__(self, number: int) -> np.ndarray:
        time.sleep(0.001 if number % 5 else 0.02)
        return np.full((16, 8), number, np.float32)


def doubled(x):
    return x * 2


def cases(folder: Path) -> list[Case]:
    """All ten."""

    def decoded(name: str):
        return fn.decoders.image(fn.readers.file(files=sorted(map(str, (folder / name).iterdir())))[0])

    def erased(_parallel: str):
        image = fn.resize(decoded("small"), size=(64, 64))
        return fn.erase(image, anchor=(0.1, 0.1), shape=(0.3, 0.3), normalized=True, axis_names="HW")

    def of_labels(_parallel: str):
        return fn.one_hot(fn.external_source(labels), num_classes=10)

    def sounds(_parallel: str):
        sound, _ = fn.decoders.audio(
            fn.readers.file(files=sorted(map(str, (folder / "sound").iterdir())))[0], downmix=True
        )
        return fn.mfcc(fn.to_decibels(fn.mel_filter_bank(fn.spectrogram(sound, nfft=512), nfilter=40)), n_mfcc=20)

    def two_widths(parallel: str):
        large = fn.python_function(decoded("middle"), function=smaller, parallel=parallel)
        return large, fn.resize(decoded("small"), size=(32, 32))

    def of(name: str, graph: Any, settings: Any, batch_size: int = 16, **more: Any) -> Case:
        return Case("held out later", name, graph, settings, batch_size, **more)

    return [
        of("words of texts", called(texts, tokens), CALLS),
        of("packing", called(noise, packed), CALLS, 8, loop=computing(3)),
        of("computes and waits", called(indices, fetched), CALLS, 8),
        of("two samples in 40 wait", called(indices, stored), CALLS),
        of("clouds of points, two functions", called(clouds, turned, nearest), CALLS, 8),
        of("one batch in 5 from a slow place", called(Alternating(), doubled, batch=True), CALLS, loop=resting(0.003)),
        of("erased pictures, large batches", erased, PLAIN, 64),
        of("labels", of_labels, PLAIN, 256),
        of("sound, with a loop of uneven steps", sounds, PLAIN, 8, loop=Uneven(0.001, 0.001, 0.001, 0.001, 0.02)),
        of("two sources of pictures", two_widths, CALLS, 8),
    ]


def smaller(image):
    return image[::2, ::2].copy()
