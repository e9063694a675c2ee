"""Boxes and points on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

F = np.float32


def boxes_of(rng, count, dtype=F):
    """Boxes with corners in order."""
    return np.sort(rng.random((count, 2, 2)), axis=1).reshape(-1, 4).astype(dtype)


@pytest.mark.parametrize("ltrb", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lines_through_coordinates(dtype, ltrb):
    """Ragged boxes and points, mirrored and pasted, each sample by its own arguments."""
    rng = np.random.default_rng(1)
    data = [boxes_of(rng, count, dtype) for count in (3, 0, 1, 700)]
    coins = TensorListCPU([np.int32(n % 2) for n in range(4)])
    assert_same(lambda: fn.bb_flip(data, ltrb=ltrb, horizontal=coins, vertical=1))
    ratios = TensorListCPU([F(1 + n / 3) for n in range(4)])
    assert_same(lambda: fn.bbox_paste(data, ltrb=ltrb, ratio=ratios, paste_x=0.3), rtol=1e-3, few=0.1)
    points = [rng.random((n, 3)).astype(dtype) for n in (4, 0, 9, 1)]
    assert_same(lambda: fn.coord_flip(points, flip_x=coins, flip_z=1, center_z=0.3, layout="zxy"), rtol=1e-3, few=0.1)
    with pytest.raises(ValueError, match="four numbers each"):
        on_host(call_of(lambda: fn.bb_flip([np.zeros((2, 3), dtype)])))


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("count", [1, 255, 1000])
@pytest.mark.parametrize(("dtype", "kind"), [(np.float32, np.int32), (np.float64, np.int64), (np.float16, np.uint8)])
def test_targets_of_a_detector(offset, count, dtype, kind):
    """Fewer and more anchors than a block has threads; samples without boxes; equal overlaps; several types."""
    rng = np.random.default_rng(2)
    anchors = np.round(boxes_of(rng, count) * 50) / 50
    anchors[:, 2:] += F(0.02)
    options = {"anchors": anchors, "offset": offset, "stds": (0.1, 0.1, 0.2, 0.2), "means": (0.1, 0.2, 0.3, 0.4)}
    boxes = [(np.round(boxes_of(rng, n) * 50) / 50 + F([0, 0, 0.02, 0.02])).astype(dtype) for n in (5, 0, 1, 30)]
    labels = [rng.integers(1, 90, len(x)).astype(kind) for x in boxes]
    assert_same(lambda: fn.box_encoder(boxes, labels, **options), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="give one label for each"):
        on_host(call_of(lambda: fn.box_encoder([np.zeros((2, 4), F)], [np.zeros(1, np.int32)], **options)))
