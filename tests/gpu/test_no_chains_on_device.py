"""Chains are fused on the CPU alone: on a device every operator is one launch over the batch."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types

IMAGES = [np.zeros((6, 7, 3), np.uint8)] * 2


@pytest.mark.parametrize("on_gpu", [False, True])
def test_no_chain_of_steps_on_a_device(device, on_gpu):
    """A resize with its crop, flip and normalisation, and lines over values: one step each on the CPU, all steps on a device."""

    def define():
        images = fn.external_source(source=lambda: IMAGES, layout="HWC")
        images = images.gpu() if on_gpu else images
        normal = fn.crop_mirror_normalize(fn.flip(fn.resize(images, size=(4, 5))), mean=[1.0, 2.0, 3.0])
        lines = fn.cast(fn.brightness(images, brightness=0.5), dtype=types.FLOAT)
        return normal, lines

    pipe = pipeline_def(define, batch_size=2, num_threads=1, device_id=0)()
    pipe.build()
    steps = [step.op for stage in pipe.plan.stages for step in stage.steps]
    chains = ["resize+flip+crop_mirror_normalize", "brightness+cast"]
    links = [name for chain in chains for name in chain.split("+")]
    assert all((name in steps) == (not on_gpu) for name in chains)
    assert all((name in steps) == on_gpu for name in links)
