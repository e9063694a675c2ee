"""Image, boxes and mask through the same random crop, flip and resize, drawn before and after.

    python examples/detection.py [--output examples/output/detection.png]

The random numbers are nodes of the graph: whatever reads them sees the same draw. A window and a coin are drawn once;
the image, the mask and the boxes each use them in their own way. Members of an input set, `fn.resize([image, mask],
...)`, share all arguments, but may have filters of their own: the mask's class numbers must not be blended.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeflow import fn, math, pipeline_def, types

try:
    from PIL import Image, ImageDraw
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install pillow") from None

SIDE, SAMPLES = 240, 4
COLOURS = [(235, 90, 70), (80, 180, 90), (85, 120, 235)]


def draw_sample(sample_info):
    """A scene of ellipses: the picture, each one's box (left, top, right, bottom; relative) and its class in a mask."""
    rng = np.random.default_rng(sample_info.idx_in_epoch)
    picture = Image.new("RGB", (320, 240), tuple(int(v) for v in rng.integers(180, 230, 3)))
    mask = Image.new("L", picture.size)
    boxes = []
    for kind in rng.permutation(3):
        width, height = rng.integers(50, 110, 2)
        left, top = rng.integers(0, 320 - width), rng.integers(0, 240 - height)
        corners = [int(left), int(top), int(left + width), int(top + height)]
        ImageDraw.Draw(picture).ellipse(corners, COLOURS[kind], outline=(40, 40, 40))
        ImageDraw.Draw(mask).ellipse(corners, int(kind) + 1)
        boxes.append(np.array(corners) / (320, 240, 320, 240))
    return np.asarray(picture), np.asarray(mask)[..., None], np.array(boxes, np.float32)


@pipeline_def(batch_size=SAMPLES, num_threads=2, seed=12)
def augmented():
    """Before: image, mask, boxes. After: the same through one random window and one coin."""
    image, mask, boxes = fn.external_source(
        source=draw_sample,
        num_outputs=3,
        batch=False,
        layout=["HWC", "HWC", None],
        dtype=[types.UINT8, types.UINT8, types.FLOAT],
        ndim=[3, 3, 2],
    )
    extent = fn.random.uniform(range=(0.6, 0.9), shape=(2,))  # of the window, relative to width and height
    start = fn.random.uniform(range=(0.0, 1.0), shape=(2,)) * (1.0 - extent)
    mirror = fn.random.coin_flip()

    # Pixels: cut, mirror and resize; the mask by nearest neighbour.
    parts = fn.slice([image, mask], rel_start=start, rel_shape=extent, axis_names="WH")
    new_image, new_mask = fn.resize(
        fn.flip(parts, horizontal=mirror), size=(SIDE, SIDE), interp_type=[types.INTERP_LINEAR, types.INTERP_NN]
    )

    # Boxes: the same window as a transform of coordinates, then the coin: x' = coin + (1 - 2 coin) x.
    corners = fn.reshape(boxes, shape=(-1, 2))
    inside = math.clamp((corners - start) / extent, 0.0, 1.0)
    coin = fn.cast(mirror, dtype=types.FLOAT)
    x = coin + (1.0 - 2.0 * coin) * inside[:, 0:1]
    return image, mask, boxes, new_image, new_mask, fn.cat(x, inside[:, 1:2], axis=1)


def shown(image: np.ndarray, mask: np.ndarray, boxes: np.ndarray) -> Image.Image:
    """A picture, striped where the mask has a class, and the boxes around."""
    stripes = np.add.outer(np.arange(image.shape[0]), np.arange(image.shape[1])) // 6 % 2
    covered = np.where((mask > 0) & (stripes[..., None] > 0), image * 0.7, image)
    picture = Image.fromarray(covered.astype(np.uint8)).resize((SIDE, SIDE))
    for box in np.sort(boxes.reshape(-1, 2, 2), axis=1) * (SIDE - 1):  # a mirrored box has left and right exchanged
        (left, top), (right, bottom) = box.tolist()
        if right - left > 1 and bottom - top > 1:
            ImageDraw.Draw(picture).rectangle((left, top, right, bottom), outline=(20, 20, 20), width=2)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "detection.png")
    output = parser.parse_args().output
    batches = augmented().run()
    page = Image.new("RGB", (SAMPLES * (SIDE + 8) + 8, 2 * (SIDE + 8) + 8), (250, 250, 247))
    for sample in range(SAMPLES):
        values = [np.asarray(batch.at(sample)) for batch in batches]
        for row in range(2):
            page.paste(shown(*values[3 * row : 3 * row + 3]), (8 + sample * (SIDE + 8), 8 + row * (SIDE + 8)))
    output.parent.mkdir(parents=True, exist_ok=True)
    page.save(output)
    print(f"{SAMPLES} samples, before and after, in {output}")


if __name__ == "__main__":
    main()
