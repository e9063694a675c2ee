"""Each picture takes one of three augmentations, by an ordinary `if` in the pipeline.

    python examples/conditional_augment.py [--picture conditional_augment.png]

The pipeline writes `if`, `elif` and `else` on a random number that every sample has for itself. A picture in one branch
is not touched by the operators of the others; afterwards the batch is whole again. The grid that is written shows every
picture before (above) and after (below), with the name of the branch that it took.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    import cv2
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install opencv-python-headless") from None

SIDE = 160
COUNT = 12
BRANCHES = ("rotate", "blur", "hue")
ROWS, COLUMNS = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)


def draw(sample):
    """A picture of a house under a sun, with a garden, a little different for every sample."""
    rng = np.random.default_rng(sample.idx_in_epoch)
    picture = np.empty((SIDE, SIDE, 3), np.uint8)
    picture[:] = (np.array([150, 200, 245]) - ROWS[..., None] * 0.25).astype(np.uint8)
    ground = int(rng.integers(112, 128))
    picture[ground:] = (90, 170, 80)
    left, top = int(rng.integers(25, 60)), int(rng.integers(66, 78))
    wall = tuple(int(x) for x in rng.integers(150, 250, 3))
    cv2.rectangle(picture, (left, top), (left + 66, ground + 8), wall, -1)
    roof = np.array([[left - 10, top], [left + 76, top], [left + 33, top - 36]])
    cv2.fillPoly(picture, [roof], (170, 60, 50))
    cv2.rectangle(picture, (left + 8, top + 14), (left + 26, top + 32), (60, 80, 120), -1)
    cv2.rectangle(picture, (left + 40, top + 16), (left + 56, ground + 8), (110, 70, 40), -1)
    cv2.circle(picture, (int(rng.integers(110, 140)), 28), 15, (255, 220, 60), -1, cv2.LINE_AA)
    for x in range(6, SIDE, 18):
        cv2.circle(picture, (x, ground + 22 + int(rng.integers(0, 8))), 3, (240, 70, 130), -1, cv2.LINE_AA)
    return picture


@pipeline_def(batch_size=COUNT, device_id=None, seed=2, enable_conditionals=True)
def pipeline():
    images = fn.external_source(draw, batch=False, dtype=types.UINT8, layout="HWC")
    chance = fn.random.uniform(range=[0.0, 1.0])
    if chance < 1 / 3:
        changed = fn.rotate(images, angle=fn.random.uniform(range=[15.0, 50.0]), keep_size=True, fill_value=255)
        branch = 0
    elif chance < 2 / 3:
        changed = fn.gaussian_blur(images, sigma=4.0)
        branch = 1
    else:
        changed = fn.hsv(images, hue=fn.random.uniform(range=[90.0, 270.0]))
        branch = 2
    return images, changed, branch


def grid(before, after, branches, columns=6):
    """The pictures before and after, one above the other, with the branch between the rows."""
    tiles = []
    for index, branch in enumerate(branches):
        label = np.full((24, SIDE, 3), 255, np.uint8)
        cv2.putText(label, BRANCHES[branch], (6, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1, cv2.LINE_AA)
        tile = np.concatenate([before[index], label, after[index]])
        tiles.append(np.pad(tile, ((6, 6), (6, 6), (0, 0)), constant_values=255))
    return np.concatenate([np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "conditional_augment.png")
    arguments = parser.parse_args()
    before, after, branch = pipeline().run()
    branches = [int(number) for number in np.asarray(branch)]
    pictures = [np.asarray(batch) for batch in (before, after)]
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(arguments.picture), grid(*pictures, branches)[..., ::-1])
    for number, name in enumerate(BRANCHES):
        print(f"{name:<7} {branches.count(number)} of {COUNT} pictures")
    print(f"written: {arguments.picture}")


if __name__ == "__main__":
    main()
