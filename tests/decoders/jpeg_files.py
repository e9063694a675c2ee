"""JPEG files written coefficient by coefficient, for what no library writes: any Huffman codes, scans and coefficients."""

import struct

import cv2
import numpy as np
from decoders.pictures import opencv

from pipeflow.kernels.cpu.jpeg_headers import ZIGZAG

# Samples of luma along both axes for one of chroma.
SAMPLINGS = {"4:4:4": (1, 1), "4:2:2": (2, 1), "4:2:0": (2, 2), "4:4:0": (1, 2), "4:1:1": (4, 1), "gray": None}
_OPENCV = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "4:4:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "4:1:1": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}


def photograph(height, width, seed=0):
    """Noise at several scales, about as busy as a photograph."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3), np.float32)
    for scale in (2, 5, 17, 60):
        noise = rng.normal(0, 25, (height // scale + 2, width // scale + 2, 3)).astype(np.float32)
        total += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(total + 128, 0, 255).astype(np.uint8)


def encoded(picture, sampling, quality=90, restart=0, progressive=False):
    """A picture as OpenCV encodes it."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    options += [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive)]
    if sampling == "gray":
        return opencv(np.ascontiguousarray(picture[..., 1]), ".jpg", *options)
    return opencv(picture, ".jpg", *options, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _OPENCV[sampling])


def segment(marker, body):
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def random_code(symbols, rng):
    """A Huffman code of random lengths: (counts of the lengths 1 to 16, symbols in order, symbol -> (code, length))."""
    symbols = [int(x) for x in rng.permutation(symbols)]
    counts, free, left = [], 1, len(symbols)
    for length in range(1, 17):
        free *= 2
        # One code stays free, because none may consist of ones only; the rest must fit below.
        below = 1 << (16 - length)
        most = min(left, free - 1, (free * below - 1 - left) // (below - 1) if below > 1 else left)
        least = left if length == 16 else 0
        count = int(rng.integers(least, most + 1)) if rng.random() < 0.7 or length == 16 else max(least, 0)
        counts.append(count)
        free -= count
        left -= count
    codes, code, place = {}, 0, 0
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            codes[symbols[place]] = (code, length)
            code += 1
            place += 1
        code <<= 1
    assert left == 0
    return counts, symbols, codes


class Bits:
    """Coded data with stuffing."""

    def __init__(self):
        self.value, self.count, self.data = 0, 0, bytearray()

    def put(self, value, count):
        self.value, self.count = self.value << count | value, self.count + count
        while self.count >= 8:
            self.count -= 8
            byte = self.value >> self.count & 255
            self.data += bytes([byte, 0]) if byte == 255 else bytes([byte])
        self.value &= (1 << self.count) - 1

    def end(self):
        if self.count:
            self.put((1 << (8 - self.count)) - 1, 8 - self.count)
        data, self.data = bytes(self.data), bytearray()
        return data


def number(value):
    """(size, bits) of a coefficient."""
    size = int(abs(value)).bit_length()
    return size, value if value >= 0 else value + (1 << size) - 1


def symbols_of(block, before, first=0, final=63):
    """The symbols of the coefficients first to final of a block in zigzag order: (1 for AC, symbol, bits, size)."""
    result, run = [], 0
    if first == 0:
        size, bits = number(int(block[0]) - before)
        result.append((0, size, bits, size))
    first = max(first, 1)
    last = first + int(np.max(np.flatnonzero(block[first : final + 1]), initial=-1))
    for value in block[first : last + 1]:
        if value == 0:
            run += 1
            continue
        while run > 15:
            result.append((1, 0xF0, 0, 0))
            run -= 16
        size, bits = number(int(value))
        result.append((1, run << 4 | size, bits, size))
        run = 0
    if last < final:
        result.append((1, 0, 0, 0))
    return result


def write(
    height, width, sampling, coefficients, factors, rng, *, scans=None, restart=0, extended=False, fill=0, wide=False,
    tables=None, before_scan=b"", tail=b"", bands=None,
):  # fmt: skip
    """A JPEG file of given coefficients: a sequential one, or, with `bands`, a progressive one of one band a scan.

    `coefficients` has an array (rows of blocks, columns of blocks, 64 in zigzag order) for each component, which covers whole
    units; `factors` two tables of 64. `scans` lists the components of each scan, `bands` its first and last coefficient;
    `fill` puts that many 0xFF before markers.
    """
    count = len(coefficients)
    across, down = SAMPLINGS[sampling] or (1, 1)
    shape = [(across, down)] + [(1, 1)] * (count - 1)
    padding = b"\xff" * fill
    file = b"\xff\xd8" + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    for i in range(min(count, 2)):
        table = b"".join(struct.pack(">H" if wide else "B", int(x)) for x in factors[i])
        file += padding + segment(0xDB, bytes([16 * wide + i]) + table)
    frame = struct.pack(">BHHB", 8, height, width, count)
    for c, (h, v) in enumerate(shape):
        frame += bytes([c + 1, h << 4 | v, min(c, 1)])
    file += padding + segment(0xC2 if bands else 0xC1 if extended else 0xC0, frame)
    if restart:
        file += segment(0xDD, struct.pack(">H", restart))
    scans = scans or [list(range(count))]
    for scan, band in zip(scans, bands or [(0, 63)] * len(scans), strict=True):
        file += padding + _scan(
            scan, band, height, width, shape, coefficients, rng, restart, padding, before_scan, tables
        )
    return file + padding + b"\xff\xd9" + tail


def _scan(scan, band, height, width, shape, coefficients, rng, restart, padding, before_scan, tables):
    across, down = shape[0]
    if len(scan) > 1:
        columns, rows = -(-width // (8 * across)), -(-height // (8 * down))
        units = [
            [(c, row * shape[c][1] + y, column * shape[c][0] + x) for c in scan for y, x in np.ndindex(shape[c][::-1])]
            for row in range(rows)
            for column in range(columns)
        ]
    else:
        h, v = shape[scan[0]]
        columns, rows = -(-width * h // (8 * across)), -(-height * v // (8 * down))
        units = [[(scan[0], row, column)] for row in range(rows) for column in range(columns)]
    intervals = [units[i : i + restart] for i in range(0, len(units), restart)] if restart else [units]
    coded, used = [], {(kind, c > 0): set() for kind in (0, 1) for c in scan}
    for interval in intervals:
        before, blocks = dict.fromkeys(scan, 0), []
        for c, y, x in (place for unit in interval for place in unit):
            block = coefficients[c][y, x]
            symbols = symbols_of(block, before[c], *band)
            before[c] = int(block[0])
            blocks.append((c, symbols))
            for kind, symbol, _, _ in symbols:
                used[kind, c > 0].add(symbol)
        coded.append(blocks)
    codes, data = {}, b""
    for (kind, chroma), symbols in used.items():
        others = rng.integers(0, 12 if kind == 0 else 256, 8)
        others = [int(x) for x in others if kind == 0 or (x & 15 and x & 15 < 11)]
        counts, order, codes[kind, chroma] = random_code(sorted(symbols | set(others)), rng)
        data += segment(0xC4, bytes([kind << 4 | chroma]) + bytes(counts) + bytes(order))
    selectors = b"".join(bytes([c + 1, (c > 0) << 4 | (c > 0)]) for c in scan)
    data += before_scan + segment(0xDA, bytes([len(scan)]) + selectors + bytes([*band, 0]))
    for i, blocks in enumerate(coded):
        bits = Bits()
        for c, symbols in blocks:
            for kind, symbol, value, size in symbols:
                bits.put(*codes[kind, c > 0][symbol])
                bits.put(value, size)
        data += bits.end()
        if i + 1 < len(coded):
            data += padding + bytes([0xFF, 0xD0 + i % 8])
    return data


def random_coefficients(height, width, sampling, rng, largest=40, density=0.3):
    """Blocks with some coefficients, fewer of the high ones."""
    across, down = SAMPLINGS[sampling] or (1, 1)
    shapes = [(across, down)] + ([] if sampling == "gray" else [(1, 1)] * 2)
    fading = density * np.exp(-np.arange(64) / 12)
    result = []
    for h, v in shapes:
        rows, columns = -(-height // (8 * down)) * v, -(-width // (8 * across)) * h
        values = rng.integers(-largest, largest + 1, (rows, columns, 64))
        values[rng.random(values.shape) > fading] = 0
        values[..., 0] = rng.integers(-largest, largest + 1, (rows, columns))
        result.append(values)
    return result


assert ZIGZAG[:4].tolist() == [0, 1, 8, 16]
