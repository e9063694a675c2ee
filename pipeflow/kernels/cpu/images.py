"""Encoded images to arrays.

JPEG goes to libjpeg-turbo through simplejpeg, which is strict, writes into the caller's memory and is 5 %
faster than OpenCV (611 against 641 us for 500x375 at quality 90; the pixels are equal). Everything else, and
JPEG files that the strict decoder refuses although they are complete, goes to OpenCV, and what that refuses
to Pillow. Sizes are read from the header and checked against `max_pixels` before any of them sees the data.
"""

import io
import logging
import zlib
from collections.abc import Callable

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from pipeflow.kernels.cpu import image_headers
from pipeflow.kernels.cpu.image_headers import BadImage, Header

log = logging.getLogger("pipeflow.decoders")

Region = tuple[int, int, int, int]  # top, left, height, width in the oriented image
Allocate = Callable[[tuple[int, ...], np.dtype], np.ndarray]

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


def new_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The allocator of callers that have no memory of their own."""
    return np.empty(shape, dtype)


def peek(data: np.ndarray, max_pixels: int) -> Header:
    """The header of an encoded image, refused if the image is larger than `max_pixels`."""
    header = image_headers.read(memoryview(data))
    if header.height * header.width > max_pixels:
        raise BadImage(f"{header} has more than max_pixels={max_pixels} pixels; raise max_pixels if it is meant")
    return header


def decode(
    data: np.ndarray,
    color: str,
    dtype: np.dtype,
    out: Allocate = new_array,
    *,
    adjust_orientation: bool = True,
    max_pixels: int,
    fast_idct: bool = False,
    region: Callable[[int, int], Region] | None = None,
) -> np.ndarray:
    """Decodes an image to height x width x channels, or only the region `region(height, width)` names.

    `color` is RGB, BGR, GRAY, YCbCr or ANY_DATA (as stored). Values of another dtype than the stored one keep
    their share of the range: 255 becomes 65535 in uint16 and 1.0 in float.
    """
    header = peek(data, max_pixels)
    window = None
    if region is not None:
        window = checked_region(region, *image_headers.shape_of(header, color, adjust_orientation)[:2])
    return decode_region(data, header, color, dtype, out, adjust_orientation, fast_idct, window)


def checked_region(region: Callable[[int, int], Region], height: int, width: int) -> Region:
    """The region, which must lie inside the image."""
    top, left, rows, columns = region(height, width)
    if top < 0 or left < 0 or rows < 1 or columns < 1 or top + rows > height or left + columns > width:
        raise ValueError(
            f"the region of {rows} x {columns} (height x width) pixels at row {top}, column {left} "
            f"does not lie inside the image of {height} x {width}"
        )
    return top, left, rows, columns


def decode_region(
    data: np.ndarray, header: Header, color: str, dtype: np.dtype, out: Allocate, adjust_orientation: bool,
    fast_idct: bool, window: Region | None,
) -> np.ndarray:  # fmt: skip
    """Where a decoder of regions belongs; for the libraries used here, the image is decoded and cut."""
    turn = header.orientation if adjust_orientation else 1
    direct = window is None and turn == 1 and dtype == _UINT8
    image = _decode_stored(data, header, color, out if direct else new_array, fast_idct)
    if direct and image.dtype == _UINT8 and image.flags.c_contiguous:
        return image
    image = _oriented(image, turn)
    if window is not None:
        top, left, rows, columns = window
        image = image[top : top + rows, left : left + columns]
    result = out(image.shape, dtype)
    convert_range(image, result)
    return result


def _decode_stored(data: np.ndarray, header: Header, color: str, out: Allocate, fast_idct: bool) -> np.ndarray:
    """The image in the asked colours, but in the stored orientation and the stored dtype."""
    if header.format == "JPEG" and header.bits == 8 and color != "YCbCr":
        return _decode_jpeg(data, header, color, out, fast_idct)
    if header.format == "JPEG" and header.bits == 8:
        return _recolored(_decode_jpeg(data, header, "RGB", new_array, fast_idct), color)
    return _decode_tolerant(data, header, color, "")


def _decode_jpeg(data: np.ndarray, header: Header, color: str, out: Allocate, fast_idct: bool) -> np.ndarray:
    space, channels = color, 1 if color == "GRAY" else 3
    if color == "ANY_DATA":
        space, channels = {1: ("GRAY", 1), 3: ("RGB", 3), 4: ("CMYK", 4)}[header.channels]
    array = out((header.height, header.width, channels), _UINT8)
    try:
        simplejpeg.decode_jpeg(data, space, fastdct=fast_idct, buffer=array.reshape(-1))
    except ValueError as error:
        refused = str(error)
        # What a truncated file lacks cannot be made up: only complete files get a second chance.
        if data.tobytes().rfind(b"\xff\xd9") < 0:
            raise BadImage(f"truncated {header}: {refused}") from None
        if space == "CMYK":
            raise BadImage(f"cannot decode the {header}: {refused}") from None
        array[:] = _decode_tolerant(data, header, color, refused)
    return array


def _decode_tolerant(data: np.ndarray, header: Header, color: str, refused: str) -> np.ndarray:
    reasons = [refused] if refused else []
    for decoder in (_opencv, _pillow):
        # OpenCV multiplies the colours of a TIFF file with its alpha.
        if decoder is _opencv and header.format == "TIFF" and header.alpha:
            continue
        try:
            image = decoder(data, header, color)
        except (
            cv2.error,
            ValueError,
            OSError,
            SyntaxError,
            EOFError,
            IndexError,
            KeyError,
            TypeError,
            MemoryError,
            AttributeError,
            Image.DecompressionBombError,
        ) as error:
            reasons.append(f"{decoder.__name__[1:]}: {' '.join(str(error).split()) or type(error).__name__}")
            continue
        if image.shape[:2] != (header.height, header.width):
            reasons.append(f"{decoder.__name__[1:]}: decoded {image.shape[1]} x {image.shape[0]} pixels instead")
            continue
        if reasons:
            _tell_once(data, header, reasons)
        return image
    raise BadImage(f"cannot decode the {header} ({len(data)} bytes): {'; '.join(reasons)}")


_told: set[tuple[int, int]] = set()


def _tell_once(data: np.ndarray, header: Header, reasons: list[str]) -> None:
    """Logs, once for each file, that a second decoder decoded it after the first one had refused it."""
    source = (len(data), zlib.crc32(data[:65536]))
    if source not in _told and len(_told) < 10_000:
        _told.add(source)
        log.warning(
            "a %s (%d bytes, crc32 of the first 64 KiB %08x) is damaged or unusual and was decoded by the "
            "tolerant decoder; the strict one said: %s", header, *source, "; ".join(reasons),
        )  # fmt: skip


def _opencv(data: np.ndarray, header: Header, color: str) -> np.ndarray:
    # Asked for colours, OpenCV cuts 16 bits to the upper 8, and swaps red and blue in some formats but not in
    # others.
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
    return _recolored(_as_rgb(image) if as_stored else image, color)


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


def _pillow(data: np.ndarray, header: Header, color: str) -> np.ndarray:
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
    return image if color == "ANY_DATA" else _recolored(_as_rgb(image), color)


def _recolored(rgb: np.ndarray, color: str) -> np.ndarray:
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


def convert_range(image: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Copies `image` into `out`; values keep their share of the type's range (0 to 1 in floating point)."""
    if image.dtype == out.dtype or image.dtype.kind == out.dtype.kind == "f":
        out[:] = image
        return out
    largest = 1.0 if image.dtype.kind == "f" else float(np.iinfo(image.dtype).max)
    if out.dtype.kind == "f":
        np.multiply(image, np.float32(1 / largest), out=out, casting="unsafe")
    else:
        limit = np.iinfo(out.dtype).max
        share = np.clip(np.nan_to_num(image), 0, largest) if image.dtype.kind == "f" else image
        scaled = np.rint(share * (limit / largest))
        # The largest 32- and 64-bit integers are no floating-point numbers: what rounds up to them is set after.
        out[:] = np.where(scaled >= limit, 0, scaled)
        out[scaled >= limit] = limit
    return out


def _oriented(image: np.ndarray, orientation: int) -> np.ndarray:
    """A view with the EXIF orientation (1 to 8) applied."""
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return image


def _unoriented(image: np.ndarray, orientation: int) -> np.ndarray:
    """The inverse of `_oriented`: a quarter turn to the right is undone by one to the left."""
    return _oriented(image, {6: 8, 8: 6}.get(orientation, orientation))
