"""JPEG 2000: boxes, the size and depth of the components, and a check that all parts of all tiles exist."""

from struct import Struct, unpack_from

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Header, need

_BE16, _BE32 = Struct(">H"), Struct(">I")
_START, _TILE_PART, _END = b"\xff\x4f\xff\x51", 0xFF90, b"\xff\xd9"


def header(data: memoryview) -> Header:
    """The header, checked against the number of bytes."""
    stream = data[_stream(data) :]
    if stream[:4] != _START:
        raise BadImage("damaged JPEG 2000 file: the code stream does not start with its size")
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top = unpack_from(">8I", stream, 8)
    (channels,) = _BE16.unpack_from(stream, 40)
    if not (left < right and top < bottom and tile_width and tile_height and tile_left <= left and tile_top <= top):
        raise BadImage("damaged JPEG 2000 file: impossible sizes in its header")
    if not 1 <= channels <= 4:
        raise BadImage(f"a JPEG 2000 file of {channels} components is not decoded")
    depth = stream[42] + 1
    for component in range(channels):
        bits, across, down = stream[42 + 3 * component : 45 + 3 * component]
        if bits + 1 != depth or across != 1 or down != 1:
            raise BadImage("a JPEG 2000 file of components that differ in depth or size is not decoded")
    if not 8 <= depth <= 16:
        kind = "signed numbers" if depth > 128 else f"{depth} bits"
        raise BadImage(f"a JPEG 2000 file of {kind} is not decoded")
    tiles = -(-(right - tile_left) // tile_width) * -(-(bottom - tile_top) // tile_height)
    # Each tile has a part header of 12 bytes and a start-of-data marker.
    need("JPEG 2000", data, tiles * 14, right - left, bottom - top)
    bits = 8 if depth <= 8 else 16
    return Header("JPEG 2000", bottom - top, right - left, channels, bits, alpha=channels in (2, 4), depth=depth)


def _stream(data: memoryview) -> int:
    """The place where the code stream begins: at the start of the file, or in a box."""
    if data[:4] == _START:
        return 0
    place = 0
    for _ in range(MOST_PIECES):
        (length,), kind = _BE32.unpack_from(data, place), bytes(data[place + 4 : place + 8])
        start = place + 8
        if length == 1:  # a length of 64 bits
            (length,) = unpack_from(">Q", data, start)
            start += 8
        if kind == b"jp2c":
            return start
        if kind == b"jp2h" and b"pclr" in bytes(data[start : place + min(length, 1 << 20)]):
            raise BadImage("a JPEG 2000 file with a palette is not decoded")
        if length < 8 or place + length > len(data):
            raise BadImage(f"damaged JPEG 2000 file: a box {kind!r} of {length} bytes at byte {place} of {len(data)}")
        place += length
    raise BadImage(f"a JPEG 2000 file of more than {MOST_PIECES} boxes")


def check(data: memoryview) -> None:
    """Raises an error for a file that lacks parts of its tiles, or the mark of the end."""
    stream = data[_stream(data) :]
    right, bottom, _, _, tile_width, tile_height, tile_left, tile_top = unpack_from(">8I", stream, 8)
    tiles = -(-(right - tile_left) // tile_width) * -(-(bottom - tile_top) // tile_height)
    place = 2
    while (marker := _BE16.unpack_from(stream, place)[0]) != _TILE_PART:
        length = _BE16.unpack_from(stream, place + 2)[0]
        if marker < 0xFF00 or length < 2:
            raise BadImage(f"damaged JPEG 2000 file: no marker at byte {place} of its code stream")
        place += 2 + length
    seen, parts = set(), 0
    while stream[place : place + 2] != _END:
        if place + 12 > len(stream) or _BE16.unpack_from(stream, place)[0] != _TILE_PART:
            raise BadImage(f"truncated or damaged JPEG 2000 file: its tiles end at byte {place} of its code stream")
        number, length = unpack_from(">HI", stream, place + 4)
        seen.add(number)
        parts += 1
        if parts > MOST_PIECES:
            raise BadImage(f"a JPEG 2000 file of more than {MOST_PIECES} parts")
        if length == 0:  # the last part: up to the end of the file
            if stream[-2:] != _END:
                raise BadImage("truncated JPEG 2000 file: it does not end with the mark of its end")
            break
        if length < 14 or place + length > len(stream):
            raise BadImage(
                f"truncated JPEG 2000 file: a part of {length} bytes at byte {place}, the code stream has {len(stream)}"
            )
        place += length
    if len(seen) < tiles or max(seen) >= tiles:
        raise BadImage(f"truncated or damaged JPEG 2000 file: {len(seen)} of {tiles} tiles are there")
