"""Every kind of interpolation, up and down, and different ones for shrinking and growing."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show

kinds = [
    types.INTERP_NN,
    types.INTERP_LINEAR,
    types.INTERP_CUBIC,
    types.INTERP_TRIANGULAR,
    types.INTERP_GAUSSIAN,
    types.INTERP_LANCZOS3,
]


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def interpolated(kind):
    images = fn.external_source(lambda: [image(20, 30), image(25, 15, seed=2)], layout="HWC")
    return (
        fn.resize(images, size=(9, 13), interp_type=kind),
        fn.resize(images, size=(34, 41), interp_type=kind),
        fn.resize(images, size=(9, 41), min_filter=kind, mag_filter=types.INTERP_LINEAR),
    )


for kind in kinds:
    pipe = interpolated(kind)
    pipe.build()
    show(pipe.run(), within=1)
