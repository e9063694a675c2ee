"""Arguments of the definition and of the pipeline: in the decorator, at the call, by position, by default, overridden."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def multiplied(factor, offset=1, *, power=1):
    x = fn.external_source(lambda info: np.int32([info.idx_in_epoch + 2]), batch=False)
    return (x * factor + offset) ** power


show(multiplied(3).run(), multiplied(3, 4).run(), multiplied(factor=2, power=2).run())
pipe = multiplied(2, offset=0, batch_size=3, seed=8, prefetch_queue_depth=1)
show(pipe.run(), pipe.batch_size, pipe.seed, pipe.prefetch_queue_depth)
show_error(lambda: multiplied())
show_error(lambda: multiplied(1, 2, 3))


@pipeline_def
def bare():
    return fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False)


show(bare(batch_size=1, num_threads=1, device_id=None).run())


@pipeline_def(num_threads=1, device_id=None)
def clashing(batch_size, seed):
    return np.int32(batch_size), np.int32(seed)


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def clashing_seed(seed=5):
    return np.int32(seed)


show(clashing_seed().run(), clashing_seed(seed=7).run(), clashing_seed(7).run())
