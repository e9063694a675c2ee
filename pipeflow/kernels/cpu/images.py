"""Decodes images to arrays.

JPEG files are decoded by the compiled decoder (`jpeg_switch`), or by libjpeg-turbo through simplejpeg. simplejpeg is strict,
writes into the caller's memory and is 5 % faster than OpenCV (611 against 641 us for 500x375 at quality 90; the pixels are
equal). `other_images` decodes all other files, and complete JPEG files that the strict decoder refuses; it is loaded with the
first such file. Sizes are read from the header and checked against the limits, and checksums and lengths in the file are
checked, before any decoder reads the data.
"""

import logging
import re
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from struct import error as StructError
from typing import Any

import numpy as np
import simplejpeg

from pipeflow.kernels import counts
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import image_headers, image_jp2, image_limits, image_png, jpeg_scans, jpeg_switch
from pipeflow.kernels.cpu.image_base import BadImage, Header
from pipeflow.kernels.cpu.image_headers import oriented
from pipeflow.kernels.cpu.image_limits import Limits

log = logging.getLogger("pipeflow.decoders")

Region = tuple[int, int, int, int]  # top, left, height, width in the oriented image
Allocate = Callable[[tuple[int, ...], np.dtype], np.ndarray]

_UINT8 = np.dtype(np.uint8)
_scratch = threading.local()
_SCRATCH_LIMIT = 1 << 26  # bytes that a thread keeps between images; a larger image gets its own memory


@dataclass(frozen=True)
class Wanted:
    """The form of the result: colours (RGB, BGR, GRAY, YCbCr or ANY_DATA, as stored), element type, orientation."""

    color: str = "RGB"
    dtype: np.dtype = _UINT8
    adjust_orientation: bool = True
    fast_idct: bool = False


def new_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The allocator for callers that provide no memory."""
    return np.empty(shape, dtype)


def _scratch_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory of this thread that lasts until its next image."""
    size = prod(shape) * dtype.itemsize
    if size > _SCRATCH_LIMIT:
        return np.empty(shape, dtype)
    block = getattr(_scratch, "block", None)
    if block is None or len(block) < size:
        block = _scratch.block = np.empty(size, np.uint8)
    return block[:size].view(dtype).reshape(shape)


def _once(allocate: Allocate) -> Allocate:
    """An allocator that returns the same memory again, for a second decoder after the first one failed."""
    given: list[np.ndarray] = []

    def again(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if not given or given[0].shape != shape or given[0].dtype != dtype:
            given[:] = [allocate(shape, dtype)]
        return given[0]

    return again


def _check_gif(view: memoryview) -> None:
    kernels.image_gif.check(view)  # its kernels are imported with the first such file


_CHECKS: dict[str, Callable[[Any], Any]] = {"PNG": image_png.check, "GIF": _check_gif, "JPEG 2000": image_jp2.check}


def peek(data: np.ndarray, limits: Limits, scans: bool = True) -> Header:
    """The header of an encoded image.

    Raises an error if the image is larger than allowed or, as far as the header shows it, not complete; without `scans`, the
    scans of a JPEG file are not checked.
    """
    view = data.data
    header = image_headers.read(view)
    pixels = header.height * header.width
    image_limits.check_pixels(header, pixels, len(data), limits)
    image_limits.check_bytes(header, pixels * header.channels * header.bits // 8, limits)
    if header.format in _CHECKS and not limits.damaged:
        try:
            _CHECKS[header.format](view)
        except (IndexError, StructError):
            raise BadImage(f"truncated {header}: {len(data)} bytes") from None
    elif scans and header.format == "JPEG" and not header.height_at and not limits.damaged:
        jpeg_scans.check(data, header)
    return header


def decode(
    data: np.ndarray,
    wanted: Wanted,
    limits: Limits,
    out: Allocate = new_array,
    region: Callable[[int, int], Region] | None = None,
    source: Any = "",
) -> np.ndarray:
    """Decodes an image to height x width x channels, or only the region that `region(height, width)` returns.

    If the dtype is not the stored one, values keep their share of the range: 255 becomes 65535 in uint16 and 1.0 in float.
    Warnings name the image by str(source).
    """
    out, plain = _once(out), False
    if jpeg_switch.decoding.on and not limits.damaged:
        image, plain = _decode_plain(data, wanted, limits, out, region)
        if image is not None:
            return image
    header = peek(data, limits, scans=False)
    height, width, channels = image_headers.shape_of(header, wanted.color, wanted.adjust_orientation)
    window = None
    if region is not None:
        window = _checked(region(height, width), height, width)
        height, width = window[2:]
    image_limits.check_bytes(header, height * width * channels * wanted.dtype.itemsize, limits)
    if limits.damaged and header.format == "PNG":
        data = _saved_png(data, header, source)
    elif limits.damaged and header.format == "JPEG":
        lacking = jpeg_scans.missing(data)
        if lacking:
            _tell_once(data, header, [lacking], source)
    return decode_region(data, header, wanted, window, out, source, limits.damaged, compiled=not plain)


_SPACES = {"RGB": ("RGB", "RGB"), "BGR": ("BGR", "BGR"), "GRAY": ("GRAY", "GRAY"), "ANY_DATA": ("GRAY", "RGB")}


def _decode_plain(
    data: np.ndarray, wanted: Wanted, limits: Limits, out: Allocate, region: Callable[[int, int], Region] | None
) -> tuple[np.ndarray | None, bool]:
    """`decode` of a plain JPEG file, without the steps that only other files need.

    Returns (None, False) for other files and those above a limit, and (None, True) if the compiled decoder refuses the file.
    """
    if wanted.dtype != _UINT8 or wanted.fast_idct or wanted.color not in _SPACES:
        return None, False
    known, height, width, channels, to_end, *turn = kernels.jpeg_headers.read_size(kernels.jit.plain(data))
    pixels, size = height * width, len(data)
    if not known or (wanted.adjust_orientation and any(turn)):
        return None, False
    if not image_limits.allowed(pixels, size, limits) or pixels // image_headers.JPEG_PIXELS_PER_BYTE > size:
        return None, False
    color = _SPACES[wanted.color][channels > 1]
    window, checked = (0, 0, height, width), height
    if region is not None:
        window = _checked(region(height, width), height, width)
        bottom = window[0] + window[2] + jpeg_switch.MARGIN
        if not to_end and wanted.color != "ANY_DATA":
            checked = min(bottom, height)
    image = out((*window[2:], 1 if color == "GRAY" else 3), _UINT8)
    if not image.flags.c_contiguous:
        return None, False
    done = kernels.jpeg.decode(data, (height, width, channels), color, window, checked, image)
    counts.count(jpeg_switch.COMPILED if done else jpeg_switch.LIBRARY)
    return (image, False) if done else (None, True)


def _saved_png(data: np.ndarray, header: Header, source: Any) -> np.ndarray:
    """A complete PNG file, or the readable part of a damaged one."""
    view = data.data
    try:
        image_png.check(view)
        kernels.other_images.opencv(data, header, "ANY_DATA")
    except ValueError as error:
        repaired = image_png.repaired(view)
        _tell_once(data, header, [str(error)], source)
        return repaired
    return data


def _checked(window: Region, height: int, width: int) -> Region:
    top, left, rows, columns = window
    if top < 0 or left < 0 or rows < 1 or columns < 1 or top + rows > height or left + columns > width:
        raise ValueError(
            f"the region of {rows} x {columns} (height x width) pixels at row {top}, column {left} "
            f"does not lie inside the image of {height} x {width}"
        )
    return window


def decode_region(
    data: np.ndarray,
    header: Header,
    wanted: Wanted,
    window: Region | None,
    out: Allocate,
    source: Any = "",
    damaged: bool = False,
    compiled: bool = True,
) -> np.ndarray:
    """Decodes a region. If no decoder decodes regions, the image is decoded, if possible only down to the region's last row, and
    cut.

    `window` is inside the oriented image; None is all of it. Without `compiled`, the compiled decoder has refused the file.
    """
    turn = header.orientation if wanted.adjust_orientation else 1
    as_stored = turn == 1 and wanted.dtype == _UINT8
    whole, direct, out = window is None and as_stored, as_stored and wanted.color != "YCbCr", _once(out)
    image = None
    if compiled:
        image = jpeg_switch.decode(data, header, wanted, window, turn, out if direct else _scratch_array)
    if image is not None:
        image = oriented(image, turn)
        return image if direct else convert_range(image, out(image.shape, wanted.dtype))
    if (
        header.format == "JPEG" and not damaged
    ):  # the compiled decoders refuse files that lack scans; libjpeg-turbo does not
        jpeg_scans.check(data, header)
    if window is not None and turn == 1:
        image = _decode_top(data, header, wanted, window[0] + window[2])
    if image is None:
        image = _decode_stored(data, header, wanted, out if whole else _scratch_array, source, damaged)
    if whole and image.dtype == _UINT8 and image.flags.c_contiguous and not np.may_share_memory(image, data):
        return image
    image = oriented(image, turn)
    if window is not None:
        top, left, rows, columns = window
        image = image[top : top + rows, left : left + columns]
    return convert_range(image, out(image.shape, wanted.dtype))


def _decode_stored(
    data: np.ndarray, header: Header, wanted: Wanted, out: Allocate, source: Any, damaged: bool
) -> np.ndarray:
    """The image in the requested colours, but in the stored orientation and the stored dtype."""
    color = wanted.color
    if header.format != "JPEG":
        return _decode_tolerant(data, header, color, [], source)
    if color == "YCbCr":
        rgb = _decode_jpeg(data, header, "RGB", _scratch_array, wanted.fast_idct, source, damaged)
        return kernels.other_images.recolored(rgb, color)
    return _decode_jpeg(data, header, color, out, wanted.fast_idct, source, damaged)


_MARGIN = 16  # rows below a part: smooth upsampling looks at the next row of chroma
# Errors of libjpeg-turbo after which pixels are missing or wrong.
_MISSING = re.compile(
    r"Corrupt JPEG data: (premature end of data segment|bad Huffman code|found marker .* instead of RST.*)"
)
_LEFT_OVER = re.compile(r"Corrupt JPEG data: \d+ extraneous bytes before marker 0xd9")


def _decode_top(data: np.ndarray, header: Header, wanted: Wanted, bottom: int) -> np.ndarray | None:
    """Decodes a JPEG file down to the row `bottom` and a few more rows; None if it must be decoded as a whole.

    The decoder gets the file with a smaller height in its header. Then, for the decoder, only the data after the last row may be
    wrong, and its first error is about this data.
    """
    rows = bottom + _MARGIN
    colors = wanted.color in ("RGB", "BGR", "GRAY") and header.channels in (1, 3)
    if not header.height_at or not colors or rows >= header.height:
        return None
    shorter = data.copy()
    shorter[header.height_at], shorter[header.height_at + 1] = rows >> 8, rows & 255
    array = _scratch_array((rows, header.width, 1 if wanted.color == "GRAY" else 3), _UINT8)
    try:
        simplejpeg.decode_jpeg(shorter, wanted.color, fastdct=wanted.fast_idct, buffer=array.reshape(-1))
    except ValueError as error:
        if not _LEFT_OVER.fullmatch(str(error)):
            return None
    return array


def _decode_jpeg(
    data: np.ndarray, header: Header, color: str, out: Allocate, fast_idct: bool, source: Any, damaged: bool
) -> np.ndarray:
    space, channels = color, 1 if color == "GRAY" else 3
    if color == "ANY_DATA":
        space, channels = {1: ("GRAY", 1), 3: ("RGB", 3), 4: ("CMYK", 4)}[header.channels]
    array = out((header.height, header.width, channels), _UINT8)
    try:
        simplejpeg.decode_jpeg(data, space, fastdct=fast_idct, buffer=array.reshape(-1))
    except ValueError as error:
        # The missing part of a truncated file is lost: only complete files go to a second decoder.
        if damaged and _decode_rest(data, space, fast_idct, array):
            _tell_once(data, header, [str(error)], source)
            return array
        if "Premature end" in str(error) or data.tobytes().rfind(b"\xff\xd9") < 0:
            raise BadImage(f"truncated {header}: {error}") from None
        if _MISSING.fullmatch(str(error)):
            raise BadImage(f'damaged {header}: {error}; on_damage="accept" returns the rest') from None
        if space == "CMYK":
            raise BadImage(f"cannot decode the {header}: {error}") from None
        array[:] = _decode_tolerant(data, header, space, [str(error)], source)
    return array


def _decode_rest(data: np.ndarray, space: str, fast_idct: bool, array: np.ndarray) -> bool:
    """Decodes the readable part of a damaged file into `array`, the rest gray or black; False if nothing can be read."""
    array[:] = 0  # the library does not write the pixels after the damage
    try:
        simplejpeg.decode_jpeg(data, space, fastdct=fast_idct, strict=False, buffer=array.reshape(-1))
    except ValueError:
        return False
    return True


def _decode_tolerant(data: np.ndarray, header: Header, color: str, reasons: list[str], source: Any) -> np.ndarray:
    """The result of the first decoder that accepts the image; `reasons` are the errors of earlier ones."""
    for decoder in kernels.other_images.decoders_of(data, header):
        try:
            image = decoder(data, header, color)
        except BadImage:
            raise
        except Exception as error:  # the libraries raise many types of exceptions for damaged files
            reasons.append(f"{decoder.__name__}: {' '.join(str(error).split()) or type(error).__name__}")
            continue
        if image.shape[:2] != (header.height, header.width):
            reasons.append(f"{decoder.__name__}: decoded {image.shape[1]} x {image.shape[0]} pixels instead")
            continue
        if color == "ANY_DATA" and image.shape[2] != header.channels:
            reasons.append(
                f"{decoder.__name__}: decoded {image.shape[2]} channels, the header states {header.channels}"
            )
            continue
        if reasons:
            _tell_once(data, header, reasons, source)
        return image
    raise BadImage(f"cannot decode the {header} ({len(data)} bytes): {'; '.join(reasons)}")


_told: set[tuple[int, int]] = set()


def _tell_once(data: np.ndarray, header: Header, reasons: list[str], source: Any) -> None:
    """Logs once for each file that a second decoder decoded it after the first one refused it."""
    known = (len(data), zlib.crc32(data[:65536].tobytes()))
    if known not in _told and len(_told) < 10_000:
        _told.add(known)
        log.warning(
            "%s: damaged or unusual %s, decoded by a tolerant decoder; the strict one said: %s",
            str(source) or f"an image of {len(data)} bytes",
            header,
            "; ".join(reasons),
        )


def convert_range(image: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Copies `image` into `out`; values keep their share of the type's range (0 to 1 in floating point)."""
    if image.dtype.kind == "i" and out.dtype.kind == "u":
        raise BadImage(
            f"an image of signed numbers ({image.dtype}) has no values of {out.dtype}: give dtype=types.FLOAT or "
            "another signed type"
        )
    if image.dtype == out.dtype or image.dtype.kind == out.dtype.kind == "f":
        out[:] = image
        return out
    largest = 1.0 if image.dtype.kind == "f" else float(np.iinfo(image.dtype).max)
    if out.dtype.kind == "f":
        np.multiply(image, np.float32(1 / largest), out=out, casting="unsafe")
    else:
        limit = np.iinfo(out.dtype).max
        share = np.clip(np.nan_to_num(image.astype(np.float64)), 0, largest) if image.dtype.kind == "f" else image
        scaled = np.rint(share * (limit / largest))
        # The largest 32- and 64-bit integers are not floating-point numbers: values that round up to them are set
        # later.
        out[:] = np.where(scaled >= limit, 0, np.maximum(scaled, np.iinfo(out.dtype).min))
        out[scaled >= limit] = limit
    return out
