"""The header of JPEG XL: the size and the kind of pixels, from the first bits of the code stream."""

from struct import unpack_from

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Bits, Header

_BOXED = b"\0\0\0\x0cJXL \r\n\x87\n"
_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_HEAD = 1 << 12  # bytes that contain any header
_EXTRAS = {1: "depth", 2: "spot colour", 3: "selection", 4: "black", 5: "colour filter array", 6: "thermal"}
# The four forms of a number: (a constant, the number of bits whose value is added to it).
_SIZE = ((1, 9), (1, 13), (1, 18), (1, 30))
_ENUM = ((0, 0), (1, 0), (2, 4), (18, 6))


def starts(data: bytes) -> bool:
    """True if these first 12 bytes are those of a JPEG XL file."""
    return data[:2] == b"\xff\x0a" or data == _BOXED


def header(data: memoryview) -> Header:
    """The size, depth, channels and orientation."""
    bits = Bits(_stream(data))
    bits.take(16)
    height, width = _size(bits)
    if bits.take(1):  # all values are the defaults
        return Header("JPEG XL", height, width, 3, depth=8)
    orientation = 1
    if bits.take(1):
        orientation = 1 + bits.take(3)
        if bits.take(1):
            _size(bits)
        if bits.take(1):
            _preview(bits)
        if bits.take(1):
            _choice(bits, ((100, 0), (1000, 0), (1, 10), (1, 30)))
            _choice(bits, ((1, 0), (1001, 0), (1, 8), (1, 10)))
            _choice(bits, ((0, 0), (0, 3), (0, 16), (0, 32)))
            bits.take(1)
    depth, floating = _depth(bits)
    bits.take(1)
    alpha = False
    for _ in range(_choice(bits, ((0, 0), (1, 0), (2, 4), (1, 12)))):
        kind = _extra(bits)
        if kind or alpha:
            raise BadImage(f"a JPEG XL file with a channel of {_EXTRAS.get(kind, 'another kind')!r} is not decoded")
        alpha = True
    bits.take(1)
    gray = False
    if not bits.take(1):
        bits.take(1)
        gray = _choice(bits, _ENUM) == 1
    if depth > (32 if floating else 16):
        raise BadImage(
            f"a JPEG XL file of {depth} bits is not decoded; those of up to 16 are, and 16 and 32 with a point"
        )
    stored = (16 if depth <= 16 else 32) if floating else 8 if depth <= 8 else 16
    channels = (1 if gray else 3) + alpha
    return Header("JPEG XL", height, width, channels, stored, orientation, alpha, depth=0 if floating else depth)


def _stream(data: memoryview) -> memoryview:
    """The first bytes of the code stream, which may be in one box or several."""
    if data[:2] == b"\xff\x0a":
        return data[:_HEAD]
    place, found = 0, bytearray()
    for _ in range(MOST_PIECES):
        if place + 8 > len(data) or len(found) >= _HEAD:
            break
        (length,), kind, start = unpack_from(">I", data, place), bytes(data[place + 4 : place + 8]), place + 8
        if length == 1:
            (length,) = unpack_from(">Q", data, start)
            start += 8
        end = place + length if length else len(data)
        if end < start:
            raise BadImage(f"damaged JPEG XL file: a box {kind!r} of {length} bytes at byte {place}")
        if kind == b"jxlc":
            found += data[start : min(end, start + _HEAD)]
            break
        if kind == b"jxlp":
            found += data[start + 4 : min(end, start + _HEAD)]
        place = end
    if found[:2] != b"\xff\x0a":
        raise BadImage("damaged or truncated JPEG XL file: no code stream")
    return memoryview(bytes(found))


def _choice(bits: Bits, choices: tuple[tuple[int, int], ...]) -> int:
    constant, count = choices[bits.take(2)]
    return constant + bits.take(count)


def _size(bits: Bits) -> tuple[int, int]:
    small = bits.take(1)

    def extent() -> int:
        return 8 * (bits.take(5) + 1) if small else _choice(bits, _SIZE)

    height, ratio = extent(), bits.take(3)
    if not ratio:
        return height, extent()
    across, down = _RATIOS[ratio]
    return height, height * across // down


def _preview(bits: Bits) -> None:
    small = bits.take(1)
    choices = ((16, 0), (32, 0), (1, 5), (33, 9)) if small else ((1, 6), (65, 8), (321, 10), (1345, 12))
    _choice(bits, choices)
    if not bits.take(3):
        _choice(bits, choices)


def _depth(bits: Bits) -> tuple[int, bool]:
    """(bits, True for floating point)."""
    if bits.take(1):
        depth = _choice(bits, ((32, 0), (16, 0), (24, 0), (1, 6)))
        bits.take(4)
        return depth, True
    return _choice(bits, ((8, 0), (10, 0), (12, 0), (1, 6))), False


def _extra(bits: Bits) -> int:
    """The kind of a channel that is not a colour; 0 is alpha."""
    if bits.take(1):
        return 0
    kind = _choice(bits, _ENUM)
    _depth(bits)
    _choice(bits, ((0, 0), (3, 0), (4, 0), (1, 3)))
    bits.take(8 * _choice(bits, ((0, 0), (0, 4), (16, 5), (48, 10))))
    if kind == 0:
        bits.take(1)
    return kind
