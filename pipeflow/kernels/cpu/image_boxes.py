"""AVIF and HEIF: the boxes that tell which image of a file is shown, its size, its depth and its orientation.

The size is stated twice: in a box, and in the first bytes of the coded data. The decoder allocates memory for the second, so a
file in which the second is larger is refused.
"""

from collections.abc import Iterator
from struct import unpack_from
from typing import NamedTuple

import numpy as np

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Bits, Header

_ALPHA = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", b"urn:mpeg:hevc:2015:auxid:1")
# (quarter turns to the left, mirrored top to bottom, mirrored left to right) -> EXIF orientation
_TURNS = {
    (0, None): 1, (0, 1): 2, (2, None): 3, (0, 0): 4, (1, None): 8, (3, None): 6,
    (2, 0): 2, (2, 1): 4, (1, 0): 5, (3, 0): 7, (1, 1): 7, (3, 1): 5,
}  # fmt: skip
_MOST_TILES = 1 << 14


class _BoxedImage(NamedTuple):
    """The properties of one image of a file, in their order, and its place."""

    kind: bytes
    properties: list[tuple[bytes, memoryview]]
    parts: list[int]  # the images that it consists of
    data: memoryview

    def content(self, name: bytes) -> memoryview | None:
        """The content of the first property of this kind."""
        return next((body for kind, body in self.properties if kind == name), None)

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        body = self.content(b"ispe")
        if body is None:
            raise BadImage("damaged AVIF or HEIF file: an image without a size")
        width, height = unpack_from(">II", body, 4)
        return height, width


def starts(data: bytes) -> bool:
    """True if these first 12 bytes are those of an AVIF or HEIF file."""
    return data[4:8] == b"ftyp" and data[8:12] in (
        b"avif", b"avis", b"mif1", b"mif2", b"msf1", b"miaf", b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx",
    )  # fmt: skip


def header(data: memoryview) -> Header:
    """The size, depth and orientation of the primary image."""
    meta = next((body for kind, body in _boxes(data) if kind == b"meta"), None)
    if meta is None:
        raise BadImage("an AVIF or HEIF file without a still image is not decoded: it has no box 'meta'")
    items, primary, alphas = _items(data, meta[4:])
    if primary not in items:
        raise BadImage("damaged AVIF or HEIF file: no primary image")
    shown = items[primary]
    coded = [items[part] for part in shown.parts if part in items] if shown.kind == b"grid" else [shown]
    if not coded or coded[0].kind not in (b"av01", b"hvc1"):
        kind = (coded[0] if coded else shown).kind.decode("latin-1")
        raise BadImage(f"an AVIF or HEIF file with an image of kind {kind!r} is not decoded; av01, hvc1 and grids are")
    name = "AVIF" if coded[0].kind == b"av01" else "HEIF"
    height, width = shown.size
    window = shown.content(b"clap")
    if window is not None and name == "AVIF":
        raise BadImage("an AVIF file with a clean aperture (clap) is not decoded")
    depth, gray = (_of_av1 if name == "AVIF" else _of_hevc)(coded[0])
    others = [items[alpha] for alpha in alphas if alpha in items]
    tiles = [items[part] for other in others for part in other.parts if part in items]
    for item in [*coded, *others, *tiles]:
        _check_size(item, name, height, width)
    alpha = bool(others)
    if window is not None:  # the image is cut before it is turned
        right, right_of, bottom, bottom_of = unpack_from(">4I", window)
        if not 0 < right <= width * right_of or not 0 < bottom <= height * bottom_of:
            raise BadImage(f"damaged HEIF file: a clean aperture that is not inside {width} x {height} pixels")
        height, width = bottom // bottom_of, right // right_of
    return Header(
        name,
        height,
        width,
        (1 if gray else 3) + alpha,
        8 if depth == 8 else 16,
        _orientation(shown),
        alpha,
        depth=depth,
    )


def without_sequence(data: np.ndarray) -> np.ndarray:
    """The file with its still image only: the same bytes, if it has no sequence of images."""
    still = data.copy()
    for place, kind, body in _places_of_boxes(still.data):
        if kind == b"moov":
            still[place + 4 : place + 8] = bytearray(b"free")
        elif kind == b"ftyp":  # brands of four letters; the second word is a version
            for start in range(0, len(body) - 3, 4):
                if body[start : start + 4] == b"avis":
                    body[start : start + 4] = b"avif"
    return data if np.array_equal(data, still) else still


def _boxes(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """The kinds and bodies of boxes, one after another; the last may end with the data."""
    return ((kind, body) for _, kind, body in _places_of_boxes(data))


def _places_of_boxes(data: memoryview) -> Iterator[tuple[int, bytes, memoryview]]:
    place = 0
    for _ in range(MOST_PIECES):
        if place + 8 > len(data):
            return
        (length,), kind, start = unpack_from(">I", data, place), bytes(data[place + 4 : place + 8]), place + 8
        if length == 1:
            (length,) = unpack_from(">Q", data, start)
            start += 8
        elif length == 0:
            length = len(data) - place
        if length < start - place or place + length > len(data):
            if kind == b"mdat":
                raise BadImage(
                    f"truncated AVIF or HEIF file: {place + length} bytes are announced, the file has {len(data)}"
                )
            raise BadImage(f"damaged AVIF or HEIF file: a box {kind!r} of {length} bytes at byte {place}")
        yield place, kind, data[start : place + length]
        place += length
    raise BadImage(f"an AVIF or HEIF file of more than {MOST_PIECES} boxes")


def _items(data: memoryview, meta: memoryview) -> tuple[dict[int, _BoxedImage], int, list[int]]:
    """The images by number, the number of the primary image, and the numbers of the images with its alpha."""
    boxes = dict(_boxes(meta))
    for needed in (b"pitm", b"iinf", b"iprp", b"iloc"):
        if needed not in boxes:
            raise BadImage(f"damaged AVIF or HEIF file: no box {needed.decode()!r}")
    pitm = boxes[b"pitm"]
    primary = unpack_from(">I" if pitm[0] else ">H", pitm, 4)[0]
    kinds = _kinds(boxes[b"iinf"])
    parts, auxiliary = _references(boxes.get(b"iref", memoryview(b"")))
    owned = _properties(boxes[b"iprp"])
    places = _places(boxes[b"iloc"], boxes.get(b"idat", memoryview(b"")), data)
    items = {
        number: _BoxedImage(kind, owned.get(number, []), parts.get(number, []), places.get(number, memoryview(b"")))
        for number, kind in kinds.items()
    }
    alphas = [
        number
        for number, of in auxiliary
        if of == primary and number in items and _is_alpha(items[number].content(b"auxC"))
    ]
    return items, primary, alphas


def _is_alpha(body: memoryview | None) -> bool:
    return body is not None and bytes(body[4:]).partition(b"\0")[0] in _ALPHA


def _kinds(iinf: memoryview) -> dict[int, bytes]:
    found = {}
    for kind, body in _boxes(iinf[8 if iinf[0] else 6 :]):
        if kind == b"infe" and body[0] >= 2:
            wide = body[0] >= 3
            number = unpack_from(">I" if wide else ">H", body, 4)[0]
            found[number] = bytes(body[10 if wide else 8 :][:4])
    return found


def _references(iref: memoryview) -> tuple[dict[int, list[int]], list[tuple[int, int]]]:
    """The parts of each image, and pairs of an auxiliary image and its owner."""
    parts: dict[int, list[int]] = {}
    auxiliary: list[tuple[int, int]] = []
    if not len(iref):
        return parts, auxiliary
    letter, size = ("I", 4) if iref[0] else ("H", 2)
    for kind, body in _boxes(iref[4:]):
        number, count = unpack_from(f">{letter}H", body)
        if count > _MOST_TILES:
            raise BadImage(f"an AVIF or HEIF file with an image of {count} parts is not decoded")
        to = unpack_from(f">{count}{letter}", body, size + 2)
        if kind == b"dimg":
            parts[number] = list(to)
        elif kind == b"auxl":
            auxiliary += [(number, owner) for owner in to]
    return parts, auxiliary


def _properties(iprp: memoryview) -> dict[int, list[tuple[bytes, memoryview]]]:
    boxes = list(_boxes(iprp))
    known = [one for kind, body in boxes if kind == b"ipco" for one in _boxes(body)]
    found: dict[int, list[tuple[bytes, memoryview]]] = {}
    for kind, body in boxes:
        if kind != b"ipma":
            continue
        number_form, wide = (">I" if body[0] else ">H"), body[3] & 1
        (count,), place = unpack_from(">I", body, 4), 8
        for _ in range(count):
            (number,) = unpack_from(number_form, body, place)
            place += 4 if body[0] else 2
            for _ in range(body[place]):
                (index,) = unpack_from(">H" if wide else ">B", body, place + 1)
                place += 2 if wide else 1
                index &= 0x7FFF if wide else 0x7F
                if 0 < index <= len(known):
                    found.setdefault(number, []).append(known[index - 1])
            place += 1
    return found


def _places(iloc: memoryview, idat: memoryview, data: memoryview) -> dict[int, memoryview]:
    """Sets the place of the first bytes of each item: its first extent."""
    version, sizes, more = iloc[0], iloc[4], iloc[5]
    widths = {"offset": sizes >> 4, "length": sizes & 15, "base": more >> 4, "index": more & 15 if version else 0}
    (count,) = unpack_from(">I" if version == 2 else ">H", iloc, 6)
    place, found = 10 if version == 2 else 8, {}

    def number(width: int) -> int:
        nonlocal place
        place += width
        if place > len(iloc):
            raise IndexError
        return int.from_bytes(iloc[place - width : place], "big")

    for _ in range(count):
        item = number(4 if version == 2 else 2)
        inside = number(2) & 15 if version else 0
        number(2)
        base = number(widths["base"])
        for extent in range(number(2)):
            number(widths["index"])
            offset, length = base + number(widths["offset"]), number(widths["length"])
            source = idat if inside == 1 else data
            if inside < 2 and offset + length > len(source):
                raise BadImage(
                    f"truncated AVIF or HEIF file: bytes {offset} to {offset + length} of {len(source)} are an image"
                )
            if not extent and inside < 2:
                found[item] = source[offset : offset + length]
    return found


def _orientation(item: _BoxedImage) -> int:
    """The turns and mirrorings as an EXIF orientation."""
    turns, axis = 0, None
    for kind, body in item.properties:
        if kind == b"irot" and axis is None:
            turns = (turns + body[0]) & 3
        elif kind == b"imir" and axis is None:
            axis = body[0] & 1
        elif kind in (b"irot", b"imir"):
            raise BadImage("an AVIF or HEIF file that turns an image after it has mirrored it is not decoded")
    return _TURNS[turns, axis]


def _of_av1(item: _BoxedImage) -> tuple[int, bool]:
    """(bits, gray) of AV1."""
    body = item.content(b"av1C")
    if body is None:
        raise BadImage("damaged AVIF file: an image without its configuration (av1C)")
    return 8 if not body[2] & 0x40 else 12 if body[2] & 0x20 else 10, bool(body[2] & 0x10)


def _of_hevc(item: _BoxedImage) -> tuple[int, bool]:
    """(bits, gray) of HEVC."""
    body = item.content(b"hvcC")
    if body is None:
        raise BadImage("damaged HEIF file: an image without its configuration (hvcC)")
    depth = (body[17] & 7) + 8
    if depth not in (8, 10, 12):
        raise BadImage(f"a HEIF file of {depth} bits is not decoded; those of 8, 10 and 12 are")
    return depth, body[16] & 3 == 0


def _check_size(item: _BoxedImage, name: str, height: int, width: int) -> None:
    """Raises an error if the coded size is larger than the file states; a tile may be cut at the edges of a grid."""
    stated, edge = item.size if item.content(b"ispe") is not None else (height, width), 64
    coded = _av1_size(item.data) if item.kind == b"av01" else _hevc_size(item.content(b"hvcC"))
    for size, what in ((stated, "states"), (coded, "codes")):
        if size is not None and size[0] * size[1] > (height + edge) * (width + edge) * 4 + (1 << 20):
            raise BadImage(
                f"damaged {name} file: {width} x {height} pixels are stated, and one of its parts {what} "
                f"{size[1]} x {size[0]}"
            )


def _av1_size(data: memoryview) -> tuple[int, int] | None:
    """The largest frame that the sequence header of AV1 allows."""
    place = 0
    for _ in range(16):
        if place + 2 > len(data):
            return None
        kind, extended, sized = data[place] >> 3 & 15, data[place] >> 2 & 1, data[place] >> 1 & 1
        place += 1 + extended
        length = len(data) - place
        if sized:
            length = 0
            for byte in range(8):
                length |= (data[place] & 0x7F) << 7 * byte
                place += 1
                if not data[place - 1] & 0x80:
                    break
        if kind == 1:
            return _av1_sequence(Bits(data[place : place + length], lowest_first=False))
        place += length
    return None


def _av1_sequence(bits: Bits) -> tuple[int, int]:
    bits.take(4)
    if bits.take(1):  # a reduced header has only one level
        bits.take(5)
    else:
        model, delays = 0, 0
        if bits.take(1):  # timing
            bits.take(32), bits.take(32)
            if bits.take(1):
                bits.exponential()
            if bits.take(1):
                model = bits.take(5) + 1
                bits.take(32), bits.take(10)
        delays = bits.take(1)
        for _ in range(bits.take(5) + 1):
            bits.take(12)
            if bits.take(5) > 7:
                bits.take(1)
            if model and bits.take(1):
                bits.take(2 * model + 1)
            if delays and bits.take(1):
                bits.take(4)
    across, down = bits.take(4) + 1, bits.take(4) + 1
    width = bits.take(across) + 1
    return bits.take(down) + 1, width


def _hevc_size(configuration: memoryview | None) -> tuple[int, int] | None:
    """The size in the first sequence parameters of HEVC."""
    if configuration is None:
        return None
    place = 23
    for _ in range(configuration[22]):
        kind, (count,) = configuration[place] & 63, unpack_from(">H", configuration, place + 1)
        place += 3
        for _ in range(count):
            (length,) = unpack_from(">H", configuration, place)
            if kind == 33:
                unit = bytes(configuration[place + 2 : place + 2 + length]).replace(b"\0\0\3", b"\0\0")
                return _hevc_sequence(Bits(memoryview(unit[2:]), lowest_first=False))
            place += 2 + length
    return None


def _hevc_sequence(bits: Bits) -> tuple[int, int]:
    bits.take(4)
    layers = bits.take(3)
    bits.take(1)
    bits.take(88), bits.take(8)
    present = [(bits.take(1), bits.take(1)) for _ in range(layers)]
    if layers:
        bits.take(2 * (8 - layers))
    for profile, level in present:
        bits.take(88 * profile + 8 * level)
    bits.exponential()
    if bits.exponential() == 3:
        bits.take(1)
    width = bits.exponential()
    return bits.exponential(), width
