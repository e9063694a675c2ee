"""Arithmetic expressions on DataNodes: constants, broadcasting, comparisons, bit operations."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.types import Constant
from shown import show

left_magic_values = [[[42, 7, 0], [0, 0, 0]], [[5, 10, 15], [10, 100, 1000]]]
right_magic_values = [[[3, 3, 3], [1, 3, 5]], [[1, 5, 5], [1, 1, 1]]]
batch_size = len(left_magic_values)


def convert_batch(batch):
    return [np.int32(tensor) for tensor in batch]


def get_data():
    return convert_batch(left_magic_values), convert_batch(right_magic_values)


def examine_output(pipe_out):
    l, r, out = pipe_out
    for i in range(batch_size):
        show(l.at(i), r.at(i), out.at(i))


pipe = Pipeline(batch_size=batch_size, num_threads=4, device_id=None)
with pipe:
    l, r = fn.external_source(source=get_data, num_outputs=2, dtype=types.INT32)
    sum_result = l + r
    pipe.set_outputs(l, r, sum_result)
pipe.build()
examine_output(pipe.run())

pipe_2 = Pipeline(batch_size=batch_size, num_threads=4, device_id=None)
with pipe_2:
    l, r = fn.external_source(source=get_data, num_outputs=2, dtype=types.INT32)
    pipe_2.set_outputs(
        l,
        l + 10,
        Constant([1, 2, 3]) * l,
        l / Constant(3),
        l * Constant(2.5).float64(),
        l // 2,
        l % 4,
        l**2,
        Constant(10).uint8() + l,
        l - Constant(1).int64(),
        -l,
        +l,
        ~l,
    )
pipe_2.build()
show(pipe_2.run())

pipe_3 = Pipeline(batch_size=batch_size, num_threads=4, device_id=None)
with pipe_3:
    l, r = fn.external_source(source=get_data, num_outputs=2)
    pipe_3.set_outputs(
        l < r, l <= 5, r == 3, l != r, (l > 3) & (r < 4), (l > 3) | (r < 4), (l > 3) ^ (r < 4), l << 1, r >> 1
    )
pipe_3.build()
show(pipe_3.run())
