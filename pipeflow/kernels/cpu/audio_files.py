"""Decodes sound files with libsndfile: Ogg Vorbis and Opus, MP3, AIFF, the rarer kinds of wav and FLAC."""

import io
from struct import unpack_from

import numpy as np
import soundfile
from numpy.typing import NDArray

from pipeflow.kernels.cpu.audio_wav import MOST_CHUNKS, BrokenAudio, believable, check_size

# The number of frames that are read at a time if the header announces more than the file is likely to have.
PIECE = 1 << 16


class _Bytes(io.BytesIO):
    """Bytes as a file for libsndfile.

    A damaged offset may seek to a place before the beginning; a callback must not raise an error then.
    """

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            return super().seek(max(offset, 0))
        return super().seek(offset, whence)


def check_complete(data: NDArray[np.uint8]) -> None:
    """Raises BrokenAudio if the container shows that bytes are missing; libsndfile would return the rest."""
    head = data[:4].tobytes()
    if head == b"FORM" and data.size >= 8:
        announced = unpack_from(">I", data.data, 4)[0] + 8
        if announced > data.size:
            raise BrokenAudio(f"aiff: {announced} bytes are announced, the file has {data.size}: it is truncated")
        _check_rate(data)
    elif head == b"RF64" and data.size >= 36 and data[12:16].tobytes() == b"ds64":
        announced = unpack_from("<Q", data.data, 28)[0]
        if announced > data.size and announced != 0xFFFFFFFFFFFFFFFF:
            raise BrokenAudio(
                f"wav: the header announces {announced} bytes of samples, the file has {data.size}: it is truncated"
            )
    elif head == b"OggS":
        _check_pages(data)


def _check_rate(data: NDArray[np.uint8]) -> None:
    """Raises an error for an AIFF file with an impossible rate, which libsndfile would replace."""
    at = 12
    for _ in range(MOST_CHUNKS):
        if at + 26 > data.size:
            return
        name, length = unpack_from(">4sI", data.data, at)
        if name == b"COMM":
            exponent, mantissa = unpack_from(">HQ", data.data, at + 16)
            if not 0 <= exponent - 16383 < 32 or not mantissa >> 63:
                raise BrokenAudio(f"aiff: an impossible rate, stored as {data[at + 16 : at + 26].tobytes().hex()}")
            return
        at += 8 + length + length % 2


def _check_pages(data: NDArray[np.uint8]) -> None:
    at, last, begun = 0, False, False
    while at < data.size and data[at : at + 4].tobytes() == b"OggS":
        if at + 27 > data.size or at + 27 + int(data[at + 26]) > data.size:
            break
        segments = int(data[at + 26])
        end = at + 27 + segments + int(data[at + 27 : at + 27 + segments].sum(dtype=np.int64))
        if end > data.size:
            break
        first, last = bool(data[at + 5] & 2), bool(data[at + 5] & 4)
        if first and begun:
            raise BrokenAudio(f"ogg: another recording begins at byte {at}; files of several in a row are not decoded")
        begun |= not first
        at = end
    if at < data.size and data[at : at + 4].tobytes() == b"OggS"[: data.size - at]:
        raise BrokenAudio(f"ogg: the file ends after {data.size} bytes inside a page: it is truncated")
    if not last:
        raise BrokenAudio(f"ogg: the last page, at byte {at}, is not marked as the end: the file is truncated")


def decode(data: NDArray[np.uint8], dtype: str, limit: int) -> tuple[NDArray, int]:
    """Returns the samples, frames by channels, and their rate.

    The samples have ``dtype`` (float32, int16 or int32), but are float32 if the file stores floats. More than ``limit`` bytes of
    samples are refused: at once if the header states them, else as soon as they are decoded.
    """
    check_complete(data)
    try:
        with soundfile.SoundFile(_Bytes(data.data)) as file:
            announced, channels, rate = file.frames, file.channels, file.samplerate
            if file.subtype in ("FLOAT", "DOUBLE"):
                dtype = "float32"  # libsndfile would cut floats to integers without scaling them
            size = np.dtype(dtype).itemsize * channels
            if believable(announced * size, data.size):
                check_size(announced, size, limit)
                samples = file.read(announced, dtype=dtype, always_2d=True)
            else:
                samples = _in_pieces(file, dtype, channels, limit)
    except soundfile.LibsndfileError as error:
        raise BrokenAudio(f"the sound file cannot be decoded: {error.error_string}") from None
    if len(samples) < announced:
        raise BrokenAudio(
            f"the header announces {announced} samples, {len(samples)} could be decoded: "
            "the file is truncated or damaged"
        )
    return samples, rate


def _in_pieces(file: soundfile.SoundFile, dtype: str, channels: int, limit: int) -> NDArray:
    pieces, done = [np.empty((0, channels), dtype)], 0
    while len(piece := file.read(max(PIECE // channels, 1), dtype=dtype, always_2d=True)):
        pieces.append(piece)
        done += len(piece)
        check_size(done, channels * piece.itemsize, limit)
    return np.concatenate(pieces)
