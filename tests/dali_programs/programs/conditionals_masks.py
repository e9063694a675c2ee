"""Conditions with masks: parts of an image chosen by comparisons, whole samples by branches, and both together."""

import numpy as np
from material import image
from nvidia.dali import fn, math, pipeline_def, types
from shown import show

PICTURES = [image(6, 8, seed=number) for number in range(4)]


@pipeline_def(batch_size=4, num_threads=2, device_id=None, enable_conditionals=True)
def masked():
    data = fn.external_source(lambda: PICTURES, layout="HWC")
    brightness = fn.reductions.mean(data)
    mask = data > 100
    cut = mask * data
    toned = (data > types.Constant(60).uint8()) & (data < types.Constant(200).uint8())
    blended = fn.cast(mask * 255 + (mask == False) * data, dtype=types.UINT8)  # noqa: E712
    if brightness > 125:
        result = fn.cast_like(cut, data)
        flag = fn.constant(idata=1, shape=[])
    elif brightness > 110 and fn.reductions.max(data) < 255:
        result = fn.flip(data, horizontal=1)
        flag = fn.constant(idata=2, shape=[])
    else:
        result = fn.cast(255 - data, dtype=types.UINT8)
        flag = fn.constant(idata=3, shape=[])
    if not (brightness > 120 or flag == 3):
        result = fn.cast(result // 2, dtype=types.UINT8)
    return cut, toned, blended, result, flag


@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def by_arithmetic():
    data = fn.external_source(lambda: PICTURES, layout="HWC")
    chosen = fn.external_source(lambda: [np.bool_(number % 2) for number in range(4)])
    flipped = fn.flip(data, horizontal=1)
    merged = chosen * flipped + (chosen ^ True) * data
    low = math.min(data, flipped)
    return merged, low, math.clamp(data, 50, 200), fn.reductions.sum(merged, axis_names="HW")


show(masked().run(), by_arithmetic().run())
