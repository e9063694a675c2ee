"""Callables as sources: without an argument, with the iteration, with SampleInfo and BatchInfo."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error

settings = dict(batch_size=3, num_threads=1, device_id=None)


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return [np.int32([self.calls, k]) for k in range(3)]


class PerSample:
    def __init__(self, length):
        self.length = length

    def __call__(self, sample_info):
        if sample_info.iteration >= self.length:
            raise StopIteration
        return np.int64(
            [sample_info.idx_in_epoch, sample_info.idx_in_batch, sample_info.iteration, sample_info.epoch_idx]
        )


def with_batch_info(info):
    return [np.int32([info.iteration, info.epoch_idx, k]) for k in range(3)]


@pipeline_def(**settings)
def pipe(source, batch=None, batch_info=False):
    return fn.external_source(source=source, batch=batch, batch_info=batch_info)


for made in (pipe(Counter()), pipe(lambda i: [np.int32([i])] * 3), pipe(with_batch_info, batch_info=True)):
    made.build()
    show(made.run(), made.run())

per_sample = pipe(PerSample(2), batch=False)
per_sample.build()
for _ in range(2):
    show(per_sample.run(), per_sample.run())
    show_error(per_sample.run)
    per_sample.reset()

shorter = pipe(lambda i: [np.int32([i])] * (3 - i))
show(shorter.run(), shorter.run(), shorter.run())
