"""The table of types: what each pair of operand types becomes, and typed constants in expressions."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.types import Constant
from shown import show

np_types = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float64]


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def arithmetic(operation, left_type, right_type):
    l, r = fn.external_source(
        source=lambda: ([np.array([[42, 8]], left_type)], [np.array([[3, 2]], right_type)]), num_outputs=2
    )
    return operation(l, r)


def result_type(operation, left_type, right_type):
    pipe = arithmetic(operation, left_type, right_type)
    pipe.build()
    (out,) = pipe.run()
    return out.dtype, out.at(0)


for left in np_types:
    for right in np_types:
        show(result_type(lambda l, r: l + r, left, right))
    show(result_type(lambda l, r: l / r, left, np.int32), result_type(lambda l, r: l < r, left, np.uint8))
    show(result_type(lambda l, r: l * 2, left, left), result_type(lambda l, r: l * 2.5, left, left))
    show(result_type(lambda l, r: l + Constant(1).uint8(), left, left), result_type(lambda l, r: l + True, left, left))


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def typed(value):
    x = fn.external_source(lambda: [np.uint8([1, 200])] * 2)
    return x + value, value - x, x * value


for value in (
    Constant(10).uint8(),
    Constant(10).float32(),
    Constant(10).int8(),
    Constant(10).int16(),
    Constant(10).int32(),
    Constant(10).int64(),
    Constant(10).uint16(),
    Constant(10).uint32(),
    Constant(10).uint64(),
    Constant(10).float64(),
    Constant(10),
    Constant(2.5),
    Constant(3, dtype=types.INT16),
    Constant(True),
):
    show(typed(value).run())
