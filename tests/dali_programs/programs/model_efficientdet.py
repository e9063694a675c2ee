"""A detector's pipeline over TFRecord: boxes as lists of any length, windows larger than the image, targets in layers."""

from pathlib import Path

import numpy as np
import nvidia.dali as dali
from material import FILES, picture_size, write_tfrecord
from nvidia.dali import fn, tfrecord, types
from shown import show, show_form

SIDES = ("xmin", "ymin", "xmax", "ymax")
anchors = np.float32([[x - 0.2, y - 0.3, x + 0.2, y + 0.3] for y in (0.3, 0.7) for x in (0.2, 0.5, 0.8)])
examples = []
for number, path in enumerate(FILES):
    count = 1 + number % 3
    height, width = picture_size(path)
    sides = {
        "xmin": [0.1] * count,
        "ymin": [0.2] * count,
        "xmax": [0.5 + 0.1 * k for k in range(count)],
        "ymax": [0.8] * count,
    }
    features = {f"image/object/bbox/{side}": np.float32(values) for side, values in sides.items()}
    features |= {"image/encoded": Path(path).read_bytes(), "image/object/class/label": np.arange(count) + 1}
    examples.append({**features, "image/height": [height], "image/width": [width]})
record, index = write_tfrecord("train.tfrecord", examples)


def read():
    features = {f"image/object/bbox/{side}": tfrecord.VarLenFeature(tfrecord.float32, 0.0) for side in SIDES}
    features["image/encoded"] = tfrecord.FixedLenFeature((), tfrecord.string, "")
    features["image/object/class/label"] = tfrecord.VarLenFeature(tfrecord.int64, 0)
    inputs = fn.readers.tfrecord(path=[record], index_path=[index], features=features)
    images = fn.decoders.image(inputs["image/encoded"], device="cpu", output_type=types.RGB)
    boxes = fn.transpose(fn.stack(*(inputs[f"image/object/bbox/{side}"] for side in SIDES)), perm=[1, 0], device="cpu")
    return images, boxes, fn.cast(inputs["image/object/class/label"], dtype=types.INT32, device="cpu")


def normalized(images, boxes, flip):
    images = fn.crop_mirror_normalize(
        images, mirror=flip, mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.5], output_layout=types.NHWC
    )
    return images, fn.bb_flip(boxes, horizontal=flip, ltrb=True)


def windows_by_share(images, boxes, classes, size):
    start, extents, boxes, classes = fn.random_bbox_crop(
        boxes, classes, scaling=[0.1, 2.0], bbox_layout="xyXY", allow_no_crop=False
    )
    images = fn.slice(images, start, extents, out_of_bounds_policy="pad")
    return fn.resize(images, resize_x=size[0], resize_y=size[1]), boxes, classes


def windows_by_pixels(images, boxes, classes, size):
    scale = fn.random.uniform(range=[0.1, 2.0])
    shape = fn.shapes(images, dtype=types.INT32, device="cpu")
    width, height = (fn.slice(shape, axis, 1, axes=[0], device="cpu") for axis in (1, 0))
    factor = dali.math.min(scale * size[0] / width, scale * size[1] / height)
    images = fn.resize(images, resize_x=width * factor, resize_y=height * factor)
    start, extents, boxes, classes = fn.random_bbox_crop(
        boxes,
        classes,
        crop_shape=fn.constant(idata=size, device="cpu"),
        input_shape=fn.cast(fn.cat(width * factor, height * factor), dtype=types.INT32),
        bbox_layout="xyXY",
        allow_no_crop=False,
    )
    start, extents = fn.cast(start, dtype=types.INT32), fn.cast(extents, dtype=types.INT32)
    return fn.slice(images, start, extents, out_of_bounds_policy="pad"), boxes, classes


def whole(images, boxes, classes, size):
    return fn.resize(images, resize_x=size[0], resize_y=size[1]), boxes, classes


def targets(boxes, classes):
    boxes, classes = fn.box_encoder(boxes, classes, anchors=anchors.ravel().tolist(), offset=True)
    for begin, rows, columns in ((0, 2, 1), (2, 2, 2)):
        count = rows * columns
        yield fn.reshape(fn.slice(classes, begin, count, axes=[0]), [rows, columns, -1])
        yield fn.reshape(fn.slice(boxes, (begin, 0), (count, 4), axes=[0, 1]), [rows, columns, -1])


for crop, shown in ((windows_by_share, show_form), (windows_by_pixels, show_form), (whole, show)):
    pipe = dali.pipeline.Pipeline(batch_size=4, num_threads=2, device_id=None, seed=8)
    with pipe:
        images, boxes, classes = read()
        flip = fn.random.coin_flip(probability=0.5) if crop is not whole else 1
        images, boxes = normalized(images, boxes, flip)
        images, boxes, classes = crop(images, boxes, classes, (40, 32))
        pipe.set_outputs(*targets(boxes, classes), fn.reductions.mean(images) if crop is whole else images)
    pipe.build()
    shown(*pipe.run(), **({"within": 0.01} if shown is show else {}))
