"""Encoded pictures made by the tests, in every format the decoders read."""

import io
import struct
import zlib

import cv2
import numpy as np
from PIL import Image


def picture(height=37, width=53):
    """A smooth colour image with one hard edge, so that chroma subsampling and interpolation show."""
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([x * 4 % 256, y * 6 % 256, (x + y) * 3 % 256], -1).astype(np.uint8)
    image[5:15, 5:25] = [250, 20, 10]
    return image


def pillow(image, kind, mode=None, **options):
    """An array encoded by Pillow."""
    source = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    if mode:
        source = source.convert(mode)
    file = io.BytesIO()
    source.save(file, kind, **options)
    return file.getvalue()


def opencv(image, extension, *flags):
    """An array encoded by OpenCV, red and blue in place."""
    swapped = image[..., ::-1] if image.ndim == 3 and image.shape[2] == 3 else image
    return cv2.imencode(extension, swapped, flags)[1].tobytes()


def deep(image):
    """The image in 16 bits, with low bytes that are not those of the high ones."""
    return image.astype(np.uint16) * 256 + (np.arange(image.size) * 37 % 256).astype(np.uint16).reshape(image.shape)


def chunk(name, data):
    """A PNG chunk."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def interlaced_png(image):
    """An Adam7 PNG: neither Pillow nor OpenCV writes one."""
    height, width, _ = image.shape
    passes = b""
    for y, x, dy, dx in [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]:
        for row in image[y::dy, x::dx]:
            if row.size:
                passes += b"\0" + row.tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(passes)) + chunk(b"IEND", b"")


def exif(orientation):
    """EXIF data with nothing but an orientation."""
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def bytes_of(data):
    """Encoded data as the decoders take it."""
    return np.frombuffer(data, np.uint8)


RGB = picture()
ALPHA = np.dstack([RGB, (np.mgrid[0:37, 0:53][1] * 4 % 256).astype(np.uint8)])
GRAY = np.array(Image.fromarray(RGB).convert("L"))

# name -> (encoded, what it decodes to as stored); all of them without loss.
LOSSLESS = {
    "png rgb": (pillow(RGB, "PNG"), RGB),
    "png gray": (pillow(GRAY, "PNG"), GRAY[..., None]),
    "png rgba": (pillow(ALPHA, "PNG"), ALPHA),
    "png gray and alpha": (pillow(Image.merge("LA", [Image.fromarray(GRAY)] * 2), "PNG"), np.dstack([GRAY, GRAY])),
    "png palette": (
        pillow(RGB, "PNG", "P"), np.array(Image.fromarray(RGB).convert("P").convert("RGB"))),
    "png one bit": (
        pillow(RGB, "PNG", "1"), np.array(Image.fromarray(RGB).convert("1")).astype(np.uint8)[..., None] * 255),
    "png interlaced": (interlaced_png(RGB), RGB),
    "png 16 bit": (opencv(deep(RGB), ".png"), deep(RGB)),
    "png 16 bit gray": (opencv(deep(GRAY), ".png"), deep(GRAY)[..., None]),
    "bmp rgb": (pillow(RGB, "BMP"), RGB),
    "bmp gray": (pillow(GRAY, "BMP"), GRAY[..., None]),
    "ppm": (pillow(RGB, "PPM"), RGB),
    "pgm": (pillow(GRAY, "PPM"), GRAY[..., None]),
    "ppm text": (opencv(RGB, ".ppm", cv2.IMWRITE_PXM_BINARY, 0), RGB),
    "ppm 16 bit": (opencv(deep(RGB), ".ppm"), deep(RGB)),
    "tiff rgb": (pillow(RGB, "TIFF"), RGB),
    "tiff gray": (pillow(GRAY, "TIFF"), GRAY[..., None]),
    "tiff lzw": (pillow(RGB, "TIFF", compression="tiff_lzw"), RGB),
    "tiff deflate": (pillow(RGB, "TIFF", compression="tiff_deflate"), RGB),
    "tiff rgba": (pillow(ALPHA, "TIFF"), ALPHA),
    "tiff 16 bit": (opencv(deep(RGB), ".tiff"), deep(RGB)),
    "webp": (pillow(RGB, "WEBP", lossless=True), RGB),
    "webp rgba": (pillow(ALPHA, "WEBP", lossless=True, exact=True), ALPHA),
    "jp2": (pillow(RGB, "JPEG2000"), RGB),
    "jp2 gray": (pillow(GRAY, "JPEG2000"), GRAY[..., None]),
    "j2k": (pillow(RGB, "JPEG2000", no_jp2=True), RGB),
    "gif": (pillow(RGB, "GIF", "P"), np.array(Image.fromarray(RGB).convert("P").convert("RGB"))),
}  # fmt: skip

JPEG = {
    "jpeg": pillow(RGB, "JPEG", quality=92),
    "jpeg 4:4:4": pillow(RGB, "JPEG", quality=92, subsampling=0),
    "jpeg progressive": pillow(RGB, "JPEG", quality=92, progressive=True),
    "jpeg gray": pillow(GRAY, "JPEG", quality=92),
    "jpeg cmyk": pillow(RGB, "JPEG", "CMYK", quality=95),
    "jpeg restart markers": opencv(RGB, ".jpg", cv2.IMWRITE_JPEG_RST_INTERVAL, 2),
}
