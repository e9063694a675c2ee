"""if and else on values of each sample."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show


def source(info):
    return np.full((2, 3), info.idx_in_epoch, np.uint8), np.bool_(info.idx_in_epoch % 3 == 0)


@pipeline_def(batch_size=6, num_threads=2, device_id=None, enable_conditionals=True)
def simple():
    image, flag = fn.external_source(source, num_outputs=2, batch=False, layout=["HW", ""])
    if flag:
        out = image + types.Constant(100).uint8()
    else:
        out = image * types.Constant(2).uint8()
    return image, flag, out


@pipeline_def(batch_size=6, num_threads=2, device_id=None, enable_conditionals=True)
def several():
    image, flag = fn.external_source(source, num_outputs=2, batch=False)
    value = fn.cast(fn.reductions.max(image), dtype=types.INT32)
    label = np.int32(-1)
    if value > 3:
        size = np.int32(3)
        image = fn.cat(image, image, axis=0)
        if flag:
            label = value * 10
    elif value == 2:
        size = np.int32(2)
    else:
        size = np.int32(1)
        label = value
    return image, size, label


for pipe in (simple(), several()):
    pipe.build()
    show(pipe.run(), pipe.run())
