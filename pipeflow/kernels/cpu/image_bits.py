"""Converts stored numbers of any number of bits to the types of arrays."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, plain


def filled(numbers: np.ndarray, largest: int) -> np.ndarray:
    """Scales numbers from 0 to `largest` to the whole range of 8 or of 16 bits, rounded to the nearest."""
    full = 255 if largest < 256 else 65535
    dtype = np.uint8 if full == 255 else np.uint16
    if largest == full:
        return numbers.astype(dtype, copy=False)
    table = (np.arange(largest + 1, dtype=np.int64) * (2 * full) + largest) // (2 * largest)
    return table.astype(dtype)[numbers]


def unpacked(rows: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first `count` numbers of `bits` bits (1 to 16, the highest bit first) of each row of bytes."""
    if bits == 8:
        return rows[:, :count]
    if bits == 1:
        return np.unpackbits(rows, axis=1, count=count)
    out = np.empty((len(rows), count), np.uint8 if bits < 8 else np.uint16)
    _unpack(plain(rows), bits, out)
    return out


@kernel
def _unpack(rows, bits, out):
    mask = (1 << bits) - 1
    for row in range(out.shape[0]):
        held, waiting, place = 0, 0, 0
        for i in range(out.shape[1]):
            while waiting < bits:
                held = (held << 8 | np.int64(rows[row, place])) & 0xFFFFFFFF
                place += 1
                waiting += 8
            waiting -= bits
            out[row, i] = held >> waiting & mask
