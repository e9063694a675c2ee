"""The oldest way of external input: ops.ExternalSource, and feed_input in iter_setup."""

import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import encoded
from nvidia.dali.pipeline import Pipeline
from shown import show, show_error


class Inputs:
    def __init__(self, batch_size, batches):
        self.batch_size, self.batches = batch_size, batches

    def __iter__(self):
        self.position = 0
        return self

    def __next__(self):
        if self.position >= self.batches:
            raise StopIteration
        indices = range(self.position * self.batch_size, (self.position + 1) * self.batch_size)
        self.position += 1
        return [encoded(i) for i in indices], [np.array([i], np.uint8) for i in indices]


class ExternalPipeline(Pipeline):
    def __init__(self, batch_size, num_threads, device_id, inputs):
        super().__init__(batch_size, num_threads, device_id, seed=12)
        self.input = ops.ExternalSource()
        self.input_label = ops.ExternalSource()
        self.decode = ops.decoders.Image(device="cpu", output_type=types.RGB)
        self.iterator = iter(inputs)

    def define_graph(self):
        self.jpegs = self.input()
        self.labels = self.input_label()
        return self.decode(self.jpegs), self.labels

    def iter_setup(self):
        images, labels = next(self.iterator)
        self.feed_input(self.jpegs, images)
        self.feed_input(self.labels, labels)


pipe = ExternalPipeline(2, 2, None, Inputs(2, 3))
pipe.build()
for _ in range(3):
    show(pipe.run())
show_error(pipe.run)
pipe.reset()
pipe.iterator = iter(Inputs(2, 3))
show(pipe.run())
