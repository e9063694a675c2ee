"""fn.readers.sequence: windows of frames out of folders."""

import os

import nvidia.dali.fn as fn
from material import image, write_png
from nvidia.dali import pipeline_def
from shown import show

for clip, frames in (("a", 5), ("b", 4)):
    os.makedirs(f"clips/{clip}")
    for frame in range(frames):
        write_png(f"clips/{clip}/{frame:03d}.png", image(6, 8, seed=10 * len(clip) + frame))


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def clips(arguments):
    return fn.readers.sequence(file_root="clips", name="clips", **arguments)


for arguments in (dict(sequence_length=3), dict(sequence_length=2, step=2, stride=2)):
    pipe = clips(arguments)
    pipe.build()
    show(pipe.run(), pipe.run(), pipe.epoch_size("clips"))
