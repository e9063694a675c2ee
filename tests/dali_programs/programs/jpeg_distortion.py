"""jpeg_compression_distortion and noise with fixed parameters."""

import nvidia.dali.fn as fn
from material import image
from nvidia.dali import pipeline_def
from shown import show, show_form


@pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=4)
def distorted():
    x = fn.external_source(lambda: [image(16, 24), image(24, 16, seed=3)], layout="HWC")
    return fn.jpeg_compression_distortion(x, quality=30), fn.jpeg_compression_distortion(x, quality=90)


@pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=4)
def noisy():
    x = fn.external_source(lambda: [image(16, 24), image(24, 16, seed=3)], layout="HWC")
    return (
        fn.noise.gaussian(x, mean=0.0, stddev=10.0),
        fn.noise.salt_and_pepper(x, prob=0.1),
        fn.noise.shot(x, factor=10),
    )


show(distorted().run(), within=6)
show_form(noisy().run())
