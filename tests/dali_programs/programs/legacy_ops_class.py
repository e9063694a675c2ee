"""A Pipeline subclass with operator objects made in __init__ and called in define_graph."""

import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from shown import show


class SimplePipeline(Pipeline):
    def __init__(self, batch_size, num_threads, device_id):
        super().__init__(batch_size, num_threads, device_id, seed=12)
        self.input = ops.readers.File(file_root=PICTURES)
        self.decode = ops.decoders.Image(device="cpu", output_type=types.RGB)
        self.resize = ops.Resize(device="cpu", resize_shorter=24.0)
        self.cmn = ops.CropMirrorNormalize(
            device="cpu", crop=(20, 20), mean=[128.0, 128.0, 128.0], std=[1.0, 1.0, 1.0], dtype=types.FLOAT
        )

    def define_graph(self):
        jpegs, labels = self.input()
        images = self.decode(jpegs)
        images = self.resize(images)
        return self.cmn(images, mirror=0), labels


pipe = SimplePipeline(4, 1, None)
pipe.build()
images, labels = pipe.run()
show(images, labels, within=1)
show(images.as_array().shape, pipe.batch_size)
