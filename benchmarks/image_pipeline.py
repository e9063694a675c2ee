"""How fast do files become normalised batches: ResNet-50's training and validation pipelines?

Images per CPU second, over all threads of a side, are the speed of one thread on an idle machine, and they hardly
change on a busy machine. torch works in processes of its own, so this figure is missing for it.

    python benchmarks/image_pipeline.py "val, 1"    # only the cases with these words in their names

The results of other cases that were measured on the same day are kept.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from _harness import Measures, Side, Target, chosen, header, measure, median, save, start, table, verdicts, with_earlier

BATCH = 64
BATCHES = 16
REPETITIONS = 5
FILES = 500
SIDE = 224
MEAN = [0.485 * 255, 0.456 * 255, 0.406 * 255]
STD = [0.229 * 255, 0.224 * 255, 0.225 * 255]

# A folder of photographs from which 500 pictures of about 500 x 375 are cut; without it, pictures are drawn.
PHOTOGRAPHS = os.environ.get("PIPEFLOW_PHOTOGRAPHS", "")

CASES = [f"{work}, {threads} thread{'s' * (threads > 1)}" for work in ("rn50-train", "rn50-val") for threads in (1, 2)]
SETTINGS: dict[str, str] = {}


def make_files(folder: Path, photographs: str) -> str:
    """Writes the JPEG files at quality 90, and returns a description of them."""
    cv2 = importlib.import_module("cv2")
    rng = np.random.default_rng(0)
    names = sorted(Path(photographs).glob("*.jp*g")) if photographs else []
    originals = [cv2.imread(str(name)) for name in names] or [_drawn(rng) for _ in range(8)]
    (folder / "0").mkdir()
    total = 0
    for number in range(FILES):
        original = originals[number % len(originals)]
        height, width = (
            min(extent, wanted + int(rng.integers(-40, 41))) for extent, wanted in zip(original.shape, (375, 500))
        )
        top, left = int(rng.integers(original.shape[0] - height + 1)), int(rng.integers(original.shape[1] - width + 1))
        encoded = cv2.imencode(
            ".jpg", original[top : top + height, left : left + width], [cv2.IMWRITE_JPEG_QUALITY, 90]
        )[1]
        (folder / "0" / f"{number:04}.jpg").write_bytes(encoded.tobytes())
        total += len(encoded)
    kind = (
        f"cut from {len(names)} photographs" if names else "drawn (set PIPEFLOW_PHOTOGRAPHS to a folder of JPEG files)"
    )
    return f"{FILES} JPEG files of about 500 x 375, {total / FILES / 1000:.0f} kB each, {kind}"


def _drawn(rng: np.random.Generator) -> np.ndarray:
    """Noise at several scales: about as many bytes a pixel as a photograph."""
    cv2 = importlib.import_module("cv2")
    picture = np.zeros((600, 800, 3), np.float32)
    for scale in (4, 8, 16, 64, 200):
        noise = rng.normal(0, 18, (600 // scale + 2, 800 // scale + 2, 3)).astype(np.float32)
        picture += cv2.resize(noise, (800, 600), interpolation=cv2.INTER_CUBIC)
    return np.clip(picture + 128, 0, 255).astype(np.uint8)


def resident() -> float:
    """This process's memory in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def repetition_of(next_batch, ready: int) -> object:
    """Runs the batches of one repetition; the most batches that can be ready before it are taken first and not counted."""

    def repetition() -> Measures:
        for _ in range(ready):
            next_batch()
        begin, busy = perf_counter(), process_time()
        for _ in range(BATCHES):
            batch = next_batch()
        seconds, busy = perf_counter() - begin, process_time() - busy
        right = batch.shape == (BATCH, 3, SIDE, SIDE) and batch.dtype == np.float32
        return {"seconds": seconds, "cpu": busy, "mean": float(batch.mean()), "right": float(right), "rss": resident()}

    return repetition


def parse(case: str) -> tuple[str, int]:
    work, threads = case.split(", ")
    return work, int(threads.split()[0])


def prepare_with(library: str):
    """Both pipelines in code written for DALI; pipeflow runs the same code with another import."""

    def prepare(case: str):
        gc.collect()  # the batches of the last case
        fn = importlib.import_module(f"{library}.fn")
        types = importlib.import_module(f"{library}.types")
        work, threads = parse(case)

        def train():
            files, labels = fn.readers.file(file_root=SETTINGS["folder"], random_shuffle=True, name="files")
            images = fn.decoders.image_random_crop(files, output_type=types.RGB)
            images = fn.resize(images, resize_x=SIDE, resize_y=SIDE)
            mirror = fn.random.coin_flip(probability=0.5)
            images = fn.crop_mirror_normalize(
                images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=mirror
            )
            return images, labels

        def validate():
            files, labels = fn.readers.file(file_root=SETTINGS["folder"], name="files")
            images = fn.resize(fn.decoders.image(files, output_type=types.RGB), resize_shorter=256)
            images = fn.crop_mirror_normalize(
                images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, crop=(SIDE, SIDE)
            )
            return images, labels

        pipe = importlib.import_module(library).pipeline_def(
            batch_size=BATCH, num_threads=threads, device_id=None, seed=1
        )(train if work == "rn50-train" else validate)()
        pipe.build()
        # as_tensor() shares memory in both libraries; as_array() would copy 38 MB in DALI
        return repetition_of(lambda: np.asarray(pipe.run()[0].as_tensor()), ready=3)  # two ahead, and one in work

    return prepare


class Loaded:
    """The same work by hand with OpenCV (without antialiasing, which OpenCV's fast resizing does not have)."""

    def __init__(self, work: str) -> None:
        self.cv2 = importlib.import_module("cv2")
        self.cv2.setNumThreads(1)
        self.train = work == "rn50-train"
        self.paths = sorted(str(path) for path in Path(SETTINGS["folder"], "0").iterdir())
        self.scale = (1 / np.array(STD, np.float32)).reshape(3, 1, 1)
        self.shift = (np.array(MEAN, np.float32) / np.array(STD, np.float32)).reshape(3, 1, 1)

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> np.ndarray:
        cv2, rng = self.cv2, np.random.default_rng(index)
        image = cv2.imdecode(np.fromfile(self.paths[index % len(self.paths)], np.uint8), cv2.IMREAD_COLOR)
        height, width = image.shape[:2]
        if self.train:
            area, ratio = height * width * rng.uniform(0.08, 1.0), np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
            rows, columns = min(height, int((area / ratio) ** 0.5)), min(width, int((area * ratio) ** 0.5))
            top, left = int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1))
            image = cv2.resize(image[top : top + rows, left : left + columns], (SIDE, SIDE))
            if rng.random() < 0.5:
                image = cv2.flip(image, 1)
        else:
            share = 256 / min(height, width)
            image = cv2.resize(image, (round(width * share), round(height * share)))
            top, left = (image.shape[0] - SIDE) // 2, (image.shape[1] - SIDE) // 2
            image = image[top : top + SIDE, left : left + SIDE]
        planes = image[..., ::-1].transpose(2, 0, 1).astype(np.float32)
        planes *= self.scale
        planes -= self.shift
        return planes


def prepare_opencv(case: str):
    work, threads = parse(case)
    data, pool, place = Loaded(work), ThreadPoolExecutor(threads), [0]

    def next_batch() -> np.ndarray:
        place[0] += BATCH
        return np.stack(list(pool.map(data.__getitem__, range(place[0], place[0] + BATCH))))

    return repetition_of(next_batch, ready=0)


def prepare_torch(case: str):
    data = importlib.import_module("torch.utils.data")
    importlib.import_module("torch").set_num_threads(1)
    work, threads = parse(case)
    loader = iter(data.DataLoader(Loaded(work), batch_size=BATCH, num_workers=threads, shuffle=False))
    return repetition_of(lambda: next(loader).numpy(), ready=2 * threads + 1)  # two a worker, and one in work


def prepare_tensorflow(case: str):
    """tf.data as its guides write it: the crop while decoding, bilinear resizing without antialiasing."""
    tf = importlib.import_module("tensorflow")
    work, threads = parse(case)
    mean, std = tf.constant(MEAN, tf.float32), tf.constant(STD, tf.float32)
    paths = sorted(str(path) for path in Path(SETTINGS["folder"], "0").iterdir())

    def train(data):
        shape = tf.image.extract_jpeg_shape(data)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape,
            tf.zeros((1, 0, 4)),
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.image.random_flip_left_right(tf.image.resize(image, (SIDE, SIDE)))

    def validate(data):
        image = tf.image.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
        extents = tf.cast(tf.shape(image)[:2], tf.float32)
        extents = tf.cast(tf.round(extents * 256 / tf.reduce_min(extents)), tf.int32)
        top, left = (extents[0] - SIDE) // 2, (extents[1] - SIDE) // 2
        return tf.image.crop_to_bounding_box(tf.image.resize(image, extents), top, left, SIDE, SIDE)

    def load(path):
        image = (train if work == "rn50-train" else validate)(tf.io.read_file(path))
        return tf.transpose((image - mean) / std, (2, 0, 1))

    data = tf.data.Dataset.from_tensor_slices(paths).repeat()
    data = data.shuffle(1024, seed=1) if work == "rn50-train" else data
    data = data.map(load, num_parallel_calls=threads).batch(BATCH, drop_remainder=True).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    batches = data.with_options(options).as_numpy_iterator()
    return repetition_of(lambda: next(batches), ready=3)


SIDES = [
    Side("pipeflow", prepare_with("pipeflow")),
    Side("dali", prepare_with("nvidia.dali"), "dali"),
    Side("opencv threads", prepare_opencv),
    Side("tf.data", prepare_tensorflow, "tensorflow", {"TF_CPP_MIN_LOG_LEVEL": "3"}),
    Side("torch DataLoader", prepare_torch, "torch"),
]


def main() -> int:
    reading, cases = header(__doc__.partition("\n\n")[0]), chosen(CASES)
    with tempfile.TemporaryDirectory() as folder:
        print(make_files(Path(folder), PHOTOGRAPHS))
        results = measure(__file__, SIDES, cases, {"folder": folder}, REPETITIONS)
    results = with_earlier("image_pipeline", reading, results)
    speed: dict[tuple[str, str], float] = {}
    a_cpu_second: dict[tuple[str, str], float] = {}
    rows, wrong = [], []
    for case, by_side in results.items():
        for side, measured in by_side.items():
            speed[case, side] = BATCH * BATCHES / median(measured, lambda row: row["seconds"])
            memory = median(measured, lambda row: row["rss"])
            busy = BATCH * BATCHES / median(measured, lambda row: row["cpu"])
            a_cpu_second[case, side] = busy
            if not all(row["right"] for row in measured):
                wrong.append(f"{side}, {case}: not a batch of {BATCH} x 3 x {SIDE} x {SIDE} floats")
            rows.append((case, side, speed[case, side], busy, memory))
        means = {side: median(measured, lambda row: row["mean"]) for side, measured in by_side.items()}
        if max(means.values()) - min(means.values()) > 0.2:
            wrong.append(f"{case}: the means of the sides differ: {means}")
    peers = {case: speed.get((case, "dali"), 0.0) for case in results}
    table(
        "Images a second",
        ["case", "side", "images/s", "x DALI", "a CPU second", "RSS MB"],
        [
            (case, side, rate, rate / peers[case] if peers[case] else "-", "-" if "torch" in side else busy, memory)
            for case, side, rate, busy, memory in rows
        ],
    )
    targets = []
    if CASES[0] in results and CASES[1] in results:
        second = speed[CASES[1], "pipeflow"] / speed[CASES[0], "pipeflow"]
        targets.append(Target("rn50-train: second thread, x one thread", second, 1.9, at_most=False))
    for case, limit in ((CASES[0], 3.8), (CASES[2], 4.2)):
        if peers.get(case):
            ratio = a_cpu_second[case, "pipeflow"] / a_cpu_second[case, "dali"]
            targets.append(Target(f"{case}, x DALI in images a CPU second", ratio, limit, at_most=False))
    if peers.get(CASES[0]):
        rss = {side: memory for case, side, _, _, memory in rows if case == CASES[0]}
        targets.append(Target("rn50-train: RSS, share of DALI's", rss["pipeflow"] / rss["dali"], 1.0))
    verdicts(targets)
    save("image_pipeline", reading, results, targets)
    for line in wrong:
        print(f"FAILED: {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
