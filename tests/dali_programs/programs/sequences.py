"""Sequences of frames: operators on FHWC, per-frame arguments, and rearranging."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


def clips():
    return [np.stack([image(8, 10, seed=10 * clip + frame) for frame in range(3 + clip)]) for clip in range(2)]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def sequence():
    frames = fn.external_source(clips, layout="FHWC")
    angles = fn.external_source(lambda: [np.float32([0, 30, 60]), np.float32([0, 10, 20, 30])])
    first, third = fn.element_extract(frames, element_map=[0, 2])
    return (
        fn.resize(frames, size=(6, 6)),
        fn.rotate(frames, angle=fn.per_frame(angles), keep_size=True, fill_value=0),
        fn.crop(frames, crop=(4, 5)),
        fn.flip(frames),
        first,
        third,
        fn.sequence_rearrange(frames, new_order=[2, 0, 0, 1]),
        fn.crop_mirror_normalize(frames, dtype=types.FLOAT, output_layout="FCHW", mean=[1.0, 2.0, 3.0]),
        fn.brightness(frames, brightness=fn.per_frame(angles)),
        fn.gaussian_blur(frames, window_size=3),
        fn.color_space_conversion(frames, image_type=types.RGB, output_type=types.GRAY),
        frames[:, :, ::2],
    )


show(sequence().run(), within=2)
