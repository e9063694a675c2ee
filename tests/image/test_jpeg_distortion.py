"""The compiled form of JPEG compression against encoding and decoding by libraries, bit by bit."""

import numpy as np
import pytest
from decoders.checked_jpeg import build
from decoders.jpeg_files import photograph
from decoders.jpeg_fuzzing import Guarded, GuardedWorkspace

from pipeflow import fn
from pipeflow.kernels.cpu import jpeg_forward, jpeg_round_trip, jpeg_switch

pytestmark = pytest.mark.timeout(600)  # the first test compiles the kernel


def both(picture, quality):
    """What the library and the kernel make of a picture."""
    results = np.zeros_like(picture), np.zeros_like(picture)
    jpeg_round_trip.by_library(picture, quality, results[0])
    assert jpeg_forward.distort(picture, quality, results[1])
    return results


@pytest.mark.parametrize("quality", [1, 20, 50, 90, 100])
def test_every_size_equals_the_libraries(quality):
    """All sizes modulo 16 along both axes, and small ones."""
    for height in (1, 2, 7, *range(32, 48)):
        for width in (5, 6, 9, *range(32, 48)):
            expected, got = both(photograph(height, width, height), quality)
            assert np.array_equal(got, expected), (height, width)


def test_every_quality_equals_the_libraries():
    """Noise and hard edges between the two ends of the range, whose coefficients are the largest that there are."""
    rng = np.random.default_rng(0)
    for quality in range(1, 101):
        noise = rng.integers(0, 256, (40, 56, 3)).astype(np.uint8)
        edges = np.where(rng.random((40, 56, 3)) < 0.5, 0, 255).astype(np.uint8)
        board = np.repeat((np.indices((40, 56)).sum(0) % 2 * 255).astype(np.uint8)[..., None], 3, -1)
        for picture in (noise, edges, board):
            expected, got = both(picture, quality)
            assert np.array_equal(got, expected), quality


def test_narrow_images_go_to_the_library(monkeypatch):
    """libjpeg-turbo does not smooth the chroma of images of up to four columns; the operator gives its result there."""
    jpeg_forward.load()
    monkeypatch.setattr(jpeg_switch.distorting, "on", True)
    for width in range(1, 8):
        picture = photograph(9, width)
        expected = np.zeros_like(picture)
        jpeg_round_trip.by_library(picture, 60, expected)
        assert np.array_equal(fn.jpeg_compression_distortion(picture, quality=60), expected)
        assert jpeg_forward.distort(picture, 60, np.zeros_like(picture)) == (width > 4)


@pytest.mark.parametrize("on", [False, True])
def test_the_operator_takes_any_memory(monkeypatch, on):
    """Non-contiguous images and sequences, by either form, and the kernel only where it is turned on."""
    jpeg_forward.load()
    calls = []
    distort = jpeg_forward.distort
    monkeypatch.setattr(jpeg_forward, "distort", lambda *arguments: calls.append(1) or distort(*arguments))
    monkeypatch.setattr(jpeg_switch.distorting, "on", on)
    monkeypatch.setattr(jpeg_switch.distorting, "_off", True)
    picture = photograph(40, 50)[::-1, ::-1]
    expected = np.zeros((40, 50, 3), np.uint8)
    jpeg_round_trip.by_library(np.ascontiguousarray(picture), 30, expected)
    assert np.array_equal(fn.jpeg_compression_distortion(picture, quality=30), expected)
    assert len(calls) == on


def check_guarded(module):
    """Compresses pictures between protected pages: a process that touches one ends."""
    for at_end in (False, True):
        space = GuardedWorkspace(at_end)
        for height, width in ((1, 5), (16, 16), (17, 33), (40, 47), (31, 200)):
            picture = photograph(height, width)
            source, target = Guarded(picture.size, at_end), Guarded(picture.size, at_end)
            given, out = source.array(picture.size, np.uint8), target.array(picture.size, np.uint8)
            given[:] = picture.reshape(-1)
            assert module.distort(given.reshape(picture.shape), 70, out.reshape(picture.shape), space)
            assert space.untouched()
            assert source.untouched()
            assert target.untouched()
            assert np.array_equal(out.reshape(picture.shape), both(picture, 70)[0])


def test_nothing_outside_is_touched():
    """The kernel as it is used."""
    check_guarded(jpeg_forward)


@pytest.mark.slow  # it compiles for half a minute
def test_no_access_is_outside():
    """The build that checks every access to an array."""
    check_guarded(build(jpeg_forward)[0])


def test_the_kernel_is_compared_before_it_is_used(monkeypatch):
    """One other value is noticed."""
    jpeg_switch.distortions_agree.cache_clear()
    assert jpeg_switch.distortions_agree()
    jpeg_switch.distortions_agree.cache_clear()
    distort = jpeg_forward.distort

    def wrong(image, quality, out):
        distort(image, quality, out)
        out[-1, -1, 1] ^= quality == 100

    monkeypatch.setattr(jpeg_forward, "distort", wrong)
    assert not jpeg_switch.distortions_agree()
    jpeg_switch.distortions_agree.cache_clear()
