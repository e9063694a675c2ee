"""Decodes all formats except plain JPEG, damaged files, and other colours than RGB.

TIFF, BMP and PNM are decoded here, except for compressions of TIFF that only Pillow supports; OpenCV and Pillow decode the rest.
A second decoder is tried only for formats for which both decoders refuse damaged files, and do not invent missing pixels.
"""

import io
from collections.abc import Callable

import cv2
import numpy as np
from PIL import Image, Jpeg2KImagePlugin, JpegImagePlugin, TiffImagePlugin, WebPImagePlugin

from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import image_bmp, image_exr, image_png, image_pnm, image_tiff
from pipeflow.kernels.cpu.image_base import BadImage, Header
from pipeflow.kernels.cpu.image_bits import filled
from pipeflow.kernels.cpu.image_headers import oriented

_UINT8 = np.dtype(np.uint8)
# ITU-R BT.601 in the studio range, what DALI calls YCbCr.
_TO_YCBCR = np.array(
    [
        [0.25678824, 0.50412941, 0.09790588, 16],
        [-0.14822290, -0.29099279, 0.43921569, 128],
        [0.43921569, -0.36778831, -0.07142737, 128],
    ],
    np.float32,
)
_TO_GRAY = np.array([[0.299, 0.587, 0.114]], np.float32)
_GRAY_WEIGHTS = np.array([4899, 9617, 1868], np.int32)  # the sum is 16384
_COLOR = cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_COLOR_RGB
_GRAY = cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_GRAYSCALE


Decoder = Callable[[np.ndarray, Header, str], np.ndarray]


def decoders_of(data: np.ndarray, header: Header) -> tuple[Decoder, ...]:
    """The decoders for an image, in the order in which they are tried."""
    if header.format == "TIFF":
        return (tiff,) if image_tiff.read(data.data).ours else (pillow_tiff,)
    if header.format == "JPEG 2000" and header.channels == 2 and header.depth == 8:
        return (pillow,)  # OpenCV has no gray with alpha
    if header.format in _BY_LIBRARY:
        read = _BY_LIBRARY[header.format]()  # imports the library: an error if it is missing

        def by_library(data: np.ndarray, header: Header, color: str) -> np.ndarray:
            return _recolored_stored(read(data, header), data, header, color)

        return (by_library,)
    return _DECODERS[header.format]


# Formats whose libraries are imported with the first such file.
_BY_LIBRARY: dict[str, Callable[[], Callable[[np.ndarray, Header], np.ndarray]]] = {
    "AVIF": lambda: kernels.with_imagecodecs.avif,
    "JPEG XL": lambda: kernels.with_imagecodecs.jpeg_xl,
    "HEIF": lambda: kernels.with_heif.heif,
    "EXR": lambda: kernels.with_openexr.exr,
}


def _recolored_stored(image: np.ndarray, data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """A stored image in the requested colours; numbers of other depths than 8 and 16 bits are scaled to the whole range."""
    if header.depth not in (0, header.bits):
        image = filled(np.minimum(image, (1 << header.depth) - 1), (1 << header.depth) - 1)
    if color == "ANY_DATA":
        return image
    if header.format == "EXR":
        names = image_exr.read(data.data).channels
        if names[0] not in "RY":
            raise BadImage(
                f"the {header} has no colours, but the channels {', '.join(names)}: output_type=types.ANY_DATA returns them"
            )
        image = image[..., : 3 if names[0] == "R" else 1]
    return recolored(_as_rgb(image), color)


def tiff(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """Decodes TIFF: strips and tiles of plain, LZW, deflate and PackBits data."""
    image = image_tiff.decode(data)
    if color == "ANY_DATA":
        return image
    if image_tiff.read(data.data).cmyk:
        image = _of_inks(image)
    return recolored(_as_rgb(image), color)


def _of_inks(image: np.ndarray) -> np.ndarray:
    """Converts cyan, magenta, yellow and black to RGB."""
    if image.dtype.kind != "u":
        raise BadImage(
            f"a CMYK image of {image.dtype} is not converted to other colours; ANY_DATA returns it without conversion"
        )
    largest = np.iinfo(image.dtype).max
    left = (largest - image[..., :4]).astype(np.uint64)
    return ((left[..., :3] * left[..., 3:] + largest // 2) // largest).astype(image.dtype)


def _of_own(rgb: np.ndarray, color: str) -> np.ndarray:
    """Converts RGB to another colour space. Gray of 8 bits has the weights and the rounding of other decoders of
    these formats.
    """
    if color != "GRAY" or rgb.dtype != _UINT8:
        return recolored(rgb, color)
    total = rgb.astype(np.int32) @ _GRAY_WEIGHTS
    return ((total + (1 << 13)) >> 14).astype(np.uint8)[..., None]


def bmp(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """Decodes BMP: palettes, run lengths and colours under masks."""
    image = image_bmp.decode(data)
    if image.strides[2] < 0:  # blue, green, red: OpenCV reverses them three times as fast as NumPy
        image = cv2.cvtColor(np.ascontiguousarray(image[..., ::-1]), cv2.COLOR_BGR2RGB)
    return image if color == "ANY_DATA" else _of_own(_as_rgb(image), color)


def pnm(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """Decodes PNM: numbers up to any largest one, as bytes or as text."""
    image = image_pnm.decode(data)
    return image if color == "ANY_DATA" else _of_own(_as_rgb(image), color)


def opencv(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """The image in the stored orientation and the requested colours, by OpenCV."""
    if header.format == "PNG":
        data = image_png.still(data)
    # If OpenCV converts colours, it cuts 16 bits to the upper 8, and does not scale fewer bits than 8.
    as_stored = color == "ANY_DATA" or header.bits != 8 or header.depth not in (0, 8)
    if as_stored:
        image = _opencv_as_stored(data, header)
    else:
        image = cv2.imdecode(data, _GRAY if color == "GRAY" else _COLOR)
    if image is None:
        raise ValueError("refused")
    if image.ndim == 2:
        image = image[..., None]
    if header.depth not in (0, header.bits):
        image = filled(image, (1 << header.depth) - 1)
    if color == "ANY_DATA":
        return image
    return recolored(_as_rgb(image) if as_stored else image, color)


def _as_rgb(image: np.ndarray) -> np.ndarray:
    """An image as stored, without its alpha and with gray repeated."""
    return image[..., :3] if image.shape[2] >= 3 else np.repeat(image[..., :1], 3, axis=2)


def _opencv_as_stored(data: np.ndarray, header: Header) -> np.ndarray | None:
    image = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    if image is None or image.ndim == 2:
        return image
    if header.channels == 2:
        return image[..., [0, 3]]
    if header.channels == 3 and image.shape[2] == 4:
        image = image[..., :3]
    return image[..., [2, 1, 0, 3][: image.shape[2]]]


def pillow(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """The same by Pillow."""
    # Not by Image.open, which has its own limits, and may open the file as another format.
    picture: Image.Image = _PLUGINS[header.format](io.BytesIO(data.tobytes()))
    turned = header.format == "TIFF"  # Pillow orients TIFF files, and only those
    if picture.size != (header.oriented_size[::-1] if turned else (header.width, header.height)):
        raise ValueError(f"reads a size of {picture.size[0]} x {picture.size[1]}")
    if color == "ANY_DATA" and picture.mode in ("P", "PA"):
        picture = picture.convert("RGBA" if header.alpha else "RGB")
    elif color == "ANY_DATA" and picture.mode == "1":
        picture = picture.convert("L")
    elif color != "ANY_DATA":
        picture = picture.convert("RGB")
    image = np.array(picture)
    image = image if image.ndim == 3 else image[..., None]
    if turned and header.orientation != 1:
        image = oriented(image, {6: 8, 8: 6}.get(header.orientation, header.orientation))  # undoes Pillow's turn
    return image if color == "ANY_DATA" else recolored(_as_rgb(image), color)


_PLUGINS: dict[str, Callable[[io.BytesIO], Image.Image]] = {
    "JPEG": JpegImagePlugin.JpegImageFile,
    "JPEG 2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "WebP": WebPImagePlugin.WebPImageFile,
}


def recolored(rgb: np.ndarray, color: str) -> np.ndarray:
    """Converts RGB of any dtype to another colour space."""
    if color == "RGB" or rgb.shape[2] == 1:
        return rgb
    if color == "BGR":
        return rgb[..., ::-1]
    if color == "GRAY" and rgb.dtype == _UINT8:
        return cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)[..., None]
    if color == "GRAY":
        result = cv2.transform(rgb.astype(np.float32), _TO_GRAY)
        result = result if result.ndim == 3 else result[..., None]
        return result if rgb.dtype.kind == "f" else np.rint(result).astype(rgb.dtype)
    largest = 1.0 if rgb.dtype.kind == "f" else np.iinfo(rgb.dtype).max
    result = cv2.transform(rgb.astype(np.float32) * np.float32(255 / largest), _TO_YCBCR)
    return np.clip(np.rint(result), 0, 255).astype(np.uint8)


def pillow_tiff(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """Decodes compressions of TIFF that only libtiff supports, with whole bytes or one bit for each pixel."""
    layout = image_tiff.read(data.data)
    if layout.bits not in (1, 8) or layout.planar or layout.cmyk:
        raise BadImage(f"a TIFF file of {layout.bits} bits with compression {layout.compression} is not decoded")
    return pillow(data, header, color)


_DECODERS: dict[str, tuple[Decoder, ...]] = {
    "BMP": (bmp,),
    "PNM": (pnm,),
    "PNG": (opencv,),  # Pillow would return only the pixels that it can read
    "GIF": (opencv,),
    "WebP": (opencv, pillow),
    "JPEG 2000": (opencv,),  # Pillow shifts the bits of other depths than 8 to the top
    "JPEG": (opencv, pillow),
}
