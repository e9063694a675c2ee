"""Four images in one with their boxes (mosaic), and a window of one image in another with mixed labels (cut-mix).

    python examples/mosaic.py [--output examples/output/mosaic.png]

`fn.multi_paste` puts parts of images of the same batch together; all it needs are numbers, which are nodes like any other.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeflow import fn, math, pipeline_def, types

try:
    from PIL import Image, ImageDraw
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install pillow") from None

SIDE, SAMPLES = 200, 6
COLOURS = [(235, 90, 70), (80, 180, 90), (85, 120, 235), (240, 190, 60), (160, 90, 200), (90, 200, 200)]


def draw_sample(sample_info):
    """One large ellipse of the sample's colour: the picture, its box (left, top, right, bottom; pixels) and its class."""
    rng = np.random.default_rng(sample_info.idx_in_epoch)
    kind = sample_info.idx_in_epoch % len(COLOURS)
    picture = Image.new("RGB", (SIDE, SIDE), tuple(int(v) for v in rng.integers(190, 235, 3)))
    width, height = rng.integers(80, 150, 2)
    left, top = rng.integers(0, SIDE - width), rng.integers(0, SIDE - height)
    box = [int(left), int(top), int(left + width), int(top + height)]
    ImageDraw.Draw(picture).ellipse(box, COLOURS[kind], outline=(40, 40, 40))
    return np.asarray(picture), np.array(box, np.float32), np.int32(kind)


def drawings():
    """Images, boxes and classes."""
    return fn.external_source(
        source=draw_sample,
        num_outputs=3,
        batch=False,
        layout=["HWC", None, None],
        dtype=[types.UINT8, types.FLOAT, types.INT32],
        ndim=[3, 1, 0],
    )


@pipeline_def(batch_size=SAMPLES, num_threads=2, seed=3)
def mosaic():
    """Four images around a random point, each shown from its own upper left corner."""
    images, boxes, _ = drawings()
    orders = [fn.batch_permutation() for _ in range(4)]
    point = fn.random.uniform(range=[60, 140], shape=(2,), dtype=types.INT32)  # y, x
    y, x = point[0], point[1]
    zero, full = types.Constant(np.int32(0)), types.Constant(np.int32(SIDE))
    corners = [fn.stack(zero, zero), fn.stack(zero, x), fn.stack(y, zero), fn.stack(y, x)]
    extents = [fn.stack(y, x), fn.stack(y, full - x), fn.stack(full - y, x), fn.stack(full - y, full - x)]
    canvas = fn.multi_paste(
        images,
        in_ids=fn.stack(*orders),
        out_anchors=fn.stack(*corners),
        shapes=fn.stack(*extents),
        output_size=(SIDE, SIDE),
    )
    placed = []
    for order, corner, extent in zip(orders, corners, extents, strict=True):
        start, end = (fn.cast(fn.stack(part[1], part[0]), dtype=types.FLOAT) for part in (corner, extent))
        box = fn.permute_batch(boxes, indices=order)
        placed.append(fn.cat(math.min(box[0:2], end) + start, math.min(box[2:4], end) + start))
    return canvas, fn.stack(*placed)


@pipeline_def(batch_size=SAMPLES, num_threads=2, seed=3)
def cut_mix():
    """A window of another image of the batch; the label is shared by area."""
    images, _, kinds = drawings()
    partner = fn.batch_permutation()
    share = fn.random.beta(alpha=1.0, beta=1.0)
    side = fn.cast(float(SIDE) * math.sqrt(1.0 - share), dtype=types.INT32)
    room = fn.cast(SIDE - side, dtype=types.FLOAT) + 0.99
    corner = fn.cast(math.floor(fn.random.uniform(range=(0.0, 1.0), shape=(2,)) * room), dtype=types.INT32)
    own = fn.external_source(source=lambda info: np.int32(info.idx_in_batch), batch=False, dtype=types.INT32, ndim=0)
    zero = types.Constant(np.zeros(2, np.int32))
    extent = fn.stack(side, side)
    mixed = fn.multi_paste(
        images,
        in_ids=fn.stack(own, partner),
        in_anchors=fn.stack(zero, corner),
        out_anchors=fn.stack(zero, corner),
        shapes=fn.stack(types.Constant(np.full(2, SIDE, np.int32)), extent),
        output_size=(SIDE, SIDE),
    )
    kept = 1.0 - fn.cast(side * side, dtype=types.FLOAT) / float(SIDE * SIDE)
    one_hot = fn.one_hot(kinds, num_classes=len(COLOURS), dtype=types.FLOAT)
    labels = one_hot * kept + fn.permute_batch(one_hot, indices=partner) * (1.0 - kept)
    return mixed, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "mosaic.png")
    output = parser.parse_args().output
    page = Image.new("RGB", (SAMPLES * (SIDE + 8) + 8, 2 * (SIDE + 30) + 8), (250, 250, 247))
    write = ImageDraw.Draw(page)
    canvases, boxes = mosaic().run()
    mixes, labels = cut_mix().run()
    for sample in range(SAMPLES):
        left = 8 + sample * (SIDE + 8)
        picture = Image.fromarray(np.asarray(canvases.at(sample)))
        shown = [box for box in np.asarray(boxes.at(sample)).tolist() if box[2] - box[0] > 4 and box[3] - box[1] > 4]
        for box in shown:
            ImageDraw.Draw(picture).rectangle(box, outline=(20, 20, 20), width=2)
        page.paste(picture, (left, 8))
        write.text((left, 12 + SIDE), f"{len(shown)} boxes", (60, 60, 60))
        page.paste(Image.fromarray(np.asarray(mixes.at(sample))), (left, 38 + SIDE))
        parts = [f"{kind}: {share:.2f}" for kind, share in enumerate(np.asarray(labels.at(sample))) if share > 0]
        write.text((left, 42 + 2 * SIDE), ", ".join(parts), (60, 60, 60))
        print(f"sample {sample}: {len(shown)} boxes; {', '.join(parts)}")
    output.parent.mkdir(parents=True, exist_ok=True)
    page.save(output)
    print(f"the pictures are in {output}")


if __name__ == "__main__":
    main()
