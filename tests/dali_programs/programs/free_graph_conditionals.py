"""Random draws and constants outside a pipeline, merged with what is inside."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import Pipeline, pipeline_def
from shown import show

flag = fn.external_source(lambda info: np.bool_(info.idx_in_epoch % 2), batch=False, name="flag")
constant = types.Constant(np.array([1, 2, 3], np.int32))
pipe = Pipeline(4, 1, None)
pipe.set_outputs(flag, constant, constant + flag, fn.zeros(shape=[2]), fn.full(5, shape=[2]))
show(pipe.run())


def scaled(value, image):
    if value > 1:
        out = image * 2
    else:
        out = image + 100
    return out


@pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
def conditional():
    index = fn.external_source(lambda info: np.int32(info.idx_in_batch), batch=False)
    return scaled(index, fn.stack(index, index))


show(conditional().run())
