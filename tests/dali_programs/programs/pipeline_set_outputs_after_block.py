"""Nodes made inside `with pipe:` and given to set_outputs after it."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import Pipeline
from shown import show

pipe = Pipeline(4, 2, None)
with pipe:
    data = fn.external_source(lambda info: np.float32([info.idx_in_epoch, 2]), batch=False)
    scaled = data * 2
    total = fn.reductions.sum(scaled)
pipe.set_outputs(data, scaled, total)
pipe.build()
show(pipe.run(), pipe.run())

pipe = Pipeline(2, 1, None)
with pipe:
    data = fn.external_source(lambda info: np.float32([info.idx_in_epoch, 2]), batch=False)
result = fn.cat(data, data + 1)
with pipe:
    result = fn.stack(result, -result)
pipe.set_outputs(result)
show(pipe.run())
