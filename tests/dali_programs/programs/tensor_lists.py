"""Batches and tensors after run(): indexing, arrays, shapes, layouts, types, copies."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.tensors as tensors
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shown import show, show_error


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def pipeline():
    same = fn.external_source(lambda: [np.full((2, 3), k, np.int16) for k in range(3)], layout="HW")
    ragged = fn.external_source(lambda: [np.arange(k + 1, dtype=np.float32) for k in range(3)])
    return same, ragged


same, ragged = pipeline().run()
show(
    len(same),
    same.shape(),
    ragged.shape(),
    same.layout(),
    ragged.layout(),
    same.is_dense_tensor(),
    ragged.is_dense_tensor(),
)
show(same.as_array(), same.as_tensor().shape(), np.array(same[1]), np.array(same.at(2)), same.dtype == types.INT16)
show([np.array(sample) for sample in ragged], same[0].shape())
tensor = same.as_tensor()
show(
    np.array(tensor),
    tensor.layout(),
    tensor.dtype == types.INT16,
    isinstance(tensor, tensors.TensorCPU),
    isinstance(same, tensors.TensorListCPU),
)
show_error(lambda: ragged.as_array())
show_error(lambda: same[5])
show_error(lambda: same.at(7))
made = tensors.TensorListCPU(np.arange(12, dtype=np.uint8).reshape(3, 4), layout="X")
show(made, made.layout(), tensors.TensorCPU(np.float32([[1, 2]]), "HW").layout(), made.at(1))
listed = tensors.TensorListCPU([tensors.TensorCPU(np.int32([k, k])) for k in range(2)])
show(listed, len(listed))
