"""CRC-32C (Castagnoli), the checksum of TFRecord files: eight bytes in each step, by eight tables."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, plain


def _make_tables() -> np.ndarray:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for step in range(1, 8):
        before = tables[step - 1]
        tables[step] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(255)]
    return tables


_TABLES = _make_tables()


@kernel(fastmath=False)
def _crc32c(data):
    crc = np.uint32(0xFFFFFFFF)
    tables = _TABLES
    eights = data.size & ~7
    for start in range(0, eights, 8):
        low = crc ^ (
            np.uint32(data[start])
            | np.uint32(data[start + 1]) << np.uint32(8)
            | np.uint32(data[start + 2]) << np.uint32(16)
            | np.uint32(data[start + 3]) << np.uint32(24)
        )
        crc = (
            tables[7, low & np.uint32(255)]
            ^ tables[6, (low >> np.uint32(8)) & np.uint32(255)]
            ^ tables[5, (low >> np.uint32(16)) & np.uint32(255)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, data[start + 4]]
            ^ tables[2, data[start + 5]]
            ^ tables[1, data[start + 6]]
            ^ tables[0, data[start + 7]]
        )
    for place in range(eights, data.size):
        crc = (crc >> np.uint32(8)) ^ tables[0, (crc ^ np.uint32(data[place])) & np.uint32(255)]
    return crc ^ np.uint32(0xFFFFFFFF)


def crc32c(data: np.ndarray) -> int:
    """The CRC-32C of an array of bytes."""
    return int(_crc32c(plain(data)))


def masked(data: np.ndarray) -> int:
    """The CRC as TFRecord files store it: rotated, and shifted by a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
