"""A single-shot detector's pipeline as a subclass, from classes and arguments with their former names."""

import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES, write_coco
from nvidia.dali.pipeline import Pipeline
from shown import show, show_form

annotations = write_coco(".", {k: [(1 + k % 3, [3.0, 4.0, 20.0, 18.0]), (2, [8.0, 6.0, 10.0, 20.0])] for k in range(7)})
ANCHORS = [value for y in (0.25, 0.75) for x in (0.25, 0.75) for value in (x - 0.25, y - 0.25, x + 0.25, y + 0.25)]


class Detection(Pipeline):
    def __init__(self, half, drawn):
        super().__init__(batch_size=4, device_id=None, num_threads=2, seed=11)
        self.drawn = drawn
        self.input = ops.COCOReader(
            file_root=PICTURES, annotations_file=annotations, skip_empty=True, shard_id=0, num_shards=1, ratio=True, ltrb=True,
            random_shuffle=False, shuffle_after_epoch=drawn, pad_last_batch=True, save_img_ids=True,
        )  # fmt: skip
        self.decode = ops.ImageDecoder(device="cpu", output_type=types.RGB)
        self.crop = ops.RandomBBoxCrop(
            device="cpu", aspect_ratio=[0.5, 2.0], thresholds=[0, 0.1, 0.3, 0.5, 0.7, 0.9], scaling=[0.3, 1.0], ltrb=True,
            allow_no_crop=True, num_attempts=1,
        )  # fmt: skip
        self.slice = ops.Slice(device="cpu")
        self.hsv = ops.Hsv(device="cpu", dtype=types.FLOAT)
        self.light = ops.BrightnessContrast(device="cpu", contrast_center=128, dtype=types.UINT8)
        self.resize = ops.Resize(
            device="cpu", resize_x=30, resize_y=30, min_filter=types.DALIInterpType.INTERP_TRIANGULAR
        )
        self.normalize = ops.CropMirrorNormalize(
            device="cpu", crop=(30, 30), mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.5], mirror=0,
            output_dtype=types.FLOAT16 if half else types.FLOAT, output_layout=types.NCHW, pad_output=False,
        )  # fmt: skip
        self.around_one, self.around_zero = ops.Uniform(range=[0.5, 1.5]), ops.Uniform(range=[-0.5, 0.5])
        self.flip, self.flip_boxes = ops.Flip(device="cpu"), ops.BbFlip(device="cpu", ltrb=True)
        self.coin = ops.CoinFlip(probability=0.5)
        self.encode = ops.BoxEncoder(device="cpu", criteria=0.5, anchors=ANCHORS)

    def define_graph(self):
        contrast, brightness, hue = self.around_one(), self.around_one(), self.around_zero()
        coin = self.coin() if self.drawn else 1
        files, boxes, labels, ids = self.input(name="Reader")
        images = self.decode(files)
        if self.drawn:
            start, extents, boxes, labels = self.crop(boxes, labels)
            images = self.slice(images, start, extents)
        images = self.resize(self.flip(images, horizontal=coin))
        boxes = self.flip_boxes(boxes, horizontal=coin)
        if self.drawn:
            images = self.hsv(images, hue=hue, saturation=contrast)
            images = self.light(images, brightness=brightness, contrast=contrast)
        boxes, labels = self.encode(boxes, labels)
        return self.normalize(images), boxes, labels, ids


for half in (False, True):
    pipe = Detection(half, True)
    pipe.build()
    show_form(pipe.run())
pipe = Detection(False, False)
pipe.build()
for _ in range(2):
    images, *others = pipe.run()
    show(images, within=0.03)
    show(others)
