"""warp_affine and rotate, with matrices made by transforms."""

import math

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


def random_transform(index):
    angle = math.radians(15 * (index + 1))
    return np.float32([[math.cos(angle), math.sin(angle), -3 + index], [-math.sin(angle), math.cos(angle), 4]])


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def warped():
    images = fn.external_source(lambda: [image(20, 24), image(18, 22, seed=2)], layout="HWC")
    transform = fn.external_source(lambda: [random_transform(k) for k in range(2)])
    turned = fn.transforms.rotation(angle=30.0, center=(12, 10))
    scaled = fn.transforms.scale(turned, scale=(0.8, 1.2))
    return (
        fn.warp_affine(images, transform, size=(20, 20), fill_value=42),
        fn.warp_affine(images, matrix=(1, 0.2, 0, 0.1, 1, 0), interp_type=types.INTERP_NN, fill_value=0),
        fn.warp_affine(images, matrix=scaled, inverse_map=False, fill_value=0),
        fn.warp_affine(images, transform),
        fn.rotate(images, angle=25.0, fill_value=7),
        fn.rotate(images, angle=45.0, keep_size=True, fill_value=0),
        fn.rotate(images, angle=90, interp_type=types.INTERP_NN, fill_value=0),
        fn.rotate(images, angle=10, size=(30, 30), fill_value=0),
    )


pipe = warped()
pipe.build()
show(pipe.run(), within=2)
