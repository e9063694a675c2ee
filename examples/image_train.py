"""From JPEG files to a trained classifier: read, shuffle, decode, crop, augment, normalise, learn.

    python examples/image_train.py [--epochs 6] [--threads 2] [--files 2000]

The script draws its data set: coloured shapes on noisy backgrounds, one folder a class, as a user's own photographs
would lie there. With PyTorch installed a small convolutional network learns them; without it a softmax classifier in
NumPy, on the amplitude spectrum of each picture. It prints the throughput of the pipeline and the accuracy on pictures
that were not trained on.
"""

import argparse
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    import cv2
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install opencv-python-headless") from None

try:
    import torch
except ImportError:
    torch = None

SHAPES = ("cross", "disk", "ring", "square", "triangle")
SIDE = 64
BATCH = 50


def draw(kind, rng):
    """A picture of one shape: random size, place, turn and colours."""
    height, width = rng.integers(90, 160, 2).tolist()
    background, colour = rng.integers(0, 110, 3), rng.integers(140, 256, 3).tolist()
    picture = np.clip(background + rng.normal(0, 12, (height, width, 1)), 0, 255).repeat(3, 2)[..., :3]
    picture = np.ascontiguousarray(picture.astype(np.uint8))
    radius = int(min(height, width) * rng.uniform(0.26, 0.36))
    middle = (int(width * rng.uniform(0.45, 0.55)), int(height * rng.uniform(0.45, 0.55)))
    turn = rng.uniform(0, 360)
    if kind == "disk":
        cv2.circle(picture, middle, radius, colour, -1, cv2.LINE_AA)
    elif kind == "ring":
        cv2.circle(picture, middle, radius, colour, max(4, radius // 3), cv2.LINE_AA)
    elif kind == "cross":
        for angle in np.radians([turn, turn + 90]):
            reach = radius * np.array([np.cos(angle), np.sin(angle)])
            ends = [tuple(int(value) for value in np.array(middle) + sign * reach) for sign in (1, -1)]
            cv2.line(picture, *ends, colour, max(4, radius // 3), cv2.LINE_AA)
    else:
        corners = 4 if kind == "square" else 3
        angles = np.radians(turn + 360 / corners * np.arange(corners))
        points = np.array(middle) + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
        cv2.fillPoly(picture, [points.astype(np.int32)], colour, cv2.LINE_AA)
    return picture


def make_files(folder, count, seed):
    """Draws `count` pictures into one folder a class."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        kind = SHAPES[number % len(SHAPES)]
        target = folder / kind / f"{number:05}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(target), draw(kind, rng)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])


NORMALIZED = {"dtype": types.FLOAT, "output_layout": "CHW", "mean": [90, 90, 90], "std": [70, 70, 70]}


@pipeline_def(batch_size=BATCH, device_id=None, seed=1)
def training(folder):
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files")
    images = fn.decoders.image(files)
    images = fn.random_resized_crop(images, size=(SIDE, SIDE), random_area=(0.7, 1.0))
    images = fn.color_twist(
        images,
        hue=fn.random.uniform(range=(-40.0, 40.0)),
        brightness=fn.random.uniform(range=(0.8, 1.2)),
        contrast=fn.random.uniform(range=(0.8, 1.2)),
    )
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **NORMALIZED), labels


@pipeline_def(batch_size=BATCH, device_id=None)
def validation(folder):
    files, labels = fn.readers.file(file_root=folder, pad_last_batch=True, name="files")
    images = fn.resize(fn.decoders.image(files), size=(SIDE, SIDE))
    return fn.crop_mirror_normalize(images, **NORMALIZED), labels


def batches(pipe):
    """One epoch of a pipeline as pairs of arrays."""
    size = pipe.epoch_size("files")
    for start in range(0, size, BATCH):
        images, labels = pipe.run()
        count = min(BATCH, size - start)
        yield images.as_array()[:count], labels.as_array()[:count, 0]


class Softmax:
    """Logistic regression on the amplitude spectrum, which does not change when a shape moves."""

    name = "a softmax classifier in NumPy"

    def __init__(self):
        self.weights = np.zeros((SIDE // 2 * (SIDE // 4 + 1) + 1, len(SHAPES)), np.float32)
        self.momentum = np.zeros_like(self.weights)

    def features(self, images):
        gray = images.mean(1).reshape(len(images), SIDE // 2, 2, SIDE // 2, 2).mean((2, 4))
        spectrum = np.abs(np.fft.rfft2(gray - gray.mean((1, 2), keepdims=True)))
        spectrum = np.log1p(spectrum).reshape(len(images), -1)
        spectrum -= spectrum.mean(1, keepdims=True)
        return np.hstack([spectrum, np.ones((len(images), 1))]).astype(np.float32)

    def learn(self, images, labels):
        features = self.features(images)
        odds = np.exp(features @ self.weights)
        error = odds / odds.sum(1, keepdims=True) - np.eye(len(SHAPES))[labels]
        self.momentum = 0.9 * self.momentum + features.T @ error / len(images)
        self.weights -= 0.01 * self.momentum

    def guess(self, images):
        return (self.features(images) @ self.weights).argmax(1)


class Network:
    """A small convolutional network in PyTorch."""

    name = "a convolutional network in PyTorch"

    def __init__(self):
        torch.manual_seed(0)
        layers, channels = [], 3
        for width in (16, 32, 64):
            layers += [
                torch.nn.Conv2d(channels, width, 3, padding=1),
                torch.nn.BatchNorm2d(width),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
            ]
            channels = width
        self.model = torch.nn.Sequential(
            *layers, torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(4 * channels, len(SHAPES))
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)

    def learn(self, images, labels):
        self.model.train()
        loss = torch.nn.functional.cross_entropy(self.model(torch.from_numpy(images)), torch.from_numpy(labels).long())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def guess(self, images):
        self.model.eval()
        with torch.no_grad():
            return self.model(torch.from_numpy(images)).argmax(1).numpy()


def accuracy(model, folder, num_threads):
    """The share of right guesses over every file of a folder."""
    pipe = validation(str(folder), num_threads=num_threads)
    pipe.build()
    right = [model.guess(images) == labels for images, labels in batches(pipe)]
    return np.concatenate(right).mean()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "image_train.png")
    parser.add_argument("--folder", type=Path, help="where to draw the pictures; a temporary folder by default")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        make_files(folder / "train", options.files, seed=1)
        make_files(folder / "validation", options.files // 5, seed=2)
        model = Network() if torch is not None else Softmax()
        print(f"{options.files} drawn pictures of {len(SHAPES)} shapes, {options.threads} threads, {model.name}")
        pipe = training(str(folder / "train"), num_threads=options.threads)
        begin = perf_counter()
        pipe.build()
        pipe.run()
        print(f"first batch after {perf_counter() - begin:.1f} s")
        for epoch in range(options.epochs):
            begin = perf_counter()
            learning = 0.0
            for images, labels in batches(pipe):
                started = perf_counter()
                model.learn(images, labels)
                learning += perf_counter() - started
            seconds = perf_counter() - begin
            share = accuracy(model, folder / "validation", options.threads)
            print(
                f"epoch {epoch + 1}: {options.files / seconds:6.0f} images/s, {learning / seconds:4.0%} of the time "
                f"in the model, accuracy {share:.1%}"
            )
        begin = perf_counter()
        count = sum(len(labels) for _ in range(3) for _, labels in batches(pipe))
        print(f"the pipeline alone: {count / (perf_counter() - begin):.0f} images/s")
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        pipe.show(16, labels=1, names=SHAPES, path=options.picture)
        print(f"what the model sees: {options.picture}")
    return share


if __name__ == "__main__":
    main()
