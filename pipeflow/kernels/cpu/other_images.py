"""What OpenCV and Pillow do for images: every format but plain JPEG, damaged files, and other colours than RGB."""

import io
from collections.abc import Callable

import cv2
import numpy as np
from PIL import Image

from pipeflow.kernels.cpu.image_headers import Header, oriented

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
_COLOR = cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_COLOR_RGB
_GRAY = cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_GRAYSCALE


def decoders_of(header: Header) -> tuple[Callable[[np.ndarray, Header, str], np.ndarray], ...]:
    """The decoders for an image, in the order in which they are tried."""
    # OpenCV multiplies the colours of a TIFF file with its alpha.
    return (pillow,) if header.format == "TIFF" and header.alpha else (opencv, pillow)


def opencv(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    """The image in the stored orientation and the asked colours, by OpenCV."""
    # Asked for colours, OpenCV cuts 16 bits to the upper 8.
    as_stored = color == "ANY_DATA" or header.bits != 8
    if as_stored:
        image = _opencv_as_stored(data, header)
    else:
        image = cv2.imdecode(data, _GRAY if color == "GRAY" else _COLOR)
    if image is None:
        raise ValueError("refused")
    if header.format == "TIFF" and header.orientation != 1:
        image = _unoriented(image, header.orientation)  # OpenCV orients TIFF files whatever the flags say
    if image.ndim == 2:
        image = image[..., None]
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
    picture = Image.open(io.BytesIO(data.tobytes()))
    if picture.size != (header.width, header.height):
        raise ValueError(f"reads a size of {picture.size[0]} x {picture.size[1]}")
    if color == "ANY_DATA" and picture.mode in ("P", "PA"):
        picture = picture.convert("RGBA" if header.alpha else "RGB")
    elif color == "ANY_DATA" and picture.mode == "1":
        picture = picture.convert("L")
    elif color != "ANY_DATA" and picture.mode not in ("I;16", "I", "F"):
        picture = picture.convert("RGB")
    image = np.array(picture)
    if picture.mode == "I":  # what Pillow makes of 16-bit gray
        image = image.astype(np.uint16)
    image = image if image.ndim == 3 else image[..., None]
    return image if color == "ANY_DATA" else recolored(_as_rgb(image), color)


def recolored(rgb: np.ndarray, color: str) -> np.ndarray:
    """RGB of any dtype in another colour space."""
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


def _unoriented(image: np.ndarray, orientation: int) -> np.ndarray:
    """The inverse of `oriented`: a quarter turn to the right is undone by one to the left."""
    return oriented(image, {6: 8, 8: 6}.get(orientation, orientation))
