"""Views of each image for self-supervised learning: two large crops and three small ones, each with its own augmentations."""

import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from shown import show, show_form


class Sometimes:
    """One of two cases for each sample, by arithmetic as programs did before there were conditionals."""

    def __init__(self, chance):
        self.coin = ops.random.CoinFlip(probability=chance)
        self.truth = ops.Cast(dtype=types.DALIDataType.BOOL)

    def __call__(self, changed, kept):
        on = self.truth(self.coin())
        return on * changed + (on ^ True) * kept


class Gray:
    def __init__(self, chance):
        self.sometimes = Sometimes(chance)
        self.without = ops.ColorSpaceConversion(image_type=types.RGB, output_type=types.GRAY)
        self.spread = ops.Cat(axis=2)

    def __call__(self, images):
        gray = self.without(images)
        return self.sometimes(self.spread(gray, gray, gray), images)


class Colors:
    def __init__(self, chance):
        self.sometimes = Sometimes(chance)
        self.factor = ops.random.Uniform(range=[0.6, 1.4])
        self.turn = ops.random.Uniform(range=[-36, 36])
        self.twist = ops.ColorTwist()

    def __call__(self, images):
        twisted = self.twist(
            images, brightness=self.factor(), contrast=self.factor(), saturation=self.factor(), hue=self.turn()
        )
        return self.sometimes(twisted, images)


class Blur:
    def __init__(self, chance, window):
        self.sometimes = Sometimes(chance)
        self.blur = ops.GaussianBlur(window_size=(window, window))
        self.width = ops.random.Uniform(range=[0, 1])

    def __call__(self, images):
        return self.sometimes(self.blur(images, sigma=self.width() * 1.9 + 0.1), images)


class Solarize:
    def __init__(self, chance, threshold=128):
        self.sometimes = Sometimes(chance)
        self.threshold = threshold

    def __call__(self, images):
        turned = images >= self.threshold
        return self.sometimes((turned ^ True) * images + turned * (255 - images), images)


class View:
    def __init__(self, size, area):
        self.crop = ops.RandomResizedCrop(size=size, random_area=area, interp_type=types.INTERP_CUBIC)
        self.steps = [Colors(0.8), Gray(0.2), Blur(0.5, size // 10 * 2 + 1), Solarize(0.2)]
        self.coin = ops.random.CoinFlip(probability=0.5)
        self.normalize = ops.CropMirrorNormalize(
            dtype=types.FLOAT,
            output_layout=types.NCHW,
            crop=(size, size),
            mean=[124.0, 116.0, 104.0],
            std=[58.0, 57.0, 57.0],
        )

    def __call__(self, images):
        images = self.crop(images)
        for step in self.steps:
            images = step(images)
        return self.normalize(images, mirror=self.coin())


class Views(Pipeline):
    def __init__(self, batch_size):
        super().__init__(batch_size, num_threads=2, device_id=None, seed=12 + 0)
        self.reader = ops.readers.File(
            file_root=PICTURES,
            shard_id=0,
            num_shards=1,
            shuffle_after_epoch=False,
            prefetch_queue_depth=2,
            read_ahead=True,
        )
        self.decode = ops.decoders.Image(output_type=types.RGB, memory_stats=False)
        self.views = [View(64, (0.25, 1.0)), View(32, (0.05, 0.25))]
        self.labels = ops.Cast(dtype=types.INT64)

    def define_graph(self):
        files, labels = self.reader(name="Reader")
        images = self.decode(files)
        crops = [view(images) for view, count in zip(self.views, (2, 3)) for _ in range(count)]
        return (*crops, self.labels(labels))


pipe = Views(batch_size=3)
pipe.build()
for _ in range(2):
    *crops, labels = pipe.run()
    show_form(*crops)
    show(labels)
show(pipe.epoch_size("Reader"), pipe.reader_meta("Reader")["number_of_shards"])
