"""fn.pad and fn.slice in their many forms."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show


def source():
    return [np.arange(12, dtype=np.uint8).reshape(3, 4), np.arange(10, dtype=np.uint8).reshape(5, 2)]


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def padded():
    x = fn.external_source(source, layout="HW")
    return (
        fn.pad(x),
        fn.pad(x, axes=[0], fill_value=7),
        fn.pad(x, axis_names="W", align=4),
        fn.pad(x, shape=[6, 6], fill_value=255),
        fn.pad(x, axes=[0, 1], align=[4, 3]),
        fn.pad(x, axes=(-1,)),
        fn.pad(x, axes=[1], shape=[7]),
    )


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def sliced():
    x = fn.external_source(source, layout="HW")
    start = fn.external_source(lambda: [np.int32([1, 0]), np.int32([1, 1])])
    anchor, shape = fn.external_source(lambda: ([np.float32([0.25, 0.4])] * 2, [np.float32([0.5, 0.6])] * 2), 2)
    return (
        fn.slice(x, 1, 1, axes=[0]),
        fn.slice(x, start=[0, 1], end=[2, 3]),
        fn.slice(x, rel_start=[0.2, 0.5], rel_end=[0.8, 1.0]),
        fn.slice(x, start=start, shape=[1, 1]),
        fn.slice(x, anchor, shape),
        fn.slice(x, anchor, shape, axis_names="HW"),
        fn.slice(x, start=[0, 0], shape=[6, 5], out_of_bounds_policy="pad", fill_values=9, axes=[0, 1]),
        fn.slice(x, start=1, end=7, axes=0, out_of_bounds_policy="trim_to_shape"),
        fn.slice(x, rel_shape=[0.5, 0.5]),
        fn.slice(x, end=[2, 2]),
        fn.slice(x, anchor, shape, normalized_shape=True, dtype=types.FLOAT),
    )


show(padded().run(), sliced().run())
