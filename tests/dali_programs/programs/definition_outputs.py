"""What a definition may return: nodes, constants, lists from operators, and what is refused."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show, show_error

settings = dict(batch_size=2, num_threads=1, device_id=None)


def x():
    return fn.external_source(lambda info: np.float32([info.idx_in_epoch, 1]), batch=False)


def returning(make):
    @pipeline_def(**settings)
    def pipe():
        return make()

    return pipe().run()


show(returning(lambda: x()), returning(lambda: (x(), x() + 1)))
show(returning(lambda: (x(), 5, 2.5, np.array([1, 2], np.uint8), np.float64(3), True)))
show(returning(lambda: types.Constant([1, 2, 3])), returning(lambda: types.Constant(7, dtype=types.UINT8)))
show_error(lambda: returning(lambda: None))
show_error(lambda: returning(lambda: (x(), "text")))
show_error(lambda: returning(lambda: (x(), [x(), x()])))
show_error(lambda: returning(lambda: {"a": x()}))
show_error(lambda: returning(lambda: (x(), None)))
