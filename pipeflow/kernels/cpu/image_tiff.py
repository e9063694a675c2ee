"""TIFF images: strips and tiles, planes, any depth, plain, LZW, deflate and PackBits.

The general libraries support only some of these forms, and return wrong pixels for others: planes of 16 bits are uninitialised
memory, signed numbers are wrong, damaged LZW data become pictures. They read all other files (`ours` is False for these): the
compressions that are not implemented here, fax, JPEG and newer ones.
"""

import zlib
from dataclasses import dataclass, field
from struct import unpack_from

import numpy as np

from pipeflow.kernels.cpu.image_base import BadImage, Header, need
from pipeflow.kernels.cpu.image_bits import filled, unpacked
from pipeflow.kernels.cpu.jit import kernel, plain

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 256, 257, 258, 259, 262, 266
_STRIPS, _ORIENTATION, _SAMPLES, _ROWS_PER_STRIP, _STRIP_SIZES, _PLANAR = 273, 274, 277, 278, 279, 284
_PREDICTOR, _PALETTE, _TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_SIZES = 317, 320, 322, 323, 324, 325
_INKS, _EXTRA, _FORMAT = 332, 338, 339
_TAGS = frozenset(
    (_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _STRIPS, _ORIENTATION, _SAMPLES, _ROWS_PER_STRIP,
     _STRIP_SIZES, _PLANAR, _PREDICTOR, _PALETTE, _TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_SIZES, _INKS, _EXTRA, _FORMAT)
)  # fmt: skip
_TYPES = {1: "u1", 3: "u2", 4: "u4", 16: "u8"}  # BYTE, SHORT, LONG, LONG8

_NONE, _LZW, _DEFLATE, _OLD_DEFLATE, _PACKBITS = 1, 5, 8, 32946, 32773
_PREDICTED = (_LZW, _DEFLATE, _OLD_DEFLATE)  # in other files the predictor tag has no meaning, and libtiff ignores it
_FAX = (2, 3, 4)
_NAMES = {2: "fax", 3: "fax", 4: "fax", 6: "old JPEG", 7: "JPEG", 34925: "LZMA", 50000: "Zstandard", 50001: "WebP"}
# The largest number of bytes that a byte of compressed data can stand for. LZW with 12-bit codes: under 4096 for 12
# bits.
_EXPANSION = {_NONE: 1, _LZW: 4096 * 8 // 12, _DEFLATE: 1032, _OLD_DEFLATE: 1032, _PACKBITS: 64, 6: 512 * 3, 7: 512 * 3}
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _INDEXED, _CMYK, _YCBCR = 0, 1, 2, 3, 5, 6
_COLORS = {_WHITE_IS_ZERO: 1, _BLACK_IS_ZERO: 1, _RGB: 3, _INDEXED: 1, _CMYK: 4, _YCBCR: 3}
_UNSIGNED, _SIGNED, _FLOAT, _UNTYPED = 1, 2, 3, 4
_KINDS = {_UNSIGNED: "u", _SIGNED: "i", _FLOAT: "f"}
_LARGEST_TILE = 4096  # pixels of a side, if the image is smaller than the tile


@dataclass(frozen=True)
class TiffLayout:
    """The first directory of a file, checked against its bytes."""

    little: bool
    height: int
    width: int
    samples: int
    bits: int
    format: int
    compression: int
    photometric: int
    planar: bool
    predictor: int
    reversed: bool  # True if the lowest bit of a byte comes first
    orientation: int
    extra: int  # samples that are not colours
    block: tuple[int, int]  # height and width of a strip or tile
    offsets: np.ndarray = field(repr=False)
    sizes: np.ndarray = field(repr=False)
    palette: np.ndarray | None = field(repr=False)

    @property
    def ours(self) -> bool:
        """True if `decode` reads this file; a general library may support other files."""
        return self.compression in (_NONE, _LZW, _DEFLATE, _OLD_DEFLATE, _PACKBITS) and self.photometric != _YCBCR

    @property
    def cmyk(self) -> bool:
        """True if the colours are those of ink."""
        return self.photometric == _CMYK

    @property
    def blocks(self) -> tuple[int, int, int]:
        """The number of strips or tiles: planes, down, across."""
        planes = self.samples if self.planar else 1
        return planes, -(-self.height // self.block[0]), -(-self.width // self.block[1])


def header(data: memoryview) -> Header:
    """The header, checked against the number of bytes."""
    layout = read(data)
    channels = 3 if layout.palette is not None else layout.samples
    bits = 8 if layout.bits <= 8 else 16 if layout.bits <= 16 else layout.bits
    alpha = layout.extra == 1
    return Header("TIFF", layout.height, layout.width, channels, bits, layout.orientation, alpha)


def read(data: memoryview) -> TiffLayout:
    """The first directory."""
    tags, little = _directory(data)
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise BadImage("damaged TIFF file: no width or height")

    def one(tag: int, default: int) -> int:
        return int(tags[tag][0]) if len(tags.get(tag, ())) else default

    width, height, samples = one(_WIDTH, 0), one(_HEIGHT, 0), one(_SAMPLES, 1)
    depths, formats = set(tags.get(_BITS, [1])[:samples]), set(tags.get(_FORMAT, [1])[:samples])
    if len(depths) != 1 or len(formats) != 1 or not 1 <= samples <= 16:
        raise BadImage(f"a TIFF file with {samples} samples of {sorted(map(int, depths))} bits is not decoded")
    bits, kind = int(depths.pop()), int(formats.pop())
    kind = _UNSIGNED if kind == _UNTYPED else kind
    wide = {_UNSIGNED: (*range(1, 17), 32, 64), _SIGNED: (8, 16, 32, 64), _FLOAT: (16, 32, 64)}
    if bits not in wide.get(kind, ()):
        raise BadImage(f"damaged TIFF file: {samples} samples of {bits} bits in format {kind}")
    if width < 1 or height < 1:
        raise BadImage(f"the TIFF header states an empty image of {width} x {height} pixels")
    compression, photometric = one(_COMPRESSION, 1), one(_PHOTOMETRIC, 1)
    colors = _COLORS.get(photometric)
    if colors is None or samples < colors or (photometric == _CMYK and one(_INKS, 1) != 1):
        raise BadImage(f"a TIFF file with {samples} samples and photometric {photometric} is not decoded")
    if compression not in _EXPANSION and compression not in _NAMES:
        raise BadImage(f"a TIFF file with compression {compression} is not decoded")
    tiled = _TILE_WIDTH in tags
    block = (one(_TILE_HEIGHT, 0), one(_TILE_WIDTH, 0)) if tiled else (min(one(_ROWS_PER_STRIP, height), height), width)
    if min(block) < 1 or any(side > max(whole, _LARGEST_TILE) for side, whole in zip(block, (height, width))):
        raise BadImage(f"damaged TIFF file: parts of {block[1]} x {block[0]} pixels")
    predictor = one(_PREDICTOR, 1) if compression in _PREDICTED else 1
    layout = TiffLayout(
        little, height, width, samples, bits, kind, compression, photometric,
        one(_PLANAR, 1) == 2 and samples > 1, predictor, one(_FILL_ORDER, 1) == 2, _turn(one(_ORIENTATION, 1)),
        samples - colors, block, tags.get(_TILES if tiled else _STRIPS, _NOTHING),
        tags.get(_TILE_SIZES if tiled else _STRIP_SIZES, _NOTHING), _colors(tags, photometric, bits, samples, kind),
    )  # fmt: skip
    return _placed(data, layout)


_NOTHING = np.empty(0, np.int64)


def _turn(orientation: int) -> int:
    return orientation if 1 <= orientation <= 8 else 1


def _directory(data: memoryview) -> tuple[dict[int, np.ndarray], bool]:
    """The values of the used tags, as whole numbers, and True if the lowest byte comes first."""
    little = data[0] == ord("I")
    order = "<" if little else ">"
    big = unpack_from(f"{order}H", data, 2)[0] == 43
    if big:
        (place,) = unpack_from(f"{order}Q", data, 8)
        (count,), place, step = unpack_from(f"{order}Q", data, _inside(place, data)), place + 8, 20
    else:
        (place,) = unpack_from(f"{order}I", data, 4)
        (count,), place, step = unpack_from(f"{order}H", data, _inside(place, data)), place + 2, 12
    if place + count * step > len(data):
        raise BadImage("truncated TIFF file: it ends inside its directory")
    tags: dict[int, np.ndarray] = {}
    for entry in range(place, place + min(count, 65535) * step, step):
        tag, kind = unpack_from(f"{order}HH", data, entry)
        code = _TYPES.get(kind)
        if tag not in _TAGS or tag in tags or code is None:
            continue
        number, at = unpack_from(order + ("Q" if big else "I"), data, entry + 4)[0], entry + (12 if big else 8)
        if number * int(code[1]) > step - (12 if big else 8):
            (at,) = unpack_from(order + ("Q" if big else "I"), data, at)
        if at + number * int(code[1]) > len(data):
            raise BadImage(f"truncated TIFF file: the values of tag {tag} are after its end")
        values = np.frombuffer(data, order + code, number, at)
        if code == "u8" and len(values) and values.max() >> 62:
            raise BadImage(f"damaged TIFF file: tag {tag} has a value of {values.max()}")
        tags[tag] = values.astype(np.int64)
    return tags, little


def _inside(place: int, data: memoryview) -> int:
    if place >= len(data):
        raise BadImage(f"truncated TIFF file: its directory is at byte {place} of {len(data)}")
    return place


def _colors(tags: dict[int, np.ndarray], photometric: int, bits: int, samples: int, kind: int) -> np.ndarray | None:
    if photometric != _INDEXED:
        return None
    values = tags.get(_PALETTE, _NOTHING)
    if bits > 16 or kind != _UNSIGNED or samples != 1 or len(values) != 3 << bits:
        raise BadImage(f"damaged TIFF file: a palette of {len(values)} numbers for {samples} samples of {bits} bits")
    table = values.reshape(3, -1).T
    # Numbers of 16 bits; some programs store numbers of 8 bits there without scaling.
    return (table >> 8 if table.max() > 255 else table).astype(np.uint8)


def _placed(data: memoryview, layout: TiffLayout) -> TiffLayout:
    """The layout with the place of every strip or tile; all must be inside the file."""
    planes, down, across = layout.blocks
    count = planes * down * across
    # The parts of one plane: across is 1 for strips; the last strip may be shorter.
    bits = -(-layout.block[1] * (1 if layout.planar else layout.samples) * layout.bits // 8)
    rows = layout.block[0] * down if layout.block[1] != layout.width or across > 1 else layout.height
    size = planes * rows * across * bits
    expansion = _EXPANSION.get(layout.compression)
    if layout.compression in _FAX:
        need("TIFF", data, layout.height // 8, layout.width, layout.height)  # a row takes at least a bit
    elif expansion is not None:
        need("TIFF", data, size // expansion, layout.width, layout.height)
    offsets, sizes = layout.offsets[:count], layout.sizes[:count]
    if len(sizes) < count and count == 1 and len(offsets) == 1:
        sizes = np.array([len(data) - offsets[0]])  # the only strip goes to the end of the file
    if len(offsets) < count or len(sizes) < count:
        raise BadImage(f"damaged TIFF file: {len(offsets)} places and {len(sizes)} sizes of {count} parts")
    ends = offsets + sizes
    if (offsets < 0).any() or (sizes < 0).any() or (ends > len(data)).any():
        raise BadImage(f"truncated TIFF file: its data go to byte {ends.max()}, there are {len(data)}")
    return TiffLayout(**{**vars(layout), "offsets": offsets, "sizes": sizes})


def decode(data: np.ndarray) -> np.ndarray:
    """The pixels as stored, height x width x samples. Palettes are looked up, and white is the largest number.

    Whole numbers of fewer than 8 or 16 bits are scaled to the range of 8 or 16 bits.
    """
    layout = read(data.data)
    known = (1, 3) if layout.format == _FLOAT else (1, 2)
    if layout.predictor not in known:
        raise BadImage(f"a TIFF file with predictor {layout.predictor} is not decoded")
    image = np.empty((layout.height, layout.width, layout.samples), _stored_type(layout))
    planes, _, across = layout.blocks
    high, wide = layout.block
    strips = across == 1 and wide == layout.width
    number = 0
    for plane in range(planes):
        target = image[..., plane : plane + 1] if layout.planar else image
        for top in range(0, layout.height, high):
            rows = min(high, layout.height - top) if strips else high
            for left in range(0, layout.width, wide):
                part = _part(data, layout, number, rows, wide, target.shape[2])
                place = target[top : top + high, left : left + wide]
                place[:] = part[: place.shape[0], : place.shape[1]]
                number += 1
    return _colored(image, layout)


def _stored_type(layout: TiffLayout) -> np.dtype:
    size = 1 if layout.bits <= 8 else 2 if layout.bits <= 16 else layout.bits // 8
    return np.dtype(_KINDS[layout.format] + str(size))


def _part(data: np.ndarray, layout: TiffLayout, number: int, rows: int, wide: int, samples: int) -> np.ndarray:
    """A strip or tile: rows x pixels x samples."""
    begin, size = int(layout.offsets[number]), int(layout.sizes[number])
    row_bytes = -(-wide * samples * layout.bits // 8)
    stored = data[begin : begin + size]
    if layout.reversed:
        stored = _REVERSED[stored]
    flat = _expanded(stored, rows * row_bytes, layout.compression, number).reshape(rows, row_bytes)
    dtype = _stored_type(layout)
    if layout.bits not in (8, 16, 32, 64):
        if layout.predictor != 1:
            raise BadImage(f"a TIFF file of {layout.bits} bits with predictor {layout.predictor} is not decoded")
        return unpacked(flat, layout.bits, wide * samples).reshape(rows, wide, samples)
    if layout.predictor == 3:
        return _joined_floats(flat, samples, dtype).reshape(rows, wide, samples)
    numbers = flat.view(dtype.newbyteorder("<" if layout.little else ">")).reshape(rows, wide, samples)
    if layout.predictor == 2:
        unsigned = numbers.astype(dtype, copy=False).view(f"u{dtype.itemsize}")
        return np.cumsum(unsigned, axis=1, dtype=unsigned.dtype).view(dtype)
    return numbers


_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1)[:, 0]


def _joined_floats(rows: np.ndarray, samples: int, dtype: np.dtype) -> np.ndarray:
    """Floating point numbers that are stored as all highest bytes, then all next bytes, each minus the byte before it."""
    padded = rows.reshape(len(rows), -1, samples)
    planes = np.cumsum(padded, axis=1, dtype=np.uint8).reshape(len(rows), dtype.itemsize, -1)
    return np.ascontiguousarray(planes.swapaxes(1, 2)).view(dtype.newbyteorder(">"))[..., 0]


def _expanded(stored: np.ndarray, size: int, compression: int, number: int) -> np.ndarray:
    """`size` decompressed bytes of a strip or tile; additional bytes are ignored, missing ones are an error."""
    if compression == _NONE:
        if len(stored) < size:
            raise BadImage(f"truncated TIFF file: part {number} has {len(stored)} of {size} bytes")
        return stored[:size]
    if compression in (_DEFLATE, _OLD_DEFLATE):
        return _inflated(stored, size, number)
    out = np.empty(size, np.uint8)
    if compression == _LZW and len(stored) > 1 and stored[0] == 0 and stored[1] & 1:
        raise BadImage("a TIFF file with LZW data of before 1989 is not decoded")
    done = _unpack_lzw(plain(stored), out) if compression == _LZW else _unpack_packbits(plain(stored), out)
    if done < size:
        raise BadImage(f"truncated or damaged TIFF file: part {number} has {max(done, 0)} of {size} bytes")
    return out


def _inflated(stored: np.ndarray, size: int, number: int) -> np.ndarray:
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(stored.data, size)
        if len(data) == size and not stream.eof:
            stream.decompress(stream.unconsumed_tail, 1)  # the checksum is after the last byte
    except zlib.error as error:
        raise BadImage(f"damaged TIFF file: part {number}: {error}") from None
    if len(data) < size:
        raise BadImage(f"truncated TIFF file: part {number} has {len(data)} of {size} bytes")
    return np.frombuffer(data, np.uint8)


@kernel
def _unpack_packbits(data, out):
    """Decodes repeated and literal runs of bytes; returns the number of bytes."""
    place = done = 0
    while done < out.size and place < data.size:
        count = np.int64(np.int8(data[place]))
        place += 1
        if count >= 0:
            size = min(count + 1, out.size - done, data.size - place)
            out[done : done + size] = data[place : place + size]
            done += size
            place += count + 1
        elif count != -128:
            if place >= data.size:
                break
            size = min(1 - count, out.size - done)
            out[done : done + size] = data[place]
            done += size
            place += 1
    return done


@kernel
def _unpack_lzw(data, out):
    """Decodes LZW codes of 9 to 12 bits, the highest bit first; returns the number of bytes, -1 if a code is not valid.

    A code stands for the bytes of an earlier code and one more byte: it is kept as a place in `out` and a length.
    """
    starts, lengths = np.empty(4097, np.int64), np.empty(4097, np.int64)
    held, waiting, place, done = np.int64(0), 0, 0, 0
    width, free, before = 9, 258, -1
    while done < out.size:
        while waiting < width:
            if place >= data.size:
                return done
            held = (held << 8 | np.int64(data[place])) & 0xFFFFFF
            place += 1
            waiting += 8
        waiting -= width
        code = held >> waiting & ((1 << width) - 1)
        if code == 257:
            return done
        if code == 256:
            width, free, before = 9, 258, -1
            continue
        if code < 256:
            size = 1
        elif code < free:
            size = lengths[code]
        elif code == free and before >= 0:
            size = lengths[4096] + 1
        else:
            return -1
        first = done
        if code < 256:
            out[done] = code
            done += 1
        else:
            # The newest code stands for the bytes of the code before it, and the first of them again. Their place in `out` is
            # written already, except the last byte, which this loop writes before it copies it.
            source = starts[4096] if code == free else starts[code]
            size = min(size, out.size - done)
            for i in range(size):
                out[done + i] = out[source + i]
            done += size
        if before >= 0 and free < 4096:
            starts[free], lengths[free] = starts[4096], lengths[4096] + 1
            free += 1
            if free + 1 > (1 << width) - 1 and width < 12:
                width += 1
        # Place 4096 has the bytes of the last code.
        starts[4096], lengths[4096], before = first, done - first, code
    return done


def _colored(image: np.ndarray, layout: TiffLayout) -> np.ndarray:
    whole = layout.format == _UNSIGNED
    if layout.palette is not None:
        return np.take(layout.palette, image[..., 0], axis=0)
    if layout.photometric == _WHITE_IS_ZERO:
        if not whole:
            raise BadImage("a TIFF file of signed or floating point numbers with white as zero is not decoded")
        image[..., 0] = ((1 << layout.bits) - 1) - image[..., 0]
    return filled(image, (1 << layout.bits) - 1) if whole and layout.bits <= 16 else image
