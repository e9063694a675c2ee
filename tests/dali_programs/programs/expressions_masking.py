"""Conditional-like operations with masks: comparison results multiplied in, and clamping by min and max."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.math as math
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.types import Constant
from shown import show


class ExampleSource:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.rng = np.random.RandomState(7)

    def __call__(self):
        x = [self.rng.randint(0, 256, (4, 5, 3)).astype(np.uint8) for _ in range(self.batch_size)]
        mask = [self.rng.randint(0, 2, (4, 5, 1)).astype(bool) for _ in range(self.batch_size)]
        return x, mask


pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
with pipe:
    image, mask = fn.external_source(source=ExampleSource(2), num_outputs=2, layout=["HWC", "HWC"])
    pos_mask = image > 100
    neg_mask = image <= 100
    result = image * pos_mask
    both = image * pos_mask + 17 * neg_mask
    clamped = math.clamp(image, 50, 180)
    chosen = image * mask + (255 - image) * (mask == False)  # noqa: E712
    pipe.set_outputs(
        image,
        pos_mask,
        result,
        both,
        clamped,
        math.min(image, 128),
        math.max(image, Constant(128).uint8()),
        chosen,
        math.min(math.max(image, 30), Constant(90).uint8()),
    )
pipe.build()
show(pipe.run(), pipe.run())
