"""fn.decoders.volume: NIfTI files against arrays that are known; DICOM is in tests/adapters/test_formats.py."""

import gzip
import sys

import numpy as np
import pytest
from decoders.made_nifti import CODES, nifti
from decoders.pictures import bytes_of

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels import cpu as kernels


def numbers(kind, shape=(5, 4, 3)):
    return (np.random.default_rng(1).random(shape) * 100).astype(kind)


def decode(data, **options):
    return fn.decoders.volume(bytes_of(data), **options)


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", "<>")
def test_every_type_comes_back(kind, version, order):
    """The axes of the file are width, height, depth; the result has them the other way round."""
    array = numbers(kind)
    data = nifti(array, version=version, order=order)
    got = decode(data, dtype=types.FLOAT64)
    assert got.shape == (3, 4, 5, 1)
    assert np.array_equal(got[..., 0], array.transpose(2, 1, 0))
    assert np.array_equal(decode(gzip.compress(data), dtype=types.FLOAT64), got)


def test_times_are_channels():
    """A voxel of a series has one value for each time, and one of colours three."""
    array = numbers("f4", (5, 4, 3, 2))
    assert np.array_equal(decode(nifti(array)), array.transpose(2, 1, 0, 3))
    colors = numbers("u1", (3, 5, 4, 2))
    got = decode(nifti(colors, code=128, extents=[3, 5, 4, 2, 1, 1, 1, 1]), dtype=types.UINT8)
    assert np.array_equal(got, colors.transpose(3, 2, 1, 0))


def test_slope_and_intercept():
    """3 * 2 - 1024 = -1018; a slope of zero means that nothing is scaled."""
    array = np.full((2, 2, 2), 3, np.int16)
    assert decode(nifti(array, slope=2, intercept=-1024)).max() == -1018
    assert decode(nifti(array, slope=2, intercept=-1024), rescale=False).max() == 3
    assert decode(nifti(array, slope=2, intercept=-1024), dtype=types.UINT8).max() == 0
    assert decode(nifti(array, slope=0, intercept=7)).max() == 3


def test_windows_are_those_of_crop():
    """Also at compile: the extents of the window are known."""
    array = numbers("f4", (9, 8, 7))
    data = nifti(array)
    options = {"crop": (3, 4, 2), "crop_pos_z": 0.2, "crop_pos_x": 0.9}

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        whole = fn.decoders.volume(types.Constant(bytes_of(data)))
        return fn.decoders.volume_crop(types.Constant(bytes_of(data)), **options), fn.crop(whole, **options)

    part, cut = define().run()
    assert np.array_equal(part.at(0), cut.at(0))
    assert part.at(0).shape == (3, 4, 2, 1)
    with pytest.raises(ValueError, match="a window of 9 from -1 on does not lie inside the depth of 7 of the NIfTI"):
        fn.decoders.volume_crop(bytes_of(data), crop=(9, 4, 2))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a DICOM or NIfTI file"),
        (b"GIF89a", "not a DICOM or NIfTI file"),
        (nifti(numbers("f4"))[:300], "truncated NIfTI file: 300 bytes do not hold its header"),
        (nifti(numbers("f4"))[:-1], "truncated NIfTI file: 592 bytes are needed, the file has 591"),
        (gzip.compress(nifti(numbers("f4")))[:-60], "NIfTI file"),
        (b"\x1f\x8b" + bytes(50), "damaged NIfTI file: gzip says"),
        (nifti(numbers("f4"))[:348], "truncated NIfTI file: .* bytes are needed, the file has 348"),
        (nifti(numbers("f4"))[:347], "truncated NIfTI file: 347 bytes do not hold its header"),
        (nifti(numbers("f4"), magic=b"ni1\0"), "a NIfTI header without its data is not decoded"),
        (nifti(numbers("f4"), magic=b"\0\0\0\0"), "damaged NIfTI file: its mark"),
        (nifti(numbers("f4"), code=32), "a NIfTI file of complex numbers is not decoded"),
        (nifti(numbers("f4"), code=77), "a NIfTI file of type 77 is not decoded"),
        (nifti(numbers("f4"), extents=[3, 5, 0, 3, 1, 1, 1, 1]), "damaged NIfTI file: extents of"),
        (nifti(numbers("f4"), extents=[3, 500, 400, 300, 1, 1, 1, 1]), "more than 2048 pixels a byte"),
    ],
)  # fmt: skip
def test_errors_in_words(data, words):
    with pytest.raises(ValueError, match=words):
        decode(data)


def test_limits_come_before_the_memory():
    """A file of gzip is unpacked only as far as the header says, and never beyond the limits."""
    data = nifti(np.zeros((200, 200, 200), np.uint8))
    packed = gzip.compress(data + bytes(10_000_000))
    with pytest.raises(ValueError, match="more than max_pixels=1000"):
        decode(packed, max_pixels=1000)
    with pytest.raises(ValueError, match="takes 32000000 bytes, more than max_bytes=9000000"):
        decode(packed, max_bytes=9_000_000)
    assert decode(packed, dtype=types.UINT8, max_bytes=9_000_000).shape == (200, 200, 200, 1)


def test_a_missing_library_is_named(monkeypatch):
    """DICOM needs pydicom, and the error has the line to install it."""
    monkeypatch.setitem(sys.modules, "pydicom", None)
    monkeypatch.delitem(sys.modules, "pipeflow.kernels.cpu.with_pydicom", raising=False)
    monkeypatch.delitem(vars(kernels), "with_pydicom", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pydicom is needed .* pip install pydicom"):
        decode(bytes(128) + b"DICM" + bytes(100))
