"""Brightness and contrast, with constants and with values of each sample."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def bc_pipeline():
    files, labels = fn.readers.file(file_root=PICTURES)
    images = fn.decoders.image(files, device="cpu")
    converted = fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY)
    brightness = fn.external_source(lambda i: [np.float32(0.5 + k) for k in range(3)])
    return (
        fn.brightness_contrast(images, brightness=1.5, contrast=0.7),
        fn.brightness(images, brightness=brightness),
        fn.contrast(images, contrast=2.5, contrast_center=100),
        fn.brightness(images, brightness_shift=0.3),
        fn.brightness_contrast(converted, brightness_shift=-0.1, dtype=types.FLOAT),
        fn.contrast(images, contrast=brightness),
    )


pipe = bc_pipeline()
pipe.build()
show(pipe.run(), within=1)
