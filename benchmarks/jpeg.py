"""How fast are JPEG files decoded: whole, in windows, progressive, through compression, and on the way to a batch?

The figures of decoding are images per second of processor time, on one thread. The pictures are those of `image_pipeline.py`.
On the way to a batch each side has its own number of threads: two for pipeflow and DALI, one for plain decoding, and one worker
for torch.

    python benchmarks/jpeg.py windows whole    # only the cases with these words in their names
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from _harness import Measures, Side, Target, chosen, header, measure, median, save, start, table, verdicts, with_earlier
from image_pipeline import BATCH, BATCHES, MEAN, PHOTOGRAPHS, SIDE, STD, make_files, resident

PICTURES = 100  # of the folder, for the cases on one thread
QUALITY = 60
BATCHES_OF, WHOLE, WINDOW, PROGRESSIVE, COMPRESSION = CASES = (
    "files to batches of floats",  # first, because of the memory
    "whole files",
    "windows",
    "progressive files",
    "compression at quality 60",
)
READY = 4  # batches made ahead in another side's turn: they are taken first and not counted
SETTINGS: dict[str, str] = {}

Decoder = Callable[[np.ndarray, tuple[int, int, int, int] | None], object]


def files() -> list[np.ndarray]:
    paths = sorted(Path(SETTINGS["folder"], "0").iterdir())[:PICTURES]
    return [np.fromfile(path, np.uint8) for path in paths]


def progressive(pictures: list[np.ndarray]) -> list[np.ndarray]:
    """The same pictures, stored with all their scans."""
    cv2 = importlib.import_module("cv2")
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_QUALITY, 90]
    return [cv2.imencode(".jpg", cv2.imdecode(data, cv2.IMREAD_COLOR), options)[1].reshape(-1) for data in pictures]


def windows(pictures: list[np.ndarray]) -> list[tuple[int, int, int, int]]:
    """One window a picture, as for training: 8 to 100 % of the area."""
    simplejpeg = importlib.import_module("simplejpeg")
    rng, found = np.random.default_rng(0), []
    for data in pictures:
        height, width = simplejpeg.decode_jpeg_header(data)[:2]
        area, ratio = height * width * rng.uniform(0.08, 1.0), np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        rows, columns = min(height, int((area / ratio) ** 0.5)), min(width, int((area * ratio) ** 0.5))
        found.append((int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1)), rows, columns))
    return found


def cut(image: np.ndarray, window: tuple[int, int, int, int] | None) -> np.ndarray:
    if window is None:
        return image
    top, left, rows, columns = window
    return image[top : top + rows, left : left + columns]


def pipeflow_decoder() -> Decoder:
    """The decoder of the pipeline, without a pipeline."""
    os.environ["PIPEFLOW_START"] = "wait"
    images = importlib.import_module("pipeflow.kernels.cpu.images")
    switches = importlib.import_module("pipeflow.kernels.cpu.jpeg_switch")
    switches.decoding.wait()
    switches.decoding_progressive.wait()
    wanted, limits, memory = images.Wanted(), images.Limits(), np.empty(1 << 24, np.uint8)

    def allocate(shape: tuple[int, ...], _dtype: np.dtype) -> np.ndarray:
        return memory[: shape[0] * shape[1] * shape[2]].reshape(shape)

    def decode(data: np.ndarray, window: tuple[int, int, int, int] | None) -> object:
        region = None if window is None else lambda _height, _width: window
        return images.decode(data, wanted, limits, allocate, region=region)

    return decode


def simplejpeg_decoder() -> Decoder:
    simplejpeg = importlib.import_module("simplejpeg")
    memory = np.empty(1 << 24, np.uint8)

    def decode(data: np.ndarray, window: tuple[int, int, int, int] | None) -> object:
        return cut(simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False, buffer=memory), window)

    return decode


def opencv_decoder() -> Decoder:
    cv2 = importlib.import_module("cv2")
    cv2.setNumThreads(1)
    return lambda data, window: cut(cv2.imdecode(data, cv2.IMREAD_COLOR_RGB), window)


def pillow_decoder() -> Decoder:
    image, io = importlib.import_module("PIL.Image"), importlib.import_module("io")
    return lambda data, window: cut(np.asarray(image.open(io.BytesIO(data)).convert("RGB")), window)


def pipeflow_compression() -> Callable[[np.ndarray], object]:
    importlib.import_module("pipeflow.kernels.cpu.jpeg_forward").load()
    round_trip = importlib.import_module("pipeflow.kernels.cpu.jpeg_round_trip")
    memory = np.empty(1 << 24, np.uint8)
    return lambda image: round_trip.distort(image, QUALITY, memory[: image.size].reshape(image.shape))


def opencv_compression() -> Callable[[np.ndarray], object]:
    cv2 = importlib.import_module("cv2")
    return lambda image: cv2.imdecode(
        cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1], cv2.IMREAD_COLOR
    )


def timed(work: Callable[[], int], before: Callable[[], object] = lambda: None) -> Callable[[], Measures]:
    """A repetition of work that returns the number of its images; what is done before it does not count."""

    def repetition() -> Measures:
        before()
        begin, busy = perf_counter(), process_time()
        count = work()
        return {"rate": count / (perf_counter() - begin), "busy": count / (process_time() - busy), "rss": resident()}

    return repetition


def prepare_decoder(make: Callable[[], Decoder], compression: Callable | None = None, batches: Callable | None = None):
    def prepare(case: str):
        if case == BATCHES_OF:
            return batches and timed(*batches())
        pictures = files()
        if case == COMPRESSION:
            if compression is None:
                return None
            decode, work = simplejpeg_decoder(), compression()
            images = [np.array(decode(data, None)) for data in pictures]
            return timed(lambda: len([work(image) for image in images]))
        given = progressive(pictures) if case == PROGRESSIVE else pictures
        parts = windows(pictures) if case == WINDOW else [None] * len(pictures)
        decode = make()
        return timed(lambda: len([decode(data, window) for data, window in zip(given, parts)]))

    return prepare


Work = tuple[Callable[[], int], Callable[[], object]]


def batches_of(next_batch: Callable[[], np.ndarray]) -> Work:
    """The work of a repetition, and batches that were ready before it."""

    def work() -> int:
        for _ in range(BATCHES):
            assert next_batch().shape == (BATCH, 3, SIDE, SIDE)
        return BATCH * BATCHES

    return work, lambda: [next_batch() for _ in range(READY)]


def pipeline_batches(library: str) -> Work:
    """Files to random_resized_crop to floats in a pipeline of two threads."""
    os.environ["PIPEFLOW_START"] = "wait"
    fn = importlib.import_module(f"{library}.fn")
    types = importlib.import_module(f"{library}.types")

    def define():
        data, _ = fn.readers.file(file_root=SETTINGS["folder"], random_shuffle=True)
        images = fn.decoders.image_random_crop(data, output_type=types.RGB)
        images = fn.resize(images, resize_x=SIDE, resize_y=SIDE)
        mirror = fn.random.coin_flip(probability=0.5)
        return fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=mirror
        )

    make = importlib.import_module(library).pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
    pipe = make(define)()
    pipe.build()

    return batches_of(lambda: np.asarray(pipe.run()[0].as_tensor()))


def pipeflow_batches() -> Work:
    pipeflow_decoder()
    return pipeline_batches("pipeflow")


def simplejpeg_batches() -> Work:
    """Decoding alone: no other thread, no resizing."""
    decode, paths = simplejpeg_decoder(), sorted(Path(SETTINGS["folder"], "0").iterdir())
    return lambda: len([decode(np.fromfile(path, np.uint8), None) for path in paths]), lambda: None


class Loaded:
    """The work by hand with Pillow, as data sets for torch do it."""

    def __init__(self) -> None:
        self.image = importlib.import_module("PIL.Image")
        self.paths = sorted(str(path) for path in Path(SETTINGS["folder"], "0").iterdir())

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> np.ndarray:
        rng = np.random.default_rng(index)
        image = self.image.open(self.paths[index % len(self.paths)]).convert("RGB")
        width, height = image.size
        area, ratio = height * width * rng.uniform(0.08, 1.0), np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        rows, columns = min(height, int((area / ratio) ** 0.5)), min(width, int((area * ratio) ** 0.5))
        top, left = int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1))
        window = (left, top, left + columns, top + rows)
        image = image.resize((SIDE, SIDE), self.image.Resampling.BILINEAR, box=window)
        if rng.random() < 0.5:
            image = image.transpose(self.image.Transpose.FLIP_LEFT_RIGHT)
        values = (np.asarray(image, np.float32) - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        return np.ascontiguousarray(values.transpose(2, 0, 1))


def prepare_torch(case: str):
    if case != BATCHES_OF:
        return None
    data = importlib.import_module("torch.utils.data")
    importlib.import_module("torch").set_num_threads(1)
    loader = iter(data.DataLoader(Loaded(), batch_size=BATCH, num_workers=1, shuffle=False))

    return timed(*batches_of(lambda: next(loader).numpy()))


def prepare_dali(case: str):
    return timed(*pipeline_batches("nvidia.dali")) if case == BATCHES_OF else None


SIDES = [
    Side("pipeflow", prepare_decoder(pipeflow_decoder, pipeflow_compression, pipeflow_batches)),
    Side("simplejpeg", prepare_decoder(simplejpeg_decoder, None, simplejpeg_batches)),
    Side("opencv", prepare_decoder(opencv_decoder, opencv_compression)),
    Side("pillow", prepare_decoder(pillow_decoder)),
    Side("dali", prepare_dali, "dali"),
    Side("torch DataLoader", prepare_torch, "loader"),  # it has Pillow
]


def main() -> int:
    reading, cases = header(__doc__.partition("\n\n")[0]), chosen(CASES)
    with tempfile.TemporaryDirectory() as folder:
        print(make_files(Path(folder), PHOTOGRAPHS))
        results = measure(__file__, SIDES, cases, {"folder": folder})
    results = with_earlier("jpeg", reading, results)
    figures = {
        (case, side): {name: median(rows, lambda row, name=name: row[name]) for name in rows[0]}
        for case, by_side in results.items()
        for side, rows in by_side.items()
    }
    table(
        "Images a second",
        ["case", "side", "a second", "a CPU second", "RSS MB"],
        [
            (case, side, row["rate"], "-" if "torch" in side else row["busy"], row["rss"])
            for (case, side), row in figures.items()
        ],
    )

    def times(case: str, side: str, name: str = "busy") -> float:
        return figures[case, "pipeflow"][name] / figures[case, side][name]

    targets = [
        Target(f"{case}: x {side} in images a CPU second", times(case, side), limit, at_most=False)
        for case, side, limit in (
            (WHOLE, "simplejpeg", 1.4),
            (WINDOW, "simplejpeg", 2.0),
            (PROGRESSIVE, "simplejpeg", 1.1),
            (COMPRESSION, "opencv", 1.0),
        )
        if case in results
    ]
    for side, limit in (("simplejpeg", 2.9), ("torch DataLoader", 8.1)):
        if (BATCHES_OF, side) in figures:
            targets.append(
                Target(f"{BATCHES_OF}: x {side} on one thread", times(BATCHES_OF, side, "rate"), limit, at_most=False)
            )
    if (BATCHES_OF, "dali") in figures:
        targets.append(Target(f"{BATCHES_OF}: RSS, share of DALI's", times(BATCHES_OF, "dali", "rss"), 1.0))
    verdicts(targets)
    save("jpeg", reading, results, targets)
    return 0


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
