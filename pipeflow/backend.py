"""The names that programs for DALI use from ``nvidia.dali.backend``: batches, tensors, lists of operators, and calls
about memory.
"""

from pipeflow import backends, ops, tfrecord, types
from pipeflow.device.tensors import TensorGPU, TensorListGPU
from pipeflow.pipeline import Pipeline
from pipeflow.tensors import TensorCPU, TensorListCPU

__all__ = [
    "GetCUDADeviceCount",
    "Pipeline",
    "PreallocateDeviceMemory",
    "PreallocatePinnedMemory",
    "RegisteredCPUOps",
    "RegisteredGPUOps",
    "RegisteredMixedOps",
    "ReleaseUnusedMemory",
    "RestrictPinnedMemUsage",
    "SetBufferGrowthFactor",
    "SetDeviceBufferGrowthFactor",
    "SetHostBufferGrowthFactor",
    "SetHostBufferShrinkThreshold",
    "TensorCPU",
    "TensorGPU",
    "TensorListCPU",
    "TensorListGPU",
    "tfrecord",
    "types",
]


def RegisteredCPUOps() -> list[str]:
    """The names of the operators that run on the CPU."""
    return sorted(ops.cpu_ops())


def RegisteredGPUOps() -> list[str]:
    """The names of the operators that run on the GPU."""
    return sorted(ops.gpu_ops())


def RegisteredMixedOps() -> list[str]:
    """The names of the operators that take data on the CPU and return it on the GPU."""
    return sorted(ops.mixed_ops())


def GetCUDADeviceCount() -> int:
    """The number of GPUs of this machine that CUDA shows to this process."""
    return int(backends.gpu.device_count())


def ReleaseUnusedMemory() -> None:
    """Does nothing: memory that no batch uses belongs to the pipelines, and is released with them."""


def PreallocateDeviceMemory(bytes: int, device_id: int) -> None:
    """Does nothing: a pipeline allocates memory once; ``bytes_per_sample_hint`` or its first batches give the size."""
    del bytes, device_id


def PreallocatePinnedMemory(bytes: int) -> None:
    """Does nothing: a pipeline allocates its staging memory once."""
    del bytes


def RestrictPinnedMemUsage() -> bool:
    """False: the use of page-locked memory is not restricted."""
    return False


def SetBufferGrowthFactor(factor: float) -> None:
    """Does nothing: memory has the size that a batch needs, and a pipeline uses it again."""
    del factor


SetDeviceBufferGrowthFactor = SetHostBufferGrowthFactor = SetBufferGrowthFactor


def SetHostBufferShrinkThreshold(fraction: float) -> None:
    """Does nothing: a pipeline keeps its memory for the next batches."""
    del fraction
