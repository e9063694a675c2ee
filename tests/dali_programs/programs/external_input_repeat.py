"""repeat_last, and inputs given to run() by their names."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
def named():
    x = fn.external_source(name="x")
    y = fn.external_source(name="y")
    return x + y


pipe = named()
pipe.build()
for number in range(3):
    show(pipe.run(x=[np.int32([number])] * 2, y=np.int32([[1], [2]])))
show_error(lambda: pipe.run(z=[np.int32([1])] * 2))


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def deep():
    return fn.external_source(name="x")


def run_deep():
    pipe = deep()
    pipe.build()
    return [pipe.run(x=[np.int32([number])] * 2) for number in range(3)]


show_error(run_deep)
