"""fn.erase: one region, several, relative, by axis names, with fill values, centered."""

import numpy as np
import nvidia.dali.fn as fn
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def erased(arguments):
    images = fn.external_source(lambda: [image(12, 16)] * 2, layout="HWC")
    return fn.erase(images, **arguments)


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def by_sample():
    images = fn.external_source(lambda: [image(12, 16)] * 2, layout="HWC")
    anchor, shape = fn.external_source(lambda: ([np.float32([1, 2]), np.float32([3, 4])], [np.float32([5, 5])] * 2), 2)
    return fn.erase(images, anchor=anchor, shape=shape, axis_names="HW", fill_value=(120, 120, 0))


for arguments in (
    dict(anchor=(2, 3), shape=(5, 6), axis_names="HW"),
    dict(anchor=(2, 3), shape=(5, 6), axis_names="WH"),
    dict(anchor=(2, 3), shape=(5, 6), axes=(1, 0)),
    dict(anchor=(3,), shape=(4,), axis_names="W", fill_value=(9, 8, 7)),
    dict(anchor=(0, 0, 6, 6), shape=(3, 3, 4, 5), axis_names="HW"),
    dict(anchor=(8, 8), shape=(40, 40), axis_names="HW"),
    dict(anchor=(0.5, 0.25), shape=(0.25, 0.5), axis_names="HW", normalized=True),
    dict(anchor=(2,), shape=(2,), axes=[0]),
    dict(anchor=(0.5, 0.25), shape=(4, 4), axis_names="HW", normalized_anchor=True),
    dict(anchor=(6, 6), shape=(4, 4), axis_names="HW", centered_anchor=True),
):
    pipe = erased(arguments)
    pipe.build()
    show(pipe.run())
show(by_sample().run())
