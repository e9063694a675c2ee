"""What SSD and RetinaNet train on: images with boxes, cropped or rescaled, mirrored, and encoded as targets for anchors.

    python examples/detection_inputs.py [--output examples/output/detection_inputs.png]

SSD: a random window that keeps some of the boxes, a fixed size, and one target for each anchor from `fn.box_encoder`.
RetinaNet: the image rescaled as a whole, padded to a fixed size, its boxes mirrored and rescaled with it. The pictures show
the boxes, and the anchors that were matched with one of them, decoded again from the targets.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeflow import fn, pipeline_def, types

try:
    from PIL import Image, ImageDraw
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install pillow") from None

SIDE, SAMPLES = 240, 4
COLOURS = [(235, 90, 70), (80, 180, 90), (85, 120, 235)]
MEANS, DEVIATIONS = [0.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.2, 0.2]


def anchors() -> np.ndarray:
    """Boxes of three sizes and three shapes around every point of three grids: left, top, right, bottom, relative."""
    found = []
    for cells, size in ((8, 0.15), (4, 0.3), (2, 0.6)):
        centers = (np.arange(cells) + 0.5) / cells
        for ratio in (0.5, 1.0, 2.0):
            half = size * np.array([ratio**0.5, ratio**-0.5]) / 2
            found += [(x - half[0], y - half[1], x + half[0], y + half[1]) for y in centers for x in centers]
    return np.clip(np.array(found, np.float32), 0, 1)


ANCHORS = anchors()


def draw_sample(sample_info):
    """A scene of ellipses: the picture, each one's box (left, top, right, bottom; relative) and its class from 1."""
    rng = np.random.default_rng(sample_info.idx_in_epoch)
    picture = Image.new("RGB", (320, 240), tuple(int(v) for v in rng.integers(180, 230, 3)))
    boxes, kinds = [], rng.permutation(3)
    for kind in kinds:
        width, height = rng.integers(50, 120, 2)
        left, top = rng.integers(0, 320 - width), rng.integers(0, 240 - height)
        corners = [int(left), int(top), int(left + width), int(top + height)]
        ImageDraw.Draw(picture).ellipse(corners, COLOURS[kind], outline=(40, 40, 40))
        boxes.append(np.array(corners) / (320, 240, 320, 240))
    return np.asarray(picture), np.array(boxes, np.float32), kinds.astype(np.int32) + 1


def scenes():
    """Images, boxes and labels."""
    return fn.external_source(
        source=draw_sample,
        num_outputs=3,
        batch=False,
        layout=["HWC", None, None],
        dtype=[types.UINT8, types.FLOAT, types.INT32],
        ndim=[3, 2, 1],
    )


def encoded(boxes, labels):
    """A target for each anchor: how its matched box differs from it, and the class, 0 for background."""
    targets, classes = fn.box_encoder(
        boxes, labels, anchors=ANCHORS.ravel().tolist(), criteria=0.5, offset=True, means=MEANS, stds=DEVIATIONS
    )
    return targets, classes


@pipeline_def(batch_size=SAMPLES, num_threads=2, seed=7)
def ssd():
    """A window with an overlap of at least 0.1 to 0.9, or any, with the boxes whose centres it holds."""
    images, boxes, labels = scenes()
    start, extent, boxes, labels = fn.random_bbox_crop(
        boxes,
        labels,
        aspect_ratio=[0.5, 2.0],
        thresholds=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9],
        scaling=[0.3, 1.0],
        bbox_layout="xyXY",
        all_boxes_above_threshold=False,
        num_attempts=20,
    )
    images = fn.slice(images, start, extent)
    images = fn.resize(images, size=(SIDE, SIDE))
    mirror = fn.random.coin_flip()
    boxes = fn.bb_flip(boxes, ltrb=True, horizontal=mirror)
    bright, contrast = (fn.random.uniform(range=(0.7, 1.3)) for _ in range(2))
    images = fn.brightness_contrast(images, brightness=bright, contrast=contrast)
    normalized = fn.crop_mirror_normalize(
        images, mirror=mirror, mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.0], dtype=types.FLOAT
    )
    return (fn.flip(images, horizontal=mirror), boxes, labels, normalized, *encoded(boxes, labels))


@pipeline_def(batch_size=SAMPLES, num_threads=2, seed=7)
def retinanet():
    """The longer side fits, the rest is filled; boxes are relative to the filled image."""
    images, boxes, labels = scenes()
    mirror = fn.random.coin_flip()
    images = fn.flip(images, horizontal=mirror)
    boxes = fn.bb_flip(boxes, ltrb=True, horizontal=mirror)
    images = fn.resize(images, size=(SIDE, SIDE), mode="not_larger")
    height_width = fn.cast(fn.shapes(images)[0:2], dtype=types.FLOAT) / float(SIDE)
    scale = fn.stack(height_width[1], height_width[0], height_width[1], height_width[0])
    boxes = boxes * scale
    images = fn.crop(images, crop=(SIDE, SIDE), crop_pos_x=0.0, crop_pos_y=0.0, out_of_bounds_policy="pad")
    normalized = fn.crop_mirror_normalize(images, mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.0], dtype=types.FLOAT)
    return (images, boxes, labels, normalized, *encoded(boxes, labels))


def decoded(targets: np.ndarray, classes: np.ndarray) -> list[tuple[list[float], int]]:
    """The boxes that the targets of the matched anchors stand for, with their classes."""
    found = []
    for anchor, target, kind in zip(ANCHORS, targets * DEVIATIONS, classes, strict=True):
        if kind:
            extent, center = anchor[2:] - anchor[:2], (anchor[:2] + anchor[2:]) / 2
            middle, size = center + target[:2] * extent, np.exp(target[2:]) * extent
            found.append(([*(middle - size / 2), *(middle + size / 2)], int(kind)))
    return found


def shown(image: np.ndarray, boxes: np.ndarray, targets: np.ndarray, classes: np.ndarray) -> Image.Image:
    """A picture with the matched anchors, thin, and the boxes, thick."""
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    for anchor, kind in zip(ANCHORS * (SIDE - 1), classes, strict=True):
        if kind:
            draw.rectangle(anchor.tolist(), outline=(255, 255, 255))
    for box, kind in decoded(targets, classes):
        draw.rectangle([value * (SIDE - 1) for value in box], outline=COLOURS[kind - 1], width=2)
    for box in boxes * (SIDE - 1):
        draw.rectangle(box.tolist(), outline=(20, 20, 20))
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "detection_inputs.png")
    output = parser.parse_args().output
    page = Image.new("RGB", (SAMPLES * (SIDE + 8) + 8, 2 * (SIDE + 8) + 8), (250, 250, 247))
    for row, (name, definition) in enumerate((("SSD", ssd), ("RetinaNet", retinanet))):
        batches = definition().run()
        matched, kept = 0, 0
        for sample in range(SAMPLES):
            image, boxes, labels, normalized, targets, classes = (np.asarray(batch.at(sample)) for batch in batches)
            assert normalized.shape == (3, SIDE, SIDE)
            matched, kept = matched + int((classes > 0).sum()), kept + len(labels)
            page.paste(shown(image, boxes, targets, classes), (8 + sample * (SIDE + 8), 8 + row * (SIDE + 8)))
        print(f"{name}: {kept} boxes, {matched} of {SAMPLES * len(ANCHORS)} anchors matched")
    output.parent.mkdir(parents=True, exist_ok=True)
    page.save(output)
    print(f"the pictures are in {output}")


if __name__ == "__main__":
    main()
