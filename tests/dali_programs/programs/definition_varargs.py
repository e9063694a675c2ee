"""Definitions with *args, and with **kwargs, which DALI refuses."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error

settings = dict(batch_size=2, num_threads=1, device_id=None)


@pipeline_def(**settings)
def added(*values):
    x = fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False)
    for value in values:
        x = x + value
    return x


show(added().run(), added(1).run(), added(1, 2, 3, batch_size=1).run())


def with_kwargs():
    @pipeline_def(**settings)
    def summed(first, **others):
        x = fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False)
        return x + first + sum(others.values())

    return summed(1, second=2).run()


show_error(with_kwargs)
