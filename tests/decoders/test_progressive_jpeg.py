"""The decoder of progressive JPEG against libjpeg-turbo, bit by bit."""

import numpy as np
import pytest
from decoders.jpeg_files import SAMPLINGS, encoded, photograph, random_coefficients, segment, write
from decoders.progressive_files import random_scans, write_progressive
from decoders.test_jpeg_kernels import stock
from simplejpeg import decode_jpeg_header

from pipeflow import fn, pipeline_def
from pipeflow.kernels.cpu import image_headers, images, jpeg_progressive, jpeg_scans, jpeg_switch

pytestmark = pytest.mark.timeout(600)  # the first test compiles the decoder

PICTURE = photograph(64, 64)


def ours(data, color="RGB", window=None, space=None):
    """What the kernels make of a file; None where they leave it to others."""
    height, width, kind, _ = decode_jpeg_header(data, strict=False)
    window = window or (0, 0, height, width)
    out = np.zeros((*window[2:], 1 if color == "GRAY" else 3), np.uint8)
    size = height, width, 1 if kind == "Gray" else 3
    done = jpeg_progressive.decode(np.frombuffer(data, np.uint8), size, color, window, out, space)
    return out if done else None


def check(data, color="RGB", window=None):
    expected, got = stock(data, color), ours(data, color, window)
    assert expected is not None
    assert got is not None
    top, left, rows, columns = window or (0, 0, *expected.shape[:2])
    assert np.array_equal(got, expected.reshape(*expected.shape[:2], -1)[top : top + rows, left : left + columns])


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize(("quality", "restart"), [(35, 0), (90, 0), (100, 0), (75, 1), (92, 3)])
def test_every_size_equals_libjpeg_turbo(sampling, quality, restart):
    """All sizes modulo 16 along both axes, three qualities, with and without restart intervals."""
    for height in range(33, 49):
        for width in range(33, 49):
            check(encoded(PICTURE[:height, :width], sampling, quality, restart, progressive=True))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAY"])
def test_every_color_and_window(sampling, color):
    """Small images, large ones, and windows of all sizes and places."""
    rng = np.random.default_rng(3)
    for height, width in ((83, 107), (47, 61), (16, 33), (9, 17), (8, 8), (1, 5), (3, 1)):
        data = encoded(photograph(height, width), sampling, 85, (0, 4)[height % 2], progressive=True)
        if ours(data, color) is None:  # libjpeg-turbo does not smooth the chroma of narrow images
            assert width <= 4
            assert sampling in ("4:2:2", "4:2:0")
            continue
        check(data, color)
        for _ in range(12):
            top, left = int(rng.integers(height)), int(rng.integers(width))
            check(
                data, color, (top, left, int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1)))
            )


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("largest", [3, 40, 900])
def test_any_codes_scans_and_bits(sampling, largest):
    """Random scans, random codes of up to 16 bits, restarts, fill bytes and garbage after the end; sparse and dense blocks."""
    rng = np.random.default_rng(largest)
    for i in range(16):
        height, width = (int(x) for x in rng.integers(5, 60, 2))
        density = (0.05, 0.3, 1.5, 8.0)[i % 4]
        coefficients = random_coefficients(height, width, sampling, rng, largest, density)
        data = write_progressive(
            height, width, sampling, coefficients, rng.integers(1, 40, (2, 64)), rng,
            restart=(0, 1, 2, 7)[i % 4], fill=i % 3, tail=b"garbage \xff\xd8\xff"[: i % 12],
        )  # fmt: skip
        assert jpeg_scans.missing(np.frombuffer(data, np.uint8)) == ""
        check(data)
        check(data, "BGR", (height // 3, width // 3, height - height // 3, width // 2))
        sequential = write(
            height, width, sampling, coefficients, rng.integers(1, 40, (2, 64)) * 0 + 1, rng, extended=True
        )
        assert ours(sequential) is None


def test_symbols_that_skip_many_blocks():
    """Up to 32,767 blocks at once, over the ends of rows; blank images."""
    blank = [np.zeros((190, 190, 64), np.int64)]
    blank[0][..., 0] = 5
    for scans in ([([0], 0, 0, 0, 0), ([0], 1, 63, 0, 0)], [([0], 0, 0, 0, 0), ([0], 1, 63, 0, 1), ([0], 1, 63, 1, 0)]):
        blank[0][-1, -1, 40] = 6
        rng = np.random.default_rng(0)
        check(write_progressive(1520, 1520, "gray", blank, np.ones((1, 64)), rng, scans=scans, early=0))


def small(rng, scans, sampling="4:4:4"):
    """A file of 20 x 20 pixels with these scans."""
    coefficients = random_coefficients(20, 20, sampling, rng)
    return write_progressive(20, 20, sampling, coefficients, np.full((2, 64), 9), rng, scans=scans)


def test_files_that_lack_scans_or_have_them_in_disorder_are_left_to_others():
    """Every scan left out once; scans twice, and bits before the upper ones."""
    rng = np.random.default_rng(4)
    for sampling in ("4:4:4", "gray"):
        scans = random_scans(3 if sampling == "4:4:4" else 1, rng)
        assert ours(small(rng, scans, sampling)) is not None
        for i in range(len(scans)):
            assert ours(small(rng, scans[:i] + scans[i + 1 :], sampling)) is None
            assert ours(small(rng, scans[: i + 1] + scans[i:], sampling)) is None
    mean, rest = ([0], 0, 0, 0, 0), ([0], 1, 63, 0, 0)
    assert ours(small(rng, [mean, rest], "gray")) is not None
    for wrong in (
        [rest, mean], [([0], 0, 0, 0, 2), ([0], 0, 0, 2, 0), rest], [([0], 0, 0, 0, 6), rest], [mean, ([0], 1, 63, 0, 1)],
        [mean, ([0], 5, 63, 0, 0), ([0], 1, 5, 0, 0)],
    ):  # fmt: skip
        assert ours(small(rng, wrong, "gray")) is None


def test_factors_that_change_between_scans_are_left_to_others():
    """libjpeg-turbo transforms with those of the first scan."""
    data = encoded(PICTURE, "4:2:0", progressive=True)
    place = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    changed = data[:place] + segment(0xDB, b"\0" + bytes([99] * 64)) + data[place:]
    assert stock(changed) is not None
    assert ours(data) is not None
    assert ours(changed) is None


def test_damage_leaves_no_trace():
    """A file that ends in the middle leaves coefficients behind, which the next file must not see."""
    space = jpeg_progressive.BandWorkspace()
    data = encoded(PICTURE, "4:2:0", 95, progressive=True)
    other = encoded(photograph(50, 60, 1), "4:2:0", 40, progressive=True)
    expected = stock(other)
    for end in range(len(data) // 2, len(data), 97):
        assert ours(data[:end] + b"\xff\xd9", space=space) is None
        assert np.array_equal(ours(other, space=space), expected)
        assert np.array_equal(ours(data, space=space), stock(data))


def test_truncated_files_are_left_to_others_at_every_byte():
    data = encoded(PICTURE[:24, :24], "4:2:0", 60, progressive=True)
    for end in range(len(data)):
        short = np.frombuffer(data[:end], np.uint8)
        out = np.zeros((24, 24, 3), np.uint8)
        assert not jpeg_progressive.decode(short, (24, 24, 3), "RGB", (0, 0, 24, 24), out)


def test_the_decoder_is_chosen_by_the_header(monkeypatch):
    """Progressive files go to their own decoder when it is ready, all others never; both kinds are counted."""
    jpeg_progressive.load()
    switch = jpeg_switch.Switch("", "jpeg_progressive", jpeg_switch.progressive_decoders_agree)
    switch.on = True
    monkeypatch.setattr(jpeg_switch, "decoding_progressive", switch)
    calls = []
    decode = jpeg_progressive.decode
    monkeypatch.setattr(jpeg_progressive, "decode", lambda *arguments: calls.append(1) or decode(*arguments))
    files = [encoded(PICTURE, "4:2:0", progressive=progressive) for progressive in (False, True)]
    assert [image_headers.read(memoryview(data)).progressive for data in files] == [False, True]

    @pipeline_def(batch_size=2, num_threads=1)
    def pipeline():
        return fn.decoders.image(fn.external_source(source=lambda: [np.frombuffer(data, np.uint8) for data in files]))

    pipe = pipeline()
    pipe.build()
    for image, data in zip(pipe.run()[0], files, strict=True):
        assert np.array_equal(image, stock(data))
    assert calls
    counts = pipe.executor_statistics()["counts"]
    compiled, library = counts[jpeg_switch.COMPILED], counts[jpeg_switch.LIBRARY]
    assert compiled > 0
    assert library > 0
    assert abs(compiled - library) <= 1  # a batch ahead may be counted in part


@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"])
def test_results_do_not_depend_on_the_decoder(monkeypatch, color):
    """The same pixels, or the same error, with and without it: whole files, windows, and files that lack scans."""
    jpeg_progressive.load()
    rng = np.random.default_rng(8)
    good = [encoded(photograph(53, 71), sampling, progressive=True) for sampling in ("4:2:0", "4:4:4", "gray")]
    bad = [good[0][:-200], small(rng, random_scans(3, rng)[:-1])]
    switch = jpeg_switch.Switch("", "jpeg_progressive", jpeg_switch.progressive_decoders_agree)
    monkeypatch.setattr(jpeg_switch, "decoding_progressive", switch)
    for data in good + bad:
        for window in (None, (3, 5, 11, 10)):
            results = []
            for switch.on, switch._off in ((False, True), (True, False)):
                try:
                    region = None if window is None else lambda _height, _width, window=window: window
                    wanted = images.Wanted(color)
                    results.append(images.decode(np.frombuffer(data, np.uint8), wanted, images.Limits(), region=region))
                except image_headers.BadImage as error:
                    results.append(str(error))
            assert isinstance(results[0], str) == (data in bad)
            assert np.array_equal(*results)


def test_the_decoder_is_compared_before_it_is_used(monkeypatch):
    """One other pixel is noticed."""
    jpeg_switch.progressive_decoders_agree.cache_clear()
    assert jpeg_switch.progressive_decoders_agree()
    jpeg_switch.progressive_decoders_agree.cache_clear()
    decode = jpeg_progressive.decode

    def wrong(*arguments):
        done = decode(*arguments)
        arguments[-1][26, 34, 2] ^= 1
        return done

    monkeypatch.setattr(jpeg_progressive, "decode", wrong)
    assert not jpeg_switch.progressive_decoders_agree()
    jpeg_switch.progressive_decoders_agree.cache_clear()
