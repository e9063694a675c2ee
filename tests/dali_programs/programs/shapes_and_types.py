"""reshape, reinterpret, expand_dims, squeeze, transpose: wildcards, relative shapes and layouts."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show


def get_data(shapes):
    return [np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape) for shape in shapes]


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def reshaped():
    x = fn.external_source(lambda: get_data([(2, 6, 4), (3, 2, 4)]), layout="HWC")
    flat = fn.external_source(lambda: get_data([(24,), (24,)]))
    target = fn.external_source(lambda: [np.int32([4, 6]), np.int32([8, 3])])
    return (
        fn.reshape(x, shape=[-1, 4], layout="ab"),
        fn.reshape(x, rel_shape=[1, 0.5, 2]),
        fn.reshape(x, rel_shape=[-1, 2], src_dims=[0, 1]),
        fn.reshape(x, src_dims=[1, 0, 2], layout="WHC"),
        fn.reshape(flat, shape=target),
        fn.reshape(flat, target),
        fn.reshape(x, layout="XYZ"),
        fn.reinterpret(flat, dtype=types.UINT16),
        fn.reinterpret(flat, dtype=types.UINT32, shape=[2, -1]),
        fn.reinterpret(x, dtype=types.INT32),
        fn.expand_dims(x, axes=[0, 2], new_axis_names="AB"),
        fn.expand_dims(flat, axes=1),
        fn.squeeze(fn.reductions.max(x, axes=1, keep_dims=True), axes=[1]),
        fn.squeeze(x[:1], axis_names="H"),
        fn.transpose(x, perm=[2, 0, 1]),
        fn.transpose(x, perm=[1, 0, 2], transpose_layout=False),
        fn.transpose(x, perm=[1, 0, 2], output_layout="abc"),
        fn.transpose(x),
    )


show(reshaped().run())
