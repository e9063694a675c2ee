"""Blending two pictures, and an invert, written as expressions."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.types import Constant
from shown import show

pipe = Pipeline(batch_size=2, num_threads=4, device_id=None)
with pipe:
    first, _ = fn.readers.file(file_root=PICTURES, name="a")
    second, _ = fn.readers.file(file_root=PICTURES, name="b", num_shards=2, shard_id=1)
    first, second = fn.decoders.image([first, second], device="cpu", output_type=types.RGB)
    first, second = fn.resize([first, second], resize_x=40, resize_y=40, interp_type=types.INTERP_LINEAR)
    mean = first * 0.5 + second * 0.5
    as_bytes = fn.cast(mean, dtype=types.UINT8)
    inverted = 255 - first
    same_type = Constant(255).uint8() - second
    halves = first / 2
    pipe.set_outputs(first, second, mean, as_bytes, inverted, same_type, halves)
pipe.build()
show(pipe.run(), within=2)
