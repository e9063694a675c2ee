"""Augmentations of the first tutorial: a fixed angle, and a random one as an argument input."""

import nvidia.dali.fn as fn
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def
def rotated_pipeline():
    jpegs, labels = fn.readers.file(file_root=PICTURES)
    images = fn.decoders.image(jpegs)
    rotated_images = fn.rotate(images, angle=10.0, fill_value=0)
    return rotated_images, labels


@pipeline_def
def random_rotated_pipeline():
    jpegs, labels = fn.readers.file(file_root=PICTURES)
    images = fn.decoders.image(jpegs)
    angle = fn.random.uniform(range=(-10.0, 10.0))
    rotated_images = fn.rotate(images, angle=angle, fill_value=0, keep_size=True)
    return rotated_images, labels, angle


pipe = rotated_pipeline(batch_size=8, num_threads=1, device_id=None, seed=1234)
pipe.build()
images, labels = pipe.run()
show(images, labels, within=3)

pipe = random_rotated_pipeline(batch_size=8, num_threads=1, device_id=None, seed=1234)
pipe.build()
images, labels, angle = pipe.run()
show([image.shape() for image in images], labels, angle.shape(), bool((abs(angle.as_array()) <= 10).all()))
