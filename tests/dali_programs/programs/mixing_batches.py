"""Mixup and cutmix with permuted batches, labels as one-hot rows, and tables of labels."""

import numpy as np
from material import image
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_error

PICTURES = [image(6, 8, seed=number) for number in range(4)]
LABELS = [np.int32(number) for number in (3, 1, 0, 2)]


@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def mixed():
    pictures = fn.external_source(lambda: PICTURES, layout="HWC")
    labels = fn.external_source(lambda: LABELS)
    order = fn.external_source(lambda: [np.int32(number) for number in (2, 0, 3, 1)])
    share = fn.external_source(lambda: [np.float32(value) for value in (0.25, 0.5, 0.75, 1.0)])
    others = fn.permute_batch(pictures, indices=order)
    mixup = fn.cast(pictures * share + others * (1 - share), dtype=types.UINT8)
    target = fn.one_hot(labels, num_classes=4)
    soft = target * share + fn.permute_batch(target, indices=order) * (1 - share)
    cut = (
        fn.multi_paste(
            pictures, others, in_anchors=np.int32([[1, 2]]), in_shapes=np.int32([[3, 4]]), output_size=[6, 8]
        )
        if False
        else fn.cat(pictures[:, :4], others[:, 4:], axis_name="W")
    )
    table = fn.lookup_table(labels, keys=[0, 1, 2], values=[10.0, 20.0, 30.0], default_value=-1.0, dtype=types.INT32)
    return mixup, soft, cut, table, fn.stack(labels, fn.permute_batch(labels, indices=order))


@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def ordered(indices):
    return fn.permute_batch(fn.external_source(lambda: LABELS), indices=indices)


show(mixed().run(), within=1)
show(ordered([3, 2, 1, 0]).run())
show_error(lambda: ordered([0, 1]).run())
show_error(lambda: ordered([0, 1, 2, 4]).run())
