"""Conversions between color spaces, through files and through arrays."""

import itertools

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show

spaces = [types.RGB, types.BGR, types.YCbCr, types.GRAY]


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def converted(given, wanted):
    channels = 1 if given == types.GRAY else 3
    images = fn.external_source(lambda: [image(9, 7, channels)], layout="HWC")
    return fn.color_space_conversion(images, image_type=given, output_type=wanted)


for given, wanted in itertools.product(spaces, spaces):
    if given == wanted:
        continue
    pipe = converted(given, wanted)
    pipe.build()
    show(pipe.run(), within=1)
