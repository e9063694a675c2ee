"""Repeated calls of decoders on arrays read plain files without the body; their results and errors are those of the body."""

import gzip

import numpy as np
import pytest
import simplejpeg
from decoders.made import bmp
from decoders.made_nifti import nifti
from helpers import the_whole_way

from pipeflow import fn, types
from pipeflow.declare import registry
from pipeflow.kernels.cpu import jpeg, jpeg_headers, jpeg_switch, start

RNG = np.random.default_rng(8)


def as_bytes(data):
    return np.frombuffer(data, np.uint8)


def plain_bmp(height, width, **options):
    return as_bytes(bmp(RNG.integers(0, 1 << 24, (height, width)), 24, **options))


def plain_nifti(kind, shape=(5, 4, 3), **options):
    return as_bytes(nifti(RNG.integers(0, 100, shape).astype(kind), **options))


def jpeg_file(height, width):
    pixels = RNG.integers(0, 256, (height, width, 3), np.uint8)
    return as_bytes(simplejpeg.encode_jpeg(pixels, 90))


BMPS = [plain_bmp(7, 5), plain_bmp(4, 8, top_down=True), plain_bmp(6, 6, header=124)]
NIFTIS = [*map(plain_nifti, ("u1", "i2", "i4", "f4", "i1", "u2")), plain_nifti("i2", slope=1.0)]
CALLS = {
    "image": (lambda data: fn.decoders.image(data), BMPS),
    "image BGR": (lambda data: fn.decoders.image(data, output_type=types.BGR), BMPS),
    "image_crop": (lambda data: fn.decoders.image_crop(data, crop=(3, 4)), BMPS),
    "image_slice": (lambda data: fn.decoders.image_slice(data, start=(1, 2), shape=(4, 2)), BMPS),
    "image_random_crop": (lambda data: fn.decoders.image_random_crop(data, key=4), BMPS),
    "volume": (lambda data: fn.decoders.volume(data), NIFTIS),
    "volume as stored": (lambda data: fn.decoders.volume(data, rescale=False, dtype=types.FLOAT64), NIFTIS),
    "volume_crop": (lambda data: fn.decoders.volume_crop(data, crop=(2, 3, 2)), NIFTIS),
    "peek": (lambda data: fn.peek_image_shape(data), [*BMPS, jpeg_file(9, 14)]),
    "peek GRAY": (lambda data: fn.peek_image_shape(data, image_type=types.GRAY, dtype=types.INT32), BMPS),
    "peek ANY_DATA": (lambda data: fn.peek_image_shape(data, image_type=types.ANY_DATA), [jpeg_file(9, 14)]),
}


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    """The compiled decoder is used, and no operator remembers calls of other tests."""
    jpeg.load()
    jpeg_headers.read_size(np.zeros(4, np.uint8))
    switch = jpeg_switch.Switch("JPEG files are decoded", "jpeg", jpeg_switch.decoders_agree)
    switch.on = True
    monkeypatch.setattr(jpeg_switch, "decoding", switch)
    monkeypatch.setattr(start.state, "starting", False)
    for op in registry.values():
        op.forget_calls()


def outcome(call):
    """The result of a call, or its error."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return result.dtype, result.shape, result.tobytes()


@pytest.mark.parametrize("name", CALLS)
def test_plain_files_are_not_read_by_the_body(name, monkeypatch):
    """The third call has the result of the body, which does not run."""
    call, files = CALLS[name]
    expected = [the_whole_way(lambda file=file: call(file)) for file in files]
    for _ in range(2):
        for file in files:
            call(file)
    for op in registry.values():
        if op.name.startswith("decoders.") or op.name == "peek_image_shape":
            monkeypatch.setattr(op, "body", None)
    for file, result in zip(files, expected):
        ours = call(file)
        assert ours.dtype == result.dtype
        np.testing.assert_array_equal(ours, result)
        assert ours.base is None or not np.may_share_memory(ours, file)


OTHERS = {
    "volume": [
        plain_nifti("f8"),
        plain_nifti("u1", (3, 4, 5, 2)),
        plain_nifti("i2", slope=2.0, intercept=3.0),
        plain_nifti("i2", order=">"),
        plain_nifti("i2", version=2),
        as_bytes(gzip.compress(plain_nifti("u1").tobytes())),
        plain_nifti("f4")[:-1],
        plain_nifti("f4")[:200],
        plain_nifti("u1", extents=[3, -5, 4, 3, 1, 1, 1, 1]),
    ],
    "image": [
        as_bytes(bmp(np.zeros((3, 3), np.uint8), 8, palette=[(9, 9, 9)])),
        as_bytes(bmp(RNG.integers(0, 1 << 24, (3, 3)), 32)),
        plain_bmp(3, 3)[:-1],
        plain_bmp(3, 3)[:30],
        jpeg_file(8, 8),
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_other_files_have_the_results_and_errors_of_the_body(name):
    """Other types and forms, and files that end too early."""
    call, files = CALLS[name]
    for _ in range(3):
        call(files[0])
    for other in OTHERS["volume" if "volume" in name else "image"]:
        expected = outcome(lambda other=other: the_whole_way(lambda: call(other)))
        for _ in range(3):
            assert outcome(lambda other=other: call(other)) == expected


@pytest.mark.parametrize("name", CALLS)
def test_damaged_headers_have_the_results_and_errors_of_the_body(name):
    """Bytes of the header are replaced; the file is as long as before, so that the kept call is used."""
    call, files = CALLS[name]
    for _ in range(3):
        call(files[0])
    length = 352 if "volume" in name else 60
    places = [*range(0, 8), *range(40, 60), *range(70, 72), *range(108, 124), *range(340, 352)]
    places = places if "volume" in name else range(length)
    for _ in range(200):
        damaged = files[0].copy()
        for place in RNG.choice(places, RNG.integers(1, 3)):
            damaged[place] = RNG.choice([0, 1, 2, 127, 128, 255])
        expected = outcome(lambda damaged=damaged: the_whole_way(lambda: call(damaged)))
        assert outcome(lambda damaged=damaged: call(damaged)) == expected


def test_limits_hold_for_repeated_calls():
    """A limit on pixels or bytes that a file is above is an error every time."""
    for call in (
        lambda: fn.decoders.image(BMPS[0], max_pixels=34),
        lambda: fn.decoders.image(BMPS[0], max_bytes=100),
        lambda: fn.decoders.volume(NIFTIS[0], max_pixels=59),
        lambda: fn.decoders.volume(NIFTIS[0], max_bytes=239),
    ):
        expected = outcome(lambda call=call: the_whole_way(call))
        assert "more than max_" in expected[1]
        for _ in range(3):
            assert outcome(call) == expected
