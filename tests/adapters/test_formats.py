"""AVIF, HEIF, JPEG XL, EXR and DICOM by their libraries; NIfTI against nibabel."""

import io
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
pytest.importorskip("imagecodecs")
pytest.importorskip("pillow_heif")
pytest.importorskip("OpenEXR")
pytest.importorskip("pydicom")
nibabel = pytest.importorskip("nibabel")

from decoders import library_formats as made  # noqa: E402
from decoders.pictures import ALPHA, GRAY, RGB, bytes_of, exif, pillow  # noqa: E402
from fuzz import mutators, targets  # noqa: E402

from pipeflow import fn, types  # noqa: E402
from pipeflow.kernels import cpu as kernels  # noqa: E402

DEEP = {"output_type": types.ANY_DATA, "dtype": types.UINT16}


def decode(data, **options):
    """The image; its shape is what the header alone says."""
    image = fn.decoders.image(bytes_of(data), **options)
    kind = options.get("output_type", types.RGB)
    turn = options.get("adjust_orientation", True)
    peeked = fn.peek_image_shape(bytes_of(data), image_type=kind, adjust_orientation=turn)
    assert tuple(peeked) == image.shape
    return image


def filled(numbers, bits):
    """Numbers of `bits` bits in the whole range of 16."""
    largest = (1 << bits) - 1
    return np.floor(numbers.astype(float) * 65535 / largest + 0.5).astype(np.uint16)


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("image", [RGB, ALPHA])
def test_the_still_image_of_a_sequence(image, count):
    """The first image, in memory for one: imagecodecs would write all of them there."""
    others = [np.full_like(image, 40 + number) for number in range(count - 1)]
    got = decode(made.avif_sequence([image, *others]), output_type=types.ANY_DATA)
    assert np.abs(got.astype(int) - image).max() <= 3
    animated = made.jxl(np.stack([image[..., :3], *(other[..., :3] for other in others)]))
    assert np.array_equal(decode(animated), image[..., :3])


def test_dicom_with_a_palette():
    """The numbers are replaced by their colours of 16 bits."""
    volume = fn.decoders.volume(bytes_of(made.palette_dicom()))
    assert np.array_equal(volume[0], made.PALETTE.T[GRAY].astype(np.float32))
    part = fn.decoders.volume_crop(bytes_of(made.palette_dicom()), crop=(1, 3, 4), crop_pos_x=0.0, crop_pos_y=0.0)
    assert np.array_equal(part, volume[:, :3, :4])


@pytest.mark.parametrize("name", made.pictures())
@pytest.mark.parametrize("bits", [8, 10, 12])
def test_avif(name, bits):
    """No bit is lost: 10 and 12 bits fill 16. AVIF stores colours with a loss of a level or two."""
    image = made.pictures()[name]
    source = made.deep(image, bits) if bits > 8 else image
    got = decode(made.avif(source, bits), **DEEP)
    expected = filled(source, bits).reshape(got.shape)
    assert np.abs(got.astype(int) - expected).max() <= (0 if name == "gray" else 3 * 65536 >> bits)
    if bits > 8:
        assert (got % 257 != 0).any()


@pytest.mark.parametrize("bits", [5, 8, 10, 12, 16])
@pytest.mark.parametrize("name", ["gray", "rgb", "rgba"])
def test_jpeg_xl_of_whole_numbers(name, bits):
    """Without loss: numbers of every depth are exact, and fill 8 or 16 bits."""
    source = made.deep(made.pictures()[name], bits)
    for boxed in (False, True):
        got = decode(made.jxl(source, bitspersample=bits, usecontainer=boxed), **DEEP)
        if bits >= 8:
            assert np.array_equal(got, filled(source, bits).reshape(got.shape))
        else:
            eight = np.floor(source * (255 / 31) + 0.5).astype(np.uint16)
            assert np.array_equal(got, (eight * 257).reshape(got.shape))


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_jpeg_xl_of_floats(kind):
    source = (RGB / 300).astype(kind)
    assert np.array_equal(decode(made.jxl(source), dtype=types.FLOAT), source.astype(np.float32))


@pytest.mark.parametrize(
    ("mode", "image"), [("RGB", RGB), ("RGBA", ALPHA), ("L", GRAY), ("RGB;16", RGB.astype(np.uint16) * 257)]
)
def test_heif(mode, image):
    """Ten bits of 16 are kept by the encoder."""
    got = decode(made.heif(image, mode), **DEEP).astype(int)
    expected = (image if image.dtype == np.uint16 else image.astype(int) * 257).reshape(got.shape)
    assert np.abs(got - expected).max() <= 3 * 257
    assert (mode == "RGB;16") == bool((got % 257 != 0).any())


@pytest.mark.parametrize("make", [made.turned_avif, made.turned_heif])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(make, orientation):
    """The turns in the file, like EXIF in a PNG; without them the pixels as stored."""
    expected = decode(pillow(RGB, "PNG", exif=exif(orientation)))
    data = make(orientation)
    assert np.abs(decode(data).astype(int) - expected).max() <= 20
    assert np.abs(decode(data).astype(int) - expected).mean() < 2
    if make is made.turned_avif:
        assert np.abs(decode(data, adjust_orientation=False).astype(int) - RGB).mean() < 2


@pytest.mark.parametrize("compression", ["NO", "RLE", "ZIPS", "ZIP", "PIZ"])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_exr(compression, kind):
    """Half and single precision, also above 1; a type of whole numbers cuts at 1."""
    source = (ALPHA / 99).astype(kind)
    data = made.exr({"RGBA": source}, getattr(made.OpenEXR, f"{compression}_COMPRESSION"))
    got = decode(data, output_type=types.ANY_DATA, dtype=types.FLOAT)
    assert np.array_equal(got, source.astype(np.float32))
    assert np.array_equal(decode(data, dtype=types.FLOAT), got[..., :3])
    assert np.array_equal(
        decode(data), np.rint(np.clip(source[..., :3].astype(np.float32), 0, 1) * 255).astype(np.uint8)
    )
    gray = decode(data, output_type=types.GRAY, dtype=types.FLOAT)[..., 0]
    np.testing.assert_allclose(gray, got[..., :3] @ [0.299, 0.587, 0.114], rtol=1e-5, atol=1e-5)


def test_channels_of_exr():
    """Colours first, then alpha, then the others by name; without colours only ANY_DATA is possible."""
    planes = {name: np.full((3, 4), number, np.float32) for number, name in enumerate("ZBGARN")}
    got = decode(made.exr(planes), output_type=types.ANY_DATA, dtype=types.FLOAT)
    assert got[0, 0].tolist() == [4, 2, 1, 3, 5, 0]
    depth = made.exr({"Z": planes["Z"]})
    assert decode(depth, output_type=types.ANY_DATA, dtype=types.FLOAT).shape == (3, 4, 1)
    with pytest.raises(ValueError, match=r"has no colours, but the channels Z: output_type=types.ANY_DATA"):
        decode(depth)
    luminance = made.exr({"Y": planes["B"]})
    assert decode(luminance, dtype=types.FLOAT).tolist() == np.ones((3, 4, 3)).tolist()


@pytest.mark.parametrize("kind", ["avif", "jxl", "heif", "exr", "dicom"])
def test_cut_files_are_refused(kind):
    """No half of a picture, wherever the file ends."""
    for data in made.files()[kind]:
        for part in range(24):
            short = bytes_of(data[: len(data) * part // 24])
            with pytest.raises((ValueError, RuntimeError)):
                (fn.decoders.volume if kind == "dicom" else fn.decoders.image)(short, max_pixels=1 << 16)


@pytest.mark.parametrize("kind", ["avif", "jxl", "heif", "exr", "dicom", "nifti"])
def test_mutants(kind, mutants):
    """Damaged files are refused in words, or decoded to the shape of their header within the limits."""
    rng = np.random.default_rng(5)
    whole = made.files().get(kind) or [nibabel.Nifti1Image(made.CT, np.eye(4)).to_bytes()]
    for _ in range(mutants):
        data = mutators.blind(mutators.pick(rng, whole), rng, whole)
        assert targets.run(kind, data, rng) in ("accepted", "refused")


@pytest.mark.parametrize("kind", ["avif", "jxl", "heif", "exr"])
def test_limits_and_parts(kind):
    """The limits hold before decoding, and parts are those of the whole."""
    data = made.files()[kind][0]
    with pytest.raises(ValueError, match="more than max_pixels=100"):
        decode(data, max_pixels=100)
    with pytest.raises(ValueError, match="more than max_bytes=500"):
        decode(data, max_bytes=500)
    whole = decode(data)
    part = fn.decoders.image_crop(bytes_of(data), crop=(5, 7), crop_pos_x=0.0, crop_pos_y=0.0)
    assert np.array_equal(part, whole[:5, :7])


@pytest.mark.parametrize(
    ("library", "module", "kind", "line"),
    [("imagecodecs", "with_imagecodecs", "avif", "imagecodecs"), ("imagecodecs", "with_imagecodecs", "jxl", "imagecodecs"),
     ("pillow_heif", "with_heif", "heif", "pillow-heif"), ("OpenEXR", "with_openexr", "exr", "openexr")],
)  # fmt: skip
def test_a_missing_library_is_named(monkeypatch, library, module, kind, line):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"pipeflow.kernels.cpu.{module}", raising=False)
    monkeypatch.delitem(vars(kernels), module, raising=False)
    data = made.files()[kind][0]
    assert fn.peek_image_shape(bytes_of(data)).shape == (3,)
    with pytest.raises(ModuleNotFoundError, match=f"{library} is needed .* pip install {line}"):
        decode(data)


def test_dicom():
    """Hounsfield units, the numbers as stored, colours, and compressed frames."""
    data = made.dicom(made.CT, RescaleSlope=2, RescaleIntercept=-1024)
    got = fn.decoders.volume(bytes_of(data))
    assert got.dtype == np.float32
    assert np.array_equal(got[..., 0], made.CT * 2.0 - 1024)
    stored = fn.decoders.volume(bytes_of(data), rescale=False, dtype=types.INT16)
    assert np.array_equal(stored[..., 0], made.CT)
    packed = made.dicom(made.CT, syntax=made.pydicom.uid.RLELossless)
    assert np.array_equal(fn.decoders.volume(bytes_of(packed)), stored)
    colors = made.dicom(RGB, frames=False)
    assert np.array_equal(fn.decoders.volume(bytes_of(colors), dtype=types.UINT8)[0], RGB)
    window = {"crop": (2, 3, 4), "crop_pos_z": 1.0}
    assert np.array_equal(fn.decoders.volume_crop(bytes_of(data), **window), got[2:, 2:5, 3:7])


def test_dicom_limits_and_errors():
    data = made.dicom(made.CT)
    with pytest.raises(ValueError, match="DICOM of 4 x 7 x 9 voxels has more than max_pixels=100"):
        fn.decoders.volume(bytes_of(data), max_pixels=100)
    table = made.dicom(made.CT, ModalityLUTSequence=[])
    with pytest.raises(ValueError, match="Modality LUT"):
        fn.decoders.volume(bytes_of(table))
    with pytest.raises(ValueError, match="deflated as a whole"):
        fn.decoders.volume(bytes_of(data + b"1.2.840.10008.1.2.1.99"))
    with pytest.raises(ValueError, match="cannot decode the DICOM file"):
        fn.decoders.volume(bytes_of(data[:-5]))


@pytest.mark.parametrize("shape", [(5, 4, 3), (5, 4, 3, 2), (5, 4)])
@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_nifti_is_what_nibabel_reads(shape, kind, dtype):
    array = (np.random.default_rng(2).random(shape) * 90).astype(dtype)
    image = getattr(nibabel, kind)(array, np.eye(4))
    image.header.set_slope_inter(0.5, -3)
    data = image.to_bytes()
    expected = np.asarray(getattr(nibabel, kind).from_bytes(data).dataobj).reshape(*shape, *[1] * (4 - len(shape)))
    got = fn.decoders.volume(bytes_of(data))
    np.testing.assert_allclose(got, expected.transpose(2, 1, 0, 3), rtol=1e-6, atol=1e-6)
    assert io.BytesIO(data).read(4)[:2] in (b"\x5c\1", b"\x1c\2")
