"""Finds coefficients of a JPEG file that no scan has.

A progressive file has a coarse image in its first scans, and the details in later ones. If the last scans are missing, the file
decodes to a coarse image without an error.
"""

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.image_base import MOST_PIECES, BadImage, Header

# Bytes after 0xFF that begin no segment: stuffing, fill bytes, and the restart markers inside scans.
_NO_SEGMENT = np.isin(np.arange(256), [0x00, 0x01, *range(0xD0, 0xD9), 0xFF])
_UNSENT = 255  # above any number of bits that may be left for later scans


def check(data: NDArray[np.uint8], header: Header) -> None:
    """Raises an error for a file that lacks scans."""
    lacking = missing(data)
    if lacking:
        raise BadImage(f'incomplete {header}: {lacking}; on_damage="accept" gives what is there')


def missing(data: NDArray[np.uint8]) -> str:
    """The coefficients that no scan has, as text; empty for a complete file, and for damage that a decoder reports."""
    left: dict[int, bytearray] = {}  # component -> for each coefficient the bits that are missing
    place, progressive = 2, False
    fills = np.flatnonzero(data[:-1] == 0xFF)  # a regular expression would take a fifth of the time of decoding
    markers = fills[~_NO_SEGMENT[data[fills + 1]]].tolist()
    file = data.data
    try:
        for _ in range(MOST_PIECES):
            place = markers[bisect_left(markers, place)] + 4
            marker = file[place - 3]
            if marker == 0xD9:
                return _words(left)
            segment = place
            place += max((file[place - 2] << 8 | file[place - 1]) - 2, 0)
            if marker == 0xDA:
                count = file[segment]
                first, last, bits = file[segment + 1 + 2 * count : segment + 4 + 2 * count]
                if not progressive:
                    first, last, bits = 0, 63, 0
                if first > last or last > 63:
                    return ""
                sent = bytes([bits & 15]) * (last + 1 - first)
                for component in file[segment + 1 : segment + 1 + 2 * count : 2]:
                    left[component][first : last + 1] = sent
                if not any(map(any, left.values())):
                    return ""
            elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                if left:
                    return ""
                progressive = marker in (0xC2, 0xCA)
                count = file[segment + 5]
                left = {name: bytearray([_UNSENT] * 64) for name in file[segment + 6 : segment + 6 + 3 * count : 3]}
    except (IndexError, KeyError, ValueError):
        pass
    return ""


def _words(left: dict[int, bytearray]) -> str:
    """The first incomplete component and its missing part, as text."""
    for number, bits in enumerate(left.values(), 1):
        unsent = [k for k in range(64) if bits[k] == _UNSENT]
        coarse = [k for k in range(64) if bits[k]]
        if unsent:
            return f"no scan has the coefficients {unsent[0]} to {unsent[-1]} of component {number}"
        if coarse:
            return f"no scan has the lowest bits of the coefficients {coarse[0]} to {coarse[-1]} of component {number}"
    return ""
