"""Augmentations applied at random by a coin, with and without a branch of their own operators."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show, show_form


@pipeline_def(batch_size=8, num_threads=2, device_id=None, enable_conditionals=True, seed=3)
def random_rotation():
    x = fn.external_source(lambda i: [image(12, 16, seed=k) for k in range(8)], layout="HWC")
    do_rotate = fn.random.coin_flip(probability=0.5, dtype=types.BOOL)
    if do_rotate:
        result = fn.rotate(x, angle=fn.random.uniform(range=(10, 30)), keep_size=True, fill_value=0)
    else:
        result = x
    return x, result, do_rotate


pipe = random_rotation()
pipe.build()
x, result, flags = pipe.run()
unchanged = [bool((x.at(i) == result.at(i)).all()) for i in range(8)]
show(unchanged == [not flag for flag in flags.as_array()])
show_form(x, result, flags)
