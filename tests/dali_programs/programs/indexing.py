"""Indexing and slicing of batches: numbers, slices, steps, node indices, new axes."""

import numpy as np
import nvidia.dali as dali
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error

data = [np.arange(60, dtype=np.int16).reshape(4, 5, 3) + 100 * k for k in range(2)]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def sliced():
    x = fn.external_source(lambda: data, layout="HWC")
    i = fn.external_source(lambda: [np.int32(1), np.int32(2)])
    crop = x[1:3, 1:-1]
    return (
        x[0],
        x[-1],
        x[:, 2],
        x[:, :, 1],
        crop,
        x[::2],
        x[::-1],
        x[:, ::-2],
        x[i],
        x[i:],
        x[: i + 1, i],
        x[1, 2, 0],
        x[dali.newaxis("F")],
        x[:, dali.newaxis("Z"), 0],
        x[0, :, :],
        x.shape()[0] - 1,
    )


pipe = sliced()
pipe.build()
show(pipe.run())


def failing(make):
    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def pipe():
        return make(fn.external_source(lambda: data, layout="HWC"))

    return pipe().run()


for make in (lambda x: x[7], lambda x: x["a"], lambda x: x[1.5], lambda x: x[0, 0, 0, 0], lambda x: x[::0]):
    show_error(lambda: failing(make))
