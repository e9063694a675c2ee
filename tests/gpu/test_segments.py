"""Pipelines with device="gpu" on the fake device: what runs there is what the CPU gives, whatever the order of the streams."""

import numpy as np
import pytest
from fake_device import mirror

from pipeflow import backends, fn, pipeline_def
from pipeflow.errors import NoGpu


def batches(count=8, size=4, seed=0, extent=(3, 30)):
    """Ragged random images."""
    rng = np.random.default_rng(seed)
    return [[rng.integers(0, 255, (*rng.integers(*extent, 2), 3), np.uint8) for _ in range(size)] for _ in range(count)]


def same(batch, expected):
    """A batch has these samples."""
    arrays = batch.as_cpu().samples()
    assert len(arrays) == len(expected)
    for one, other in zip(arrays, expected):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 3])
def test_there_and_back(device, threads):
    """Up, through two operators of one segment, and down again: with one copy to the device a batch."""
    data = batches()

    @pipeline_def(batch_size=4, num_threads=threads, device_id=0, seed=1)
    def define():
        images = fn.external_source(data, layout="HWC")
        flipped = mirror(images.gpu(), vertical=1)
        chosen = fn.random.coin_flip()
        again = mirror(flipped, vertical=chosen)
        return flipped, again.cpu(), images.gpu(), chosen

    pipe = define()
    pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "device", "arrival"]
    for images in data:
        flipped, again, plain, chosen = pipe.run()
        same(flipped, [x[::-1, ::-1] for x in images])
        same(plain, images)
        same(again, [x[::-1, ::-1][:, ::-1][:: -1 if c else 1] for x, c in zip(images, chosen.as_array())])
        assert (flipped.layout(), again.layout()) == ("HWC", "HWC")
    assert device.counts["upload"] == len(data)
    assert device.counts["launch"] == 2 * len(data)


def test_a_batch_is_the_users_for_as_long_as_it_is_kept(device):
    """Kept batches stay what they were while others follow."""
    data = batches(12)

    @pipeline_def(batch_size=4, num_threads=2, device_id=0)
    def define():
        return mirror(fn.external_source(data, layout="HWC").gpu())

    pipe = define()
    kept = [pipe.run()[0] for _ in data]
    device.finish_all()
    for batch, images in zip(kept, data):
        same(batch, [x[:, ::-1] for x in images])


def test_without_a_gpu(monkeypatch):
    """Building fails with the exact reason and the command that helps."""
    monkeypatch.setattr(backends.gpu, "why_not", lambda number: f"GPU {number} is on fire: buy another")

    @pipeline_def(batch_size=4, num_threads=1, device_id=2)
    def define():
        return mirror(fn.external_source(batches(), layout="HWC").gpu())

    with pytest.raises(NoGpu, match="works on GPU 2, which cannot be used here: GPU 2 is on fire: buy another"):
        define().build()
