"""Batches and samples as the user sees them: TensorListCPU and TensorCPU, without copies for NumPy and DLPack."""

from pipeflow.tensors.batch import TensorListCPU
from pipeflow.tensors.collector import Collector, Take, slab_size
from pipeflow.tensors.memory import Block, Lease, array_in
from pipeflow.tensors.metadata import Metadata, Shape, common_layout, fitting_layout, position_of, sources_of
from pipeflow.tensors.on_device import DeviceSample, made_on, on_gpu
from pipeflow.tensors.placed import PlacedArrays
from pipeflow.tensors.sample import TensorCPU, as_sample, as_samples, copy_out, has_mask
from pipeflow.tensors.traced import Traced, lent, traced

__all__ = [
    "Block",
    "Collector",
    "DeviceSample",
    "Lease",
    "array_in",
    "Metadata",
    "PlacedArrays",
    "Shape",
    "Take",
    "TensorCPU",
    "TensorListCPU",
    "Traced",
    "as_sample",
    "as_samples",
    "common_layout",
    "copy_out",
    "fitting_layout",
    "has_mask",
    "lent",
    "made_on",
    "on_gpu",
    "position_of",
    "slab_size",
    "sources_of",
    "traced",
]
