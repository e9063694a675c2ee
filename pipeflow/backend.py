"""The names that programs for DALI use from ``nvidia.dali.backend``: batches and tensors, the lists of operators, calls
about memory.
"""

from pipeflow import backends, ops, tfrecord, types
from pipeflow.dali_names import speaking
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
    """The names of the operators that take data of the CPU and give it on the GPU."""
    return sorted(ops.mixed_ops())


def GetCUDADeviceCount() -> int:
    """The number of GPUs that can be used."""
    count = 0
    while not backends.gpu.why_not(count):
        count += 1
    return count


def ReleaseUnusedMemory() -> None:
    """Nothing: memory that no batch uses belongs to the pipelines, and goes with them."""


def PreallocateDeviceMemory(bytes: int, device_id: int) -> None:
    """Nothing: a pipeline takes its memory once, from ``bytes_per_sample_hint`` or from its first batches."""
    del bytes, device_id


def PreallocatePinnedMemory(bytes: int) -> None:
    """Nothing: a pipeline takes its staging memory once."""
    del bytes


__getattr__ = speaking("backend", globals().keys)
