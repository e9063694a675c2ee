"""Reading numbers at bit positions, the highest bit first.

Callers compare the position with the end of the data. The widest read, of 8 bytes, may begin in the last byte: 8 zero bytes
follow the data.
"""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.bits import leading_zeros, word_at

# The usable bits of a word of 64 bits that begins inside a byte.
USABLE = 57


@kernel
def bits_at(data, position, count):
    """``count`` bits, at most 32, as an unsigned number."""
    return np.int64((word_at(data, position) >> np.uint64(1)) >> np.uint64(63 - count))


@kernel
def zeros_at(data, position, end):
    """The number of zero bits at a position, without a limit; -1 if the data end before a one."""
    count = 0
    while position + count <= end:
        word = word_at(data, position + count) >> np.uint64(64 - USABLE)
        if word:
            return count + leading_zeros(word) - (64 - USABLE)
        count += USABLE
    return -1
