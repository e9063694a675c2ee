"""hsv, hue, saturation and color_twist."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def hsv_pipeline():
    images = fn.external_source(lambda i: [image(10, 12, seed=k) for k in range(2)], layout="HWC")
    angle = fn.external_source(lambda i: [np.float32(90), np.float32(180)])
    return (
        fn.hsv(images, hue=120),
        fn.hsv(images, saturation=0.4),
        fn.hsv(images, value=1.4),
        fn.hsv(images, hue=angle),
        fn.hue(images, hue=45),
        fn.saturation(images, saturation=2.0),
        fn.hsv(images, hue=angle, dtype=types.FLOAT),
        fn.color_twist(images, hue=20.0, saturation=1.2, contrast=0.9, brightness=1.1),
    )


pipe = hsv_pipeline()
pipe.build()
show(pipe.run(), within=1)
