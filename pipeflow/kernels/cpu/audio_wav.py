"""Reads wav files directly from their bytes: one pass from the file's integers to float32, without the GIL.

Only uncompressed samples are read here. ``parse`` returns None for all other files, which a general audio library may
support, and raises BrokenAudio for a wav file that is damaged or incomplete.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.jit import kernel

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
# A file with more chunks than this before its samples is not a wav file.
MOST_CHUNKS = 10_000
_HEADER, _CHUNK, _FORMAT, _KIND = Struct("<4sI4s"), Struct("<4sI"), Struct("<HHIIHH"), Struct("<H")
_EXTENSIBLE_TAIL = bytes.fromhex("000000001000800000aa00389b71")
_DTYPES = {(PCM, 8): "u1", (PCM, 16): "<i2", (PCM, 32): "<i4", (FLOAT, 32): "<f4", (FLOAT, 64): "<f8"}


def believable(announced: int, size: int) -> bool:
    """True if memory for this number of bytes of sound may be allocated at once for a compressed file of ``size`` bytes.

    If not, the file is read piece by piece: else a header could cause the allocation of memory that the file does not fill.
    """
    return announced <= believable_bytes(size, max)


def believable_bytes(size: Any, largest: Callable[[Any, Any], Any]) -> Any:
    """The most bytes of sound for which memory may be allocated at once."""
    return largest(64 * size, 1 << 24)


def check_size(frames: int, frame: int, limit: int) -> None:
    """Raises an error if ``frames`` frames of ``frame`` bytes each are more than ``limit`` bytes."""
    if frames * frame > limit:
        raise BrokenAudio(
            f"{frames} samples of {frame} bytes are more than max_bytes={limit}; raise max_bytes if it is meant"
        )


class BrokenAudio(ValueError, RuntimeError):
    """The bytes are not a sound file that can be decoded as a whole; DALI's RuntimeError and a ValueError."""


class Wav(NamedTuple):
    """The contents of the header, checked against the file."""

    kind: int  # PCM or FLOAT
    bits: int
    channels: int
    rate: int
    begin: int  # place of the samples, in bytes
    frames: int


def parse(data: NDArray[np.uint8]) -> Wav | None:
    """Reads the header of a wav file; None if these bytes are not an uncompressed little-endian wav file."""
    size, view = data.size, data.data
    if size < 12:
        return None
    riff, whole, wave = _HEADER.unpack_from(view)
    if riff != b"RIFF" or wave != b"WAVE":
        return None
    layout: tuple[int, int, int, int] | None = None
    known = False
    at = 12
    for _ in range(MOST_CHUNKS):
        if at + 8 > size:
            break
        name, length = _CHUNK.unpack_from(view, at)
        at += 8
        if name == b"fmt ":
            known, layout = True, _format(view, at, length)
        elif name == b"data":
            if not known:
                raise BrokenAudio("wav: the samples come before their format")
            held = size - at
            if _left_open(length, held, whole, at):
                length = held
            elif length > held:
                raise BrokenAudio(
                    f"wav: the header announces {length} bytes of samples, the file has {held}: it is truncated"
                )
            return _samples(layout, at, length) if layout is not None else None
        at += length + length % 2
    raise BrokenAudio(f"wav: the file ends after {size} bytes without samples: it is truncated")


def _left_open(length: int, held: int, whole: int, at: int) -> bool:
    """True if the samples continue to the end of the file, because a program that writes to a stream cannot fill in the
    size.

    ``length`` and ``whole`` are the announced sizes of the samples and of the file; ``held`` bytes follow after ``at``.
    FFmpeg writes 0xFFFFFFFF, SoX a size just below 2 GiB. Others write 0, and for the file the size up to the samples.
    """
    if length > held:
        return length == 0xFFFFFFFF or length >> 16 == 0x7FFF
    return length == 0 and (whole + 8 <= at or whole == 0xFFFFFFFF or whole >> 16 == 0x7FFF)


def _format(view: memoryview, at: int, length: int) -> tuple[int, int, int, int] | None:
    if length < 16 or at + length > len(view):
        raise BrokenAudio("wav: the file ends inside the format: it is truncated")
    kind, channels, rate, _, frame, bits = _FORMAT.unpack_from(view, at)
    if kind == EXTENSIBLE and length >= 40 and view[at + 26 : at + 40] == _EXTENSIBLE_TAIL:
        kind = _KIND.unpack_from(view, at + 24)[0]
    if (kind, bits) not in _DTYPES and (kind, bits) != (PCM, 24):
        return None
    if channels == 0 or rate == 0 or frame != channels * bits // 8:
        raise BrokenAudio(
            f"wav: the format is impossible: {channels} channels of {bits} bits in {frame} bytes, "
            f"{rate} samples a second"
        )
    return kind, bits, channels, rate


def _samples(layout: tuple[int, int, int, int], at: int, length: int) -> Wav:
    kind, bits, channels, rate = layout
    return Wav(kind, bits, channels, rate, at, length // (channels * bits // 8))


@kernel
def _join_24(source, out):
    """Converts little-endian 24-bit integers to the upper bits of int32."""
    for i in range(out.size):
        value = (np.uint32(source[3 * i]) << 8) | (np.uint32(source[3 * i + 1]) << 16)
        out[i] = np.int32(value | (np.uint32(source[3 * i + 2]) << 24))


def samples(data: NDArray[np.uint8], wav: Wav) -> NDArray:
    """The stored samples, frames by channels, as they are; a view of the file unless they have 24 bits."""
    stored = data[wav.begin : wav.begin + wav.frames * wav.channels * wav.bits // 8]
    if wav.bits == 24 and wav.kind == PCM:
        joined = np.empty(wav.frames * wav.channels, np.int32)
        _join_24(stored, joined)
        return joined.reshape(wav.frames, wav.channels)
    return stored.view(_DTYPES[wav.kind, wav.bits]).reshape(wav.frames, wav.channels)
