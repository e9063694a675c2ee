"""The training and validation pipelines of a ResNet-50 script."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import pipeline_def
from shown import show, show_form


@pipeline_def
def create_dali_pipeline(data_dir, crop, size, shard_id, num_shards, dali_cpu=False, is_training=True):
    images, labels = fn.readers.file(
        file_root=data_dir,
        shard_id=shard_id,
        num_shards=num_shards,
        random_shuffle=is_training,
        pad_last_batch=True,
        name="Reader",
    )
    dali_device = "cpu" if dali_cpu else "gpu"
    decoder_device = "cpu" if dali_cpu else "mixed"
    preallocate_width_hint = 5980 if decoder_device == "mixed" else 0
    preallocate_height_hint = 6430 if decoder_device == "mixed" else 0
    if is_training:
        images = fn.decoders.image_random_crop(
            images,
            device=decoder_device,
            output_type=types.RGB,
            preallocate_width_hint=preallocate_width_hint,
            preallocate_height_hint=preallocate_height_hint,
            random_aspect_ratio=[0.8, 1.25],
            random_area=[0.1, 1.0],
            num_attempts=100,
        )
        images = fn.resize(
            images, device=dali_device, resize_x=crop, resize_y=crop, interp_type=types.INTERP_TRIANGULAR
        )
        mirror = fn.random.coin_flip(probability=0.5)
    else:
        images = fn.decoders.image(images, device=decoder_device, output_type=types.RGB)
        images = fn.resize(
            images, device=dali_device, size=size, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR
        )
        mirror = False

    images = fn.crop_mirror_normalize(
        images.gpu() if not dali_cpu else images,
        dtype=types.FLOAT,
        output_layout="CHW",
        crop=(crop, crop),
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        mirror=mirror,
    )
    if not dali_cpu:
        labels = labels.gpu()
    return images, labels


arguments = dict(
    batch_size=3, num_threads=2, device_id=None, seed=12, data_dir=PICTURES, crop=24, size=28, dali_cpu=True
)
train = create_dali_pipeline(shard_id=0, num_shards=2, is_training=True, **arguments)
train.build()
show_form(train.run())
show(train.epoch_size("Reader"), train.reader_meta("Reader"))
validate = create_dali_pipeline(shard_id=1, num_shards=2, is_training=False, **arguments)
validate.build()
for _ in range(2):
    images, labels = validate.run()
    show(images, within=0.02)
    show(labels.as_array().squeeze(-1))
