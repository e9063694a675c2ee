"""Images and masks through the same geometry: input sets, nearest neighbour for the mask."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show


def source(info):
    mask = np.zeros((20, 30, 1), np.uint8)
    mask[4 + info.idx_in_epoch : 14, 8:20] = info.idx_in_epoch + 1
    return image(20, 30, seed=info.idx_in_epoch), mask


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def segmentation():
    images, masks = fn.external_source(source, num_outputs=2, batch=False, layout="HWC")
    images, masks = fn.flip([images, masks], horizontal=1)
    images, masks = fn.crop([images, masks], crop=(16, 24), crop_pos_x=0.25, crop_pos_y=0.75)
    images = fn.resize(images, size=(12, 12))
    masks = fn.resize(masks, size=(12, 12), interp_type=types.INTERP_NN)
    images, masks = fn.rotate([images, masks], angle=90, interp_type=types.INTERP_NN, fill_value=0)
    return fn.transpose(images, perm=[2, 0, 1]), fn.squeeze(masks, axes=2), fn.reductions.max(masks)


show(segmentation().run(), within=1)
