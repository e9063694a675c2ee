"""Chains are fused on the device as on the CPU."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types

IMAGES = [np.zeros((6, 7, 3), np.uint8)] * 2
CHAINS = ["resize+flip+crop_mirror_normalize", "brightness+cast"]


def build(on_gpu, fuse=True, between=lambda x: x):
    """A resize with its flip and normalisation, and lines over values."""

    def define():
        images = fn.external_source(source=lambda: IMAGES, layout="HWC")
        images = images.gpu() if on_gpu else images
        normal = fn.crop_mirror_normalize(fn.flip(between(fn.resize(images, size=(4, 5)))), mean=[1.0, 2.0, 3.0])
        lines = fn.cast(fn.brightness(images, brightness=0.5), dtype=types.FLOAT)
        return normal, lines

    pipe = pipeline_def(define, batch_size=2, num_threads=1, device_id=0, seed=1)(fuse=fuse)
    pipe.build()
    return pipe


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_chain_is_one_step(device, on_gpu):
    """The plan has a step for each chain; its fingerprint is that of the links, so checkpoints fit."""
    pipe = build(on_gpu)
    steps = [step.op for step in pipe.plan.steps()]
    assert all(name in steps for name in CHAINS)
    assert not any(name in steps for chain in CHAINS for name in chain.split("+"))
    assert pipe.plan.fingerprint() == build(on_gpu, fuse=False).plan.fingerprint()


def test_a_copy_to_the_cpu_parts_a_chain(device):
    """Links on different devices are not joined."""
    pipe = build(True, between=lambda x: x.cpu().gpu())
    assert not any("resize+" in step.op for step in pipe.plan.steps())


@pytest.mark.parametrize("on_gpu", [False, True])
def test_without_fusion(device, on_gpu):
    """``fuse=False`` leaves the links alone on both devices."""
    assert not any("+" in step.op for step in build(on_gpu, fuse=False).plan.steps())
