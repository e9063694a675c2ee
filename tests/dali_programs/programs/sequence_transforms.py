"""Warps of sequences: one matrix for each frame, made by transforms with values for each frame."""

import numpy as np
from material import image
from nvidia.dali import fn, pipeline_def, types
from shown import show

CLIPS = [np.stack([image(12, 16, seed=10 * clip + frame) for frame in range(3)]) for clip in range(2)]
POINTS = [np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([[0, 0]])]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def moved():
    clips = fn.external_source(lambda: CLIPS, layout="FHWC")
    steps = fn.external_source(lambda: [np.float32([[0, 0], [2, 1], [4, 2]]), np.float32([[1, 1]] * 3)])
    shift = fn.transforms.translation(offset=fn.per_frame(steps))
    scaled = fn.transforms.scale(shift, scale=[1.0, 2.0])
    both = fn.transforms.combine(shift, np.float32([[0, 1, 0], [1, 0, 0]]))
    warped = fn.warp_affine(clips, matrix=shift, interp_type=types.INTERP_NN, inverse_map=False, fill_value=0)
    points = fn.external_source(lambda: POINTS)
    return shift, scaled, both, warped, fn.coord_transform(points, MT=shift), fn.coord_transform(points, T=[1.0, 2.0])


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def colored():
    clips = fn.external_source(lambda: CLIPS, layout="FHWC")
    factors = fn.external_source(lambda: [np.float32([0.5, 1.0, 1.5]), np.float32([2.0])])
    angles = fn.external_source(lambda: [np.float32([0, 90, 180]), np.float32([90, 0, 90])])
    return (
        fn.brightness(clips, brightness=fn.per_frame(factors)),
        fn.rotate(clips, angle=fn.per_frame(angles), interp_type=types.INTERP_NN, fill_value=0).shape(),
        fn.crop(clips, crop=(4, 6), crop_pos_x=0.25),
        fn.gaussian_blur(clips, sigma=fn.per_frame(factors)).shape(),
    )


show(moved().run(), colored().run())
