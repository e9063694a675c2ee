"""Branches of different types: an error of a batch that takes both, and of no other."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error

settings = dict(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)


def number():
    return fn.external_source(lambda info: np.int32(info.idx_in_epoch), batch=False)


def halves_from(threshold):
    @pipeline_def(**settings)
    def definition():
        x = number()
        if x < threshold:
            y = x
        else:
            y = x / 2
        return y, y + 1

    return definition()


def stacked_from(threshold):
    @pipeline_def(**settings)
    def definition():
        x = number()
        if x < threshold:
            y = x
        else:
            y = fn.stack(x, x)
        return y

    return definition()


def layouts_from(threshold):
    @pipeline_def(**settings)
    def definition():
        x = number()
        pair = fn.stack(x, x)
        if x < threshold:
            y = fn.reinterpret(pair, layout="A")
        else:
            y = fn.reinterpret(pair, layout="B")
        return y

    return definition()


for make in (halves_from, stacked_from, layouts_from):
    for threshold in (100, -1):
        show(make(threshold).run())
    show_error(lambda: make(2).run())

pipe = stacked_from(4)
show(pipe.run(), pipe.run())
