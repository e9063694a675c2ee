"""cat and stack, along every axis, with layouts."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error


def source():
    first = [np.arange(6, dtype=np.int32).reshape(2, 3) + k for k in range(2)]
    second = [-np.arange(6, dtype=np.int32).reshape(2, 3) - k for k in range(2)]
    wide = [np.full((2, 2 + k), 9, np.int32) for k in range(2)]
    return first, second, wide


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def joined():
    a, b, w = fn.external_source(source, num_outputs=3, layout="HW")
    return (
        fn.cat(a, b),
        fn.cat(a, b, axis=1),
        fn.cat(a, w, b, axis=-1),
        fn.cat(a, b, axis_name="W"),
        fn.stack(a, b),
        fn.stack(a, b, axis=1),
        fn.stack(a, b, axis=2),
        fn.stack(a, b, axis_name="C"),
        fn.stack(a, b, axis=-1, axis_name="Z"),
        fn.cat(*[a] * 3, axis=0),
    )


show(joined().run())


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def wrong(make):
    return make(*fn.external_source(source, num_outputs=3, layout="HW"))


show_error(lambda: wrong(lambda a, b, w: fn.stack(a, w)).run())
show_error(lambda: wrong(lambda a, b, w: fn.cat(a, w, axis=0)).run())
