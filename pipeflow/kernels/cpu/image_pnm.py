"""PNM images (P1 to P6): a few words of text, then the numbers as text or as bytes.

Numbers keep their share of the range: with a largest value of 100, 100 becomes 255. The general libraries do not scale such
numbers, or scale them only in text files.
"""

import re

import numpy as np

from pipeflow.kernels.cpu.image_base import BadImage, Header, need
from pipeflow.kernels.cpu.image_bits import filled
from pipeflow.kernels.cpu.jit import kernel, plain

# White space, and comments up to the end of their line, separate words.
_GAP = rb"(?:\s|#[^\r\n]*[\r\n])+"
_HEADER = re.compile(rb"P[1-6]" + _GAP + rb"(\d+)" + _GAP + rb"(\d+)")
_LARGEST = re.compile(_GAP + rb"(\d+)")
_MOST_DIGITS = 9


def header(data: memoryview) -> Header:
    """The header, checked against the number of bytes."""
    return _read(data)[0]


def _read(data: memoryview) -> tuple[Header, int, int]:
    """(header, largest value, place of the pixels)."""
    kind = data[1] - ord("0")
    found = _HEADER.match(data)
    place = found.end() if found else 0
    words = list(found.groups()) if found else []
    if found and kind not in (1, 4):
        last = _LARGEST.match(data, place)
        words, place = (words + [last[1]], last.end()) if last else ([], 0)
    if not words or max(map(len, words)) > _MOST_DIGITS:
        raise BadImage("damaged PNM file: a number of the header is missing or too long")
    width, height, largest = *map(int, words[:2]), int(words[2]) if len(words) == 3 else 1
    if not 0 < largest < 65536:
        raise BadImage(f"damaged PNM file: largest value {largest}")
    channels = 3 if kind in (3, 6) else 1
    bits = 16 if largest > 255 else 8
    if kind == 1:  # the digits of black and white need no space between them
        needed = place + height * width
    elif kind <= 3:
        needed = place + height * width * channels * 2
    else:
        needed = place + 1 + height * (-(-width // 8) if kind == 4 else width * channels * bits // 8)
    need("PNM", data, needed, width, height)
    return Header("PNM", height, width, channels, bits), largest, place


def decode(data: np.ndarray) -> np.ndarray:
    """The pixels, height x width x channels, in the whole range of 8 or 16 bits."""
    stated, largest, place = _read(data.data)
    shape = stated.height, stated.width, stated.channels
    kind = int(data[1]) - ord("0")
    if kind == 4:
        rows = data[place + 1 :][: shape[0] * -(-shape[1] // 8)].reshape(shape[0], -1)
        black = np.unpackbits(rows, axis=1)[:, : shape[1]]
        return ((1 - black) * np.uint8(255))[..., None]
    if kind <= 3:
        numbers = np.empty(shape, np.uint8 if largest < 256 else np.uint16)
        wrong = _text(plain(data), place, numbers.reshape(-1), largest, kind == 1)
        if wrong >= 0:
            raise BadImage(f"damaged PNM file: no number up to {largest} at byte {wrong}")
        if kind == 1:
            return (1 - numbers) * np.uint8(255)
    else:
        stored = np.dtype(np.uint8 if largest < 256 else ">u2")
        count = shape[0] * shape[1] * shape[2]
        numbers = data[place + 1 :][: count * stored.itemsize].view(stored).reshape(shape)
        if largest not in (255, 65535) and numbers.max() > largest:
            raise BadImage(f"damaged PNM file: a value of {numbers.max()} where the largest is {largest}")
        numbers = numbers.astype(stored.newbyteorder("="), copy=False)
    return filled(numbers, largest)


@kernel
def _text(data, place, out, largest, single):
    """Reads decimal numbers into `out`; with `single` each is one digit. Returns the place of the first text that is not a
    number, -1 if there is none.
    """
    for i in range(out.size):
        while place < data.size:
            byte = data[place]
            if byte == 35:
                while place < data.size and data[place] != 10 and data[place] != 13:
                    place += 1
            elif byte == 32 or 9 <= byte <= 13:
                place += 1
            else:
                break
        start, value = place, 0
        while place < data.size and 48 <= data[place] <= 57 and value <= largest:
            value = value * 10 + data[place] - 48
            place += 1
            if single:
                break
        if place == start or value > largest:
            return start
        out[i] = value
    return -1
