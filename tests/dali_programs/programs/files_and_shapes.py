"""fn.io.file.read, fn.peek_image_shape, and source_info of what is read."""

import os

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import FILES, PICTURES
from nvidia.dali import pipeline_def
from shown import show


def names():
    return [np.frombuffer(path.encode(), np.uint8) for path in FILES[:3]]


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def pipe():
    paths = fn.external_source(names)
    contents = fn.io.file.read(paths)
    shape = fn.peek_image_shape(contents)
    shape32 = fn.peek_image_shape(contents, dtype=types.INT32)
    images = fn.decoders.image(contents)
    files, _ = fn.readers.file(file_root=PICTURES)
    return contents, shape, shape32, images, files.source_info(), fn.get_property(files, key="source_info")


made = pipe()
made.build()
contents, shape, shape32, images, info, again = made.run()
show(contents.shape(), shape, shape32, images)
show(
    [os.path.basename(bytes(item)) for item in map(np.array, info)],
    [bytes(np.array(item))[-8:].decode() for item in again],
)
show([os.path.basename(sample.source_info()) for sample in images])
