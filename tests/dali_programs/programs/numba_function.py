"""Functions compiled by Numba: a sample at a time, batches, and shapes set by a setup function."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as dali_types
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.numba.fn.experimental import numba_function
from shown import show


def double_sample(out_sample, in_sample):
    out_sample[:] = in_sample[:] * 2


def setup_rotated(outs, ins):
    out, image = outs[0], ins[0]
    for sample in range(len(out)):
        out[sample][0] = image[sample][1]
        out[sample][1] = image[sample][0]
        out[sample][2] = image[sample][2]


def rotate_image(out, image):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = image[j, out.shape[0] - i - 1]


def setup_split(outs, ins):
    for out in outs:
        for sample in range(len(out)):
            out[sample][0] = ins[0][sample][0]
            out[sample][1] = ins[0][sample][1]
            out[sample][2] = ins[0][sample][2]


def split(low, high, image):
    low[:] = image[:] % 16
    high[:] = image[:] // 16


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def numba_pipe():
    x = fn.external_source(
        lambda: [np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * (k + 1) for k in range(2)], layout="HWC"
    )
    doubled = numba_function(
        x,
        run_fn=double_sample,
        out_types=[dali_types.UINT8],
        in_types=[dali_types.UINT8],
        outs_ndim=[3],
        ins_ndim=[3],
        batch_processing=False,
    )
    rotated = fn.copy(
        numba_function(
            x,
            run_fn=rotate_image,
            setup_fn=setup_rotated,
            out_types=[dali_types.UINT8],
            in_types=[dali_types.UINT8],
            outs_ndim=[3],
            ins_ndim=[3],
            batch_processing=False,
        )
    )
    low, high = numba_function(
        x,
        run_fn=split,
        setup_fn=setup_split,
        out_types=[dali_types.UINT8] * 2,
        in_types=[dali_types.UINT8],
        outs_ndim=[3, 3],
        ins_ndim=[3],
    )
    return doubled, rotated, low, high


pipe = numba_pipe()
pipe.build()
show(pipe.run())
