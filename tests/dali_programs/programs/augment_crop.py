"""Crops: crop, crop_mirror_normalize, slice and random_resized_crop's shape."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show, show_error, show_form


@pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=1)
def cropped():
    images = fn.external_source(lambda: [image(20, 24), image(18, 22, seed=2)], layout="HWC")
    position = fn.external_source(lambda: [np.float32(0.1), np.float32(0.9)])
    mirror = fn.external_source(lambda: [np.int32(0), np.int32(1)])
    imagenet = dict(mean=[0.485 * 255, 0.456 * 255, 0.406 * 255], std=[0.229 * 255, 0.224 * 255, 0.225 * 255])
    return (
        fn.crop(images, crop=(8, 10)),
        fn.crop(images, crop_h=5, crop_w=7, crop_pos_x=position, crop_pos_y=0.0),
        fn.crop(images, crop=(22, 30), out_of_bounds_policy="pad", fill_values=[1, 2, 3]),
        fn.crop(images, crop=(30, 10), out_of_bounds_policy="trim_to_shape"),
        fn.crop(images, crop=(6, 6), dtype=types.FLOAT),
        fn.crop_mirror_normalize(
            images, crop=(12, 12), mirror=mirror, dtype=types.FLOAT, output_layout="CHW", **imagenet
        ),
        fn.crop_mirror_normalize(
            images, mirror=1, output_layout="HWC", dtype=types.FLOAT16, pad_output=True, **imagenet
        ),
        fn.crop_mirror_normalize(images, crop=(9, 9), dtype=types.UINT8, scale=2.0, shift=10.0, mean=50.0, std=1.5),
        fn.flip(images, horizontal=mirror, vertical=1 - mirror),
    )


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=1)
def at_random():
    images = fn.external_source(lambda: [image(20, 24)] * 4, layout="HWC")
    return fn.random_resized_crop(images, size=(8, 8), random_area=(0.2, 0.9)), fn.random_resized_crop(images, size=7)


pipe = cropped()
pipe.build()
show(pipe.run(), within=1)
pipe = at_random()
pipe.build()
show_form(pipe.run())


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def too_large():
    return fn.crop(fn.external_source(lambda: [image(5, 5)], layout="HWC"), crop=(6, 3))


show_error(lambda: too_large().run())
