"""Numbers on the device that the host needs before a launch: they are copied to the CPU, once, and a warning says so."""

import fake_device
import numpy as np
import pytest

from pipeflow import backends, fn, pipeline_def

rng = np.random.default_rng(6)
IMAGES = [[rng.integers(0, 255, (6 + k, 8, 3), np.uint8) for k in range(3)] for _ in range(6)]
SHAPES = [[np.array([8 * 3, x.shape[0]]) for x in batch] for batch in IMAGES]


def same(batch, expected):
    """A batch has these samples."""
    assert [x.shape for x in expected] == batch.shape()
    for one, other in zip(batch.as_cpu().samples(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def build(define, **options):
    """A pipeline on the device."""
    options = {"batch_size": 3, "num_threads": 2, "device_id": 0, "seed": 1, **options}
    return pipeline_def(define, **options)()


def test_a_shape_from_the_device(device):
    """Two readers share one copy; the segment ends before them, and each batch has its own shapes."""

    def define():
        images = fn.external_source(IMAGES, layout="HWC").gpu()
        shapes = fn.external_source(SHAPES).gpu()
        return fn.reshape(images, shapes), fn.reinterpret(images, shapes), shapes

    pipe = build(define)
    with pytest.warns(
        UserWarning, match=r"input 1 of fn\.reshape .*, input 1 of fn\.reinterpret .*copies it to the CPU"
    ):
        pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "device", "arrival", "device"]
    for images in IMAGES:
        reshaped, reinterpreted, _ = pipe.run()
        same(reshaped, [x.reshape(24, -1) for x in images])
        same(reinterpreted, [x.reshape(24, -1) for x in images])


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_the_streams(monkeypatch, seed):
    """The host reads the numbers of its own batch, whatever the streams do."""
    runtime = fake_device.FakeRuntime(seed=seed, launcher=fake_device.by_numpy)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)

    def define():
        images = fn.external_source(IMAGES, layout="HWC").gpu()
        return fn.reshape(images, fn.external_source(SHAPES).gpu().cpu())

    pipe = build(define)  # written out, so there is no warning
    for images in IMAGES:
        same(pipe.run()[0], [x.reshape(24, -1) for x in images])


def test_a_shape_on_the_cpu(device):
    """An input that the host reads may be on the CPU, or a constant: nothing is copied to the device for it, nor back."""

    def define():
        images = fn.external_source(IMAGES, layout="HWC").gpu()
        return fn.reshape(images, fn.external_source(SHAPES)), fn.reshape(images, np.array([-1, 3]))

    pipe = build(define)
    pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "device"]
    for images in IMAGES:
        by_node, by_constant = pipe.run()
        same(by_node, [x.reshape(24, -1) for x in images])
        same(by_constant, [x.reshape(-1, 3) for x in images])


def test_in_a_branch(device):
    """The copy exists for the samples that have the numbers."""

    def define():
        images, shapes = fn.external_source(IMAGES, layout="HWC").gpu(), fn.external_source(SHAPES).gpu()
        coin = fn.random.coin_flip(name="coin")
        if coin:
            made = fn.reshape(images, fn.copy(shapes))
        else:
            made = fn.reshape(images, shape=[-1, 24])
        return made, coin

    pipe = build(define, enable_conditionals=True)
    with pytest.warns(UserWarning, match="fn.reshape"):
        pipe.build()
    for images in IMAGES:
        made, coins = pipe.run()
        same(made, [x.reshape((24, -1) if c else (-1, 24)) for x, c in zip(images, coins.as_array())])


def test_a_wrong_shape_is_the_failure_of_its_sample(device):
    """The error is that of the CPU, with the sample."""
    wrong = [[shapes[0], np.array([5, 5]), shapes[2]] for shapes in SHAPES]

    def define():
        return fn.reshape(fn.external_source(IMAGES, layout="HWC").gpu(), fn.external_source(wrong))

    with pytest.raises(ValueError, match="cannot take the shape") as caught:
        build(define).run()
    assert "sample 1 of batch 0" in "\n".join(caught.value.__notes__)


def test_a_written_copy(device):
    """``.cpu()`` in the definition does the same without a warning."""

    def define(written):
        shapes = fn.external_source(SHAPES, name="shapes").gpu()
        return fn.reshape(fn.external_source(IMAGES, name="images").gpu(), shapes.cpu() if written else shapes)

    silent = build(lambda: define(True))
    silent.build()
    loud = build(lambda: define(False))
    with pytest.warns(UserWarning, match="fn.reshape"):
        loud.build()
    assert [stage.kind for stage in silent.plan.stages] == [stage.kind for stage in loud.plan.stages]


def test_data_on_the_cpu_with_a_shape_on_the_device():
    """The operator runs where its data is; the message names the input to move."""

    def define():
        return fn.reshape(fn.external_source(IMAGES, layout="HWC"), fn.external_source(SHAPES).gpu())

    with pytest.raises(ValueError, match=r"input 0, which is on the CPU: use \.gpu\(\)"):
        build(define)
