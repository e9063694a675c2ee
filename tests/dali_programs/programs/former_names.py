"""Scripts written years ago: former names of operators and arguments."""

import warnings

import nvidia.dali.fn as fn
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from shown import show, show_form

warnings.simplefilter("ignore")


class OldPipeline(Pipeline):
    def __init__(self, batch_size, num_threads, device_id):
        super().__init__(batch_size, num_threads, device_id, seed=12)
        self.input = ops.FileReader(file_root=PICTURES)
        self.decode = ops.ImageDecoder(device="cpu", output_type=types.RGB)
        self.coin = ops.CoinFlip(probability=0.5)
        self.uniform = ops.Uniform(range=(0.0, 1.0))
        self.cmn = ops.CropMirrorNormalize(
            device="cpu",
            output_dtype=types.FLOAT,
            output_layout=types.NCHW,
            crop=(16, 16),
            mean=[0.0] * 3,
            std=[255.0] * 3,
        )

    def define_graph(self):
        jpegs, labels = self.input(name="Reader")
        images = self.decode(jpegs)
        output = self.cmn(images, mirror=self.coin(), crop_pos_x=self.uniform(), crop_pos_y=self.uniform())
        return output, self.cmn(images), labels


pipe = OldPipeline(3, 2, None)
pipe.build()
images, fixed, labels = pipe.run()
show_form(images)
show(fixed, labels, within=0.01)

pipe = Pipeline(3, 1, None)
with pipe:
    jpegs, labels = fn.file_reader(file_root=PICTURES)
    images = fn.image_decoder(jpegs)
    pipe.set_outputs(fn.image_decoder_crop(jpegs, crop=(10, 10)), labels, images.shape())
pipe.build()
show(pipe.run(), within=1)
