"""GIF images: the place of the first frame, and a check that it has all pixels.

Decoders fill the rest of a truncated frame with one colour, and allocate the memory that a header of ten bytes states.
"""

from struct import unpack_from

import numpy as np

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Header
from pipeflow.kernels.cpu.jit import kernel, plain


def header(data: memoryview) -> Header:
    """The size of the canvas."""
    width, height = unpack_from("<HH", data, 6)
    return Header("GIF", height, width, 3)


def check(data: memoryview) -> None:
    """Raises an error for a file whose first frame is not complete."""
    canvas = header(data)
    place = _after_colors(data, 13, data[10])
    for _ in range(MOST_PIECES):
        if place >= len(data):
            raise BadImage(f"truncated GIF file: it ends at byte {len(data)} before its first frame")
        kind = data[place]
        if kind == 0x2C:
            break
        if kind != 0x21:
            raise BadImage(f"damaged GIF file: a block of kind {kind:#x} at byte {place}")
        place = _after_blocks(data, place + 2)
    else:
        raise BadImage(f"a GIF file of more than {MOST_PIECES} blocks before its first frame")
    left, top, width, height = unpack_from("<HHHH", data, place + 1)
    if not width or not height or left + width > canvas.width or top + height > canvas.height:
        raise BadImage(
            f"damaged GIF file: a frame of {width} x {height} pixels at row {top}, column {left} "
            f"of {canvas.width} x {canvas.height}"
        )
    place = _after_colors(data, place + 10, data[place + 9])
    least = data[place]
    if not 1 <= least <= 8:
        raise BadImage(f"damaged GIF file: codes of {least} bits")
    found = _count(plain(np.frombuffer(data, np.uint8)), place + 1, int(least), width * height)
    if found < width * height:
        raise BadImage(f"truncated or damaged GIF file: its first frame has {max(found, 0)} of {width * height} pixels")


def _after_colors(data: memoryview, place: int, flags: int) -> int:
    return place + (3 << (flags & 7) + 1) if flags & 0x80 else place


def _after_blocks(data: memoryview, place: int) -> int:
    for _ in range(MOST_PIECES):
        if data[place] == 0:
            return place + 1
        place += 1 + data[place]
    raise BadImage(f"a GIF file with a comment of more than {MOST_PIECES} blocks")


@kernel
def _count(data, place, least, wanted):
    """The number of pixels of the LZW codes that begin at `place`, at most `wanted`; -1 if a code is not valid."""
    clear, end = 1 << least, (1 << least) + 1
    lengths = np.ones(4097, np.int64)
    width, free, before, done = least + 1, end + 1, 0, 0
    held, waiting, left = np.int64(0), 0, 0
    started = False
    while done < wanted:
        while waiting < width:
            if left == 0:
                if place >= data.size or data[place] == 0:
                    return done
                left = np.int64(data[place])
                place += 1
            if place >= data.size:
                return done
            held |= np.int64(data[place]) << waiting
            place += 1
            left -= 1
            waiting += 8
        code = held & ((1 << width) - 1)
        held >>= width
        waiting -= width
        if code == end:
            return done
        if code == clear:
            width, free, started = least + 1, end + 1, False
            continue
        if code > free or (code == free and not started) or (code > end and not started):
            return -1
        size = lengths[code] if code < free else before + 1
        done += size
        if started and free < 4096:
            lengths[free] = before + 1
            free += 1
            if free == 1 << width and width < 12:
                width += 1
        before, started = size, True
    return min(done, wanted)
