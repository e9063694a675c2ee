"""Blurs by sigma, by window, per axis, and of other layouts."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def blurred():
    x = fn.external_source(lambda: [image(14, 12), image(9, 17, seed=4)], layout="HWC")
    sigma = fn.external_source(lambda: [np.float32(0.8), np.float32(2)])
    chw = fn.transpose(x, perm=[2, 0, 1])
    return (
        fn.gaussian_blur(x, sigma=1.0),
        fn.gaussian_blur(x, window_size=5),
        fn.gaussian_blur(x, sigma=sigma),
        fn.gaussian_blur(x, sigma=[0.5, 3.0]),
        fn.gaussian_blur(x, window_size=[3, 7], sigma=1.2, dtype=types.FLOAT),
        fn.gaussian_blur(chw, sigma=1.5),
    )


show(blurred().run(), within=1)
