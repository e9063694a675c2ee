"""A detector's pipeline with boxes from the user's own data set and functions."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import encoded
from nvidia.dali import pipeline_def
from shown import show


class Detection:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __call__(self, info):
        if info.idx_in_epoch >= self.size:
            raise StopIteration
        count = 1 + info.idx_in_epoch % 3
        boxes = np.stack([np.float32([0.1 * k, 0.2, 0.5, 0.4 + 0.1 * k]) for k in range(count)])
        return encoded(info.idx_in_epoch), boxes, np.int64(np.arange(count))


def flip_boxes(boxes, mirror):
    left, top, right, bottom = boxes.T
    return np.stack([1 - right, top, 1 - left, bottom], 1) if mirror else boxes


@pipeline_def(batch_size=4, num_threads=2, device_id=None, exec_async=False, exec_pipelined=False)
def detection():
    jpegs, boxes, labels = fn.external_source(Detection(8), num_outputs=3, batch=False)
    mirror = fn.cast(labels.shape()[0] == 2, dtype=types.INT32)
    images = fn.decoders.image(jpegs)
    shape = images.shape()
    images = fn.resize(images, size=(20, 20), interp_type=types.INTERP_LINEAR)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=[127.0] * 3, std=[50.0] * 3, mirror=mirror)
    boxes = fn.python_function(boxes, mirror, function=flip_boxes)
    sizes = fn.cast(fn.stack(shape[1], shape[0], shape[1], shape[0]), dtype=types.FLOAT)
    in_pixels = boxes * sizes
    return images, fn.pad(boxes, fill_value=-1), in_pixels, fn.pad(labels, fill_value=-1), mirror


pipe = detection()
pipe.build()
for _ in range(2):
    images, *others = pipe.run()
    show(images, within=0.03)
    show(others)
