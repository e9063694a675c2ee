"""serialize and deserialize, through a string and through a file."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali.pipeline import Pipeline
from shown import show


def make():
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=12)
    with pipe:
        jpegs, labels = fn.readers.file(file_root=PICTURES, name="Reader")
        images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=[12, 14])
        scaled = images / 255.0
        pipe.set_outputs(scaled, labels)
    return pipe


pipe = make()
serialized = pipe.serialize()
expected = make()
expected.build()
show(expected.run(), within=0.01)

second = Pipeline.deserialize(serialized)
second.build()
show(second.run(), second.batch_size, second.num_threads, second.seed, within=0.01)

make().serialize(filename="pipeline.dali")
third = Pipeline.deserialize(filename="pipeline.dali", num_threads=3, batch_size=2)
third.build()
show(third.run(), third.batch_size, third.num_threads, within=0.01)

fourth = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=12)
fourth.deserialize_and_build(serialized)
show(fourth.run(), within=0.01)
