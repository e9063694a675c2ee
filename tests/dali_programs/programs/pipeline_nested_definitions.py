"""Pipelines defined while others are, current(), push_current() and pop_current()."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import Pipeline, pipeline_def
from shown import show


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def inner(value):
    return fn.external_source(lambda: [np.int32([value])] * 2)


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def outer():
    x = fn.external_source(lambda: [np.int32([1, 2])] * 2)
    other = inner(5)
    return x + 1, fn.copy(x), np.float32(other.max_batch_size)


show(Pipeline.current() is None)
pipe = outer()
show(pipe.run())

one, two = Pipeline(2, 1, None), Pipeline(2, 1, None)
Pipeline.push_current(one)
a = fn.constant(idata=[1, 2], shape=(2,))
show(Pipeline.current() is one)
with two:
    show(Pipeline.current() is two)
    b = fn.constant(fdata=[0.5], shape=(1,))
show(Pipeline.current() is one)
Pipeline.pop_current()
show(Pipeline.current() is None)
one.set_outputs(a)
two.set_outputs(b)
show(one.run(), two.run())
