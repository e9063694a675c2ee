"""A source that shuffles itself anew in every epoch by epoch_idx, as the tutorial of parallel sources does."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show


class Shuffled:
    def __init__(self, size, batch_size):
        self.size = size
        self.full_iterations = size // batch_size
        self.perm = None
        self.last_seen_epoch = None

    def __call__(self, sample_info):
        if sample_info.iteration >= self.full_iterations:
            raise StopIteration()
        if self.last_seen_epoch != sample_info.epoch_idx:
            self.last_seen_epoch = sample_info.epoch_idx
            self.perm = np.random.default_rng(seed=42 + sample_info.epoch_idx).permutation(self.size)
        return np.int32([self.perm[sample_info.idx_in_epoch]])


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def pipeline():
    return fn.external_source(source=Shuffled(9, 4), batch=False)


pipe = pipeline()
pipe.build()
for epoch in range(3):
    seen = []
    while True:
        try:
            seen.append(pipe.run()[0].as_array().ravel())
        except StopIteration:
            pipe.reset()
            break
    show(seen)
