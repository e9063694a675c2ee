"""Chains on a device: one launch gives the bytes of the separate launches, and what it is not made for goes link by link.

The device is the fake one with kernels built by g++; with PIPEFLOW_ON_GPU=1 it is a GPU.
"""

import fake_device
import numpy as np
import pytest
from host_device import LAUNCHED, ON_GPU, launch_on_host

from pipeflow import backends, fn, pipeline_def, types

OPEN_DEVICE = backends.gpu.open_device
RNG = np.random.default_rng(5)
IMAGES = [RNG.integers(0, 256, (40 + 7 * i, 61 - 5 * i, 3), dtype=np.uint8) for i in range(3)]
FLOATS = [(image / 255).astype(np.float32) for image in IMAGES]
NORM = {"mean": [120.0, 110.0, 100.0], "std": [60.0, 61.0, 62.0]}


def images(samples=IMAGES, layout="HWC"):
    """The same batch again and again, on the device."""
    return fn.external_source(source=lambda: samples, layout=layout).gpu()


def coin():
    """A direction for each sample."""
    return fn.random.coin_flip(name="coin")


def open_device(monkeypatch):
    """Makes the next pipeline work on a device that notes which kernels are launched; returns the notes."""
    kernels = []
    if ON_GPU:
        runtime = OPEN_DEVICE(0)
        launch = runtime.launch

        def noted(stream, kernel, *rest):
            kernels.append(kernel)
            launch(stream, kernel, *rest)

        runtime.launch = noted
    else:

        def on_host(kernel, *rest):
            kernels.append(kernel)
            launch_on_host(kernel, *rest)

        runtime = fake_device.FakeRuntime(seed=5, launcher=on_host)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    return kernels


def results(define, monkeypatch, fuse):
    """Two batches of a pipeline, its steps, and the kernels that it launched."""
    kernels = open_device(monkeypatch)
    pipe = pipeline_def(define, batch_size=3, num_threads=1, device_id=0, seed=11, fuse=fuse)()
    batches = [batch.as_cpu() for _ in range(2) for batch in pipe.run()]
    steps = [step.op for stage in pipe.plan.stages for step in stage.steps if step.device == "gpu"]
    return [(x.layout(), sample) for x in batches for sample in x.samples()], steps, kernels


def compare(define, monkeypatch):
    """The chain gives the bytes of its links; returns the steps and the kernels of the fused pipeline."""
    fused, steps, kernels = results(define, monkeypatch, True)
    plain, separate, _ = results(define, monkeypatch, False)
    assert not any("+" in step for step in separate)
    assert len(fused) == len(plain)
    for (layout, one), (other_layout, other) in zip(fused, plain):
        assert (layout, one.dtype, one.shape) == (other_layout, other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    return steps, kernels


CHAINS = {
    "resize+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.resize(images(), resize_shorter=30), crop=(24, 24), mirror=coin(), **NORM
    ),
    "random_resized_crop+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.random_resized_crop(images(), size=(24, 70)), mirror=coin(), output_layout="HWC", shift=3.0, **NORM
    ),
    "resize_crop_mirror+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.resize_crop_mirror(images(), size=(30, 36), crop=(22, 25), mirror=coin(), dtype=types.FLOAT), **NORM
    ),
    "resize+crop+flip+crop_mirror_normalize": lambda: fn.crop_mirror_normalize(
        fn.flip(
            fn.crop(fn.resize(images(), size=(30, 36)), crop=(22, 25), crop_pos_x=0.2), vertical=1, horizontal=coin()
        ),
        crop=(20, 20),
        crop_pos_y=0.1,
        mirror=1,
        **NORM,
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_resize_and_its_normalisation(monkeypatch, name):
    """Windows and mirrors between them become part of the tap tables."""
    steps, kernels = compare(CHAINS[name], monkeypatch)
    assert steps[-1] == name
    assert {kernel.partition("<")[0] for kernel in kernels} == {"taps.cu:taps", "resize_tiles.cu:resize_normalize"}


@pytest.mark.parametrize("samples", [IMAGES, FLOATS], ids=["uint8", "float"])
@pytest.mark.parametrize("dtype", [types.FLOAT, types.FLOAT16, types.UINT8, types.INT8])
def test_every_pair_of_types(monkeypatch, samples, dtype):
    """Bytes and floats in, four types out."""
    _, kernels = compare(
        lambda: fn.crop_mirror_normalize(fn.resize(images(samples), size=(17, 19)), dtype=dtype, scale=9.0, **NORM),
        monkeypatch,
    )
    assert len(set(kernels)) == 2
    assert ON_GPU or LAUNCHED.issuperset(kernels)


def test_lines(monkeypatch):
    """Brightness, casts and contrast are rounded between the links as separate launches round."""

    def define():
        contrast = fn.contrast(images(), contrast=fn.random.uniform(range=(0.5, 1.5)), dtype=types.FLOAT)
        return fn.brightness(fn.cast(contrast, dtype=types.UINT8), brightness=0.9, dtype=types.FLOAT)

    steps, kernels = compare(define, monkeypatch)
    assert steps[-1] == "contrast+cast+brightness"
    assert set(kernels) == {"cast.cu:lines"}


OTHERS = {
    "planes": ([np.moveaxis(image, 2, 0).copy() for image in IMAGES], "CHW", {}),
    "grey": ([image[..., :1] for image in IMAGES], "HWC", {"mean": [3.0]}),
    "shorts": ([image.astype(np.int16) for image in IMAGES], "HWC", {}),
    "padding": (IMAGES, "HWC", {"crop": (40, 50), "out_of_bounds_policy": "pad", "fill_values": [7.0]}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_kernel_is_not_made_for(monkeypatch, name):
    """It goes link by link inside the one step."""
    samples, layout, options = OTHERS[name]
    steps, kernels = compare(
        lambda: fn.crop_mirror_normalize(fn.resize(images(samples, layout), size=(30, 36)), mirror=coin(), **options),
        monkeypatch,
    )
    assert steps[-1] == "resize+crop_mirror_normalize"
    assert not any("resize_normalize" in kernel for kernel in kernels)


def test_frames(monkeypatch):
    """Each frame of a sequence is a row of the launch."""
    clips = [np.stack([image, image[::-1]]) for image in IMAGES]
    _, kernels = compare(
        lambda: fn.crop_mirror_normalize(fn.resize(images(clips, "FHWC"), size=(12, 13)), **NORM), monkeypatch
    )
    assert any("resize_normalize" in kernel for kernel in kernels)


def test_lines_of_other_types(monkeypatch):
    """Shorts go line by line."""
    shorts = [image.astype(np.int16) for image in IMAGES]
    compare(lambda: fn.contrast(fn.brightness(images(shorts), brightness=1.7), contrast=0.8), monkeypatch)


def test_a_failing_link_is_the_failure_of_its_sample(monkeypatch):
    """The window that does not fit is refused with its own words; the other samples go on."""

    def define():
        resized = fn.resize(images(), resize_x=fn.external_source(lambda: [np.float32(n) for n in (30, 10, 31)]))
        return fn.crop_mirror_normalize(resized, crop_w=20, crop_h=5)

    open_device(monkeypatch)
    options = {"batch_size": 3, "num_threads": 1, "device_id": 0}
    with pytest.raises((RuntimeError, ValueError), match="out of bounds") as caught:
        pipeline_def(define, **options)().run()
    assert "sample 1 of batch 0" in "\n".join(caught.value.__notes__)
    pipe = pipeline_def(define, on_error="skip", **options)()
    assert pipe.run()[0].shape() == [(3, 5, 20)] * 2
