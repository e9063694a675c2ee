"""A pipeline for inference: encoded images are fed by name, in batches of any size, and taken out again."""

import numpy as np
from material import encoded, image
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_error


@pipeline_def(batch_size=4, num_threads=2, device_id=None, prefetch_queue_depth=1)
def classify():
    jpeg = fn.external_source(name="JPEG", dtype=types.UINT8, ndim=1)
    threshold = fn.external_source(name="THRESHOLD")
    images = fn.decoders.image(jpeg, output_type=types.RGB)
    shapes = fn.peek_image_shape(jpeg)
    images = fn.resize(images, size=(16, 16))
    normal = fn.crop_mirror_normalize(images, mean=[128.0], std=[64.0], dtype=types.FLOAT, output_layout="CHW")
    return normal, shapes, fn.reductions.mean(images) > threshold


pipe = classify()
pipe.build()
show(pipe.input_feed_count("JPEG"))
for size in (4, 1, 3):
    files = [encoded(number) for number in range(size)]
    pipe.feed_input("JPEG", files)
    pipe.feed_input("THRESHOLD", np.full((size,), 100.0, np.float32))
    show(pipe.run(), within=0.05)
show(pipe.run(JPEG=[encoded(7)], THRESHOLD=np.float32([1000.0])), within=0.05)
show_error(lambda: pipe.run(JPEG=[encoded(1)] * 5, THRESHOLD=np.zeros(5, np.float32)))
show_error(lambda: pipe.run(OTHER=[encoded(1)]))


@pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
def planes():
    return fn.transpose(fn.external_source(name="image", layout="HWC"), perm=[2, 0, 1])


pipe = planes()
pipe.build()
show(pipe.run(image=np.stack([image(3, 4), image(3, 4, seed=1)])))
show(pipe.run(image=[image(2, 2), image(3, 1)]))
