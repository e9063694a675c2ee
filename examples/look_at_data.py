"""Pictures with boxes, masks, points and labels, a strip and a sound, each by one call: python examples/look_at_data.py

The pipeline draws shapes, keeps box, mask and centre with each of them, and turns them. `pipeflow.show` finds layout and range by
itself; the pictures are in examples/output, or in the folder of --output.
"""

import argparse
import importlib.util
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn, pipeline_def

HEIGHT, WIDTH, SAMPLES = 120, 160, 8
SHAPES = ["disc", "square", "triangle"]
PAINT = np.array([[40, 120, 180], [200, 110, 60], [90, 160, 110]])


def scene(sample):
    """A picture of two shapes: its classes, boxes (left, top, right, bottom), mask and middles."""
    rng = np.random.default_rng(sample.idx_in_epoch)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    image = np.stack([225 - rows // 3, 228 - columns // 5, 235 - rows // 6], -1).astype(np.float32)
    mask = np.zeros((HEIGHT, WIDTH, 1), np.int32)
    classes, boxes, middles = rng.integers(0, 3, 2, dtype=np.int32), [], []
    for number, kind in enumerate(classes, 1):
        radius = int(rng.integers(16, 28))
        x, y = int(rng.integers(radius, WIDTH - radius)), int(rng.integers(radius, HEIGHT - radius))
        across, down = np.abs(columns - x), rows - y
        inside = [
            across**2 + down**2 <= radius**2,
            np.maximum(across, np.abs(down)) <= radius,
            (across * 2 <= down + radius) & (np.abs(down) <= radius),
        ][kind]
        image[inside] = PAINT[kind] + rng.normal(0, 6, (int(inside.sum()), 1))
        mask[inside] = number
        boxes.append([x - radius, y - radius, x + radius, y + radius])
        middles.append([x, y])
    return image.clip(0, 255).astype(np.uint8), classes, np.float32(boxes), mask, np.float32(middles)


def chirp(number: int) -> np.ndarray:
    """A second of a tone that rises, and fades."""
    time = np.arange(8000) / 8000
    return (np.sin(2 * np.pi * (200 + 300 * (number + 1) * time) * time) * np.exp(-2 * time)).astype(np.float32)


@pipeline_def(batch_size=SAMPLES, num_threads=2, device_id=None, seed=3)
def shapes():
    """Scenes, brighter or darker, and what belongs to them."""
    layouts = ["HWC", None, None, "HWC", None]
    image, classes, boxes, mask, middles = fn.external_source(scene, num_outputs=5, batch=False, layout=layouts)
    return fn.brightness(image, brightness=fn.random.uniform(range=(0.7, 1.2))), classes, boxes, mask, middles


@pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=3)
def turning():
    """Each scene as a sequence that turns."""
    image = fn.external_source(lambda sample: scene(sample)[0], batch=False, layout="HWC")
    return fn.stack(
        *[fn.rotate(image, angle=8.0 * turn, fill_value=230, keep_size=True) for turn in range(6)], axis_name="F"
    )


def main() -> None:
    """Draws three pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    folder = parser.parse_args().output
    if importlib.util.find_spec("PIL") is None:
        raise SystemExit("this example needs Pillow: pip install pillow")
    folder.mkdir(parents=True, exist_ok=True)
    title = "shapes() with labels, boxes, masks and keypoints"
    given = {"labels": 1, "boxes": 2, "masks": 3, "keypoints": 4}
    shapes().show(SAMPLES, **given, names=SHAPES, title=title, path=folder / "look_at_boxes.png")
    turning().show(2, title="turning(): sequences as strips", path=folder / "look_at_strips.png")
    sounds = [chirp(number) for number in range(3)]
    pipeflow.show(sounds, title="sound: waveform and spectrogram", columns=3, path=folder / "look_at_sound.png")
    print(f"three pictures: {', '.join(f'look_at_{name}.png' for name in ('boxes', 'strips', 'sound'))} in {folder}")


if __name__ == "__main__":
    main()
