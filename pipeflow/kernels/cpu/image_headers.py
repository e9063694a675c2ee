"""What an image file says of itself, read from its first bytes without a decoding library.

Every size is checked against the length of the data before anybody allocates memory for it. Formats: JPEG,
PNG, BMP, PNM, TIFF, WebP, JPEG 2000 (files and raw code streams), GIF.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

import numpy as np

_BE16, _LE16 = Struct(">H"), Struct("<H")
_BE32, _LE32 = Struct(">I"), Struct("<I")

# How many pixels a byte of data can stand for at most. Deflate expands 1032 times at best. A Huffman-coded
# JPEG needs at least one bit for each block of 64 pixels. LZW with 12-bit codes: under 4096 pixels for 12 bits.
_DEFLATE_EXPANSION = 1032
_JPEG_PIXELS_PER_BYTE = 64 * 8
_LZW_EXPANSION = 4096 * 8 // 12

# Progressive scans repeat the whole image; real files have about ten.
_MAX_JPEG_SCANS = 500


class BadImage(ValueError, RuntimeError):
    """An image file is damaged, of an unknown format, or larger than allowed."""


@dataclass(frozen=True)
class Header:
    """Size and kind of an image as its header states them; `channels` counts colours and alpha."""

    format: str
    height: int
    width: int
    channels: int
    bits: int = 8
    orientation: int = 1
    alpha: bool = False
    height_at: int = field(default=0, compare=False)  # of a plain sequential JPEG file: where its height is stated

    @property
    def oriented_size(self) -> tuple[int, int]:
        """(height, width) after the EXIF orientation has been applied."""
        return (self.width, self.height) if self.orientation >= 5 else (self.height, self.width)

    def __str__(self) -> str:
        return f"{self.format} of {self.width} x {self.height} pixels"


def shape_of(header: Header, color: str, adjust_orientation: bool) -> tuple[int, int, int]:
    """The shape `decode` gives for this header."""
    height, width = header.oriented_size if adjust_orientation else (header.height, header.width)
    return height, width, {"GRAY": 1, "ANY_DATA": header.channels}.get(color, 3)


def read(data: bytes | memoryview) -> Header:
    """The header of an encoded image; BadImage if it is unknown or contradicts the length of the data."""
    if len(data) == 0:
        raise BadImage("the image file is empty")
    start = bytes(data[:12])
    parse = _parser(start)
    if parse is None:
        raise BadImage(f"not a JPEG, PNG, BMP, PNM, TIFF, WebP, JPEG 2000 or GIF file: it starts with {start!r}")
    kind, function = parse
    try:
        header = function(memoryview(data).cast("B"))
    except (IndexError, StructError):
        raise BadImage(f"truncated {kind} file: {len(data)} bytes do not hold its header") from None
    if header.height < 1 or header.width < 1:
        raise BadImage(f"the {kind} header states an empty image of {header.width} x {header.height} pixels")
    return header


def _parser(start: bytes) -> tuple[str, Callable[[memoryview], Header]] | None:
    if start[:3] == b"\xff\xd8\xff":
        return "JPEG", _jpeg
    if start[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG", _png
    if start[:2] == b"BM":
        return "BMP", _bmp
    if start[:1] == b"P" and start[1:2] in b"123456" and start[2:3].isspace():
        return "PNM", _pnm
    if start[:4] in (b"II*\0", b"MM\0*"):
        return "TIFF", _tiff
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WebP", _webp
    if start == b"\0\0\0\x0cjP  \r\n\x87\n":
        return "JPEG 2000", _jp2
    if start[:4] == b"\xff\x4f\xff\x51":
        return "JPEG 2000", _j2k
    if start[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF", _gif
    return None


def _need(kind: str, data: memoryview, needed: int, width: int, height: int) -> None:
    if len(data) < needed:
        raise BadImage(
            f"truncated {kind} file: {width} x {height} pixels need at least {needed} bytes, there are {len(data)}"
        )


def _orientation(exif: memoryview) -> int:
    """The EXIF orientation of a TIFF structure, 1 where there is none or where it is damaged."""
    try:
        if exif[:4] == b"II*\0":
            u16, u32 = _LE16.unpack_from, _LE32.unpack_from
        elif exif[:4] == b"MM\0*":
            u16, u32 = _BE16.unpack_from, _BE32.unpack_from
        else:
            return 1
        place = u32(exif, 4)[0]
        for entry in range(place + 2, place + 2 + 12 * u16(exif, place)[0], 12):
            if u16(exif, entry)[0] == 0x0112:
                value = u16(exif, entry + 8)[0]
                return value if 1 <= value <= 8 else 1
    except StructError:
        pass
    return 1


def _jpeg(data: memoryview) -> Header:
    place, orientation, restarts = 2, 1, False
    while True:
        while data[place] != 0xFF:  # stray bytes between segments, which every decoder skips
            place += 1
        while data[place] == 0xFF:
            place += 1
        marker = data[place]
        place += 1
        if marker in (0x00, 0x01) or 0xD0 <= marker <= 0xD8:
            continue
        if marker in (0xD9, 0xDA):
            raise BadImage("damaged JPEG file: no frame header before the image data")
        length = _BE16.unpack_from(data, place)[0]
        if length < 2:
            raise BadImage(f"damaged JPEG file: a segment states a length of {length}")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            break
        restarts |= marker == 0xDD
        if marker == 0xE1 and data[place + 2 : place + 8] == b"Exif\0\0":
            orientation = _orientation(data[place + 8 : place + length])
        place += length
    bits = data[place + 2]
    height, width = _BE16.unpack_from(data, place + 3)[0], _BE16.unpack_from(data, place + 5)[0]
    channels = data[place + 7]
    if channels not in (1, 3, 4):
        raise BadImage(f"damaged JPEG file: {channels} colour components")
    if marker < 0xC8:  # Huffman coding; arithmetic coding has no such bound
        _need("JPEG", data, height * width // _JPEG_PIXELS_PER_BYTE, width, height)
    if marker in (0xC2, 0xC6, 0xCA, 0xCE):
        scans = bytes(data).count(b"\xff\xda")
        if scans > _MAX_JPEG_SCANS:
            raise BadImage(f"a progressive JPEG file with {scans} scans: refused, it would take very long")
    # Sequential Huffman coding without restart markers, and no segment before the scan that could bring them.
    plain = marker in (0xC0, 0xC1) and not restarts and bytes(data[place : place + 4096]).find(b"\xff\xdd") < 0
    return Header("JPEG", height, width, channels, bits, orientation, height_at=place + 3 if plain else 0)


def _png(data: memoryview) -> Header:
    if data[12:16] != b"IHDR":
        raise BadImage("damaged PNG file: it does not start with an IHDR chunk")
    width, height = _BE32.unpack_from(data, 16)[0], _BE32.unpack_from(data, 20)[0]
    bits, kind = data[24], data[25]
    stored = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(kind)
    if stored is None or bits not in (1, 2, 4, 8, 16):
        raise BadImage(f"damaged PNG file: colour type {kind} with {bits} bits")
    row = 1 + -(-width * stored * bits // 8)
    _need("PNG", data, height * row // _DEFLATE_EXPANSION, width, height)
    alpha, orientation = kind in (4, 6), 1
    place = 33
    # Decoders allocate what a chunk's length states, and what a frame of an animation states.
    while place < len(data):
        length, name = _BE32.unpack_from(data, place)[0], bytes(data[place + 4 : place + 8])
        if place + 12 + length > len(data):
            raise BadImage(f"truncated PNG file: a chunk {name!r} states {length} bytes, {len(data) - place} are left")
        if name == b"tRNS" and kind in (2, 3):
            alpha = True
        elif name == b"eXIf":
            orientation = _orientation(data[place + 8 : place + 8 + length])
        elif name == b"IHDR":
            raise BadImage("damaged PNG file: two headers")
        elif name == b"fcTL" and (
            _BE32.unpack_from(data, place + 12)[0] > width or _BE32.unpack_from(data, place + 16)[0] > height
        ):
            raise BadImage("damaged PNG file: a frame larger than the image")
        elif name == b"IEND":
            break
        place += 12 + length
    channels = {0: 1, 2: 3, 3: 3, 4: 1, 6: 3}[kind] + alpha
    return Header("PNG", height, width, channels, max(bits, 8), orientation, alpha)


def _bmp(data: memoryview) -> Header:
    start, size = _LE32.unpack_from(data, 10)[0], _LE32.unpack_from(data, 14)[0]
    if size == 12:
        width, height, bits, compression = *(_LE16.unpack_from(data, at)[0] for at in (18, 20, 24)), 0
    else:
        width, height = Struct("<ii").unpack_from(data, 18)
        bits, compression = _LE16.unpack_from(data, 28)[0], _LE32.unpack_from(data, 30)[0]
    height = abs(height)  # negative: stored from the top
    if bits not in (1, 2, 4, 8, 16, 24, 32) or width < 0:
        raise BadImage(f"damaged BMP file: {width} x {height} pixels of {bits} bits")
    if compression in (0, 3, 6):
        _need("BMP", data, start + (-(-width * bits // 32) * 4) * height, width, height)
    else:  # run lengths: two bytes stand for at most 255 pixels, an escape of four for a jump of 255 x 255
        _need("BMP", data, height * width // (255 * 255), width, height)
    channels = 4 if bits == 32 else 3
    if bits <= 8:
        step = 3 if size == 12 else 4
        palette = bytes(data[14 + size : min(start, 14 + size + step * (1 << bits))])
        if palette[0::step] == palette[1::step] == palette[2::step]:
            channels = 1
    return Header("BMP", height, width, channels, alpha=bits == 32)


def _pnm(data: memoryview) -> Header:
    kind = data[1] - ord("0")
    numbers, place = [], 2
    for _ in range(2 if kind in (1, 4) else 3):
        place = _skip_space(data, place)
        start = place
        while 48 <= data[place] <= 57:
            place += 1
        if not 0 < place - start <= 9:
            raise BadImage("damaged PNM file: a number of the header is missing or too long")
        numbers.append(int(bytes(data[start:place])))
    width, height = numbers[:2]
    largest = numbers[2] if len(numbers) == 3 else 1
    if not 0 < largest < 65536:
        raise BadImage(f"damaged PNM file: largest value {largest}")
    channels = 3 if kind in (3, 6) else 1
    bits = 16 if largest > 255 else 8
    if kind <= 3:  # text: at least one digit for each number
        needed = place + height * width * channels
    else:
        needed = place + 1 + height * (-(-width // 8) if kind == 4 else width * channels * bits // 8)
    _need("PNM", data, needed, width, height)
    return Header("PNM", height, width, channels, bits)


def _skip_space(data: memoryview, place: int) -> int:
    while data[place] in b" \t\r\n\v\f#":
        if data[place] == 35:
            while data[place] not in b"\r\n":
                place += 1
        else:
            place += 1
    return place


_TIFF_SIZES = {1: 1, 3: 2, 4: 4}  # BYTE, SHORT, LONG


def _tiff(data: memoryview) -> Header:
    little = data[0] == ord("I")
    u16 = (_LE16 if little else _BE16).unpack_from
    u32 = (_LE32 if little else _BE32).unpack_from
    place = u32(data, 4)[0]
    tags = {}
    for entry in range(place + 2, place + 2 + 12 * u16(data, place)[0], 12):
        tag, kind = u16(data, entry)[0], u16(data, entry + 2)[0]
        size = _TIFF_SIZES.get(kind)
        if size is None:
            continue
        count = u32(data, entry + 4)[0]
        at = entry + 8 if count * size <= 4 else u32(data, entry + 8)[0]
        tags[tag] = data[at] if size == 1 else u16(data, at)[0] if size == 2 else u32(data, at)[0]
    if 256 not in tags or 257 not in tags:
        raise BadImage("damaged TIFF file: no width or height")
    width, height = tags[256], tags[257]
    bits, samples = tags.get(258, 1), tags.get(277, 1)
    compression, photometric = tags.get(259, 1), tags.get(262, 1)
    if bits not in (1, 2, 4, 8, 10, 12, 14, 16, 24, 32, 64) or not 1 <= samples <= 16:
        raise BadImage(f"damaged TIFF file: {samples} samples of {bits} bits")
    size = height * -(-width * samples * bits // 8)
    if compression == 1:
        _need("TIFF", data, size, width, height)
    elif bits > 1:  # fax compressions of 1-bit images have no useful bound
        _need("TIFF", data, size // (_LZW_EXPANSION if compression == 5 else _DEFLATE_EXPANSION), width, height)
    orientation = tags.get(274, 1)
    return Header(
        "TIFF",
        height,
        width,
        3 if photometric == 3 else samples,
        max(bits, 8),
        orientation if 1 <= orientation <= 8 else 1,
        photometric != 5 and samples in (2, 4),
    )


def _webp(data: memoryview) -> Header:
    _need("WebP", data, _LE32.unpack_from(data, 4)[0] + 8 - 1, 0, 0)  # the last padding byte may be missing
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
    while place + 8 <= len(data):
        length = _LE32.unpack_from(data, place + 4)[0]
        if data[place : place + 4] == b"EXIF":
            exif = data[place + 8 : place + 8 + length]
            orientation = _orientation(exif[6:] if exif[:6] == b"Exif\0\0" else exif)
        place += 8 + length + (length & 1)
    return Header("WebP", height, width, 3 + alpha, 8, orientation, alpha)


def _jp2(data: memoryview) -> Header:
    place = 0
    while True:
        length, kind = _BE32.unpack_from(data, place)[0], bytes(data[place + 4 : place + 8])
        start = place + 8
        if length == 1:  # a 64-bit length
            length = Struct(">Q").unpack_from(data, start)[0]
            start += 8
        if kind == b"jp2c":
            return _j2k(data[start:])
        if length < 8:
            raise BadImage("damaged JPEG 2000 file: no code stream")
        place += length


def _j2k(data: memoryview) -> Header:
    if data[:4] != b"\xff\x4f\xff\x51":
        raise BadImage("damaged JPEG 2000 file: the code stream does not start with its size")
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top = Struct(">8I").unpack_from(data, 8)
    channels, bits = _BE16.unpack_from(data, 40)[0], (data[42] & 0x7F) + 1
    if not (left < right and top < bottom and tile_width and tile_height and 1 <= channels <= 16 and bits <= 38):
        raise BadImage("damaged JPEG 2000 file: impossible sizes in its header")
    tiles = -(-(right - tile_left) // tile_width) * -(-(bottom - tile_top) // tile_height)
    # Each tile has a part header of 12 bytes and a start-of-data marker.
    _need("JPEG 2000", data, tiles * 14, right - left, bottom - top)
    return Header("JPEG 2000", bottom - top, right - left, channels, max(bits, 8), alpha=channels in (2, 4))


def _gif(data: memoryview) -> Header:
    width, height = _LE16.unpack_from(data, 6)[0], _LE16.unpack_from(data, 8)[0]
    return Header("GIF", height, width, 3)


def oriented(image: np.ndarray, orientation: int) -> np.ndarray:
    """A view with the EXIF orientation (1 to 8) applied."""
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return image
