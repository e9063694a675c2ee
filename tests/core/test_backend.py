"""pipeflow.backend: what programs take from the module of DALI's library."""

import numpy as np
import pytest

import pipeflow
from pipeflow import backend, fn, pipeline_def


def test_batches_are_of_the_backends_classes():
    """`isinstance(out, backend.TensorListCPU)` is how programs ask where a batch is."""

    @pipeline_def(batch_size=2, num_threads=1)
    def pipe():
        return fn.external_source(lambda: [np.zeros(2)] * 2)

    (out,) = pipe().run()
    assert isinstance(out, backend.TensorListCPU)
    assert not isinstance(out, backend.TensorListGPU)
    assert isinstance(out[0], backend.TensorCPU)
    assert pipeflow.backend is backend


def test_the_lists_of_operators_have_dalis_names():
    """Folders are joined by two underscores; hidden operators are left out."""
    names = backend.RegisteredCPUOps()
    assert {"Resize", "readers__File", "decoders__Image", "random__Uniform"} <= set(names)
    assert names == sorted(names)
    assert not [name for name in names if name.startswith("_")]
    assert "Resize" in backend.RegisteredGPUOps()
    assert "decoders__Image" in backend.RegisteredMixedOps()


def test_what_only_a_library_in_cpp_has_is_said_to_be_absent():
    """A name of DALI is not taken for a misspelt one."""
    with pytest.raises(
        AttributeError,
        match=r"backend\.GetSchema of DALI is not part of pipeflow: it belongs to DALI's library in C\+\+",
    ):
        backend.GetSchema  # noqa: B018
    with pytest.raises(AttributeError, match=r"backend has no 'TensorLists' \(did you mean 'TensorList"):
        backend.TensorLists  # noqa: B018


def test_calls_about_memory_are_taken():
    """They change nothing."""
    backend.ReleaseUnusedMemory()
    backend.PreallocateDeviceMemory(1000, 0)
    backend.PreallocatePinnedMemory(1000)
    backend.SetHostBufferShrinkThreshold(0.5)
    backend.SetBufferGrowthFactor(1.5)
    backend.SetHostBufferGrowthFactor(1.5)
    backend.SetDeviceBufferGrowthFactor(1.5)
    assert not backend.RestrictPinnedMemUsage()
    assert backend.GetCUDADeviceCount() >= 0


def test_other_names_of_the_same_classes():
    """Programs import batches from `backend_impl`, and the class of nodes from `ops`."""
    from pipeflow import DataNode, backend_impl
    from pipeflow.ops import _DataNode

    assert backend_impl.TensorListCPU is pipeflow.backend_impl.TensorListCPU is backend.TensorListCPU
    assert backend_impl.types is pipeflow.types
    assert _DataNode is DataNode
