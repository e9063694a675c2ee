"""Constants, full, zeros, ones, one_hot, lookup_table, cast, cast_like."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.types import Constant
from shown import show


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def made():
    x = fn.external_source(lambda: [np.int32([0, 1, 5]), np.int32([2, 2, 9])])
    image = fn.external_source(lambda: [np.float32([[0.5, 1.5], [2.5, -3.5]])] * 2, layout="HW")
    return (
        Constant([1, 2, 3]),
        Constant(np.array([[1, 2]], np.int16), layout="HW"),
        Constant(5, shape=(2, 2), dtype=types.FLOAT),
        fn.constant(fdata=[1.5, 2.5], shape=[2]),
        fn.zeros(shape=[2, 3]),
        fn.ones(shape=3, dtype=types.UINT8),
        fn.full(7, shape=[2]),
        fn.full(np.array([1, 2], np.uint8), shape=[3, 2]),
        fn.full_like(x, 4),
        fn.zeros_like(image),
        fn.ones_like(x, dtype=types.FLOAT),
        fn.one_hot(x[0], num_classes=3),
        fn.one_hot(x, num_classes=3, axis=0),
        fn.one_hot(x, num_classes=2, dtype=types.INT16),
        fn.lookup_table(x, keys=[0, 2, 5], values=[10, 20, 50], default_value=-1),
        fn.lookup_table(x, keys=[1], values=[0.5], dtype=types.FLOAT),
        fn.cast(image, dtype=types.INT32),
        fn.cast_like(image, x),
        fn.cast(x, dtype=types.BOOL),
        fn.cast(image, dtype=types.UINT8),
        fn.cast(x, dtype=types.FLOAT16),
    )


show(made().run())
