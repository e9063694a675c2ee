"""fn.normalize: axes, batches, given means and deviations, ddof, epsilon, shift and scale."""

import numpy as np
import nvidia.dali.backend as backend
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import Pipeline
from shown import show

data = [np.float32([[11, 21, 31], [12, 22, 35]]), np.float32([[1, 2, 4], [5, 5, 5]])]


def run_pipe(get_outputs):
    pipe = Pipeline(batch_size=2, num_threads=2, device_id=None)
    with pipe:
        x = fn.external_source(lambda: data, layout="AB")
        pipe.set_outputs(*get_outputs(x))
    pipe.build()
    return [o if isinstance(o, backend.TensorListCPU) else o.as_cpu() for o in pipe.run()]


show(
    run_pipe(
        lambda x: [
            fn.normalize(x),
            fn.normalize(x, axes=[0]),
            fn.normalize(x, axis_names="B"),
            fn.normalize(x, axes=(0, 1)),
        ]
    ),
    within=1e-4,
)
show(run_pipe(lambda x: [fn.normalize(x, batch=True), fn.normalize(x, batch=True, axes=[1])]), within=1e-4)
show(
    run_pipe(
        lambda x: [
            fn.normalize(x, mean=10.0),
            fn.normalize(x, stddev=2.0),
            fn.normalize(x, mean=5, stddev=0.5, shift=2, scale=3),
        ]
    ),
    within=1e-4,
)
show(
    run_pipe(lambda x: [fn.normalize(x, mean=np.float32([[1, 2, 3]]), stddev=2), fn.normalize(x, axes=[1], ddof=1)]),
    within=1e-4,
)
show(
    run_pipe(lambda x: [fn.normalize(x, epsilon=4.0), fn.normalize(x, dtype=types.UINT8, shift=128, scale=50)]),
    within=1,
)
