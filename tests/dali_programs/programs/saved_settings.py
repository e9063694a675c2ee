"""A saved pipeline keeps its settings and its promises; forms of calls that are easy to get wrong."""

import numpy as np
import nvidia.dali as dali
from nvidia.dali import Pipeline, fn, ops, pipeline_def, types
from nvidia.dali.backend_impl import TensorListCPU
from nvidia.dali.ops import _DataNode
from shown import show, show_error


@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=3)
def constants():
    return fn.constant(idata=[1, 2, 3], shape=(3,), dtype=types.INT32), fn.constant(fdata=0.5)


def saved(**promised):
    return constants(**promised).serialize()


loaded = Pipeline.deserialize(saved(output_dtype=[types.INT32, None], output_ndim=[1, 1]))
loaded.build()
show(loaded.output_dtype(), loaded.output_ndim(), loaded.run())
other = Pipeline.deserialize(saved(output_dtype=[types.INT32, types.UINT8]))
other.build()
show_error(other.run)

empty = Pipeline()
empty.deserialize_and_build(saved())
show(
    empty.run(), isinstance(empty.run()[0], TensorListCPU), isinstance(empty.run()[0], dali.backend_impl.TensorListGPU)
)
show_error(lambda: constants().serialize("name.json"))
show_error(lambda: constants().serialize(42))

flip = ops.Flip(horizontal=1)
pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
with pipe:
    data = fn.reshape(fn.constant(idata=list(range(12)), shape=(12,)), shape=[2, 2, 3], layout="HWC")
    one = flip([data])
    show(isinstance(one, _DataNode))
    pipe.set_outputs(one, *flip([data, data]))
pipe.build()
show(pipe.run())

for lazy in (False, True):

    def missing(lazy=lazy):
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            pipe.set_outputs(*fn.readers.file(file_root="/no/such/folder", lazy_init=lazy))
        pipe.build()
        return lazy

    show_error(missing)


def layout_and_axes():
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    pipe.set_outputs(fn.external_source(name="x", layout="HWC", ndim=2))
    pipe.build()


show_error(layout_and_axes)
images = [np.full((2, 2, 1), number, np.uint8) for number in (1, 5)]
pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
with pipe:
    data = fn.external_source([images], layout="HWC")
    pipe.set_outputs(fn.multi_paste(data, in_ids=np.int32([1]), output_size=[3, 4, 1]))
pipe.build()
show(pipe.run())
