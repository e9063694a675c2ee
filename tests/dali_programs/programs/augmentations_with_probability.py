"""Augmentations applied with a probability, as functions that are given to a definition: branches, lists and partials."""

from functools import partial, reduce

import numpy as np
from material import image
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_error, show_form


def with_probability(function, probability, data):
    if fn.random.coin_flip(probability=probability, dtype=types.BOOL):
        return function(data)
    else:
        return data


def to_gray(data):
    gray = fn.color_space_conversion(data, image_type=types.RGB, output_type=types.GRAY)
    return fn.cat(gray, gray, gray, axis=2)


def solarized(data):
    shifted = fn.cast(data, dtype=types.INT16)
    return fn.cast(shifted * (shifted < 128) + (255 - shifted) * (shifted >= 128), dtype=types.UINT8)


STEPS = [
    (partial(fn.flip, horizontal=1), 1.0),
    (to_gray, 0.0),
    (solarized, 1.0),
    (lambda data: fn.resize(data, size=(4, 4)), 1.0),
]


@pipeline_def(batch_size=3, num_threads=2, device_id=None, enable_conditionals=True, seed=9)
def augmented(steps):
    data = fn.external_source(lambda: [image(8, 6, seed=number) for number in range(3)], layout="HWC")
    for function, probability in steps:
        data = with_probability(function, probability, data)
    return data


@pipeline_def(batch_size=3, num_threads=2, device_id=None, enable_conditionals=True, seed=9)
def reduced(steps):
    data = fn.external_source(lambda: [image(8, 6, seed=number) for number in range(3)], layout="HWC")
    return reduce(lambda value, step: with_probability(step[0], step[1], value), steps, data)


@pipeline_def(batch_size=3, num_threads=2, device_id=None, enable_conditionals=True, seed=9)
def nested():
    data = fn.external_source(lambda: [image(8, 6, seed=number) for number in range(3)], layout="HWC")
    number = fn.external_source(lambda: [np.int32(value) for value in (0, 1, 2)])
    if number == 0:
        if fn.reductions.mean(data) > 0:
            data = fn.brightness(data, brightness=0.5)
        else:
            data = fn.brightness(data, brightness=2.0)
    elif number == 1:
        data = fn.contrast(data, contrast=0.5)
    else:
        data = fn.flip(data)
    done = not number == 2  # noqa: SIM201
    return data, done, fn.crop_mirror_normalize(data, mean=[128.0], std=[2.0], output_layout="CHW")


show(augmented(STEPS).run(), reduced(STEPS).run(), nested().run(), within=1)
show_form(augmented([(to_gray, 0.5), (solarized, 0.5)]).run())
show_error(lambda: augmented([(lambda data: None, 0.5)]).run())
