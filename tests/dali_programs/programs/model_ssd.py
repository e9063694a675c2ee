"""The pipeline of a single-shot detector: COCO, random crops by boxes, flips, encoding with anchors."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES, write_coco
from nvidia.dali.pipeline import pipeline_def
from shown import show_form

annotations = write_coco(".", {k: [(1 + k % 3, [3.0, 4.0, 20.0, 18.0]), (2, [8.0, 6.0, 10.0, 20.0])] for k in range(8)})
default_boxes = [
    value for y in (0.25, 0.75) for x in (0.25, 0.75) for value in (x - 0.25, y - 0.25, x + 0.25, y + 0.25)
]


@pipeline_def
def create_coco_pipeline(default_boxes, batch_size_shown, num_shards=1, shard_id=0):
    images, bboxes, labels = fn.readers.coco(
        file_root=PICTURES,
        annotations_file=annotations,
        skip_empty=True,
        shard_id=shard_id,
        num_shards=num_shards,
        ratio=True,
        ltrb=True,
        random_shuffle=False,
        shuffle_after_epoch=True,
        name="Reader",
    )
    crop_begin, crop_size, bboxes, labels = fn.random_bbox_crop(
        bboxes,
        labels,
        device="cpu",
        aspect_ratio=[0.5, 2.0],
        thresholds=[0, 0.1, 0.3, 0.5, 0.7, 0.9],
        scaling=[0.3, 1.0],
        bbox_layout="xyXY",
        allow_no_crop=True,
        num_attempts=50,
    )
    images = fn.decoders.image_slice(images, crop_begin, crop_size, device="cpu", output_type=types.RGB)
    flip_coin = fn.random.coin_flip(probability=0.5)
    images = fn.resize(images, resize_x=30, resize_y=30, min_filter=types.DALIInterpType.INTERP_TRIANGULAR)
    saturation = fn.random.uniform(range=[0.5, 1.5])
    contrast = fn.random.uniform(range=[0.5, 1.5])
    brightness = fn.random.uniform(range=[0.875, 1.125])
    hue = fn.random.uniform(range=[-0.5, 0.5])
    images = fn.hsv(images, dtype=types.FLOAT, hue=hue, saturation=saturation)
    images = fn.brightness_contrast(
        images, contrast_center=128, dtype=types.UINT8, brightness=brightness, contrast=contrast
    )
    bboxes = fn.bb_flip(bboxes, ltrb=True, horizontal=flip_coin)
    images = fn.crop_mirror_normalize(
        images,
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        mirror=flip_coin,
        dtype=types.FLOAT,
        output_layout="CHW",
        pad_output=False,
    )
    bboxes, labels = fn.box_encoder(bboxes, labels, criteria=0.5, anchors=default_boxes)
    return images, bboxes, labels


pipe = create_coco_pipeline(default_boxes, 4, batch_size=4, num_threads=2, device_id=None, seed=5)
pipe.build()
show_form(pipe.run())
