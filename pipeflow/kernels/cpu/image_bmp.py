"""BMP images: palettes, run lengths, 16 to 32 bits with a mask for each colour.

The general libraries shift the bits of a mask into place, so that white in five bits becomes 248, or treat every mask as the
usual one. Here a colour keeps its share of the range.
"""

from dataclasses import dataclass
from struct import unpack_from

import numpy as np

from pipeflow.kernels.cpu.image_base import BadImage, Header, need
from pipeflow.kernels.cpu.jit import BYTES, NUMBER, kernel, plain, types_of
from pipeflow.kernels.cpu.later import Wanted

_PLAIN, _RUNS8, _RUNS4, _MASKS, _ALPHA_MASKS = 0, 1, 2, 3, 6
_USUAL_MASKS = {16: (0x7C00, 0x3E0, 0x1F, 0), 32: (0xFF0000, 0xFF00, 0xFF, 0)}


@dataclass(frozen=True)
class _Layout:
    height: int
    width: int
    bits: int
    compression: int
    top_down: bool
    masks: tuple[int, ...]  # for red, green, blue and alpha; empty with a palette and with 24 bits
    palette: np.ndarray | None  # entries x RGB
    begin: int

    @property
    def stride(self) -> int:
        """The bytes of a row."""
        return -(-self.width * self.bits // 32) * 4

    @property
    def gray(self) -> bool:
        """True if the palette has only shades of gray."""
        colors = self.palette
        return colors is not None and bool((colors == colors[:, :1]).all())


def header(data: memoryview) -> Header:
    """The header, checked against the number of bytes."""
    layout = _layout(data)
    channels = 1 if layout.gray else 4 if layout.masks and layout.masks[3] else 3
    return Header("BMP", layout.height, layout.width, channels, alpha=channels == 4)


def _layout(data: memoryview) -> _Layout:
    begin, size = unpack_from("<II", data, 10)
    colors = 0
    if size == 12:
        width, height, _, bits = unpack_from("<HHHH", data, 18)
        compression = _PLAIN
    elif size >= 40:
        width, height, _, bits, compression = unpack_from("<iiHHI", data, 18)
        colors = unpack_from("<I", data, 46)[0]
    else:
        raise BadImage(f"damaged BMP file: a header of {size} bytes")
    if begin < 14 + size:
        raise BadImage(f"damaged BMP file: its pixels begin at byte {begin}, inside of its header of {14 + size} bytes")
    top_down, height = height < 0, abs(height)
    if bits not in (1, 2, 4, 8, 16, 24, 32) or width < 0:
        raise BadImage(f"damaged BMP file: {width} x {height} pixels of {bits} bits")
    if (compression, bits) in ((_RUNS8, 8), (_RUNS4, 4)) and not top_down:
        # Two bytes code at most 255 pixels, an escape of four bytes a jump of 255 x 255.
        need("BMP", data, height * width // (255 * 255), width, height)
    elif compression == _PLAIN or (compression in (_MASKS, _ALPHA_MASKS) and bits in (16, 32)):
        need("BMP", data, begin + -(-width * bits // 32) * 4 * height, width, height)
    else:
        raise BadImage(f"BMP file with compression {compression} of {bits} bits: it is not decoded")
    masks = _masks(data, size, bits, compression)
    palette = _palette(data, begin, size, bits, colors) if bits <= 8 else None
    return _Layout(height, width, bits, compression, top_down, masks, palette, begin)


def _masks(data: memoryview, size: int, bits: int, compression: int) -> tuple[int, ...]:
    if compression not in (_MASKS, _ALPHA_MASKS):
        return _USUAL_MASKS.get(bits, ())
    count = 4 if compression == _ALPHA_MASKS or size >= 56 else 3  # inside the larger headers, after the small one
    masks = (*unpack_from(f"<{count}I", data, 54), 0)[:4]
    used = 0
    for mask in masks:
        lowest = mask & -mask
        if mask & used or mask >> bits or (mask + lowest) & mask or bin(mask).count("1") > 16:
            raise BadImage(f"damaged BMP file: the masks {', '.join(f'{mask:#x}' for mask in masks)} of {bits} bits")
        used |= mask
    if 0 in masks[:3]:
        raise BadImage("damaged BMP file: a colour without a mask")
    return masks


def _palette(data: memoryview, begin: int, size: int, bits: int, colors: int) -> np.ndarray:
    step = 3 if size == 12 else 4
    place = 14 + size
    stated = colors or 1 << bits
    count = min(stated, 1 << bits, max(begin - place, 0) // step if begin > place else stated)
    if count < 1 or place + count * step > len(data):
        raise BadImage("damaged BMP file: its palette is missing")
    return np.frombuffer(data, np.uint8, count * step, place).reshape(count, step)[:, 2::-1]


@kernel
def little(data, place, count):
    """A number of so many bytes, the lowest first."""
    value = np.int64(0)
    for i in range(count):
        value |= np.int64(data[place + i]) << (8 * i)
    return value


@kernel
def read_size(data):
    """Returns (1, height, width, place of the pixels, 1 if the first row is the top one) for a complete file of 24 bits without
    compression. For all other files, valid or not, the result is zeros: `header` reads these files.
    """
    nothing = (0, 0, 0, 0, 0)
    if data.size < 54 or data[0] != 0x42 or data[1] != 0x4D:
        return nothing
    begin, size, width, height = little(data, 10, 4), little(data, 14, 4), little(data, 18, 4), little(data, 22, 4)
    top_down = 1 if height >= 1 << 31 else 0
    if top_down:
        height = (1 << 32) - height
    if size < 40 or begin < 14 + size or little(data, 28, 2) != 24 or little(data, 30, 4) != 0:
        return nothing
    if not 0 < width < 1 << 31 or height < 1 or (data.size - begin) // ((width * 3 + 3) // 4 * 4) < height:
        return nothing
    return 1, height, width, begin, top_down


@kernel
def copy_window(data, height, width, begin, top_down, top, left, reverse, out):
    """Copies the window at (top, left) with the extents of `out`; with `reverse`, blue is the last channel and not the first."""
    stride = (width * 3 + 3) // 4 * 4
    first, last = (2, 0) if reverse else (0, 2)
    for row in range(out.shape[0]):
        stored = top + row if top_down else height - 1 - top - row
        place = begin + stored * stride + left * 3
        for column in range(out.shape[1]):
            out[row, column, 0] = data[place + first]
            out[row, column, 1] = data[place + 1]
            out[row, column, 2] = data[place + last]
            place += 3


def own_kernels() -> list[Wanted]:
    """The kernels that read plain files, with the types of their arguments."""
    image = np.empty((0, 0, 0), np.uint8)
    return [(read_size, types_of(BYTES)), (copy_window, types_of(BYTES, *[NUMBER] * 7, image))]


def decode(data: np.ndarray) -> np.ndarray:
    """The pixels, height x width x channels: gray, RGB, or RGB and alpha if there is a mask for it."""
    layout = _layout(data.data)
    if layout.palette is not None:
        places = _places(data, layout)
        if places.max() >= len(layout.palette):
            raise BadImage(f"damaged BMP file: colour {places.max()} of a palette of {len(layout.palette)}")
        colors = layout.palette[:, :1] if layout.gray else layout.palette
        return np.take(colors, places, axis=0)
    rows = _rows(data, layout)
    if layout.bits == 24:
        return rows[:, : layout.width * 3].reshape(layout.height, layout.width, 3)[..., ::-1]
    stored = rows.view(f"<u{layout.bits // 8}")[:, : layout.width]
    used = [mask for mask in layout.masks if mask]
    bytewise = {0xFF << shift: shift // 8 for shift in (0, 8, 16, 24)}
    if layout.bits == 32 and all(mask in bytewise for mask in used):
        quads = rows.reshape(layout.height, -1, 4)[:, : layout.width]
        return quads[..., [bytewise[mask] for mask in used]]
    return np.stack([_channel(stored, mask) for mask in used], axis=-1)


def _channel(stored: np.ndarray, mask: int) -> np.ndarray:
    """The numbers under a mask, in the range of 8 bits."""
    lowest = mask & -mask
    largest = mask // lowest
    table = ((np.arange(largest + 1) * 510 + largest) // (2 * largest)).astype(np.uint8)
    return table[(stored & mask) >> lowest.bit_length() - 1]


def _rows(data: np.ndarray, layout: _Layout) -> np.ndarray:
    """The bytes of the rows, the top one first."""
    stored = data[layout.begin :][: layout.height * layout.stride].reshape(layout.height, layout.stride)
    return stored if layout.top_down else stored[::-1]


def _places(data: np.ndarray, layout: _Layout) -> np.ndarray:
    """The places of the pixels' colours in the palette."""
    if layout.compression == _PLAIN:
        rows = np.ascontiguousarray(_rows(data, layout))
        if layout.bits == 8:
            return rows[:, : layout.width]
        each = 8 // layout.bits
        shifts = np.arange(8 - layout.bits, -1, -layout.bits, dtype=np.uint8)
        numbers = rows[..., None] >> shifts & np.uint8((1 << layout.bits) - 1)
        return numbers.reshape(layout.height, layout.stride * each)[:, : layout.width]
    places = np.zeros((layout.height, layout.width), np.uint8)
    if not _runs(plain(data), layout.begin, places, layout.bits == 4):
        raise BadImage("truncated or damaged BMP file: its run lengths do not end with the end of the image")
    return places[::-1]


@kernel
def _runs(data, place, out, halves):
    """Fills `out` (the bottom row first) from run lengths; False unless they end with the mark of the end."""
    height, width = out.shape
    row = column = 0
    while place + 1 < data.size:
        count, value = np.int64(data[place]), np.int64(data[place + 1])
        place += 2
        if count:
            if row >= height or column + count > width:
                # Some programs fill rows up to whole bytes, so an additional pixel of half a byte is ignored.
                if row >= height or not halves or column + count > width + 1:
                    return False
                count = width - column
            for i in range(count):
                number = value
                if halves:
                    number = value & 15 if i % 2 else value >> 4
                out[row, column + i] = number
            column += count
        elif value == 0:
            row, column = row + 1, 0
        elif value == 1:
            return True
        elif value == 2:
            if place + 1 >= data.size:
                return False
            column += np.int64(data[place])
            row += np.int64(data[place + 1])
            place += 2
            if column > width or row > height:
                return False
        else:
            size = (value + 1) // 2 if halves else value
            if row >= height or column + value > width or place + size > data.size:
                return False
            for i in range(value):
                number = np.int64(data[place + i // 2]) if halves else np.int64(data[place + i])
                if halves:
                    number = number & 15 if i % 2 else number >> 4
                out[row, column + i] = number
            column += value
            place += size + size % 2
    return False
