"""Graphs built outside any pipeline and handed over by set_outputs."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import Pipeline
from shown import show

pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
data = fn.external_source(source=lambda i: [np.full((2, 3), i + k, np.uint8) for k in range(3)], layout="HW")
half = fn.cast(data, dtype=types.FLOAT) / 2
sums = fn.reductions.sum(half, axes=1)
pipe.set_outputs(data, half, sums)
pipe.build()
for _ in range(3):
    show(pipe.run())
