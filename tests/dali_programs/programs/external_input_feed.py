"""feed_input: by node and by name, arrays, lists and batches, layouts, and what it refuses."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import Pipeline, pipeline_def
from shown import show, show_error

pipe = Pipeline(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1)
with pipe:
    data = fn.external_source(device="cpu", name="data", layout="HW")
    label = fn.external_source(device="cpu", name="label")
    pipe.set_outputs(data, label, fn.reductions.sum(data, axis_names="W"))
pipe.build()
for number in range(3):
    pipe.feed_input(data, np.full((3, 2, 2), number, np.int32))
    pipe.feed_input("label", [np.int64([k, number]) for k in range(3)])
    out = pipe.run()
    show(out)
pipe.feed_input("data", out[0])
pipe.feed_input("label", [np.int64([9])] * 2 + [np.int64([8])])
show(pipe.run())
pipe.feed_input("data", [np.ones((1, k + 1), np.int32) for k in range(2)], layout="HW")
pipe.feed_input("label", np.zeros((2, 1), np.int64))
show(pipe.run())
show_error(lambda: pipe.feed_input("data", [np.ones((1, 1), np.int32)] * 4) or pipe.run())


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def with_source():
    return fn.external_source(lambda: [np.int32([1])] * 2, name="sourced")


sourced = with_source()
sourced.build()
show_error(lambda: sourced.feed_input("sourced", [np.int32([1])] * 2))


@pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=2)
def deep():
    return fn.external_source(name="x")


deep_pipe = deep()
deep_pipe.build()
show(deep_pipe.input_feed_count("x"))
for number in range(deep_pipe.input_feed_count("x")):
    deep_pipe.feed_input("x", [np.int32([number])] * 2)
show(deep_pipe.run())
