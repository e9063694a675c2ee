"""The distortions of the gallery: water, sphere, paste, grid_mask, equalize, laplacian, filter."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


def augmented(operator, **arguments):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe():
        images = fn.external_source(lambda: [image(16, 20), image(16, 16, seed=3)], layout="HWC")
        return operator(images, **arguments)

    return pipe().run()


show(augmented(fn.water, ampl_x=2, ampl_y=3, freq_x=0.3, freq_y=0.2))
show(augmented(fn.sphere))
show(augmented(fn.paste, fill_value=69, ratio=2, paste_x=0.25))
show(augmented(fn.grid_mask, tile=6, ratio=0.5, angle=0.3))
show(augmented(fn.equalize))
show(augmented(fn.laplacian, window_size=3, dtype=types.FLOAT), within=1)
kernel = np.float32([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
show(augmented(lambda images: fn.filter(images, kernel, dtype=types.FLOAT)))
