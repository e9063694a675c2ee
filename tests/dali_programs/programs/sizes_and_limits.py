"""Extents given for each sample, limits of 0, fills in other types, frames that turn apart, numbers beyond a type."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from material import image
from nvidia.dali import pipeline_def
from shown import show, show_error

settings = dict(batch_size=2, num_threads=1, device_id=None)


def pictures():
    return fn.external_source(lambda: [image(12, 10), image(9, 14, seed=2)], layout="HWC")


def each(*values):
    return fn.external_source(lambda: [np.float32(value) for value in values])


@pipeline_def(**settings)
def sizes():
    x, size = pictures(), each([5.7, 4], [0.4, 3])
    moved = dict(matrix=[1.0, 0, 50, 0, 1, 0], dtype=types.FLOAT)
    return (
        fn.rotate(x, angle=30, size=size),
        fn.warp_affine(x, matrix=[1.0, 0, 0, 0, 1, 0], size=size),
        fn.warp_affine(x, fill_value=3.5, **moved),
        fn.warp_affine(x, fill_value=-3, **moved),
        fn.resize(x, size=[5, 6], max_size=0),
        fn.resize(x, resize_shorter=8, max_size=[0, 7]),
        fn.resize(x, size=[8, 8], mode="not_larger", max_size=-1),
        fn.tensor_resize(x, sizes=[5, 6], axes=[0, 1], max_size=[0, 3]),
    )


show(sizes().run(), within=1)


@pipeline_def(**settings)
def frames():
    clip = fn.external_source(lambda: [np.stack([image(9, 14, seed=k) for k in range(3)])] * 2, layout="FHWC")
    angles = fn.per_frame(fn.external_source(lambda: [np.float32([10, 20, 30]), np.float32([0, 90, 45])]))
    return fn.rotate(clip, angle=angles, fill_value=0)


show([out.shape() for out in frames().run()], frames().run()[0].layout())


@pipeline_def(**settings)
def numbers():
    flag = fn.constant(idata=[1])
    return (
        fn.one_hot(flag, num_classes=3, dtype=types.UINT8, off_value=-1.5),
        fn.one_hot(flag, num_classes=3, dtype=types.INT8, on_value=300.5, off_value=-3.9),
        fn.transforms.scale(scale=[2.0], ndim=0),
        fn.transforms.scale(scale=[2.0], ndim=3),
        fn.resize_crop_mirror(pictures(), size=[8, 8], crop=[4, 4], mirror=True)[0, 0],
        types.Constant(2.5, shape=[1]) * flag,
    )


show(numbers().run(), within=1)


def refused(**arguments):
    return pipeline_def(lambda: fn.rotate(pictures(), angle=30, **arguments), **settings)().run()


show_error(lambda: refused(size=[0, 3]))
show_error(lambda: refused(size=[-2, 3]))
show_error(lambda: refused(size=each([-2, 3], [1, 1])))
