"""The headers of the usual sound files, read by compiled code: the shape of the sound is known before it is decoded.

Unusual and damaged files are not described; ``audio_wav`` and ``audio_flac`` decide about them.
"""

from pipeflow.kernels.cpu.audio_wav import MOST_CHUNKS
from pipeflow.kernels.cpu.jit import kernel

UNKNOWN, WAV, FLAC = 0, 1, 2
_NOTHING = UNKNOWN, 0, 0, 0, 0, 0, 0


@kernel
def _little(data, at, count):
    value = 0
    for i in range(count):
        value |= int(data[at + i]) << (8 * i)
    return value


@kernel
def _big(data, at, count):
    value = 0
    for i in range(count):
        value = value << 8 | int(data[at + i])
    return value


_RIFF, _WAVE, _FMT, _DATA = (int.from_bytes(name, "little") for name in (b"RIFF", b"WAVE", b"fmt ", b"data"))
_FLAC = int.from_bytes(b"fLaC", "big")


@kernel
def _wav(data):
    at, frame, bits, channels, rate = 12, 0, 0, 0, 0
    for _ in range(MOST_CHUNKS):
        if at + 8 > data.size:
            break
        name, length = _little(data, at, 4), _little(data, at + 4, 4)
        at += 8
        if name == _FMT:
            if length < 16 or at + length > data.size:
                break
            kind, channels, rate = _little(data, at, 2), _little(data, at + 2, 2), _little(data, at + 4, 4)
            frame, bits = _little(data, at + 12, 2), _little(data, at + 14, 2)
            if kind != 1 or bits not in (8, 16, 32) or not channels or not rate or frame != channels * bits // 8:
                break
        elif name == _DATA:
            if frame and 0 < length <= data.size - at:
                return WAV, bits, channels, rate, 0, at, length // frame
            break
        at += length + length % 2
    return _NOTHING


@kernel
def _flac(data):
    head = _big(data, 18, 8)
    block, rate, total = _big(data, 10, 2), (head >> 44) & 0xFFFFF, head & ((1 << 36) - 1)
    channels, bits = (head >> 41 & 7) + 1, (head >> 36 & 31) + 1
    if data[4] & 0x7F or not rate or block < 16 or not total:
        return _NOTHING
    at, last = 4, False
    while not last:
        if at + 4 > data.size:
            return _NOTHING
        last = data[at] >= 0x80
        at += 4 + _big(data, at + 1, 3)
    return FLAC, bits, channels, rate, block, at, total


@kernel
def read(data):
    """Returns (kind, bits, channels, rate, largest block of a FLAC file, place of the samples in bytes, samples of a channel).

    The kind is UNKNOWN for files that are not described.
    """
    if data.size >= 12 and _little(data, 0, 4) == _RIFF and _little(data, 8, 4) == _WAVE:
        return _wav(data)
    if data.size >= 42 and _big(data, 0, 4) == _FLAC:
        return _flac(data)
    return _NOTHING


@kernel
def padded(data, out):
    """Copies the data, and zeros after it."""
    for i in range(data.size):
        out[i] = data[i]
    for i in range(data.size, out.size):
        out[i] = 0


@kernel
def clear(out):
    """Fills the array with zeros."""
    for i in range(out.size):
        out[i] = 0
