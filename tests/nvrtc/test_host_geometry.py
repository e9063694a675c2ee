"""The GPU forms of the geometry operators give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

SIZES = [(5, 7), (1, 1), (33, 2), (64, 65)]


def images(dtype=np.uint8, channels=3, sizes=SIZES):
    """Ragged images of random bytes."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 100, (*size, channels)).astype(dtype) for size in sizes]


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axes", [{}, {"vertical": 1}, {"horizontal": 0, "vertical": 1}, {"horizontal": 0}])
def test_flip(dtype, axes):
    """Every element size, every pair of axes."""
    assert_same(lambda: fn.flip(images(dtype), **axes))


def test_flip_of_sequences_and_volumes():
    """Frames are mirrored one by one; volumes also front to back; each sample as its own argument says."""
    rng = np.random.default_rng(2)
    clips = [rng.integers(0, 255, (frames, 4, 5, 3), np.uint8) for frames in (1, 3)]
    assert_same(lambda: fn.flip(TensorListCPU(clips, "FHWC")))
    assert_same(lambda: fn.flip(TensorListCPU(clips, "DHWC"), depthwise=1))
    chosen = TensorListCPU([np.int32(0), np.int32(1)])
    assert_same(lambda: fn.flip(TensorListCPU(clips, "CDHW"), horizontal=chosen, depthwise=1))
