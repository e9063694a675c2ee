"""PLIO, which stores masks of whole numbers from 0 on as instructions of 16 bits, 4 for the operation and 12 for a number."""

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.jit import kernel

ZEROS, SET, UP, DOWN, VALUES, ZEROS_AND_VALUE, UP_AND_VALUE, DOWN_AND_VALUE = range(8)
SHORT_HEADER, LONG_HEADER = 3, 7  # words


@kernel
def _decode(words, out):
    """Writes the values; False for instructions that are damaged."""
    if words.size < SHORT_HEADER:
        return False
    end, place = words[2], SHORT_HEADER
    if end <= 0:  # the long form of the header, which has its own size in its second word
        if words.size < LONG_HEADER:
            return False
        end, place = (words[4] << 15) + words[3], words[1]
    if place < SHORT_HEADER or end > words.size:
        return False
    at, value = 0, np.int64(1)
    while place < end:
        operation, number = (words[place] & 0xFFFF) >> 12, words[place] & 0xFFF
        place += 1
        if operation == SET:
            if place >= end:
                return False
            value = ((words[place] & 0xFFFF) << 12) + number
            place += 1
            continue
        if operation in (UP, UP_AND_VALUE):
            value += number
        elif operation in (DOWN, DOWN_AND_VALUE):
            value -= number
        elif operation > DOWN_AND_VALUE:
            return False
        if operation in (UP, DOWN):
            continue
        count = number if operation in (ZEROS, VALUES, ZEROS_AND_VALUE) else 1
        if at + count > out.size:
            return False
        for index in range(at, at + count):
            out[index] = value if operation == VALUES else 0
        at += count
        if count and operation >= ZEROS_AND_VALUE:
            out[at - 1] = value
    for index in range(at, out.size):
        out[index] = 0
    return True


def decode(words: NDArray[np.int64], count: int) -> "NDArray[np.int32] | None":
    """The values of a tile; None for damaged instructions."""
    out = np.empty(count, np.int32)
    return out if _decode(words, out) else None
