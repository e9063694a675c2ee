"""The API of operator classes: a pipeline as a class, with ops objects, calls, names and attributes."""

import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import Pipeline
from shown import show, show_error


def err(f, *a, **k):
    show_error(lambda: f(*a, **k))


class Simple(Pipeline):
    def __init__(self, batch_size, **kw):
        super().__init__(batch_size, 2, None, seed=12, **kw)
        self.input = ops.readers.File(file_root=PICTURES, name="Reader")
        self.decode = ops.decoders.Image(device="cpu", output_type=types.RGB)
        self.resize = ops.Resize(resize_x=16, resize_y=12)
        self.cmn = ops.CropMirrorNormalize(crop=[8, 8], mean=[128.0] * 3, std=[2.0] * 3, output_layout="HWC")
        self.coin = ops.random.CoinFlip(probability=1.0)
        self.uniform = ops.random.Uniform(range=[0.3, 0.3001])
        self.cast = ops.Cast(dtype=types.INT32)

    def define_graph(self):
        self.jpegs, self.labels = self.input()
        images = self.resize(self.decode(self.jpegs))
        out = self.cmn(images, mirror=self.coin(), crop_pos_x=self.uniform(), crop_pos_y=0.5)
        return out, self.cast(self.labels) + 1


p = Simple(3)
p.build()
o = p.run()
show(o[1], o[0].shape(), o[0].layout())
show(
    sorted(p.reader_meta()),
    p.epoch_size() if hasattr(p, "epoch_size") else None,
    p.max_batch_size,
    p.num_threads,
    p.device_id,
    p.seed,
)
show(
    ops.Resize(resize_x=3).device,
    ops.Resize.__name__,
    ops.Resize.schema.name if hasattr(ops.Resize.schema, "name") else None,
    ops.Resize(resize_x=3).spec is not None,
)
err(ops.Resize, resize_x=3, nonsense=1)
err(ops.Resize, device="tpu")


class Legacy(Pipeline):
    def __init__(self):
        super().__init__(batch_size=2, num_threads=1, device_id=None)
        self.src = ops.ExternalSource()
        self.pf = ops.PythonFunction(function=lambda a, b: (a + b, a - b), num_outputs=2)
        self.one = ops.Constant(idata=[1, 2])
        self.const = types.Constant(np.int32([5]))

    def define_graph(self):
        self.x = self.src(name="data")
        a, b = self.pf(self.x, self.one())
        return a, b, self.x * 2, ops.Reshape(shape=[1, 2])(a), ops.Cat(axis=0)(a, b)

    def iter_setup(self):
        self.feed_input(self.x, np.int32([[1, 2], [3, 4]]))


p = Legacy()
p.build()
show(p.run(), p.run())


class Sets(Pipeline):
    def __init__(self):
        super().__init__(2, 1, None)
        self.flip = ops.Flip(horizontal=1)
        self.src = ops.ExternalSource(lambda: [np.arange(12, dtype=np.uint8).reshape(2, 2, 3)] * 2, layout="HWC")

    def define_graph(self):
        x = self.src()
        a, b = self.flip([x, x])
        return a, b


p = Sets()
p.build()
show(p.run())
show(
    ops.PythonFunction(function=abs).num_outputs if hasattr(ops.PythonFunction(function=abs), "num_outputs") else "none"
)
show(ops.DLTensorPythonFunction.__name__, ops.random.Uniform.__name__, ops.readers.TFRecord.__name__, ops.MFCC.__name__)
