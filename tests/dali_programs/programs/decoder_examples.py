"""The decoders: whole, cropped, sliced and at random, to every color space."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show, show_form

settings = dict(batch_size=4, num_threads=2, device_id=None, seed=12)


@pipeline_def(**settings)
def whole(output_type):
    jpegs, _ = fn.readers.file(file_root=PICTURES)
    return fn.decoders.image(jpegs, output_type=output_type)


@pipeline_def(**settings)
def parts():
    jpegs, _ = fn.readers.file(file_root=PICTURES)
    cropped = fn.decoders.image_crop(jpegs, crop=(24, 30), crop_pos_x=0.25, crop_pos_y=1.0)
    sliced = fn.decoders.image_slice(jpegs, (0.1, 0.2), (0.5, 0.4), axis_names="WH")
    by_arguments = fn.decoders.image_slice(jpegs, rel_start=[0.5, 0.25], rel_end=[1.0, 0.75], axis_names="HW")
    start = fn.decoders.image_slice(jpegs, start=[3, 4], shape=[12, 10], axes=[0, 1])
    return cropped, sliced, by_arguments, start


@pipeline_def(**settings)
def at_random():
    jpegs, _ = fn.readers.file(file_root=PICTURES)
    crop = fn.decoders.image_random_crop(
        jpegs, random_aspect_ratio=[0.8, 1.25], random_area=[0.1, 1.0], num_attempts=100
    )
    return fn.resize(crop, size=[16, 16])


for output_type in (types.RGB, types.BGR, types.GRAY, types.YCbCr):
    pipe = whole(output_type)
    pipe.build()
    show(pipe.run(), within=1)
pipe = parts()
pipe.build()
show(pipe.run(), within=1)
pipe = at_random()
pipe.build()
show_form(pipe.run())
