"""Reductions over all and some axes, kept and dropped, with layouts and types."""

import numpy as np
import nvidia.dali as dali
import nvidia.dali.backend as backend
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show


def get_batch():
    return [np.arange(24, dtype=np.int32).reshape(2, 3, 4) + 5 * k for k in range(2)]


def run_and_show(make):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe():
        return make(fn.external_source(get_batch, layout="ABC"))

    made = pipe()
    made.build()
    outputs = made.run()
    show(
        [isinstance(out, (backend.TensorListCPU, dali.tensors.TensorListCPU)) for out in outputs], outputs, within=1e-4
    )


run_and_show(lambda x: (fn.reductions.min(x), fn.reductions.max(x), fn.reductions.sum(x), fn.reductions.mean(x)))
run_and_show(lambda x: tuple(fn.reductions.sum(x, axes=axes) for axes in ((0,), (1,), (0, 1), (1, 2), (-1,), 2)))
run_and_show(lambda x: tuple(fn.reductions.max(x, axis_names=names) for names in ("A", "BC", "CA")))
run_and_show(
    lambda x: (fn.reductions.mean(x, axes=(0, 1), keep_dims=True), fn.reductions.min(x, axes=1, keep_dims=True))
)
run_and_show(
    lambda x: (fn.reductions.mean_square(x), fn.reductions.rms(x, axes=2), fn.reductions.sum(x, dtype=types.FLOAT))
)


def deviations(x):
    mean = fn.reductions.mean(x, axes=(0, 1))
    return (
        fn.reductions.std_dev(x, mean, axes=(0, 1)),
        fn.reductions.variance(x, mean, axes=(0, 1)),
        fn.reductions.variance(x, mean, axes=(0, 1), ddof=1),
        x - fn.reductions.mean(x, axes=[2], keep_dims=True),
    )


run_and_show(deviations)
