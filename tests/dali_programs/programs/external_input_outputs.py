"""Several outputs, layouts, declared types and numbers of axes."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show, show_error

settings = dict(batch_size=2, num_threads=1, device_id=None)


def source(info):
    return np.full((2, 2, 3), info.idx_in_epoch, np.uint8), np.float32([1, 2]), np.int64(info.idx_in_batch)


@pipeline_def(**settings)
def described():
    image, vector, number = fn.external_source(
        source,
        num_outputs=3,
        batch=False,
        layout=["HWC", "X", ""],
        dtype=[types.UINT8, types.FLOAT, types.INT64],
        ndim=[3, 1, 0],
    )
    return image, vector, number


@pipeline_def(**settings)
def one_layout():
    return tuple(
        fn.external_source(lambda: ([np.ones((1, 2), np.int16)] * 2, [np.zeros((2, 1), np.int16)] * 2), 2, layout="HW")
    )


@pipeline_def(**settings)
def as_array():
    return fn.external_source(lambda: np.arange(12, dtype=np.float32).reshape(2, 3, 2))


@pipeline_def(**settings)
def single_in_a_list():
    (out,) = fn.external_source(lambda: [[np.int8([1])] * 2], num_outputs=1)
    return out


for definition in (described, one_layout, as_array, single_in_a_list):
    pipe = definition()
    pipe.build()
    show(pipe.run())


@pipeline_def(**settings)
def declared(arguments):
    return fn.external_source(lambda: [np.ones((2, 3), np.uint8)] * 2, **arguments)


for arguments in (
    dict(dtype=types.FLOAT),
    dict(ndim=3),
    dict(layout="HWC"),
    dict(dtype=types.UINT8, ndim=2, layout="HW"),
):
    show_error(lambda: declared(arguments).run())


@pipeline_def(**settings)
def from_list(values):
    return fn.external_source(lambda: values)


show_error(lambda: from_list([np.ones(2, np.uint8), np.ones(2, np.int16)]).run())
show_error(lambda: from_list([np.ones(2, np.uint8), np.ones((2, 2), np.uint8)]).run())
show_error(lambda: from_list([np.ones(2, np.uint8)] * 3).run())
show_error(lambda: from_list([]).run())
