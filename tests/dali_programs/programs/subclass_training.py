"""Pipelines as classes of models wrote them: operators made in the constructor, one class for training and validation."""

import nvidia.dali.ops as ops
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from shown import show, show_error, show_form


class Common(Pipeline):
    def __init__(self, batch_size, num_threads, device_id, data_dir, crop, shard_id=0, num_shards=1, dali_cpu=True):
        super().__init__(batch_size, num_threads, device_id, seed=12 + shard_id)
        self.input = ops.readers.File(
            file_root=data_dir,
            shard_id=shard_id,
            num_shards=num_shards,
            random_shuffle=self.shuffled,
            pad_last_batch=True,
        )
        device = "cpu" if dali_cpu else "gpu"
        self.decode = ops.decoders.Image(device=device, output_type=types.RGB)
        self.res = ops.Resize(device=device, resize_shorter=24.0, interp_type=types.INTERP_TRIANGULAR)
        self.normalize = ops.CropMirrorNormalize(
            device=device,
            dtype=types.FLOAT,
            output_layout=types.NCHW,
            crop=(crop, crop),
            mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
            std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        )
        self.coin = ops.random.CoinFlip(probability=0.5)


class Training(Common):
    shuffled = True

    def define_graph(self):
        rng = self.coin()
        self.jpegs, self.labels = self.input(name="Reader")
        images = self.decode(self.jpegs)
        images = self.res(images)
        return [self.normalize(images, mirror=rng), self.labels]


class Validation(Common):
    shuffled = False

    def define_graph(self):
        jpegs, labels = self.input(name="Reader")
        return self.normalize(self.res(self.decode(jpegs))), labels


train = Training(3, 2, None, PICTURES, 16)
train.build()
show_form(train.run())
show(train.epoch_size("Reader"), train.epoch_size())
for shard in range(2):
    val = Validation(
        batch_size=3, num_threads=2, device_id=None, data_dir=PICTURES, crop=16, shard_id=shard, num_shards=2
    )
    val.build()
    show([val.run() for _ in range(2)], within=0.05)
    show(val.reader_meta("Reader"))


class Broken(Pipeline):
    def define_graph(self):
        return None


def build(pipe):
    pipe.build()
    return pipe.run()


show_error(lambda: build(Pipeline(1, 1, None)))
show_error(lambda: build(Training(3, 2, None, "/nowhere", 16)))
show_error(lambda: Training(3, 2, None, PICTURES))
