"""None for an argument means that it is not given."""

import nvidia.dali.fn as fn
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def with_none():
    x = fn.external_source(
        lambda: [image(8, 10), image(9, 7)], layout="HWC", dtype=None, ndim=None, name=None, cycle=None
    )
    floats = fn.cast(x, dtype=types.FLOAT)
    return (
        fn.crop(x, crop=(4, 4), crop_pos_x=None, fill_values=None, out_of_bounds_policy=None),
        fn.flip(x, horizontal=None, vertical=1),
        fn.resize(x, size=(5, 5), interp_type=None, max_size=None, roi_start=None),
        fn.normalize(floats, axes=None, scale=None, mean=None),
        fn.reductions.sum(x, axes=None, axis_names=None, dtype=None),
        fn.pad(x, axes=None, fill_value=None),
        fn.rotate(x, angle=10, fill_value=0, size=None),
        fn.slice(x, start=[1, 1], end=[4, 4], axes=None, shape=None, axis_names="HW"),
        ops.Crop(crop=(3, 3), dtype=None)(x, crop_pos_y=None),
        fn.transpose(x, perm=[1, 0, 2], output_layout=None),
        fn.cat(x, x, axis_name=None),
        fn.random.uniform(range=None, seed=None) * 0,
    )


show(with_none().run(), within=1)
