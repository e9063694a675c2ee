"""Checkpoints: a pipeline goes on where another one was when it was saved."""

import numpy as np
import nvidia.dali.fn as fn
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=3, num_threads=2, device_id=None, enable_checkpointing=True, seed=17)
def pipeline():
    _, labels = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="Reader")
    numbers = fn.external_source(lambda info: np.int64([info.idx_in_epoch]), batch=False)
    return labels, numbers, fn.random.uniform(range=[0, 1])


def arrays(outputs):
    return [output.as_array() for output in outputs]


def same(one, two):
    return all((a == b).all() for a, b in zip(one, two))


pipe = pipeline()
pipe.build()
for _ in range(4):
    pipe.run()
checkpoint = pipe.checkpoint()
expected = [arrays(pipe.run()) for _ in range(4)]

restored = pipeline(checkpoint=checkpoint)
restored.build()
show(restored.is_restored_from_checkpoint, pipe.is_restored_from_checkpoint)
show([same(arrays(restored.run()), batch) for batch in expected], [batch[1].ravel() for batch in expected])

path = "checkpoint.file"
pipe.checkpoint(path)
following = arrays(pipe.run())
with open(path, "rb") as file:
    again = pipeline(checkpoint=file.read())
again.build()
show(same(arrays(again.run()), following))


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def without():
    return fn.random.uniform()


made = without()
made.build()
show_error(made.checkpoint)
