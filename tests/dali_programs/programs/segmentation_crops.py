"""Images and masks cropped and resized together: input sets, windows around objects, and random pixels of masks."""

import numpy as np
from material import image
from nvidia.dali import fn, pipeline_def, types
from shown import show, show_form

MASKS = []
for number in range(3):
    mask = np.zeros((10, 12, 1), np.int32)
    mask[2 : 5 + number, 3 : 6 + number] = 1 + number % 2
    MASKS.append(mask)


@pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=5)
def cropped():
    pictures = fn.external_source(lambda: [image(10, 12, seed=number) for number in range(3)], layout="HWC")
    masks = fn.external_source(lambda: MASKS, layout="HWC")
    both = fn.crop([pictures, fn.cast(masks, dtype=types.UINT8)], crop=(6, 6), crop_pos_x=0.25, crop_pos_y=0.75)
    small = fn.resize([pictures, fn.cast(masks, dtype=types.UINT8)], size=(5, 6), interp_type=types.INTERP_NN)
    start = fn.external_source(lambda: [np.int32([1, 2]), np.int32([0, 0]), np.int32([3, 4])])
    windows = fn.slice([pictures, masks], start, np.int32([4, 5]), axes=[0, 1])
    turned = fn.rotate([pictures, fn.cast(masks, dtype=types.UINT8)], angle=90.0, interp_type=types.INTERP_NN)
    return (*both, *small, *windows, *turned)


@pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=5)
def around_objects():
    masks = fn.squeeze(fn.external_source(lambda: MASKS, layout="HWC"), axis_names="C")
    lone = fn.external_source(lambda: [np.eye(6, dtype=np.int32)[2:3] * 0 + (np.arange(6) == 4)] * 3)
    pixel = fn.segmentation.random_mask_pixel(fn.cast(lone, dtype=types.INT32), foreground=1)
    start, stop = fn.segmentation.random_object_bbox(masks, foreground_prob=1.0)
    anchors = fn.roi_random_crop(roi_start=start, roi_end=stop, crop_shape=[10, 12], in_shape=[10, 12])
    return pixel, stop - start > 0, anchors


show(cropped().run(), around_objects().run())
show_form(around_objects().run())
