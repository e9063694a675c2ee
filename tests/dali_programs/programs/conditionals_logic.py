"""and, or, not and nested conditions, also in functions that the definition calls."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from nvidia.dali.pipeline import do_not_convert
from shown import show, show_error


def source(info):
    i = info.idx_in_epoch
    return np.int32(i), np.bool_(i & 1), np.bool_(i & 2)


def pick(a, b, x):
    if a and not b:
        return x + 100
    if a or b:
        return x + 200
    return x


@do_not_convert
def plain_python(value):
    return 5 if value else 6


@pipeline_def(batch_size=8, num_threads=1, device_id=None, enable_conditionals=True)
def logic():
    x, a, b = fn.external_source(source, num_outputs=3, batch=False)
    both = a and b
    either = a or b
    neither = not either
    out = pick(a, b, x)
    if x > 3 and x < 6:
        out = out * 2
    if plain_python(True) == 5:
        out = out + 1
    return both, either, neither, out


pipe = logic()
pipe.build()
show(pipe.run())


def failing(condition):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def pipe():
        x = fn.external_source(lambda: [np.int32([1, 2])] * 2)
        if condition(x):
            y = x + 1
        else:
            y = x
        return y

    return pipe().run()


show_error(lambda: failing(lambda x: x > 1))
show(failing(lambda x: x[0] > 0))
show(failing(lambda x: x[0]))
