"""Questions to a pipeline: attributes, declared outputs, sizes."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import Pipeline, pipeline_def
from shown import show, show_error


@pipeline_def(
    batch_size=2,
    num_threads=3,
    device_id=None,
    seed=42,
    output_dtype=[types.FLOAT, types.UINT8],
    output_ndim=[1, 2],
    prefetch_queue_depth={"cpu_size": 3, "gpu_size": 2},
    set_affinity=True,
    enable_memory_stats=True,
)
def pipeline():
    return fn.external_source(lambda: [np.float32([1])] * 2), fn.external_source(
        lambda: [np.ones((1, 1), np.uint8)] * 2
    )


pipe = pipeline()
pipe.build()
show(
    pipe.run(), pipe.batch_size, pipe.max_batch_size, pipe.num_threads, pipe.seed, pipe.num_outputs, pipe.exec_pipelined
)
show(
    pipe.exec_async,
    pipe.prefetch_queue_depth,
    pipe.exec_separated,
    pipe.cpu_queue_size,
    pipe.gpu_queue_size,
    pipe.set_affinity,
)
show(
    [item for item in pipe.output_dtype()], pipe.output_ndim(), pipe.enable_memory_stats, pipe.empty() in (True, False)
)


def wrong(**declared):
    @pipeline_def(batch_size=2, num_threads=3, device_id=None, **declared)
    def pipeline():
        return fn.external_source(lambda: [np.float32([1])] * 2)

    return pipeline().run()


show_error(lambda: wrong(output_dtype=types.INT32))
show_error(lambda: wrong(output_ndim=2))
show_error(lambda: wrong(output_dtype=[types.FLOAT, types.FLOAT]))
show_error(lambda: wrong(output_dtype=types.FLOAT, output_ndim=1))
show_error(lambda: Pipeline(2, 1, None).run())
