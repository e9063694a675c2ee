"""Operator objects made outside a pipeline, called outside and inside one."""

import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from nvidia.dali import Pipeline
from shown import show

source = ops.ExternalSource(source=lambda i: [np.arange(6, dtype=np.uint8).reshape(2, 3) + 10 * i] * 2, name="numbers")
cast = ops.Cast(dtype=types.FLOAT)
total = ops.reductions.Sum(axes=[1], keep_dims=True)
numbers = source()
as_floats = cast(numbers)

pipe = Pipeline(2, 1, None)
with pipe:
    share = as_floats / total(as_floats)
pipe.set_outputs(numbers, share)
pipe.build()
show(pipe.run(), pipe.run(), numbers.name)
