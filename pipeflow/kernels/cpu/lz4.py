"""The block format of LZ4: runs of literal bytes, each followed by a copy of earlier bytes."""

import numpy as np

from .jit import kernel, plain

CUT_OFF, TOO_LONG, BEFORE_START = -1, -2, -3
PROBLEMS = {
    CUT_OFF: "it ends in the middle of a run",
    TOO_LONG: "it holds more than its shape has room for",
    BEFORE_START: "it copies from before its beginning",
}


@kernel
def decompress(source, out):
    """Decompresses a block to `out`; returns the number of bytes, below 0 for a block that is not valid."""
    place, at = 0, 0
    while place < source.size:
        token = source[place]
        place += 1
        count = np.int64(token >> np.uint8(4))
        if count == 15:
            more = np.int64(255)
            while more == 255:
                if place >= source.size:
                    return CUT_OFF
                more = np.int64(source[place])
                place += 1
                count += more
        if place + count > source.size:
            return CUT_OFF
        if at + count > out.size:
            return TOO_LONG
        out[at : at + count] = source[place : place + count]
        place += count
        at += count
        if place == source.size:
            break  # the last run has no copy
        if place + 2 > source.size:
            return CUT_OFF
        back = np.int64(source[place]) | (np.int64(source[place + 1]) << 8)
        place += 2
        if back == 0 or back > at:
            return BEFORE_START
        count = np.int64(token & np.uint8(15))
        if count == 15:
            more = np.int64(255)
            while more == 255:
                if place >= source.size:
                    return CUT_OFF
                more = np.int64(source[place])
                place += 1
                count += more
        count += 4
        if at + count > out.size:
            return TOO_LONG
        for _ in range(count):  # the copy may overlap its own result
            out[at] = out[at - back]
            at += 1
    return at


def inflate(source: np.ndarray, out: np.ndarray) -> str:
    """Fills the bytes of `out` from a block; returns the error in the block, or ""."""
    found = decompress(plain(source), out)
    if found < 0:
        return PROBLEMS[found]
    return "" if found == out.size else f"it holds {found} bytes, its shape has room for {out.size}"
