"""Mixing samples of a batch: permute_batch, batch_permutation, mixup and cutmix with fixed numbers."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=9)
def mixed():
    x = fn.external_source(lambda: [image(6, 6, seed=k) for k in range(4)], layout="HWC")
    label = fn.external_source(lambda: [np.int32([k]) for k in range(4)])
    other = fn.permute_batch(x, indices=[1, 2, 3, 0])
    share = fn.external_source(lambda: [np.float32(0.25 * k) for k in range(4)])
    mixup = x * share + other * (1.0 - share)
    hot = fn.one_hot(label, num_classes=4, on_value=0.9, off_value=0.025)
    permutation = fn.batch_permutation()
    shuffled = fn.permute_batch(label, indices=permutation)
    return (
        other,
        fn.cast(mixup, dtype=types.UINT8),
        hot,
        fn.permute_batch(hot, indices=[0, 0, 1, 1]),
        permutation,
        shuffled,
    )


pipe = mixed()
pipe.build()
*fixed, permutation, shuffled = pipe.run()
show(fixed)
show(
    sorted(int(p) for p in permutation.as_array()),
    shuffled.as_array().ravel().tolist() == permutation.as_array().tolist(),
)
