"""fn.resize: sizes, modes, max_size, one side alone, regions of interest."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def resized(arguments):
    images = fn.external_source(lambda: [image(20, 30), image(25, 15, seed=2)], layout="HWC")
    return fn.resize(images, interp_type=types.INTERP_LINEAR, **arguments)


for arguments in (
    dict(size=(12, 18)),
    dict(size=12),
    dict(resize_x=14),
    dict(resize_y=14),
    dict(resize_x=14, resize_y=9),
    dict(resize_shorter=10),
    dict(resize_longer=10),
    dict(resize_shorter=18, max_size=20),
    dict(size=[0, 11]),
    dict(mode="not_larger", size=(12, 12)),
    dict(mode="not_smaller", size=(12, 12)),
    dict(mode="stretch", size=(12, 16)),
    dict(size=(12, 12), roi_start=(5, 5), roi_end=(15, 14)),
    dict(size=(8, 8), roi_start=(0.2, 0.25), roi_end=(0.75, 1), roi_relative=True),
    dict(size=(8, 8), roi_start=(15, 14), roi_end=(5, 5)),
    dict(resize_x=40, subpixel_scale=False),
    dict(size=(10, 10), antialias=False),
    dict(size=(7, 9), dtype=types.FLOAT),
    dict(size=(10.6, 12.4)),
    dict(resize_x=0, resize_y=13),
):
    pipe = resized(arguments)
    pipe.build()
    show(pipe.run(), within=1)
