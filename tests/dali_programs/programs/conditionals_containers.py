"""Tuples, lists and dictionaries that come out of branches."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
def containers():
    x = fn.external_source(lambda info: np.float32([info.idx_in_epoch]), batch=False)
    flag = x[0] > 1
    if flag:
        pair = (x, x + 1)
        named = {"a": x * 2, "b": [x, x * 3]}
    else:
        pair = (x - 1, x - 2)
        named = {"a": x * 20, "b": [x * 30, x * 40]}
    first, second = pair
    return first, second, named["a"], *named["b"]


show(containers().run())


@pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
def mismatched():
    x = fn.external_source(lambda info: np.float32([info.idx_in_epoch]), batch=False)
    if x[0] > 1:
        pair = (x, x)
    else:
        pair = (x, x, x)
    return pair[0]


show_error(lambda: mismatched().run())


@pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
def one_side():
    x = fn.external_source(lambda info: np.float32([info.idx_in_epoch]), batch=False)
    if x[0] > 1:
        only_here = x
    return only_here


show_error(lambda: one_side().run())


@pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
def other_types():
    x = fn.external_source(lambda info: np.float32([info.idx_in_epoch]), batch=False)
    if x[0] > 1:
        y = fn.cast(x, dtype=types.INT32)
    else:
        y = x
    return y


show_error(lambda: other_types().run())
