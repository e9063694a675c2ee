"""Operators on values and colours as members of compiled programs: their results are those of the bodies, bit for bit."""

import numpy as np
import pytest
from helpers import chains_counted

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels.cpu import byte_tables

RNG = np.random.default_rng(8)
BYTES = [RNG.integers(0, 256, (rows, columns, 3), np.uint8) for rows, columns in ((40, 30), (1, 1), (7, 90), (64, 64))]
FLOATS = [RNG.normal(100, 90, x.shape).astype(np.float32) for x in BYTES]
DRAWN = {"range": (0.4, 1.7)}


def batches(operator, samples, monkeypatch, chained=True, **options):
    """Three batches of a pipeline, and the number of samples of the first one that a chain has done."""
    with chains_counted(monkeypatch, chained) as done:

        @pipeline_def(batch_size=len(samples), num_threads=1, device_id=None, seed=7, **options)
        def pipeline():
            return operator(fn.external_source(source=lambda: samples, layout="HWC"))

        pipe = pipeline()
        pipe.build()
        results = [[np.array(value) for output in pipe.run() for value in output] for _ in range(3)]
    return results, len(done)


def uniform(low, high):
    return fn.random.uniform(range=(low, high))


def many_colors(x):
    x = fn.color_twist(
        x, hue=uniform(-30, 30), saturation=uniform(0.5, 1.5), brightness=1.2, contrast=uniform(0.7, 1.3)
    )
    return fn.cast(fn.brightness_contrast(x, contrast=uniform(0.5, 2)), dtype=types.FLOAT)


OPERATORS = {
    "brightness": lambda x: fn.brightness(x, brightness=1.3),
    "brightness drawn": lambda x: fn.brightness(x, brightness=uniform(0.2, 2), brightness_shift=uniform(-0.2, 0.2)),
    "contrast": lambda x: fn.contrast(x, contrast=0.4),
    "contrast drawn": lambda x: fn.contrast(x, contrast=uniform(0.2, 2), contrast_center=uniform(0, 200)),
    "contrast by a whole number": lambda x: fn.contrast(x, contrast=fn.random.coin_flip()),
    "brightness_contrast to bytes": lambda x: fn.brightness_contrast(x, brightness=uniform(0, 2), dtype=types.UINT8),
    "brightness_contrast to floats": lambda x: fn.brightness_contrast(x, contrast=1.5, dtype=types.FLOAT),
    "color_twist": lambda x: fn.color_twist(x, hue=20.0, saturation=1.4, brightness=0.9, contrast=1.2),
    "color_twist drawn": lambda x: fn.color_twist(x, hue=uniform(-180, 180), contrast=uniform(0.1, 2)),
    "color_twist to floats": lambda x: fn.color_twist(x, saturation=uniform(0, 2), dtype=types.FLOAT),
    "hsv": lambda x: fn.hsv(x, hue=uniform(-9, 9), value=1.4),
    "hue": lambda x: fn.hue(x, hue=uniform(-180, 180)),
    "saturation": lambda x: fn.saturation(x, saturation=uniform(0.1, 2)),
    "one after another": many_colors,
    "fused": lambda x: fn.contrast(fn.brightness(x, brightness=uniform(0.5, 1.5)), contrast=uniform(0.5, 1.5)),
    "fused, to floats": lambda x: fn.cast(fn.contrast(fn.brightness(x, brightness=1.2), contrast=0.7), dtype=types.FLOAT),
    "fused, from floats": lambda x: fn.contrast(fn.cast(fn.brightness(x), dtype=types.UINT8), contrast=0.7),
    "and a resize": lambda x: fn.brightness(fn.resize(fn.cast(x, dtype=types.UINT8), size=(20, 20)), brightness=1.2),
    "also of what is read twice": lambda x: (fn.hue(x, hue=5.0), fn.contrast(x, contrast=2.0)),
}  # fmt: skip


@pytest.mark.parametrize("samples", [BYTES, FLOATS], ids=["bytes", "floats"])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("tables", [True, False])
def test_programs_give_what_the_bodies_give(name, samples, tables, monkeypatch):
    """Whether or not the processor looks up bytes; all samples are done by the chain, one after another otherwise."""
    monkeypatch.setattr(byte_tables, "fast", lambda: tables)
    monkeypatch.setattr("pipeflow.kernels.cpu.color.fast", lambda: tables)
    found, done = batches(OPERATORS[name], samples, monkeypatch)
    expected, none = batches(OPERATORS[name], samples, monkeypatch, chained=False)
    for one, other in zip(found, expected, strict=True):
        for value, wanted in zip(one, other, strict=True):
            assert value.dtype == wanted.dtype
            assert value.shape == wanted.shape
            assert value.tobytes() == wanted.tobytes()
    assert none == 0
    assert done == len(samples) or "resize" in name


@pytest.mark.parametrize(
    ("operator", "samples"),
    [
        (lambda x: fn.color_twist(x, brightness=0.0), BYTES),  # the body has a kernel for grey bytes
        (lambda x: fn.brightness(x, dtype=types.INT16), BYTES),
        (lambda x: fn.cast(x, dtype=types.UINT8), [x.astype(np.int32) for x in BYTES]),
        (lambda x: fn.brightness(x, brightness=1.1), [x[:0] for x in BYTES]),
    ],
)
def test_what_a_program_does_not_describe_is_left_to_the_bodies(operator, samples, monkeypatch):
    """With the same results."""
    found, done = batches(operator, samples, monkeypatch)
    expected, _ = batches(operator, samples, monkeypatch, chained=False)
    assert [[x.tobytes() for x in one] for one in found] == [[x.tobytes() for x in one] for one in expected]
    assert done == 0


def test_a_wrong_image_fails_alone(monkeypatch):
    """With the error of the body, and the other samples are done."""
    samples = [BYTES[0], BYTES[3][:, :, :2].copy(), BYTES[2]]
    operator = lambda x: fn.hue(x, hue=10.0)
    with pytest.raises(ValueError, match="hue needs 3 channels, the image has 2") as raised:
        batches(operator, samples, monkeypatch)
    assert any("sample 1 of" in note for note in raised.value.__notes__)
    found, done = batches(operator, samples, monkeypatch, on_error="skip")
    assert done == 2
    assert [x.shape for x in found[0]] == [BYTES[0].shape, BYTES[2].shape]


def test_an_argument_that_is_no_number_fails_as_in_the_body(monkeypatch):
    """NaN among the factors of a batch: the error names the argument and the sample."""
    factors = [np.float32(1.2), np.float32("nan"), np.float32(0.7), np.float32(1)]
    operator = lambda x: fn.brightness(x, brightness=fn.external_source(source=lambda: factors))
    texts = []
    for chained in (True, False):
        with pytest.raises(ValueError, match="brightness") as raised:
            batches(operator, BYTES, monkeypatch, chained=chained)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
