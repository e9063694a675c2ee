"""A subclass that does everything in define_graph, with arguments kept by the constructor; build() is left out."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import Pipeline
from shown import show


class Noise(Pipeline):
    def __init__(self, scale, offset=0, **kwargs):
        super().__init__(batch_size=3, num_threads=1, device_id=None, **kwargs)
        self.scale = scale
        self.offset = offset

    def source(self, info):
        return np.float32([info.idx_in_epoch, info.iteration])

    def define_graph(self):
        data = fn.external_source(source=self.source, batch=False)
        scaled = data * self.scale + self.offset
        return scaled, fn.cast(scaled, dtype=types.INT16)


class Twice(Noise):
    def define_graph(self):
        first, second = super().define_graph()
        return first, second, fn.cat(first, first)


show(Noise(3).run(), Noise(2, offset=5, seed=4).run())
twice = Twice(1.5, prefetch_queue_depth=3)
show(twice.run(), twice.run(), twice.num_outputs)
