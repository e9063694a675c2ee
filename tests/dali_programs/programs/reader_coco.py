"""fn.readers.coco with boxes, ids and polygon masks."""

import nvidia.dali.fn as fn
from material import PICTURES, write_coco
from nvidia.dali import pipeline_def
from shown import show

boxes = {
    0: [(1, [4, 5, 20, 10]), (3, [10.5, 12, 9, 8])],
    1: [(2, [0, 0, 40, 60])],
    2: [],
    3: [(3, [7, 7, 30, 20])],
    5: [(1, [1, 1, 5, 5]), (2, [20, 4, 11, 12]), (3, [50, 10, 30, 20])],
}
annotations = write_coco(".", boxes)


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def coco(arguments):
    outputs = fn.readers.coco(file_root=PICTURES, annotations_file=annotations, name="coco", **arguments)
    return tuple(outputs[1:])


for arguments in (
    dict(),
    dict(ltrb=True),
    dict(ratio=True, ltrb=True),
    dict(skip_empty=True),
    dict(image_ids=True),
    dict(polygon_masks=True),
    dict(avoid_class_remapping=True, size_threshold=10.0),
):
    pipe = coco(arguments)
    pipe.build()
    show(pipe.run(), pipe.run(), pipe.epoch_size("coco"))
