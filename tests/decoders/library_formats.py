"""Files of the formats that libraries of their own decode, made by these libraries; name -> file and pixels as stored."""

import io

import imagecodecs
import numpy as np
import OpenEXR
import pillow_heif
import pydicom
from decoders.pictures import ALPHA, GRAY, RGB
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset

CT = np.random.default_rng(3).integers(-1000, 1000, (4, 7, 9)).astype(np.int16)


def deep(image, bits):
    """An image of 8 bits with numbers of `bits` bits."""
    return (image.astype(np.int64) * ((1 << bits) - 1) // 255).astype(np.uint8 if bits <= 8 else np.uint16)


def pictures():
    """(channels, array) of gray, gray with alpha, colour, colour with alpha."""
    return {"gray": GRAY, "gray alpha": np.dstack([GRAY, ALPHA[..., 3]]), "rgb": RGB, "rgba": ALPHA}


def avif(image, bits=8):
    return imagecodecs.avif_encode(image, level=100, bitspersample=bits, pixelformat=None)


def avif_sequence(images):
    """Several images one after another, the first of which is the still one."""
    return imagecodecs.avif_encode(np.stack(images), level=100)


def turned_avif(orientation):
    """An image that its file turns, made by Pillow."""
    data, file = Image.Exif(), io.BytesIO()
    data[0x0112] = orientation
    Image.fromarray(RGB).save(file, "AVIF", exif=data, quality=100, subsampling="4:4:4")
    return file.getvalue()


def jxl(image, **options):
    return imagecodecs.jpegxl_encode(image, lossless=True, **options)


def heif(image, mode, exif=None):
    file = io.BytesIO()
    options = {} if exif is None else {"exif": exif}
    pillow_heif.encode(
        mode, image.shape[1::-1], np.ascontiguousarray(image).tobytes(), file, quality=-1, chroma=444, matrix_coefficients=0,
        **options,
    )  # fmt: skip
    return file.getvalue()


def turned_heif(orientation):
    data, file = Image.Exif(), io.BytesIO()
    data[0x0112] = orientation
    pillow_heif.from_pillow(Image.fromarray(RGB)).save(file, quality=-1, exif=data.tobytes(), chroma=444)
    return file.getvalue()


def exr(channels, compression=OpenEXR.ZIP_COMPRESSION, **attributes):
    file = io.BytesIO()
    OpenEXR.File({"compression": compression, "type": OpenEXR.scanlineimage, **attributes}, channels).write(file)
    return file.getvalue()


def dicom(pixels, frames=True, syntax=pydicom.uid.ExplicitVRLittleEndian, **more):
    """A DICOM file; the first axis counts its frames."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.2", "1.2.3"
    data = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    shape = pixels.shape[1:] if frames else pixels.shape
    if frames:
        data.NumberOfFrames = pixels.shape[0]
    data.Rows, data.Columns, data.SamplesPerPixel = *shape[:2], shape[2] if len(shape) == 3 else 1
    data.PhotometricInterpretation = "RGB" if data.SamplesPerPixel == 3 else "MONOCHROME2"
    if data.SamplesPerPixel == 3:
        data.PlanarConfiguration = 0
    data.BitsAllocated = data.BitsStored = 8 * pixels.dtype.itemsize
    data.HighBit, data.PixelRepresentation = data.BitsStored - 1, int(pixels.dtype.kind == "i")
    data.PixelData = pixels.tobytes()
    for name, value in more.items():
        setattr(data, name, value)
    file = io.BytesIO()
    if syntax == pydicom.uid.RLELossless:
        data.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        data.compress(syntax)
    data.save_as(file, enforce_file_format=True)
    return file.getvalue()


PALETTE = np.random.default_rng(4).integers(0, 1 << 16, (3, 256)).astype(np.uint16)


def palette_dicom():
    """The gray picture with the numbers of colours in it."""
    tables = {}
    for name, column in zip(("Red", "Green", "Blue"), PALETTE):
        tables[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        tables[f"{name}PaletteColorLookupTableData"] = column.tobytes()
    return dicom(GRAY, frames=False, PhotometricInterpretation="PALETTE COLOR", **tables)


def files():
    """Some files of every kind, for the mutants."""
    small = {name: image[:16, :20] for name, image in pictures().items()}
    return {
        "avif": [avif(image) for image in small.values()] + [avif(deep(small["rgb"], 10), 10), turned_avif(6)]
        + [avif_sequence([small["rgb"], 255 - small["rgb"], small["rgb"]])],
        "jxl": [jxl(image, usecontainer=boxed) for image in small.values() for boxed in (False, True)]
        + [jxl(deep(small["rgb"], 12), bitspersample=12), imagecodecs.jpegxl_encode(small["rgb"], level=80)],
        "heif": [heif(small["rgb"], "RGB"), heif(small["rgba"], "RGBA"), turned_heif(6)],
        "exr": [
            exr({"RGB": RGB[:16, :20].astype(kind) / kind(99)}, compression)
            for kind, compression in (
                (np.float16, OpenEXR.PIZ_COMPRESSION), (np.float32, OpenEXR.ZIP_COMPRESSION),
                (np.float32, OpenEXR.NO_COMPRESSION), (np.float16, OpenEXR.DWAA_COMPRESSION),
                (np.float16, OpenEXR.B44_COMPRESSION), (np.float32, OpenEXR.PXR24_COMPRESSION),
            )
        ],
        "dicom": [
            dicom(CT, RescaleSlope=2, RescaleIntercept=-1024), dicom(RGB[:8, :9], frames=False),
            dicom(CT, syntax=pydicom.uid.RLELossless), palette_dicom(),
            dicom(CT[0], frames=False, syntax=pydicom.uid.ImplicitVRLittleEndian),
        ],
    }  # fmt: skip
