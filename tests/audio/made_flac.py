"""FLAC files written bit by bit, of any depth and without a stated length: libsndfile writes neither.

The blocks are verbatim, constant or predicted by a fixed polynomial of the second order.
"""

import numpy as np


class Bits:
    """Bits one after another, as bytes."""

    def __init__(self):
        self.value, self.count = 0, 0

    def put(self, value, count):
        self.value = self.value << count | int(value) & (1 << count) - 1
        self.count += count

    def bytes(self):
        padding = -self.count % 8
        return (self.value << padding).to_bytes((self.count + padding) // 8, "big")


def crc8(data):
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value << 1) ^ (0x07 if value & 0x80 else 0)
        value &= 0xFF
    return value


def crc16(data):
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1) ^ (0x8005 if value & 0x8000 else 0)
        value &= 0xFFFF
    return value


def _subframe(bits, values, depth, kind):
    if kind == "constant":
        bits.put(0, 8)
        bits.put(values[0], depth)
    elif kind == "verbatim":
        bits.put(2, 8)
        for value in values:
            bits.put(value, depth)
    elif kind == "endless":  # after two values a code of zeros alone, which no bit ends
        bits.put(10 << 1, 8)
        for value in values[:2]:
            bits.put(value, depth)
        bits.put(0, 10)
    else:
        bits.put(10 << 1, 8)
        for value in values[:2]:
            bits.put(value, depth)
        residual = [int(c) - 2 * int(b) + int(a) for a, b, c in zip(values, values[1:], values[2:])]
        bits.put(1, 2)  # Rice parameters of 5 bits
        bits.put(0, 4)
        bits.put(25, 5)
        for value in residual:
            code = value << 1 if value >= 0 else (-value << 1) - 1
            bits.put(1, (code >> 25) + 1)
            bits.put(code, 25)


def frame(values, depth, number=0, kind="verbatim", side=False):
    """One frame of samples by channels."""
    size, channels = values.shape
    bits = Bits()
    bits.put(0x7FFC << 1, 16)
    bits.put(7, 4)
    bits.put(0, 4)
    bits.put(8 if side else channels - 1, 4)
    bits.put({8: 1, 12: 2, 16: 4, 20: 5, 24: 6, 32: 7}.get(depth, 0), 3)
    bits.put(0, 1)
    bits.put(number, 8)
    bits.put(size - 1, 16)
    head = bits.bytes()
    bits.put(crc8(head), 8)
    columns = [values[:, channel].tolist() for channel in range(channels)]
    if side:
        columns[1] = [left - right for left, right in zip(*columns)]
    for channel, column in enumerate(columns):
        _subframe(bits, column, depth + (side and channel == 1), kind)
    body = bits.bytes()
    return body + crc16(body).to_bytes(2, "big")


def header(depth, channels, rate, total, largest=4096):
    """The marker and the stream information."""
    bits = Bits()
    for value, count in (
        (16, 16),
        (largest, 16),
        (0, 24),
        (0, 24),
        (rate, 20),
        (channels - 1, 3),
        (depth - 1, 5),
        (total, 36),
    ):
        bits.put(value, count)
    return b"fLaC" + bytes([0x80, 0, 0, 34]) + bits.bytes() + bytes(16)


def flac(values, depth, *, rate=22050, stated=True, kind="verbatim", side=False, block=512):
    """A file of samples by channels; the header says how many unless ``stated`` is false."""
    frames = [
        frame(values[at : at + block], depth, at // block % 128, kind, side) for at in range(0, len(values), block)
    ]
    return np.frombuffer(
        header(depth, values.shape[1], rate, len(values) if stated else 0) + b"".join(frames), np.uint8
    )


def silence(seconds, rate=44100, channels=2, stated=True):
    """Silence in constant blocks: fourteen bytes for 65,535 samples."""
    block = frame(np.zeros((65535, channels), int), 16, 0, "constant")
    count = -(-seconds * rate // 65535)
    head = header(16, channels, rate, count * 65535 if stated else 0, 65535)
    return np.frombuffer(head + block * count, np.uint8)
