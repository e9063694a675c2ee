"""multi_paste: pieces of several samples in one picture."""

import numpy as np
import nvidia.dali.fn as fn
from material import image
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def pasted():
    x = fn.external_source(lambda: [image(8, 8, seed=k) for k in range(4)], layout="HWC")
    ids = fn.external_source(lambda: [np.int32([k, (k + 1) % 4]) for k in range(4)])
    anchors = np.int32([[0, 0], [3, 5]])
    return (
        fn.multi_paste(x, in_ids=ids, output_size=(12, 14), out_anchors=anchors),
        fn.multi_paste(
            x,
            in_ids=ids,
            output_size=(12, 14),
            out_anchors=anchors,
            in_anchors=np.int32([[1, 2], [0, 0]]),
            shapes=np.int32([[4, 4], [5, 2]]),
        ),
    )


show(pasted().run())
