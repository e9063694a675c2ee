"""The training pipeline of an EfficientNet script with automatic augmentations."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import pipeline_def
from nvidia.dali.auto_aug import auto_augment, rand_augment, trivial_augment
from shown import show_form


@pipeline_def(enable_conditionals=True)
def training_pipe(automatic_augmentation):
    jpegs, labels = fn.readers.file(name="Reader", file_root=PICTURES, random_shuffle=True)
    images = fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB)
    images = fn.resize(images, size=[24, 24])
    output = fn.flip(images, horizontal=fn.random.coin_flip(probability=0.5))
    if automatic_augmentation == "autoaugment":
        output = auto_augment.auto_augment_image_net(output, shape=[24, 24])
    elif automatic_augmentation == "trivialaugment":
        output = trivial_augment.trivial_augment_wide(output, shape=[24, 24])
    elif automatic_augmentation == "randaugment":
        output = rand_augment.rand_augment(output, n=2, m=9, shape=[24, 24])
    output = fn.crop_mirror_normalize(output, dtype=types.FLOAT, output_layout="CHW", mean=[128.0] * 3, std=[64.0] * 3)
    return output, labels


for augmentation in ("autoaugment", "trivialaugment", "randaugment"):
    show_form(training_pipe(augmentation, batch_size=4, num_threads=2, device_id=None, seed=3).run())
