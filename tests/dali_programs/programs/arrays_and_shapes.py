"""Ragged arrays: their shapes as data, padding to the largest, slices by nodes, and reductions of what is there."""

import numpy as np
from nvidia.dali import fn, math, newaxis, pipeline_def, types
from shown import show, show_error

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(4, dtype=np.float32).reshape(4, 1),
    np.ones((1, 2), np.float32),
]


def run(function, batches=1):
    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def definition():
        made = function(fn.external_source(lambda: ARRAYS, layout="AB"))
        return tuple(made) if isinstance(made, (list, tuple)) else made

    return definition().run()


show(run(lambda x: (x.shape(), x.shape()[0], fn.cast(x.shape(), dtype=types.FLOAT) / 2, x.shape(dtype=types.INT32))))
show(
    run(
        lambda x: (
            fn.pad(x),
            fn.pad(x, axes=[0]),
            fn.pad(x, axis_names="B", align=4, fill_value=-1),
            fn.pad(x, axes=[0, 1], shape=[4, 4]),
        )
    )
)
show(
    run(
        lambda x: (
            x[0],
            x[-1],
            x[:, 0],
            x[x.shape()[0] - 1],
            x[:1],
            x[::2],
            x[::-1, ::-1],
            x[:, newaxis],
            x[newaxis("Z")],
        )
    )
)
show(
    run(
        lambda x: (
            fn.reductions.sum(x, axes=0),
            fn.reductions.mean(x),
            fn.reductions.max(x, axis_names="B", keep_dims=True),
        )
    )
)
show(
    run(
        lambda x: (
            fn.reductions.std_dev(x, fn.reductions.mean(x)),
            fn.reductions.rms(x, axes=[1]),
            fn.reductions.min(x),
        )
    )
)
show(
    run(lambda x: (fn.reshape(x, shape=[-1]), fn.reshape(x, rel_shape=[-1], layout="F"), fn.transpose(x, perm=[1, 0])))
)
show(
    run(
        lambda x: (
            fn.cat(x, x, axis=0),
            fn.stack(x, x, axis=2),
            fn.cat(x, x, axis_name="B"),
            fn.stack(x[0], x[0], axis_name="Q"),
        )
    )
)
show(
    run(
        lambda x: (
            fn.full_like(x, 7),
            fn.zeros_like(x, dtype=types.UINT8),
            fn.ones(shape=x.shape(dtype=types.INT32)),
            fn.full(2.5, shape=[2]),
        )
    )
)
show(
    run(
        lambda x: (math.sqrt(x), math.floor(x / 2), math.max(x, 2), math.pow(x, 2), abs(-x), x**2, 10 // (x + 1), x > 2)
    )
)
show(
    run(
        lambda x: (
            fn.slice(x, 0, 1, axes=[0], normalized_anchor=False, normalized_shape=False),
            fn.slice(x, rel_start=[0.5], axes=[0]),
        )
    )
)
show_error(lambda: run(lambda x: x[7]))
show_error(lambda: run(lambda x: x[:, :, 0]))
show_error(lambda: run(lambda x: fn.stack(x, x[:1])))
show_error(lambda: run(lambda x: fn.cat(x, x[0])))
show_error(lambda: run(lambda x: x + fn.reshape(x, shape=[-1])))
show_error(lambda: run(lambda x: fn.reshape(x, shape=[5, 5])))
show_error(lambda: run(lambda x: fn.transpose(x, perm=[0, 0])))
show_error(lambda: run(lambda x: fn.pad(x, axes=[3])))
