"""JPEG decoders and the steps after them as compiled programs: their results are those of the bodies."""

import math

import numpy as np
import pytest
import simplejpeg

from pipeflow import fn, pipeline_def, seeds, types
from pipeflow.executor.runners import chain
from pipeflow.kernels import counts
from pipeflow.kernels.cpu import fused, image_headers, jpeg, jpeg_headers, jpeg_switch, random_windows, start
from pipeflow.operators.windows import random_window

pytestmark = pytest.mark.timeout(600)  # the first test compiles the decoder

RNG = np.random.default_rng(5)


def picture(height, width, sampling="420", channels=3):
    pixels = np.clip(RNG.normal(128, 60, (height, width, channels)), 0, 255).astype(np.uint8)
    color = ("RGB", sampling) if channels == 3 else ("GRAY", "Gray")
    return np.frombuffer(simplejpeg.encode_jpeg(pixels, 80, *color), np.uint8)


def with_segment(data, marker, body):
    segment = bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body
    return np.frombuffer(data[:2].tobytes() + segment + data[2:].tobytes(), np.uint8)


PLAIN = [picture(61, 83), picture(40, 40, "444"), picture(97, 50, "422"), picture(33, 70, channels=1), picture(64, 65)]
TURNED = with_segment(PLAIN[0], 0xE1, b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0")
RESTARTS = with_segment(PLAIN[0], 0xDD, b"\0\0")
FILES = [*PLAIN, TURNED, RESTARTS]


@pytest.fixture(autouse=True)
def ready(monkeypatch):
    """Turns the compiled kernels on, as they are some seconds after the start of a program."""
    jpeg.load()
    fused.load()
    monkeypatch.setattr(start.state, "starting", False)
    monkeypatch.setattr(start.state, "choosing", False)
    switch = jpeg_switch.Switch("JPEG files are decoded", "jpeg", jpeg_switch.decoders_agree)
    switch.on = True
    monkeypatch.setattr(jpeg_switch, "decoding", switch)


def batches(steps, files, monkeypatch, chained=True, **options):
    """Two batches of a pipeline, and the number of samples of the first one that a chain has done."""
    done, run = [], chain.Chain.run

    def counted(self, batch, rows, *rest):
        samples = run(self, batch, rows, *rest)
        done.extend(samples if batch.index == 0 else ())
        return samples

    with monkeypatch.context() as patch:
        patch.setattr(chain.Chain, "run", counted)
        if not chained:
            patch.setattr(chain, "_able", lambda _step: False)

        @pipeline_def(batch_size=len(files), num_threads=1, device_id=None, seed=7, **options)
        def pipeline():
            return steps(fn.external_source(source=lambda: files))

        pipe = pipeline()
        pipe.build()
        results = [[np.array(x) for x in pipe.run()[0]] for _ in range(2)]
    return results, len(done)


def normalized(images, **options):
    mean, std = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=mean, std=std, **options)


def coin():
    return fn.random.coin_flip(probability=0.5)


CASES = [
    (fn.decoders.image, 5),
    (lambda x: fn.decoders.image(x, output_type=types.GRAY), 5),
    (lambda x: fn.decoders.image(x, output_type=types.BGR, adjust_orientation=False), 5),
    (lambda x: fn.decoders.image(x, output_type=types.YCbCr), 0),
    (lambda x: fn.decoders.image(x, dtype=types.FLOAT), 0),
    (fn.decoders.image_random_crop, 5),
    (lambda x: fn.decoders.image_random_crop(x, random_area=[0.9, 1.0], num_attempts=1), 5),
    (lambda x: normalized(fn.resize(fn.decoders.image_random_crop(x), size=[24, 30]), mirror=coin()), 5),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_shorter=28), crop=(24, 24), mirror=1), 5),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_longer=28.5), shift=0.5), 5),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_x=40.3, subpixel_scale=True), mirror=coin()), 5),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_y=9, mode="stretch", antialias=False)), 5),
    (
        lambda x: normalized(
            fn.resize(
                fn.decoders.image(x),
                size=[31, 90],
                min_filter=types.INTERP_CUBIC,
                mag_filter=types.INTERP_NN,
                dtype=types.FLOAT,
            ),
            crop=(20, 21),
            crop_pos_x=0.3,
            crop_pos_y=1.0,
            rounding="truncate",
        ),
        5,
    ),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), size=[20, -20])), 0),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_programs_give_what_the_bodies_give(number, monkeypatch):
    """Bit for bit, in one batch of files of several kinds and sizes, of which some are decoded by the body."""
    steps, described = CASES[number]
    results, done = batches(steps, FILES, monkeypatch)
    expected, none = batches(steps, FILES, monkeypatch, chained=False)
    assert (done, none) == (described, 0)
    for ours, theirs in zip(results, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes()


def test_large_batches_are_copied_past_the_caches(monkeypatch):
    """A batch that does not fit into the caches has the same results."""
    monkeypatch.setattr("pipeflow.executor.runners.sample_step.LARGE_BATCH", 1)
    monkeypatch.setattr("pipeflow.executor.runners.sample_step.LARGE_SAMPLE", 1)
    steps = lambda x: normalized(fn.resize(fn.decoders.image(x), size=[24, 30]))
    results, done = batches(steps, PLAIN, monkeypatch)
    expected, _ = batches(steps, PLAIN, monkeypatch, chained=False)
    assert done == 5
    np.testing.assert_array_equal(results[0], expected[0])


def test_a_damaged_file_fails_alone_with_the_error_of_the_body(monkeypatch):
    """Whether the header or the pixels are damaged: the error is that of the decoder alone, and the others are done."""
    cut, short = PLAIN[0][: len(PLAIN[0]) // 2], PLAIN[0][:40]
    for bad in (cut, short):
        with pytest.raises(RuntimeError) as alone:
            fn.decoders.image(bad)
        with pytest.raises(RuntimeError) as raised:
            batches(fn.decoders.image, [PLAIN[0], bad, PLAIN[1]], monkeypatch)
        assert str(raised.value).startswith(str(alone.value))
        results, done = batches(fn.decoders.image, [PLAIN[0], bad, PLAIN[1]], monkeypatch, on_error="skip")
        assert done == 2
        assert len(results[0]) == 2


@pytest.mark.parametrize("limit", ["max_pixels", "max_bytes"])
def test_limits_hold(limit, monkeypatch):
    """An image above a limit is left to the body, which refuses it."""
    with pytest.raises(RuntimeError, match=limit):
        batches(lambda x: fn.decoders.image(x, **{limit: 2000}), PLAIN, monkeypatch)


def test_before_the_kernels_are_ready_the_bodies_work(monkeypatch):
    """No program is made then, and none is given up."""
    monkeypatch.setattr(jpeg_switch.decoding, "on", False)
    monkeypatch.setattr(jpeg_switch.decoding, "_off", True)
    results, done = batches(fn.decoders.image, PLAIN * 20, monkeypatch)
    assert done == 0
    np.testing.assert_array_equal(results[0][0], simplejpeg.decode_jpeg(PLAIN[0].tobytes()))


def test_decoded_files_are_counted(monkeypatch):
    """In the statistics they are files of the compiled decoder."""
    counted = []
    monkeypatch.setattr(counts, "count", lambda what, number=1: counted.append((what, number)))
    batches(fn.decoders.image, PLAIN, monkeypatch)
    assert sum(number for what, number in counted if what == jpeg_switch.COMPILED) >= 10


def test_windows_are_those_of_the_body():
    """For many keys, sizes and bounds, also those of which no attempt fits."""
    for number in range(3000):
        key = int(RNG.integers(0, 1 << 64, dtype=np.uint64))
        height, width = (int(x) for x in RNG.integers(1, 700, 2))
        area = [(0.08, 1.0), (0.95, 1.0), (0.001, 0.01)][number % 3]
        ratio, attempts = [(3 / 4, 4 / 3), (0.1, 9.0)][number % 2], 1 + number % 7
        signed = key - (1 << 64) if key >> 63 else key
        bounds = *area, *ratio, *map(math.log, ratio)
        found = random_windows.random_window(signed, height, width, *bounds, attempts)
        assert tuple(found) == random_window(seeds.Key(key), height, width, area, ratio, attempts)


def test_sizes_are_those_of_the_header():
    """Every prefix and some changes of a file: what is read has the size that the other reader finds, or is left to it."""
    whole = with_segment(PLAIN[2], 0xE1, b"http://ns")
    header = image_headers.read(whole.data)
    assert jpeg_headers.read_size(whole) == (1, header.height, header.width, 3)
    for data in (TURNED, RESTARTS, whole[:3].copy(), np.zeros(0, np.uint8)):
        assert jpeg_headers.read_size(data) == (0, 0, 0, 0)
    begun = int(np.flatnonzero((whole[:-1] == 0xFF) & (whole[1:] == 0xC0))[0]) + 8
    for end in range(begun):
        assert jpeg_headers.read_size(whole[:end].copy())[0] == 0
    for _ in range(2000):
        changed = whole[:700].copy()
        changed[RNG.integers(2, 300, 2)] = RNG.integers(0, 256, 2)
        known, height, width, components = jpeg_headers.read_size(changed)
        if known and height * width <= 512 * len(changed):
            found = image_headers.read(changed.data)
            assert (found.height, found.width, found.channels, found.orientation) == (height, width, components, 1)
            assert found.height_at > 0
