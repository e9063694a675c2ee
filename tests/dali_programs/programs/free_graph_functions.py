"""Functions that build pieces of a graph and are called before, in and after a `with pipe:`."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import Pipeline
from shown import show


def load(**reader_arguments):
    files, labels = fn.readers.file(file_root=PICTURES, **reader_arguments)
    return fn.decoders.image(files), labels


def to_grid(image, height, width):
    return fn.resize(image, size=(height, width), interp_type=types.INTERP_NN)


def normalized(image):
    return fn.crop_mirror_normalize(image, dtype=types.FLOAT, mean=[128.0] * 3, std=[64.0] * 3)


images, labels = load(name="outside")
small = to_grid(images, 12, 10)
pipe = Pipeline(batch_size=3, num_threads=2, device_id=None)
with pipe:
    inside = fn.flip(small)
last = normalized(inside)
pipe.set_outputs(last, labels, small)
pipe.build()
show(pipe.run(), within=1)
show(pipe.epoch_size("outside"), sorted(pipe.reader_meta("outside")))

index = fn.external_source(lambda info: np.int32(info.idx_in_batch), batch=False)
angles = index * 30.0
pipe = Pipeline(batch_size=4, num_threads=2, device_id=None)
pipe.set_outputs(angles, fn.transforms.rotation(angle=angles))
show(pipe.run())
