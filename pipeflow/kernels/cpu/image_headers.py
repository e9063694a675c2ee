"""The size, type and orientation of an image file, read from its first bytes without a decoding library.

Every size is checked against the length of the data before memory is allocated for it. Formats: JPEG,
PNG, BMP, PNM, TIFF, WebP, JPEG 2000 (files and raw code streams), GIF, AVIF, HEIF, JPEG XL and EXR.
"""

import re
from collections.abc import Callable
from struct import Struct
from struct import error as StructError

import numpy as np

from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import image_boxes, image_exr, image_jp2, image_jxl, image_png
from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Header, exif_orientation, need

_BE16, _LE16 = Struct(">H"), Struct("<H")
_LE32 = Struct("<I")

# A Huffman-coded JPEG needs at least one bit for each block of 64 pixels.
JPEG_PIXELS_PER_BYTE = 64 * 8

# Progressive scans repeat the whole image; real files have about ten.
_MAX_JPEG_SCANS = 500
# The kinds of frame headers other than those of baseline, extended and progressive images.
_REFUSED_FRAMES = {3: "lossless", 5: "hierarchical", 6: "hierarchical", 7: "lossless hierarchical", 11: "lossless",
                   13: "hierarchical", 14: "hierarchical", 15: "lossless hierarchical"}  # fmt: skip
# Stray and fill bytes before a marker, which every decoder skips, and the marker, unless it has no segment.
_JPEG_MARKER = re.compile(rb"\xff+([^\xff\x00\x01\xd0-\xd8])")


def shape_of(header: Header, color: str, adjust_orientation: bool) -> tuple[int, int, int]:
    """The shape of the result of `decode` for this header."""
    height, width = header.oriented_size if adjust_orientation else (header.height, header.width)
    return height, width, {"GRAY": 1, "ANY_DATA": header.channels}.get(color, 3)


def read(data: bytes | memoryview) -> Header:
    """The header of an encoded image; BadImage if it is unknown or contradicts the length of the data."""
    if len(data) == 0:
        raise BadImage("the image file is empty")
    start = bytes(data[:12])
    parse = _parser(start)
    if parse is None:
        raise BadImage(
            "not a JPEG, PNG, BMP, PNM, TIFF, WebP, JPEG 2000, GIF, AVIF, HEIF, JPEG XL or EXR file: it starts with "
            f"{start!r}"
        )
    kind, function = parse
    try:
        header = function(memoryview(data).cast("B"))
    except (IndexError, StructError):
        raise BadImage(f"truncated {kind} file: {len(data)} bytes do not hold its header") from None
    if header.height < 1 or header.width < 1:
        raise BadImage(f"the {kind} header states an empty image of {header.width} x {header.height} pixels")
    return header


def _parser(start: bytes) -> tuple[str, Callable[[memoryview], Header]] | None:
    # Modules with compiled kernels are imported with the first such file.
    if start[:3] == b"\xff\xd8\xff":
        return "JPEG", _jpeg
    if start[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG", image_png.header
    if start[:2] == b"BM":
        return "BMP", kernels.image_bmp.header
    if start[:1] == b"P" and start[1:2] in b"123456" and (start[2:3].isspace() or start[2:3] == b"#"):
        return "PNM", kernels.image_pnm.header
    if start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "TIFF", kernels.image_tiff.header
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WebP", _webp
    if start == b"\0\0\0\x0cjP  \r\n\x87\n" or start[:4] == b"\xff\x4f\xff\x51":
        return "JPEG 2000", image_jp2.header
    if start[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF", kernels.image_gif.header
    if image_boxes.starts(start):
        return "AVIF or HEIF", image_boxes.header
    if image_jxl.starts(start):
        return "JPEG XL", image_jxl.header
    if start[:4] == image_exr.MAGIC:
        return "EXR", image_exr.header
    return None


def _jpeg(data: memoryview) -> Header:
    place, orientation, restarts = 2, 1, False
    for _ in range(MOST_PIECES):
        found = _JPEG_MARKER.search(data, place)
        if found is None:
            raise IndexError
        place, marker = found.end(), found[1][0]
        if marker in (0xD9, 0xDA):
            raise BadImage("damaged JPEG file: no frame header before the image data")
        length = _BE16.unpack_from(data, place)[0]
        if length < 2:
            raise BadImage(f"damaged JPEG file: a segment states a length of {length}")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            break
        restarts |= marker == 0xDD
        if marker == 0xE1 and data[place + 2 : place + 8] == b"Exif\0\0":
            orientation = exif_orientation(data[place + 8 : place + length])
        place += length
    else:
        raise BadImage(f"a JPEG file of more than {MOST_PIECES} segments")
    if marker - 0xC0 in _REFUSED_FRAMES:
        raise BadImage(
            f"a {_REFUSED_FRAMES[marker - 0xC0]} JPEG file is not decoded; baseline and progressive ones are"
        )
    bits = data[place + 2]
    height, width = _BE16.unpack_from(data, place + 3)[0], _BE16.unpack_from(data, place + 5)[0]
    channels = data[place + 7]
    if bits != 8:
        raise BadImage(f"a JPEG file of {bits} bits is not decoded; those of 8 bits are")
    if channels not in (1, 3, 4):
        raise BadImage(f"damaged JPEG file: {channels} colour components")
    if marker < 0xC8:  # Huffman coding; for arithmetic coding there is no such bound
        need("JPEG", data, height * width // JPEG_PIXELS_PER_BYTE, width, height)
    if marker in (0xC2, 0xCA):
        scans = bytes(data).count(b"\xff\xda")
        if scans > _MAX_JPEG_SCANS:
            raise BadImage(f"a progressive JPEG file with {scans} scans: refused, it would take very long")
    # Sequential Huffman coding without restart markers, and no segment before the scan could define them.
    plain = marker in (0xC0, 0xC1) and not restarts and bytes(data[place : place + 4096]).find(b"\xff\xdd") < 0
    return Header(
        "JPEG",
        height,
        width,
        channels,
        bits,
        orientation,
        height_at=place + 3 if plain else 0,
        progressive=marker == 0xC2,
    )


def _webp(data: memoryview) -> Header:
    announced = _LE32.unpack_from(data, 4)[0] + 8
    if len(data) < announced - 1:  # the last padding byte may be missing
        raise BadImage(f"truncated WebP file: {announced} bytes are announced, the file has {len(data)}")
    kind, body = bytes(data[12:16]), data[20:]
    if kind == b"VP8 ":
        if body[3:6] != b"\x9d\x01\x2a":
            raise BadImage("damaged WebP file: no VP8 start code")
        return Header("WebP", _LE16.unpack_from(body, 8)[0] & 0x3FFF, _LE16.unpack_from(body, 6)[0] & 0x3FFF, 3)
    if kind == b"VP8L":
        if body[0] != 0x2F:
            raise BadImage("damaged WebP file: no VP8L signature")
        word = _LE32.unpack_from(body, 1)[0]
        alpha = bool(word >> 28 & 1)
        return Header("WebP", (word >> 14 & 0x3FFF) + 1, (word & 0x3FFF) + 1, 3 + alpha, alpha=alpha)
    if kind != b"VP8X":
        raise BadImage(f"damaged WebP file: it starts with a chunk {kind!r}")
    alpha = bool(body[0] & 0x10)
    width = (_LE32.unpack_from(body, 4)[0] & 0xFFFFFF) + 1
    height = (_LE32.unpack_from(body, 6)[0] >> 8) + 1
    orientation, place = 1, 12
    for _ in range(MOST_PIECES):
        if place + 8 > len(data):
            break
        length = _LE32.unpack_from(data, place + 4)[0]
        if data[place : place + 4] == b"EXIF":
            exif = data[place + 8 : place + 8 + length]
            orientation = exif_orientation(exif[6:] if exif[:6] == b"Exif\0\0" else exif)
        place += 8 + length + (length & 1)
    return Header("WebP", height, width, 3 + alpha, 8, orientation, alpha)


def oriented(image: np.ndarray, orientation: int) -> np.ndarray:
    """A view with the EXIF orientation (1 to 8) applied."""
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return image
