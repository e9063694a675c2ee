"""Twelve more pipelines, of kinds that users have: no number of the model or of the automatic settings was chosen with them."""

from __future__ import annotations

import json
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _forty import DEPTHS, THREADS, WAYS, Case, called, computing

from pipeflow import fn

PLAIN = (*THREADS, *DEPTHS)
CALLS = (*WAYS, {"parallel": "threads", "num_threads": 4}, {"num_threads": 1}, {"prefetch_queue_depth": 8})
_CLIP = np.random.default_rng(4).integers(0, 255, (8, 96, 128, 3)).astype(np.uint8)
_TABLE = np.random.default_rng(5).random((400, 60), np.float32)
_VALUES = np.random.default_rng(6).random(6000, np.float32)


def clips(_sample):
    return _CLIP


def indices(sample):
    return np.int64(sample.idx_in_epoch)


def lengths(sample):
    return np.arange(20 + sample.idx_in_epoch * 37 % 180, dtype=np.float32)


def three(sample):
    return np.full(3, sample.idx_in_epoch, np.float32)


def ranked(table):
    """The rows in the order of a column, scaled: what is done to a table before training."""
    table = table[np.argsort(table[:, 0])]
    return (table - table.mean(0)) / (table.std(0) + np.float32(1e-6))


def collated(samples):
    """A batch of sequences as one array with a mask, as a collate function of PyTorch makes it."""
    longest = max(len(sample) for sample in samples)
    rows = np.zeros((len(samples), longest), np.float32)
    for row, sample in zip(rows, samples):
        row[: len(sample)] = sample
    return list(rows), [row != 0 for row in rows]


def noisy(image):
    noise = np.random.default_rng(int(image[0, 0, 0])).normal(0, 3, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def normalized(vector):
    return vector / (np.abs(vector).sum() + 1)


def windows(number):
    """Statistics of windows, in Python with small calls of NumPy."""
    return np.array([_VALUES[int(number) % 100 + at : at + 200].max() for at in range(0, 5000, 100)], np.float32)


def picky(number):
    """One sample in 50 is damaged."""
    if int(number) % 50 == 17:
        raise ValueError("damaged")
    return np.sort(_VALUES)[: 10 + int(number) % 3]


def fetched(number):
    time.sleep(0.001)
    return np.sort(_VALUES + np.float32(int(number) % 7))[::100].copy()


def gamma(image):
    return (np.sqrt(image / np.float32(255)) * np.float32(255)).astype(np.uint8)


def cases(folder: Path) -> list[Case]:
    """All twelve."""
    pictures = sorted(map(str, (folder / "middle").iterdir()))
    small = sorted(map(str, (folder / "small").iterdir()))
    annotated = folder / "boxes.json"
    box = {"category_id": 1, "iscrowd": 0, "area": 2400.0}
    annotated.write_text(
        json.dumps(
            {
                "images": [
                    {"id": number, "file_name": Path(path).name, "width": 400, "height": 320}
                    for number, path in enumerate(pictures)
                ],
                "annotations": [
                    {"id": 9 * number + at, "image_id": number, "bbox": [20 * at, 30, 60, 40], **box}
                    for number in range(len(pictures))
                    for at in range(1 + number % 8)
                ],
                "categories": [{"id": 1, "name": "thing"}],
            }
        )
    )
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for path in small:
            shard.add(path, Path(path).name)
    tables = folder / "tables"
    tables.mkdir()
    for number in range(24):
        np.save(tables / f"{number}.npy", _TABLE + number)

    def boxes(_parallel: str):
        encoded, windows_of, _ = fn.readers.coco(
            file_root=str(folder / "middle"),
            annotations_file=str(annotated),
            ltrb=True,
            ratio=True,
            random_shuffle=True,
        )
        image = fn.resize(fn.decoders.image(encoded), size=(160, 160))
        if fn.random.coin_flip(probability=0.5, seed=3):
            image, windows_of = fn.flip(image, horizontal=1), fn.bb_flip(windows_of, ltrb=True)
        if fn.random.coin_flip(probability=0.2, seed=4):
            image = fn.gaussian_blur(image, window_size=7)
        return image, windows_of

    def sequences(_parallel: str):
        clip = fn.external_source(clips, batch=False, layout="FHWC")
        return fn.crop_mirror_normalize(fn.resize(clip, size=(64, 80)), crop=(56, 56), mean=[100.0] * 3, std=[50.0] * 3)

    def tables_of(parallel: str):
        return fn.python_function(
            fn.readers.numpy(file_root=str(tables), file_filter="*.npy"), function=ranked, parallel=parallel
        )

    def shards(_parallel: str):
        encoded = fn.readers.webdataset(
            paths=[str(folder / "shard.tar")],
            ext=["jpg"],
            random_shuffle=True,
            initial_fill=32,
            missing_component_behavior="error",
        )
        image = fn.random_resized_crop(fn.decoders.image(encoded), size=(96, 96), seed=5)
        return fn.flip(image, horizontal=fn.random.coin_flip(seed=6))

    def together(_parallel: str):
        return fn.python_function(
            fn.external_source(lengths, batch=False), function=collated, batch_processing=True, num_outputs=2
        )

    def kept(parallel: str):
        image = fn.cache(
            fn.resize(fn.decoders.image(fn.readers.file(files=pictures)[0]), size=(64, 64)), memory=1 << 27
        )
        return fn.python_function(image, function=noisy, parallel=parallel)

    def single(_parallel: str):
        return fn.resize(fn.decoders.image(fn.readers.file(files=pictures)[0]), size=(128, 128))

    def compiled(parallel: str):
        image = fn.decoders.image(fn.readers.file(files=small)[0])
        return fn.python_function(image, function=gamma, jit="auto") if parallel != "processes" else image

    def of(name: str, graph: Any, settings: Any, batch_size: int = 16, **more: Any) -> Case:
        return Case("users", name, graph, settings, batch_size, **more)

    return [
        of("boxes and pictures with conditions", boxes, PLAIN, 8, base={"enable_conditionals": True}),
        of("sequences of frames", sequences, PLAIN, 8),
        of("tables of NumPy and a slow transform", tables_of, CALLS),
        of("a shuffled web dataset", shards, PLAIN, 16),
        of("a collate function", together, PLAIN, 64),
        of("noise on cached pictures", kept, CALLS),
        of("batches of one picture", single, PLAIN, 1),
        of("256 tiny arrays", called(three, normalized), CALLS, 256),
        of(
            "windows, in worker processes",
            called(indices, windows),
            ({"py_num_workers": 1}, {"py_num_workers": 4}, {"num_threads": 1}, *DEPTHS),
            base={"parallel": "processes"},
        ),
        of("damaged samples are left out", called(indices, picky), CALLS, base={"on_error": "skip"}),
        of("waits and then computes", called(indices, fetched), CALLS, 8, loop=computing(2)),
        of("a function for jit", compiled, PLAIN, 8),
    ]
