"""The gallery of single augmentations, each as an operator object."""

import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from shown import show


class AugmentationPipeline(Pipeline):
    def __init__(self, batch_size, num_threads, device_id):
        super().__init__(batch_size, num_threads, device_id, seed=12)
        self.input = ops.readers.File(file_root=PICTURES)
        self.decode = ops.decoders.Image(device="cpu", output_type=types.RGB)
        self.resize = ops.Resize(device="cpu", resize_x=32, resize_y=32)
        self.augmentations = {
            "original": lambda images: images,
            "rotate": ops.Rotate(device="cpu", angle=10.0, fill_value=0),
            "brightness": ops.BrightnessContrast(device="cpu", brightness=2.0),
            "contrast": ops.Contrast(device="cpu", contrast=1.8),
            "hue": ops.Hue(device="cpu", hue=45.0),
            "saturation": ops.Saturation(device="cpu", saturation=1.8),
            "flip": ops.Flip(device="cpu", vertical=1, horizontal=0),
            "blur": ops.GaussianBlur(device="cpu", sigma=1.5),
            "crop": ops.Crop(device="cpu", crop=(20, 20)),
            "warp": ops.WarpAffine(device="cpu", matrix=[1.0, 0.8, 0.0, 0.0, 1.2, 0.0], fill_value=0),
            "erase": ops.Erase(device="cpu", anchor=(4, 4), shape=(10, 10), axis_names="HW"),
        }

    def define_graph(self):
        jpegs, labels = self.input(name="Reader")
        images = self.resize(self.decode(jpegs))
        return tuple(augmentation(images) for augmentation in self.augmentations.values())


pipe = AugmentationPipeline(3, 2, None)
pipe.build()
for batch in pipe.run():
    show(batch, within=3)
