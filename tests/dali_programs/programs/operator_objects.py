"""nvidia.dali.ops: objects called several times, with positional arguments, input sets and per-sample arguments."""

import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def objects():
    source = ops.ExternalSource(source=lambda: [image(8, 10), image(9, 7)], layout="HWC", device="cpu")
    flip = ops.Flip(device="cpu", horizontal=1)
    crop = ops.Crop(crop=(4, 5))
    number = ops.ExternalSource(source=lambda: [np.float32(0.0), np.float32(1.0)])
    x = source()
    a, b = flip([x, crop(x)])
    moved = crop(x, crop_pos_x=number(), crop_pos_y=0.0)
    spectrum = ops.Reshape(shape=[-1])
    return a, b, moved, flip(x), spectrum(x), ops.Cast(dtype=types.FLOAT)(x), ops.Cat(axis=1)(x, x)


show(objects().run())
show(ops.Flip(device="cpu").device, ops.Crop(crop=(4, 5)).device)
show_error(lambda: ops.Flip(nothing=3))
names = [
    "MFCC",
    "Spectrogram",
    "MelFilterBank",
    "ToDecibels",
    "CropMirrorNormalize",
    "ExternalSource",
    "PythonFunction",
    "DLTensorPythonFunction",
]
show(
    [hasattr(ops, name) for name in names],
    hasattr(ops.readers, "TFRecord"),
    hasattr(ops.decoders, "ImageRandomCrop"),
    hasattr(ops.random, "CoinFlip"),
)
