"""A pipeline object filled inside `with pipe:`, with set_outputs at its end."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import PICTURES
from nvidia.dali import Pipeline
from shown import show

pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, prefetch_queue_depth=1)
with pipe:
    files, labels = fn.readers.file(file_root=PICTURES)
    images = fn.decoders.image(files, output_type=types.GRAY)
    images = fn.resize(images, resize_x=20, resize_y=16)
    pipe.set_outputs(images, labels)

pipe.build()
for _ in range(2):
    images, labels = pipe.run()
    show(images, labels, within=1)
show(pipe.num_outputs, pipe.max_batch_size, pipe.num_threads, pipe.device_id is None, pipe.prefetch_queue_depth)
