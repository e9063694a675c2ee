"""JPEG decoders and the steps after them as compiled programs: their results are those of the bodies."""

import math
from collections import Counter

import cv2
import numpy as np
import pytest
import simplejpeg
from decoders.made import bmp
from helpers import chains_counted

from pipeflow import fn, pipeline_def, seeds, types
from pipeflow.executor.runners import program
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.kernels import counts
from pipeflow.kernels.cpu import (
    image_headers,
    image_programs,
    jpeg,
    jpeg_headers,
    jpeg_switch,
    random_windows,
    resample,
    start,
)
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


def exif(orientation, order="II", tag=0x0112):
    """Exif data with one field."""
    numbers = ((42, 2), (8, 4), (1, 2), (tag, 2), (3, 2), (1, 4), (orientation, 2), (0, 2))
    little = {"II": "little", "MM": "big"}[order]
    return b"Exif\0\0" + order.encode() + b"".join(number.to_bytes(size, little) for number, size in numbers)


def with_restarts(height, width, interval):
    pixels = np.clip(RNG.normal(128, 60, (height, width, 3)), 0, 255).astype(np.uint8)
    return cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_RST_INTERVAL, interval])[1].reshape(-1)


PLAIN = [picture(61, 83), picture(40, 40, "444"), picture(97, 50, "422"), picture(33, 70, channels=1), picture(64, 65)]
TURNED = [with_segment(PLAIN[n % 5], 0xE1, exif(n, "IM"[n % 2] * 2)) for n in range(1, 9)]
RESTARTS = with_restarts(50, 77, 3)
FILES = [*PLAIN, TURNED[5], TURNED[2], RESTARTS]
PROGRESSIVE = cv2.imencode(".jpg", np.zeros((40, 30, 3), np.uint8), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].reshape(-1)
FILES.append(PROGRESSIVE)


def image_kernels():
    """All kernels that the cases below need."""
    for dtype, resizes, planes in NORMALIZED:
        yield image_programs.normalizing_kernel(resizes, planes, np.dtype(dtype))
    yield image_programs.resizing_kernel(np.dtype(np.uint8))
    yield image_programs.resizing_kernel(np.dtype(np.float32))


@pytest.fixture(autouse=True)
def ready(monkeypatch):
    """Turns the compiled kernels on, as they are some seconds after the start of a program."""
    jpeg.load()
    for wanted in image_kernels():
        image_programs.load(wanted)
    monkeypatch.setattr(start.state, "starting", False)
    monkeypatch.setattr(start.state, "choosing", False)
    switch = jpeg_switch.Switch("JPEG files are decoded", "jpeg", jpeg_switch.decoders_agree)
    switch.on = True
    monkeypatch.setattr(jpeg_switch, "decoding", switch)


def batches(steps, files, monkeypatch, chained=True, **options):
    """Two batches of a pipeline, and the number of samples of the first one that a chain has done."""
    with chains_counted(monkeypatch, chained) as done:

        @pipeline_def(batch_size=len(files), num_threads=1, device_id=None, seed=7, **options)
        def pipeline():
            return steps(fn.external_source(source=lambda: files))

        pipe = pipeline()
        pipe.build()
        results = [[np.array(x) for x in pipe.run()[0]] for _ in range(2)]
    return results, len(done)


def normalized(images, **options):
    options = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4], "dtype": types.FLOAT} | options
    return fn.crop_mirror_normalize(images, **options)


def coin():
    return fn.random.coin_flip(probability=0.5)


def uniform():
    return fn.random.uniform(range=(0.0, 1.0))


# The type of the result, whether there is a resize, and whether the channels come first.
NORMALIZED = [
    (np.float32, True, True),
    (np.float32, True, False),
    (np.float32, False, True),
    (np.float16, True, True),
    (np.float16, False, False),
    (np.int8, False, True),
]
HALF = {"dtype": types.FLOAT16}
CASES = [
    (fn.decoders.image, 8),
    (lambda x: fn.decoders.image(x, output_type=types.GRAY), 8),
    (lambda x: fn.decoders.image(x, output_type=types.BGR, adjust_orientation=False), 8),
    (lambda x: fn.decoders.image(x, output_type=types.YCbCr), 0),
    (lambda x: fn.decoders.image(x, dtype=types.FLOAT), 0),
    (fn.decoders.image_random_crop, 8),
    (lambda x: fn.decoders.image_random_crop(x, random_area=[0.9, 1.0], num_attempts=1), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image_random_crop(x), size=[24, 30]), mirror=coin()), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_shorter=28), crop=(24, 24), mirror=1), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_longer=28.5), shift=0.5), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_x=40.3, subpixel_scale=True), mirror=coin()), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_y=9, mode="stretch", antialias=False)), 8),
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
        8,
    ),
    # a part of the image is decoded: the one that the next step reads
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_y=90.5), crop=(9, 8), crop_pos_x=uniform()), 8),
    (lambda x: normalized(fn.decoders.image(x), crop=(31, 30), crop_pos_y=uniform(), mirror=coin()), 8),
    (lambda x: normalized(fn.decoders.image(x), crop=(31, 30), dtype=types.INT8, mirror=coin()), 8),
    (lambda x: normalized(fn.decoders.image(x), crop_w=17, output_layout="HWC", mirror=coin(), **HALF), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), size=[20, 30]), **HALF), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), size=[20, 30]), output_layout="HWC", mirror=coin()), 8),
    (lambda x: fn.random_resized_crop(fn.decoders.image(x), size=[20, 30.4]), 8),
    (lambda x: fn.random_resized_crop(fn.decoders.image(x, output_type=types.GRAY), size=13, antialias=False), 8),
    (lambda x: normalized(fn.random_resized_crop(fn.decoders.image(x), size=[24, 24]), mirror=coin()), 8),
    (lambda x: fn.resize(fn.decoders.image(x), resize_shorter=28.7, dtype=types.FLOAT), 8),
    (lambda x: fn.resize(fn.decoders.image(x), resize_longer=200, interp_type=types.INTERP_NN), 8),
    (
        lambda x: fn.resize(fn.decoders.image(x, output_type=types.GRAY), size=[70, 9], interp_type=types.INTERP_CUBIC),
        8,
    ),
    (lambda x: fn.resize(fn.resize(fn.decoders.image(x), resize_x=50), resize_y=9), 8),
    (lambda x: fn.flip(fn.resize(fn.decoders.image(x), resize_x=50), horizontal=1), 8),
    (lambda x: fn.decoders.image_crop(x, crop=(30, 20.5), crop_pos_x=uniform()), 8),
    (lambda x: fn.decoders.image_crop(x, crop_w=20, rounding="truncate", crop_pos_x=0.3), 8),
    (lambda x: fn.decoders.image_slice(x, start=(10, 5), shape=(20, 15)), 8),
    (lambda x: fn.decoders.image_slice(x, rel_start=[0.25], end=[30], axes=[0]), 8),
    (lambda x: normalized(fn.decoders.image_slice(x, rel_start=uniform() / 2, rel_shape=[0.5, 0.4])), 8),
    (lambda x: fn.decoders.image_slice(x, np.array([3, 4]), np.array([5, 6])), 0),
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


def plain_bmp(height, width, **options):
    return np.frombuffer(bmp(RNG.integers(0, 1 << 24, (height, width)), 24, **options), np.uint8)


BMPS = [plain_bmp(41, 33), plain_bmp(31, 32, top_down=True), plain_bmp(37, 46, header=108)]
BMP_STEPS = [
    fn.decoders.image,
    lambda x: fn.decoders.image(x, output_type=types.BGR),
    lambda x: fn.decoders.image_crop(x, crop=(30, 20.5), crop_pos_x=uniform()),
    fn.decoders.image_random_crop,
    lambda x: fn.decoders.image_slice(x, start=(10, 5), shape=(20, 15)),
    lambda x: normalized(fn.resize(fn.decoders.image(x), resize_shorter=28), crop=(24, 24), mirror=1),
]


@pytest.mark.parametrize("first", [BMPS, FILES])
@pytest.mark.parametrize("number", range(len(BMP_STEPS)))
def test_files_of_two_formats_have_programs(number, first, monkeypatch):
    """BMP files of 24 bits; files with a palette are left. If the first file is JPEG, its program leaves the others."""
    gray = np.frombuffer(bmp(np.zeros((32, 32), np.uint8), 8, palette=[(9, 9, 9)]), np.uint8)
    files = [*BMPS, *FILES, gray] if first is BMPS else [*FILES, *BMPS, gray]
    results, done = batches(BMP_STEPS[number], files, monkeypatch)
    expected, _ = batches(BMP_STEPS[number], files, monkeypatch, chained=False)
    assert done == (len(BMPS) + 8 if first is BMPS else 8)
    for ours, theirs in zip(results, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


TURNING = [
    (fn.decoders.image, 8),
    (lambda x: fn.decoders.image_random_crop(x, output_type=types.GRAY), 8),
    (lambda x: fn.decoders.image_random_crop(x, adjust_orientation=False), 8),
    (lambda x: normalized(fn.resize(fn.decoders.image(x), resize_shorter=28), crop=(24, 24), mirror=1), 8),
]


@pytest.mark.parametrize("number", range(len(TURNING)))
def test_turned_images_are_those_of_the_bodies(number, monkeypatch):
    """Files of cameras, with each of the eight orientations in their Exif data."""
    steps, described = TURNING[number]
    results, done = batches(steps, TURNED, monkeypatch)
    expected, _ = batches(steps, TURNED, monkeypatch, chained=False)
    assert done == described
    for ours, theirs in zip(results, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("number", [8, 14, 15, 19, 22])
def test_larger_images_are_the_same(number, monkeypatch):
    """Images of which only a small part is decoded."""
    files = [picture(240, 371), picture(301, 222, "422"), picture(130, 555, "444")]
    results, done = batches(CASES[number][0], files, monkeypatch)
    expected, _ = batches(CASES[number][0], files, monkeypatch, chained=False)
    assert done == 3
    for ours, theirs in zip(results, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


ENDING = [
    lambda x: normalized(fn.resize(fn.decoders.image(x), size=[20, -20])),
    lambda x: fn.resize(fn.decoders.image(x), size=[20, 20], roi_start=[2, 2], roi_end=[30, 20]),
    lambda x: normalized(fn.decoders.image(x), pad_output=True),
]


@pytest.mark.parametrize("number", range(len(ENDING)))
def test_a_step_that_describes_no_sample_is_left_out(number, monkeypatch):
    """After some samples the program ends before it, so that the decoder is in a program at least: from the next chunk on."""
    monkeypatch.setattr(SampleStage, "chunk", lambda self, left, threads, batches: min(left, 10))
    results, done = batches(ENDING[number], PLAIN * 20, monkeypatch)
    expected, _ = batches(ENDING[number], PLAIN * 20, monkeypatch, chained=False)
    assert done >= 90
    for ours, theirs in zip(results, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


FILTERS = [
    types.INTERP_LINEAR,
    types.INTERP_CUBIC,
    types.INTERP_LANCZOS3,
    types.INTERP_GAUSSIAN,
    types.INTERP_TRIANGULAR,
]


def test_the_part_of_an_image_is_enough():
    """For many sizes, filters and windows: all taps are inside it, and it is not much larger than what they read."""
    for number in range(3000):
        kind = int(FILTERS[number % 5])
        size, full = (int(x) for x in RNG.integers(1, [40, 900][number % 2], 2))
        begin = int(RNG.integers(0, size))
        used = int(RNG.integers(1, size - begin + 1))
        first = int(RNG.integers(0, full))
        count = int(RNG.integers(1, full - first + 1))
        exact, antialias = full + float(RNG.uniform(-0.45, 0.45)) * (number % 3), number % 7 > 0
        axis = size, begin, used, exact, True, first, count, kind, kind, antialias
        low, high = image_programs.used_region(begin, used, exact, True)
        wanted = image_programs.whole(exact)
        if first + count > wanted:
            continue
        starts, weights = resample.taps(size, low, high, wanted, first, count, kind, antialias)
        part, extent = image_programs.needed_pixels(*axis)
        assert 0 <= part <= starts.min()
        assert starts.max() + weights.shape[1] <= part + extent <= size
        assert extent <= starts.max() + weights.shape[1] - starts.min() + 2 * weights.shape[1] + 8


def test_damage_outside_the_part_is_found(monkeypatch):
    """A crop of the top leaves a file to the body whose last rows are damaged, and the error is that of the decoder."""
    bad = np.concatenate([PLAIN[0][:-400], PLAIN[0][-2:]])
    with pytest.raises(RuntimeError) as alone:
        fn.decoders.image(bad)
    steps = lambda x: normalized(fn.decoders.image(x), crop=(8, 8), crop_pos_y=0.0)
    with pytest.raises(RuntimeError) as raised:
        batches(steps, [PLAIN[0], bad], monkeypatch)
    assert str(raised.value).startswith(str(alone.value))


def test_only_the_part_is_decoded(monkeypatch):
    """Of an image of which the next step reads a window, and all of it where another step reads it too."""
    windows, call = [], program.Program.call

    def recorded(self, kernel, arguments, now):
        if kernel is jpeg.decode_image:
            windows.append([x.value if hasattr(x, "value") else x for x in arguments[4:8]])
        return call(self, kernel, arguments, now)

    monkeypatch.setattr(program.Program, "call", recorded)
    batches(lambda x: normalized(fn.decoders.image(x), crop=(8, 6)), PLAIN[:1], monkeypatch)
    assert windows == [[27, 39, 8, 6]]

    def both(x):
        image = fn.decoders.image(x)
        return normalized(image, crop=(8, 6)), image

    batches(both, PLAIN[:1], monkeypatch)
    assert windows[1:] == [[0, 0, 61, 83]]


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
    counted = Counter()
    monkeypatch.setattr(counts, "counter", lambda: counted)
    batches(fn.decoders.image, PLAIN, monkeypatch)
    assert counted[jpeg_switch.COMPILED] >= 10


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
    """Every prefix and some changes of a file: what is read is what the other reader finds, or is left to it."""
    whole = with_segment(PLAIN[2], 0xE1, b"http://ns")
    header = image_headers.read(whole.data)
    assert jpeg_headers.read_size(whole) == (1, header.height, header.width, 3, 0, 0, 0, 0)
    assert jpeg_headers.read_size(RESTARTS) == (1, 50, 77, 3, 1, 0, 0, 0)
    for data in (PROGRESSIVE, whole[:3].copy(), np.zeros(0, np.uint8)):
        assert jpeg_headers.read_size(data) == (0,) * 8
    begun = int(np.flatnonzero((whole[:-1] == 0xFF) & (whole[1:] == 0xC0))[0]) + 8
    for end in range(begun):
        assert jpeg_headers.read_size(whole[:end].copy())[0] == 0
    known = 0
    for number in range(3000):
        changed = [whole, RESTARTS, *TURNED][number % 10][:700].copy()
        changed[RNG.integers(2, 300 if number % 2 else 40, 2)] = RNG.integers(0, 256, 2)
        known += is_known(changed)
    assert known > 1000


def is_known(data):
    """True if the compiled reader of headers knows a file; then it says of it what the other one says."""
    known, height, width, components, to_end, *turn = jpeg_headers.read_size(data)
    if not known or height * width > 512 * len(data):
        return False
    found = image_headers.read(data.data)
    assert (found.height, found.width, found.channels, found.height_at == 0) == (height, width, components, to_end)
    orders = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0)]
    assert orders[found.orientation - 1] == tuple(turn)
    return True


@pytest.mark.parametrize("order", ["II", "MM"])
def test_damaged_exif_data_say_what_they_say_to_the_other_reader(order):
    """Every prefix of Exif data, other fields, and fields after others: the orientation is that of `image_headers`."""
    field = exif(6, order)[16:]
    count = {"II": b"\2\0", "MM": b"\0\2"}[order]
    two = exif(3, order, tag=0x0100)[:14] + count + exif(3, order, tag=0x0100)[16:] + field
    bodies = [exif(n, order) for n in range(12)] + [two, exif(6, order) + b"rest", b"Exif\0\0XX" + exif(6, order)[8:]]
    for body in [
        *bodies,
        *(exif(6, order)[:end] for end in range(len(exif(6, order)))),
        *(two[:end] for end in range(40)),
    ]:
        assert is_known(with_segment(PLAIN[0], 0xE1, body))
        assert is_known(with_segment(TURNED[2], 0xE1, body))
