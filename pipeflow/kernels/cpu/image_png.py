"""PNG images: their chunks, a check that they are complete, and the part of a damaged file that can be read."""

import zlib
from collections.abc import Iterator
from struct import Struct, pack
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Header, exif_orientation, need

_BE32 = Struct(">I")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DEFLATE_EXPANSION = 1032
# Colour type -> samples of a pixel, and the bits that each may have.
_KINDS = {0: (1, (1, 2, 4, 8, 16)), 2: (3, (8, 16)), 3: (1, (1, 2, 4, 8)), 4: (2, (8, 16)), 6: (4, (8, 16))}
_ANIMATION = (b"acTL", b"fcTL", b"fdAT")
# Bytes that zlib gets at a time: if it reports an error, the output of the whole piece is lost.
_PIECE = 256
# First row, first column and steps of the passes of an interlaced image.
_PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def header(data: memoryview) -> Header:
    """The header, checked against the number of bytes. The file may be damaged after it."""
    if data[12:16] != b"IHDR":
        raise BadImage("damaged PNG file: it does not start with an IHDR chunk")
    width, height = _BE32.unpack_from(data, 16)[0], _BE32.unpack_from(data, 20)[0]
    bits, kind = data[24], data[25]
    samples, depths = _KINDS.get(kind, (0, ()))
    if bits not in depths:
        raise BadImage(f"damaged PNG file: colour type {kind} with {bits} bits")
    if width >> 31 or height >> 31:
        raise BadImage(f"damaged PNG file: {width} x {height} pixels")
    need("PNG", data, height * (1 + -(-width * samples * bits // 8)) // _DEFLATE_EXPANSION, width, height)
    alpha, orientation, colors, before = kind in (4, 6), 1, 0, True
    for name, start, length in _chunks(data):
        if name == b"PLTE":
            colors = length // 3
        elif name == b"IDAT":
            before = False
        elif name == b"tRNS" and before:  # decoders ignore this chunk if its place or its length is wrong
            alpha |= (kind == 2 and length == 6) or (kind == 3 and 0 < length <= colors)
        elif name == b"eXIf":
            orientation = exif_orientation(data[start : start + length])
    channels = {0: 1, 2: 3, 3: 3, 4: 1, 6: 3}[kind] + alpha
    return Header("PNG", height, width, channels, max(bits, 8), orientation, alpha)


def _chunks(data: memoryview) -> Iterator[tuple[bytes, int, int]]:
    """(name, place, length) of the chunks inside the file, up to IEND."""
    place = 8
    for _ in range(MOST_PIECES):
        if place + 12 > len(data):
            return
        length, name = _BE32.unpack_from(data, place)[0], bytes(data[place + 4 : place + 8])
        if place + 12 + length > len(data):
            return
        yield name, place + 8, length
        if name == b"IEND":
            return
        place += 12 + length
    raise BadImage(f"a PNG file of more than {MOST_PIECES} chunks")


def check(data: memoryview) -> None:
    """Raises an error for a file that is truncated or changed: every chunk must have the right checksum, and the last must be
    IEND.

    Decoders allocate the size that a chunk or a frame of an animation states, and return damaged pixels.
    """
    width, height = _BE32.unpack_from(data, 16)[0], _BE32.unpack_from(data, 20)[0]
    name, end = b"", 8
    for number, (name, start, length) in enumerate(_chunks(data)):
        end = start + length + 4
        if zlib.crc32(data[start - 4 : start + length]) != _BE32.unpack_from(data, start + length)[0]:
            raise BadImage(f"damaged PNG file: the checksum of its chunk {_shown(name)} at byte {start - 8} is wrong")
        if name == b"IHDR" and (number or length != 13):
            raise BadImage(
                "damaged PNG file: two headers" if number else f"damaged PNG file: a header of {length} bytes"
            )
        if name == b"fcTL" and length >= 12:
            wide, high = _BE32.unpack_from(data, start + 4)[0], _BE32.unpack_from(data, start + 8)[0]
            if wide > width or high > height:
                raise BadImage("damaged PNG file: a frame larger than the image")
    if name == b"IEND":
        return
    if end + 8 > len(data):
        raise BadImage(f"truncated PNG file: it ends at byte {len(data)} without an IEND chunk")
    length, name = _BE32.unpack_from(data, end)[0], bytes(data[end + 4 : end + 8])
    raise BadImage(f"truncated PNG file: a chunk {_shown(name)} states {length} bytes, {len(data) - end - 8} are left")


def still(data: np.ndarray) -> np.ndarray:
    """A complete file without its animation: the image that programs without animations show.

    OpenCV would return the first frame instead of the image, or black if there is no frame.
    """
    view = data.data
    chunks = [(name in _ANIMATION, data[start - 8 : start + length + 4]) for name, start, length in _chunks(view)]
    if not any(animated for animated, _ in chunks):
        return data
    return np.concatenate([data[:8], *(chunk for animated, chunk in chunks if not animated)])


def _shown(name: bytes) -> str:
    return name.decode() if name.isalpha() and name.isascii() else repr(name)


def repaired(data: memoryview) -> np.ndarray:
    """A complete file with the readable pixels of a damaged file; the other pixels are zero."""
    stated = header(data)
    settings: dict[bytes, bytes] = {}
    stream = zlib.decompressobj()
    size = sum((1 + row) * rows for rows, row in _rows(data, stated))
    pixels = bytearray()
    for name, part in _rough_chunks(data):
        if name == b"IDAT":
            if not _inflate(stream, part, pixels, size):
                break
        elif name in (b"PLTE", b"tRNS", b"gAMA", b"eXIf"):
            settings.setdefault(name, bytes(part))
    if not pixels:
        raise BadImage(f"damaged {stated}: nothing of its pixels can be read")
    pixels = pixels.ljust(size, b"\0")
    place = 0
    for rows, row in _rows(data, stated):
        for _ in range(rows):
            if pixels[place] > 4:  # a filter that does not exist: the bytes after it are damaged
                pixels[place:] = bytes(size - place)
            place += 1 + row
    chunks = [(b"IHDR", bytes(data[16:29])), *settings.items(), (b"IDAT", zlib.compress(pixels, 0)), (b"IEND", b"")]
    whole = [_SIGNATURE]
    for name, body in chunks:
        whole += [pack(">I", len(body)), name, body, pack(">I", zlib.crc32(name + body))]
    return np.frombuffer(b"".join(whole), np.uint8)


def _inflate(stream: Any, part: memoryview, pixels: bytearray, size: int) -> bool:
    """Adds the contents of a chunk to `pixels`, at most up to `size`; False if the stream is damaged."""
    for begin in range(0, len(part), _PIECE):
        if stream.eof or len(pixels) >= size:
            break
        try:
            pixels += stream.decompress(stream.unconsumed_tail + part[begin : begin + _PIECE], size - len(pixels))
        except zlib.error:
            return False
    return True


def _rows(data: memoryview, stated: Header) -> list[tuple[int, int]]:
    """(number of rows, bytes of a row without its filter) of every pass."""
    bits = data[24] * _KINDS[data[25]][0]
    if not data[28]:
        return [(stated.height, -(-stated.width * bits // 8))]
    sizes = [
        (-(-(stated.height - top) // down), -(-(stated.width - left) // across)) for top, left, down, across in _PASSES
    ]
    return [(rows, -(-columns * bits // 8)) for rows, columns in sizes if rows > 0 and columns > 0]


def _rough_chunks(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """(name, body) of everything that looks like a chunk; a truncated body ends with the file."""
    place = 8
    for _ in range(MOST_PIECES):
        if place + 8 > len(data):
            return
        length, name = _BE32.unpack_from(data, place)[0], bytes(data[place + 4 : place + 8])
        yield name, data[place + 8 : place + 8 + length]
        if name == b"IEND":
            return
        place += 12 + length
