"""fn.python_function: single and several inputs and outputs, whole batches, other libraries."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.ops as ops
from material import PICTURES
from nvidia.dali.pipeline import Pipeline, pipeline_def
from shown import show


def edit_images(image1, image2):
    assert image1.shape == image2.shape
    h, w, c = image1.shape
    y, x = np.ogrid[0:h, 0:w]
    mask = (x - w / 2) ** 2 + (y - h / 2) ** 2 > h * w / 9
    result1 = np.copy(image1)
    result1[mask] = image2[mask]
    result2 = np.copy(image2)
    result2[mask] = image1[mask]
    return result1, result2


@pipeline_def(batch_size=2, num_threads=2, device_id=None, exec_async=False, exec_pipelined=False, seed=99)
def editing():
    first, _ = fn.readers.file(file_root=PICTURES)
    second, _ = fn.readers.file(file_root=PICTURES, num_shards=2, shard_id=1)
    images1, images2 = fn.decoders.image([first, second])
    images1, images2 = fn.resize([images1, images2], resize_x=24, resize_y=24)
    out1, out2 = fn.python_function(images1, images2, function=edit_images, num_outputs=2)
    return out1, out2


pipe = editing()
pipe.build()
show(pipe.run(), within=1)


@pipeline_def(batch_size=3, num_threads=2, device_id=None, exec_async=False, exec_pipelined=False)
def others():
    x = fn.external_source(lambda i: [np.float32([[i, k]]) for k in range(3)], layout="HW")
    doubled = fn.python_function(x, function=lambda a: a * 2)
    layouts = fn.python_function(x, function=lambda a: a + 1, output_layouts="AB")
    total = fn.python_function(x, function=lambda batch: [np.sum(batch, axis=0)] * len(batch), batch_processing=True)
    several = fn.python_function(
        x,
        x,
        function=lambda a, b: ([p + q for p, q in zip(a, b)], [np.int32(p.shape) for p in a]),
        batch_processing=True,
        num_outputs=2,
    )
    number = fn.python_function(function=lambda: np.array(5))
    fn.python_function(x, function=lambda a: None, num_outputs=0, preserve=True)
    return doubled, layouts, total, *several, number


pipe = others()
pipe.build()
show(pipe.run(), pipe.run())


class OpsPipeline(Pipeline):
    def __init__(self):
        super().__init__(2, 1, None, exec_async=False, exec_pipelined=False)
        self.source = ops.ExternalSource(lambda: [np.int32([4, 2])] * 2)
        self.sort = ops.PythonFunction(function=np.sort)

    def define_graph(self):
        return self.sort(self.source())


show(OpsPipeline().run())
