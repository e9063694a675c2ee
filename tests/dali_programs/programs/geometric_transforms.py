"""fn.transforms and coord_transform, as in the tutorial of keypoints."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show

points = [np.float32([[1, 2], [3, 4], [0.5, 9]]), np.float32([[5, 5]])]


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def transformed():
    keypoints = fn.external_source(lambda: points)
    angle = fn.external_source(lambda: [np.float32(30), np.float32(-60)])
    rotation = fn.transforms.rotation(angle=angle, center=(5, 5))
    scale = fn.transforms.scale(scale=(2, 0.5), center=(1, 1))
    moved = fn.transforms.translation(rotation, offset=(10, -3))
    sheared = fn.transforms.shear(moved, shear=(0.25, 0), reverse_order=True)
    cropped = fn.transforms.crop(from_start=(0, 0), from_end=(10, 20), to_start=(0.0, 0.0), to_end=(1.0, 1.0))
    combined = fn.transforms.combine(rotation, scale, moved)
    return (
        rotation,
        scale,
        moved,
        sheared,
        cropped,
        combined,
        fn.transforms.shear(angles=(20, 10)),
        fn.transforms.rotation(angle=45, axis=(0, 0, 1)),
        fn.coord_transform(keypoints, MT=rotation),
        fn.coord_transform(keypoints, M=(1, 2, 3, 4)),
        fn.coord_transform(keypoints, M=0.5, T=(1, 2)),
        fn.coord_transform(keypoints, MT=combined, dtype=types.FLOAT),
        fn.transforms.combine(rotation, np.float32([[1, 0, 2], [0, 1, 3]])),
    )


show(transformed().run(), within=1e-3)
