"""JPEG files whose scans do not have every coefficient: they decode without a complaint, to a coarse image."""

import re
from itertools import pairwise

import numpy as np
import pytest
import simplejpeg
from decoders.jpeg_files import photograph, random_coefficients, write
from decoders.pictures import GRAY, RGB, bytes_of, pillow

from pipeflow import fn
from pipeflow.kernels.cpu import jpeg_scans
from pipeflow.operators import decoders

OPTIONS = {
    "gray": (GRAY, None, {}), "4:2:0": (RGB, None, {}), "4:2:2": (RGB, None, {"subsampling": 1}),
    "4:4:4": (RGB, None, {"subsampling": 0}), "CMYK": (RGB, "CMYK", {}), "RGB": (RGB, None, {"keep_rgb": True}),
    "photograph": (photograph(90, 70), None, {}), "optimized": (RGB, None, {"optimize": True, "quality": 5}),
    "restarts": (RGB, None, {"restart_marker_blocks": 2}), "black": (RGB * 0, None, {"quality": 1}),
}  # fmt: skip
PROGRESSIVE = {
    name: pillow(image, "JPEG", mode, **{"quality": 92, "progressive": True} | options)
    for name, (image, mode, options) in OPTIONS.items()
}


MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")


def missing(data):
    """What the search for scans says of a file."""
    return jpeg_scans.missing(bytes_of(data))


def scans_of(data):
    """(what is before the first scan, the scans with the tables before each)."""
    places, at = [], 2
    while (found := MARKER.search(data, at))[1] != b"\xd9":
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
        if found[1] == b"\xda":
            places.append(MARKER.search(data, at).start())
    starts = [data.index(b"\xff\xc4"), *places]
    return data[: starts[0]], [data[a:b] for a, b in pairwise(starts)]


def of_bands(bands, scans, sampling="4:2:0"):
    """A file of spectral selection alone: each scan has a band of coefficients with all their bits."""
    rng = np.random.default_rng(5)
    coefficients = random_coefficients(40, 50, sampling, rng)
    return write(40, 50, sampling, coefficients, rng.integers(1, 30, (2, 64)), rng, bands=bands, scans=scans)


@pytest.mark.parametrize("name", PROGRESSIVE)
def test_whole_progressive_files_are_taken(name):
    """As libjpeg writes them, for every kind of colour."""
    data = PROGRESSIVE[name]
    assert missing(data) == ""
    assert len(scans_of(data)[1]) >= 6
    stored = fn.decoders.image(bytes_of(data), output_type=decoders.DALIImageType.ANY_DATA)
    space = {1: "GRAY", 3: "RGB", 4: "CMYK"}[stored.shape[2]]
    np.testing.assert_array_equal(stored, simplejpeg.decode_jpeg(data, space))


@pytest.mark.parametrize("name", PROGRESSIVE)
def test_a_file_that_lacks_any_of_its_scans_is_refused(name, caplog):
    """Cut between two scans and closed, or a scan taken out of the middle; what is there can be had."""
    head, scans = scans_of(PROGRESSIVE[name])
    for count in range(1, len(scans)):
        short = head + b"".join(scans[:count]) + b"\xff\xd9"
        with pytest.raises(
            ValueError, match=r"incomplete JPEG of .* pixels: no scan has the (coefficients|lowest bits)"
        ):
            fn.decoders.image(bytes_of(short))
    caplog.clear()
    part = fn.decoders.image(bytes_of(short), on_damage="accept")
    assert part.shape[:2] == fn.decoders.image(bytes_of(PROGRESSIVE[name])).shape[:2]
    assert "the strict one said: no scan has the " in caplog.text


def test_it_says_what_is_missing():
    """Whole bands, or the bits that a later scan would bring."""
    head, scans = scans_of(PROGRESSIVE["gray"])
    assert missing(head + scans[0] + b"\xff\xd9") == "no scan has the coefficients 1 to 63 of component 1"
    lowest = head + b"".join(scans[:-1]) + b"\xff\xd9"
    assert missing(lowest) == "no scan has the lowest bits of the coefficients 1 to 63 of component 1"
    with pytest.raises(ValueError, match=r'component 1; on_damage="accept" gives what is there'):
        fn.decoders.image_crop(bytes_of(lowest), crop=(10, 10))


def test_bands_without_refinement_are_whole():
    """A file of spectral selection alone, and one that leaves out a band of one component."""
    bands, scans = [(0, 0), (1, 5), (1, 63), (1, 63), (6, 63)], [[0, 1, 2], [0], [1], [2], [0]]
    data = of_bands(bands, scans)
    np.testing.assert_array_equal(fn.decoders.image(bytes_of(data)), simplejpeg.decode_jpeg(data))
    short = of_bands(bands[:2] + bands[3:], scans[:2] + scans[3:])
    simplejpeg.decode_jpeg(short)
    with pytest.raises(ValueError, match="no scan has the coefficients 1 to 63 of component 2"):
        fn.decoders.image(bytes_of(short))


@pytest.mark.parametrize("restart", [0, 2])
def test_a_sequential_file_without_one_of_its_components_is_refused(restart):
    """The other components are whole; libjpeg makes the missing one gray."""
    rng = np.random.default_rng(5)
    coefficients = random_coefficients(40, 50, "4:4:4", rng)
    for scans, lacks in ([[0], [1], [2]], None), ([[0], [2]], 2), ([[0, 1]], 3):
        data = write(40, 50, "4:4:4", coefficients, rng.integers(1, 30, (2, 64)), rng, scans=scans, restart=restart)
        if lacks is None:
            np.testing.assert_array_equal(fn.decoders.image(bytes_of(data)), simplejpeg.decode_jpeg(data))
            continue
        with pytest.raises(ValueError, match=f"no scan has the coefficients 0 to 63 of component {lacks}"):
            fn.decoders.image(bytes_of(data))
        assert fn.decoders.image(bytes_of(data), on_damage="accept").shape == (40, 50, 3)


def test_damaged_segments_are_left_to_the_decoder():
    """Cut at any byte and with any byte changed, the search for scans ends, and raises nothing."""
    data = PROGRESSIVE["4:2:0"]
    for place in range(2, len(data)):
        assert missing(data[:place]) == ""
        missing(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
