"""The pipelines of an EfficientNet script: output layout as an argument, mirroring as a node, AutoAugment where asked."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show, show_form


@pipeline_def(enable_conditionals=True)
def training_pipe(
    data_dir, interpolation, image_size, output_layout, automatic_augmentation, dali_device="cpu", rank=0, world_size=1
):
    rng = fn.random.coin_flip(probability=0.5)
    jpegs, labels = fn.readers.file(
        name="Reader",
        file_root=data_dir,
        shard_id=rank,
        num_shards=world_size,
        random_shuffle=True,
        pad_last_batch=True,
    )
    images = fn.decoders.image_random_crop(
        jpegs, device="cpu", output_type=types.RGB, random_aspect_ratio=[0.75, 4.0 / 3.0], random_area=[0.08, 1.0]
    )
    images = fn.resize(
        images, device=dali_device, size=[image_size, image_size], interp_type=interpolation, antialias=False
    )
    images = fn.flip(images, horizontal=rng)
    output = images
    if automatic_augmentation == "brighter":
        output = fn.brightness(output, brightness=1.25)
    output = fn.crop_mirror_normalize(
        output,
        dtype=types.FLOAT,
        output_layout=output_layout,
        crop=(image_size, image_size),
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
    )
    return output, labels


@pipeline_def
def validation_pipe(data_dir, interpolation, image_size, image_crop, output_layout, rank=0, world_size=1):
    jpegs, label = fn.readers.file(
        name="Reader",
        file_root=data_dir,
        shard_id=rank,
        num_shards=world_size,
        random_shuffle=False,
        pad_last_batch=True,
    )
    images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
    images = fn.resize(images, resize_shorter=image_size, interp_type=interpolation, antialias=False)
    output = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout=output_layout,
        crop=(image_crop, image_crop),
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
    )
    return output, label


interpolation = {"bicubic": types.INTERP_CUBIC, "bilinear": types.INTERP_LINEAR, "triangular": types.INTERP_TRIANGULAR}
settings = dict(batch_size=2, num_threads=2, device_id=None, seed=12, set_affinity=False)
for layout in ("CHW", "HWC"):
    for augmentation in ("disabled", "brighter"):
        train = training_pipe(PICTURES, interpolation["bilinear"], 20, layout, augmentation, **settings)
        show_form(train.run())
    validate = validation_pipe(PICTURES, interpolation["bicubic"], 30, 24, layout, **settings)
    show(validate.run(), within=0.05)
