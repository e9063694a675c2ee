"""Operators whose outputs are not used: pruned, or kept by preserve=True and add_sink."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import Pipeline, pipeline_def
from shown import show

calls = []


def source(info):
    return np.int32([info.idx_in_epoch]), np.float32([1.5]), np.uint8([7])


def note(label):
    def function(x):
        calls.append(label)
        return x

    return function


@pipeline_def(
    batch_size=2, num_threads=1, device_id=None, exec_pipelined=False, exec_async=False, prefetch_queue_depth=1
)
def pipe():
    a, b, c = fn.external_source(source, num_outputs=3, batch=False)
    fn.copy(fn.python_function(b, function=note("pruned"), preserve=False))
    fn.python_function(a, function=note("kept"), preserve=True)
    return fn.copy(a)


p = pipe()
p.build()
show(p.run(), sorted(set(calls)))

p = Pipeline(2, 1, None)
with p:
    x = fn.external_source(lambda: [np.int32([1])] * 2)
    y = fn.python_function(x, function=note("sink"))
    p.add_sink(y)
    p.set_outputs(x)
p.build()
show(p.run(), "sink" in calls)
