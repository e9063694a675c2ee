"""Rice coding of the tiles of FITS images.

The first value is stored as it is. After it come blocks of differences of neighbours, which are folded: 0, -1, 1, -2, 2 are
stored as 0, 1, 2, 3, 4. Each block begins with a code: all differences are 0, or they are stored as they are, or each one has
its high bits as a number of zeros before a one, and then ``code - 1`` low bits.
"""

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.bit_reading import bits_at, zeros_at
from pipeflow.kernels.cpu.jit import kernel

# Bytes of a value -> bits of the code of a block, and the code of differences that are stored as they are.
CODES = {1: (3, 7), 2: (4, 15), 4: (5, 26)}
PADDING = 16  # zero bytes after the data: a second read may begin behind a short first one at its end


@kernel
def _decode(data, end, out, width, code_bits, stored, block):
    """Writes the values, without a sign; returns the number of values that were there, below 0 for an impossible one."""
    if end < width:
        return 0
    mask = (np.int64(1) << width) - 1
    last = bits_at(data, 0, width)
    position = width
    for first in range(0, out.size, block):
        until = min(first + block, out.size)
        if position + code_bits > end:
            return first
        code = bits_at(data, position, code_bits)
        position += code_bits
        if code > stored:
            return -1
        for place in range(first, until):
            folded = np.int64(0)
            if code == stored:
                if position + width > end:
                    return place
                folded = bits_at(data, position, width)
                position += width
            elif code:
                zeros = zeros_at(data, position, end)
                low = code - 1
                if zeros < 0 or position + zeros + 1 + low > end:
                    return place
                if zeros > mask >> low:
                    return -1
                position += zeros + 1
                folded = zeros << low | bits_at(data, position, low)
                position += low
            last = (last + (folded >> 1 ^ -(folded & 1))) & mask
            out[place] = last
    return out.size


def decode(data: NDArray[np.uint8], count: int, width: int, block: int) -> "NDArray[np.uint32] | str":
    """The values of a tile, without a sign, each of 1, 2 or 4 bytes; or what is wrong with it."""
    padded = np.zeros(data.size + PADDING, np.uint8)
    padded[: data.size] = data
    out = np.empty(count, np.uint32)
    found = _decode(
        padded, np.int64(8 * data.size), out, np.int64(8 * width), *map(np.int64, CODES[width]), np.int64(block)
    )
    if found == count:
        return out
    return "it has a code that does not exist" if found < 0 else f"it ends after {found} of {count} values"
