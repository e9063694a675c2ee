"""device="mixed": encoded images on the CPU, decoded ones on the device, whoever decodes them."""

import io

import numpy as np
import pytest
from PIL import Image

from pipeflow import backends, fn, pipeline_def

rng = np.random.default_rng(4)
PICTURES = [[rng.integers(0, 255, (6 + k, 8 + k, 3), np.uint8) for k in range(3)] for _ in range(4)]


def encoded(picture, form="BMP"):
    """A picture as the bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, form)
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [[encoded(picture) for picture in batch] for batch in PICTURES]


def build(files=FILES, codec=None, monkeypatch=None, **options):
    """A pipeline that decodes."""
    if codec is not None:
        monkeypatch.setattr(backends.gpu, "has_codec", lambda: codec)

    def define():
        return fn.decoders.image(fn.external_source(files), device="mixed", name="decode", **options)

    return pipeline_def(define, batch_size=3, num_threads=2, device_id=0, seed=1)()


def same(batch, expected):
    """A batch has these samples."""
    assert [x.shape for x in expected] == batch.shape()
    for one, other in zip(batch.as_cpu().samples(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_a_codec_the_cpu_decodes(device, monkeypatch):
    """All threads decode, and one copy takes the batch to the device."""
    pipe = build(codec=False, monkeypatch=monkeypatch)
    pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "sample", "device"]
    for pictures in PICTURES:
        (batch,) = pipe.run()
        same(batch, pictures)
        assert (batch.layout(), batch.device_id()) == ("HWC", 0)
    assert device.counts["upload"] == len(PICTURES)


def test_with_a_codec_the_cpu_decodes_what_it_cannot(device, monkeypatch):
    """Image by image the CPU stands in; the statistics tell how often, and why."""
    pipe = build(codec=True, monkeypatch=monkeypatch)
    pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "function"]
    for pictures in PICTURES:
        same(pipe.run()[0], pictures)
    assert device.counts["decode"] == len(PICTURES)
    assert pipe.executor_statistics()["gpu"]["decoded_on_cpu"] == {"it has an odd width": len(PICTURES)}


def test_a_checkpoint_does_not_depend_on_the_codec(device, monkeypatch):
    """The plans of both kinds have one identity."""
    with_codec = build(codec=True, monkeypatch=monkeypatch)
    fingerprint = with_codec.plan.fingerprint()
    assert build(codec=False, monkeypatch=monkeypatch).plan.fingerprint() == fingerprint


@pytest.mark.parametrize("codec", [False, True])
def test_broken_files(device, monkeypatch, codec):
    """A file that nobody can decode is that sample's failure."""
    files = [[FILES[0][0], np.frombuffer(b"not an image", np.uint8), FILES[0][2]]] * 2
    with pytest.raises(ValueError, match="it starts with") as caught:
        build(files, codec, monkeypatch).run()
    assert "in fn.decoders.image 'decode', sample 1 of batch 0" in "\n".join(caught.value.__notes__)
    pipe = build(files, codec, monkeypatch, on_error="skip")
    same(pipe.run()[0], [PICTURES[0][0], PICTURES[0][2]])
    with pytest.raises(ValueError, match="max_pixels"):
        build(FILES, codec, monkeypatch, max_pixels=50).run()


def test_other_types_are_decoded_on_the_cpu(device, monkeypatch):
    """What the codec does not do is planned for the CPU from the start."""
    monkeypatch.setattr(backends.gpu, "has_codec", lambda: True)

    def define():
        return fn.decoders.image(fn.external_source(FILES), device="mixed", dtype=np.float32)

    (floats,) = pipeline_def(define, batch_size=3, num_threads=2, device_id=0)().run()
    for one, picture in zip(floats.as_cpu().samples(), PICTURES[0], strict=True):
        np.testing.assert_allclose(one, picture / np.float32(255), rtol=1e-6)
    assert "decode" not in device.counts


PARTS = {
    "crop": lambda files, device: fn.decoders.image_crop(
        files, device=device, crop=(4, 4), crop_pos_x=fn.random.uniform(range=[0.0, 1.0])
    ),
    "random crop": lambda files, device: fn.decoders.image_random_crop(files, device=device, name="window"),
    "slice": lambda files, device: fn.decoders.image_slice(
        files, np.float32([0.25, 0.0]), np.float32([0.5, 0.5]), device=device
    ),
    "slice by arguments": lambda files, device: fn.decoders.image_slice(
        files, device=device, start=(1, 2), shape=(3, 4)
    ),
}


@pytest.mark.parametrize("kind", PARTS)
def test_parts_of_images(device, monkeypatch, kind):
    """Windows are those of the CPU, and only they are decoded; what the codec cannot do is decoded by the CPU."""
    monkeypatch.setattr(backends.gpu, "has_codec", lambda: True)

    def build(where, number):
        return pipeline_def(
            lambda: PARTS[kind](fn.external_source(FILES), where), batch_size=3, num_threads=2, device_id=number, seed=3
        )()

    asked = []
    decode = device.decode
    device.decode = lambda files, color, turned, regions=None: (
        asked.append(regions) or decode(files, color, turned, regions)
    )
    made, expected = build("mixed", 0), build("cpu", None)
    for _ in FILES:
        same(made.run()[0], expected.run()[0].samples())
    assert len(asked) >= len(FILES)
    assert all(len(regions) == 3 for regions in asked)
    assert made.executor_statistics()["gpu"]["decoded_on_cpu"]["it has an odd width"] >= len(FILES)


def test_a_part_outside_of_the_image(device, monkeypatch):
    """Is refused as on the CPU, and is that sample's failure."""
    monkeypatch.setattr(backends.gpu, "has_codec", lambda: True)

    def define():
        return fn.decoders.image_slice(
            fn.external_source(FILES), device="mixed", start=(0, 0), shape=(20, 4), name="part"
        )

    with pytest.raises(ValueError, match="does not lie inside the image") as caught:
        pipeline_def(define, batch_size=3, num_threads=2, device_id=0)().run()
    assert "sample 0 of batch 0" in "\n".join(caught.value.__notes__)


def test_a_part_of_an_image_that_is_turned(device, monkeypatch):
    """The CPU decodes it: nvImageCodec counts its rows before they are turned."""
    monkeypatch.setattr(backends.gpu, "has_codec", lambda: True)
    file, data = io.BytesIO(), Image.Exif()
    data[0x0112] = 6
    picture = rng.integers(0, 255, (16, 24, 3), np.uint8)
    Image.fromarray(picture).save(file, "JPEG", exif=data.tobytes())
    files = [[np.frombuffer(file.getvalue(), np.uint8)] * 3] * 4

    def build(where, number):
        return pipeline_def(
            lambda: PARTS["crop"](fn.external_source(files), where),
            batch_size=3,
            num_threads=2,
            device_id=number,
            seed=3,
        )()

    made = build("mixed", 0)
    same(made.run()[0], build("cpu", None).run()[0].samples())
    assert (
        "it is turned by its EXIF data, and a part of it is wanted"
        in made.executor_statistics()["gpu"]["decoded_on_cpu"]
    )


def test_data_that_lies_on_the_device_already(device):
    """mixed takes CPU data."""
    with pytest.raises(ValueError, match='device="mixed" takes CPU data to the GPU, and input 0 is there already'):
        pipeline_def(
            lambda: fn.decoders.image(fn.external_source(FILES).gpu(), device="mixed"),
            batch_size=3,
            num_threads=1,
            device_id=0,
        )()
