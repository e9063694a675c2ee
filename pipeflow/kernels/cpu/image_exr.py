"""The header of OpenEXR: the window of the pixels, the channels and their type; and a check that all chunks exist."""

from struct import unpack_from
from typing import NamedTuple

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Header

MAGIC = b"v/1\x01"
_TILES, _DEEP, _SEVERAL = 0x200, 0x800, 0x1000
_TYPES = {0: 32, 1: 16, 2: 32}  # whole numbers, half and single precision
# Rows of a chunk by kind of compression: none, RLE, ZIPS, ZIP, PIZ, PXR24, B44, B44A, DWAA, DWAB.
_ROWS = (1, 1, 1, 16, 32, 16, 32, 32, 32, 256)


class ExrLayout(NamedTuple):
    """The contents of the header."""

    height: int
    width: int
    channels: tuple[str, ...]  # colours first, then alpha, then others by name
    kind: int


def header(data: memoryview) -> Header:
    """The size, channels and type."""
    layout = read(data)
    return Header(
        "EXR", layout.height, layout.width, len(layout.channels), _TYPES[layout.kind], alpha="A" in layout.channels
    )


def read(data: memoryview) -> ExrLayout:
    """The header, checked against the number of bytes."""
    (flags,) = unpack_from("<I", data, 4)
    if flags & (_DEEP | _SEVERAL):
        what = "deep pixels" if flags & _DEEP else "several parts"
        raise BadImage(f"an EXR file with {what} is not decoded")
    attributes, place = _attributes(data)
    for name in ("channels", "compression", "dataWindow"):
        if name not in attributes:
            raise BadImage(f"damaged EXR file: no attribute {name!r}")
    left, top, right, bottom = unpack_from("<4i", attributes["dataWindow"])
    width, height = right - left + 1, bottom - top + 1
    if width < 1 or height < 1:
        raise BadImage(f"damaged EXR file: a window of {width} x {height} pixels")
    channels, kind = _channels(attributes["channels"])
    compression = attributes["compression"][0]
    chunks = 1 if flags & _TILES or compression >= len(_ROWS) else -(-height // _ROWS[compression])
    if flags & _TILES and "tiles" in attributes:
        across, down = unpack_from("<2I", attributes["tiles"])
        chunks = -(-width // max(across, 1)) * -(-height // max(down, 1))
        if across * down > 4 * (width + 64) * (height + 64) + (1 << 20):
            raise BadImage(f"damaged EXR file: tiles of {across} x {down} in {width} x {height} pixels")
    if place + 16 * chunks > len(data):  # eight bytes for the place of a chunk, and eight before its data
        raise BadImage(f"truncated EXR file: {chunks} chunks in {len(data)} bytes")
    return ExrLayout(height, width, channels, kind)


def _attributes(data: memoryview) -> tuple[dict[str, memoryview], int]:
    place, found = 8, dict[str, memoryview]()
    for _ in range(MOST_PIECES):
        name, place = _text(data, place)
        if not name:
            return found, place
        _, place = _text(data, place)
        (length,) = unpack_from("<i", data, place)
        place += 4
        if length < 0 or place + length > len(data):
            raise BadImage(f"damaged or truncated EXR file: an attribute {name!r} of {length} bytes at byte {place}")
        found[name] = data[place : place + length]
        place += length
    raise BadImage(f"an EXR file of more than {MOST_PIECES} attributes")


def _text(data: memoryview, place: int) -> tuple[str, int]:
    end = bytes(data[place : place + 256]).find(b"\0")
    if end < 0:
        raise BadImage(f"damaged EXR file: a name without an end at byte {place}")
    return bytes(data[place : place + end]).decode("latin-1"), place + end + 1


def _channels(body: memoryview) -> tuple[tuple[str, ...], int]:
    place, names, kinds = 0, [], set()
    while body[place]:
        name, place = _text(body, place)
        kind, across, down = unpack_from("<i4x2i", body, place)
        place += 16
        if (across, down) != (1, 1):
            raise BadImage(f"an EXR file with a channel {name!r} of fewer pixels than the image is not decoded")
        names.append(name)
        kinds.add(kind)
    if not names:
        raise BadImage("an EXR file without channels")
    if len(kinds) > 1 or kinds - set(_TYPES):
        raise BadImage(f"an EXR file with channels of different types is not decoded: {', '.join(sorted(names))}")
    if len(names) != len(set(names)) or len(names) > 1024:
        raise BadImage("damaged EXR file: its channels have the same name, or there are more than 1024")
    colours = [name for name in ("RGB" if set("RGB") <= set(names) else "Y") if name in names]
    first = [*colours, *(["A"] if "A" in names else [])]
    return (*first, *sorted(set(names) - set(first))), kinds.pop()
