"""Generator functions and lists as sources, with every value of cycle."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show, show_error


def batches():
    for i in range(3):
        yield [np.int32([i]), np.int32([i + 10])]


listed = [[np.int32([i]), np.int32([i + 20])] for i in range(2)]


@pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
def pipe(source, cycle):
    return fn.external_source(source=source, cycle=cycle)


for source in (batches, listed):
    for cycle in ("quiet", True):
        endless = pipe(source, cycle)
        endless.build()
        show([endless.run()[0].as_array() for _ in range(5)])
    for cycle in ("raise",):
        ending = pipe(source, cycle)
        ending.build()
        for epoch in range(2):
            while True:
                try:
                    show(ending.run())
                except StopIteration:
                    show("end")
                    ending.reset()
                    break
    for cycle in (None, "no", False):
        once = pipe(source, cycle)
        once.build()
        show([once.run()[0].as_array() for _ in range(2)])
show_error(lambda: pipe(listed, "sometimes"))
show_error(lambda: pipe(lambda: listed[0], "quiet"))
