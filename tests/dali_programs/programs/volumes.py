"""3-d data: resize, crop, rotate, flip, warp, slice of volumes."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show


def volume(k):
    z, y, x = np.mgrid[0:6, 0:8, 0:10]
    return ((7 * x + 11 * y + 23 * z + 5 * k) % 256).astype(np.uint8)[..., None]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def transformed():
    x = fn.external_source(lambda: [volume(k) for k in range(2)], layout="DHWC")
    return (
        fn.resize(x, size=(4, 10, 7)),
        fn.resize(x, resize_x=6, resize_y=6, resize_z=6),
        fn.crop(x, crop=(3, 4, 5)),
        fn.crop(x, crop_d=2, crop_h=4, crop_w=6, crop_pos_z=0.0),
        fn.flip(x, depthwise=1, horizontal=0),
        fn.rotate(x, angle=30.0, axis=(0, 0, 1), fill_value=0),
        fn.warp_affine(x, matrix=[1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0], fill_value=0),
        fn.crop_mirror_normalize(x, crop=(4, 4, 4), dtype=types.FLOAT, output_layout="CDHW"),
        fn.slice(x, start=[1, 2, 3], end=[4, 5, 6], axis_names="DHW"),
        fn.cast(x, dtype=types.FLOAT)[2:4],
        fn.pad(x, align=[4, 4, 4], axis_names="DHW"),
    )


show(transformed().run(), within=2)
