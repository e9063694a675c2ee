"""fn.readers.tfrecord with features of every kind, and decoding its images."""

import nvidia.dali.fn as fn
import nvidia.dali.tfrecord as tfrec
import nvidia.dali.types as types
from material import encoded, write_tfrecord
from nvidia.dali.pipeline import Pipeline
from shown import show

examples = [
    {
        "image/encoded": encoded(k).tobytes(),
        "image/class/label": [k],
        "box": [0.1 * k, 0.5, 0.75],
        "ids": list(range(k + 1)),
    }
    for k in range(4)
]
tfrecord, tfrecord_idx = write_tfrecord("train.tfrecord", examples)

pipe = Pipeline(batch_size=2, num_threads=4, device_id=None)
with pipe:
    inputs = fn.readers.tfrecord(
        path=tfrecord,
        index_path=tfrecord_idx,
        features={
            "image/encoded": tfrec.FixedLenFeature((), tfrec.string, ""),
            "image/class/label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
            "box": tfrec.FixedLenFeature([3], tfrec.float32, 0.0),
            "ids": tfrec.VarLenFeature(tfrec.int64, 0),
        },
        name="tf",
    )
    images = fn.decoders.image(inputs["image/encoded"], device="cpu", output_type=types.RGB)
    resized = fn.resize(images, resize_shorter=16.0)
    output = fn.crop_mirror_normalize(
        resized, dtype=types.FLOAT, crop=(16, 16), mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0]
    )
    pipe.set_outputs(output, inputs["image/class/label"], inputs["box"], inputs["ids"])
pipe.build()
show(pipe.run(), within=1)
show(pipe.run()[1:], pipe.epoch_size("tf"))
