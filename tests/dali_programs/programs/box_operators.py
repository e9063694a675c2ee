"""Boxes and keypoints: bb_flip, coord_flip, bbox_paste, box_encoder."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from shown import show

boxes = [np.float32([[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.9, 0.8]]), np.float32([[0.0, 0.0, 1.0, 0.5]])]
labels = [np.int32([1, 2]), np.int32([3])]
anchors = np.float32([[0, 0, 0.5, 0.5], [0.2, 0.2, 0.8, 0.8], [0.5, 0.5, 1, 1], [0, 0, 1, 1]]).ravel().tolist()


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def flipped():
    box = fn.external_source(lambda: boxes)
    label = fn.external_source(lambda: labels)
    coin = fn.external_source(lambda: [np.int32(1), np.int32(0)])
    encoded, kinds = fn.box_encoder(box, label, anchors=anchors, criteria=0.5)
    return (
        fn.bb_flip(box, ltrb=True, horizontal=coin),
        fn.bb_flip(box, vertical=1, horizontal=0),
        fn.coord_flip(box[:, :2]),
        fn.coord_flip(box[:, :2], flip_x=0, flip_y=coin, center_y=2.0),
        fn.bbox_paste(box, ratio=2.0, ltrb=True, paste_x=0.25),
        encoded,
        kinds,
    )


show(flipped().run(), within=1e-5)
