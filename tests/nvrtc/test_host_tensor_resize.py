"""tensor_resize on the GPU gives on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU

F = np.float32


def arrays(dtype=F, ndim=3):
    """Ragged data."""
    rng = np.random.default_rng(1)
    return [rng.uniform(0, 200, rng.integers(2, 9, ndim)).astype(dtype) for _ in range(4)]


def close(dtype):
    """Sums are in another order."""
    return {"atol": 1, "few": 0.1} if np.dtype(dtype).kind in "ui" else {"rtol": 1e-3, "atol": 1e-3}


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("interpolation", [types.INTERP_LINEAR, types.INTERP_NN, types.INTERP_CUBIC], ids=str)
def test_types_and_filters(dtype, interpolation):
    """Every type with every filter, also to FLOAT; axes that stay are left alone."""
    options = {"interp_type": interpolation}
    tolerance = {} if interpolation == types.INTERP_NN and dtype != np.float16 else close(dtype)
    assert_same(lambda: fn.tensor_resize(arrays(dtype), sizes=(3, 11), axes=(0, 2), **options), **tolerance)
    assert_same(
        lambda: fn.tensor_resize(arrays(dtype), scales=(0.7, 1.0, 1.6), dtype=types.FLOAT, **options), **close(F)
    )


def test_each_sample_has_its_own_size():
    """One that stays as it is among others, one and five axes, and mirrored ones."""
    sizes = TensorListCPU([F([2 + n, -3]) for n in range(4)])
    assert_same(lambda: fn.tensor_resize(arrays(), sizes=sizes, axes=(0, 1)), **close(F))
    scales = TensorListCPU([F([n / 2]) for n in (1, 2, 3, 4)])
    assert_same(lambda: fn.tensor_resize(arrays(ndim=1), scales=scales, alignment=0.2), **close(F))
    assert_same(lambda: fn.tensor_resize(arrays(ndim=5), scales=scales), **close(F))
    with pytest.raises(ValueError, match="has no elements"):
        on_host(call_of(lambda: fn.tensor_resize([np.zeros((0, 3), F)], sizes=2, axes=1)))
