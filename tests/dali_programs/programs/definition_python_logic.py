"""Values of the definition computed in Python: loops, comprehensions, dictionaries of operators, early returns."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show

STEPS = {"scale": lambda x: x * 2, "shift": lambda x: x + 3, "square": lambda x: x * x}


@pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
def configured(steps, stop_after=None):
    x = fn.external_source(lambda info: np.int32([info.idx_in_epoch, 1]), batch=False)
    outputs = [x]
    for number, step in enumerate(steps):
        if stop_after is not None and number >= stop_after:
            return tuple(outputs)
        outputs.append(STEPS[step](outputs[-1]))
    if len(outputs) > 1 and x[0] > 0:
        last = outputs[-1] + sum(1 for step in steps if step == "shift")
    else:
        last = fn.copy(outputs[-1])
    total = sum(outputs[1:], outputs[0])
    return *outputs, last, total, *[fn.cast(out, dtype=types.FLOAT) for out in outputs if out is not x]


show(configured(["scale", "shift"]).run(), configured(["square"], stop_after=0).run(), configured([]).run())
