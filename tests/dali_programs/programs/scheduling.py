"""schedule_run, share_outputs, release_outputs and outputs instead of run."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=2)
def pipeline():
    return fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False)


pipe = pipeline()
pipe.build()
pipe.schedule_run()
show(pipe.share_outputs())
pipe.release_outputs()
for _ in range(2):
    pipe.schedule_run()
    show(pipe.outputs())
pipe.schedule_run()
pipe.schedule_run()
show(pipe.share_outputs())
pipe.release_outputs()
show(pipe.share_outputs())
pipe.release_outputs()
show_error(pipe.run)
