"""NIfTI-1 and NIfTI-2 files, plain or compressed by gzip: a header of fixed length, then numbers, the width fastest."""

import zlib
from math import isfinite, prod
from struct import error as StructError
from struct import unpack_from
from typing import NamedTuple

import numpy as np

from pipeflow.kernels.cpu.image_base import BadImage
from pipeflow.kernels.cpu.image_limits import Limits
from pipeflow.kernels.cpu.volume_base import Region, Volume, window_of

_GZIP = b"\x1f\x8b"
_LONGEST_HEADER = 544
# The code of a type in the header -> the type of its numbers, and how many of them a voxel has.
_TYPES = {2: ("u1", 1), 4: ("i2", 1), 8: ("i4", 1), 16: ("f4", 1), 64: ("f8", 1), 128: ("u1", 3), 256: ("i1", 1),
          512: ("u2", 1), 768: ("u4", 1), 1024: ("i8", 1), 1280: ("u8", 1), 2304: ("u1", 4)}  # fmt: skip
_REFUSED = {1: "single bits", 32: "complex numbers", 1536: "numbers of 128 bits", 1792: "complex numbers",
            2048: "complex numbers"}  # fmt: skip


class VolumeHeader(NamedTuple):
    shape: tuple[int, ...]  # depth, height, width, times, values of a voxel
    dtype: np.dtype
    offset: int
    slope: float
    intercept: float


def starts(data: np.ndarray) -> bool:
    """True if the file is compressed by gzip, or begins with the length of a NIfTI header."""
    return bytes(data[:2]) == _GZIP or bytes(data[:4]) in (b"\x5c\1\0\0", b"\0\0\1\x5c", b"\x1c\2\0\0", b"\0\0\2\x1c")


def decode(data: np.ndarray, limits: Limits, dtype: np.dtype, region: Region | None) -> Volume:
    """The volume or a part of it. Times, and the values of a voxel, are channels."""
    packed = bytes(data[:2]) == _GZIP
    try:
        header = _read(_unpacked(data, _LONGEST_HEADER) if packed else data[:_LONGEST_HEADER].tobytes())
    except StructError:
        raise BadImage(f"truncated NIfTI file: {len(data)} bytes do not hold its header") from None
    depth, height, width, times, values = header.shape
    shape = depth, height, width, times * values
    part = window_of("NIfTI", shape, header.dtype, len(data), limits, dtype, region)
    end = header.offset + prod(header.shape) * header.dtype.itemsize
    if packed:
        if header.offset > len(data) + (1 << 20):
            raise BadImage(f"damaged NIfTI file: its numbers begin at byte {header.offset}")
        data = np.frombuffer(_unpacked(data, end), np.uint8)
    if len(data) < end:
        raise BadImage(f"truncated NIfTI file: {end} bytes are needed, the file has {len(data)}")
    # In the file, the colours of a voxel are next to each other, and the volumes of later times follow.
    numbers = data[header.offset : end].view(header.dtype)
    stored = numbers.reshape(times, depth, height, width, values)[(slice(None), *part)]
    stored = np.moveaxis(stored, 0, 3).reshape(*stored.shape[1:4], times * values)
    slope, intercept = np.array([header.slope]), np.array([header.intercept])
    return Volume(stored.astype(header.dtype.newbyteorder("=")), slope, intercept)


def _unpacked(data: np.ndarray, length: int) -> bytes:
    """The first `length` bytes of data that is compressed by gzip; fewer if there are fewer."""
    reader = zlib.decompressobj(wbits=31)
    try:
        return reader.decompress(data.data, length)
    except zlib.error as error:
        raise BadImage(f"damaged NIfTI file: gzip says: {error}") from None


def _read(head: bytes) -> VolumeHeader:
    size, order = unpack_from("<i", head)[0], "<"
    if size not in (348, 540):
        size, order = unpack_from(">i", head)[0], ">"
    if len(head) < size:
        raise StructError
    if size == 348:
        magic, places = head[344:348], ("8h", 40, "h", 70, "f", 108, "f", 112)
    elif size == 540:
        magic, places = head[4:8], ("8q", 16, "h", 12, "q", 168, "d", 176)
    else:
        raise BadImage(f"not a NIfTI file: it starts with {head[:4]!r}")
    if magic[:3] in (b"ni1", b"ni2"):
        raise BadImage("a NIfTI header without its data is not decoded: write both as one .nii file")
    if magic[:3] not in (b"n+1", b"n+2"):
        raise BadImage(f"damaged NIfTI file: its mark is {magic!r}")
    extents, (code,), (offset,) = (
        unpack_from(order + form, head, place) for form, place in zip(places[0:6:2], places[1:6:2])
    )
    slope, intercept = unpack_from(f"{order}2{places[6]}", head, places[7])
    count = extents[0]
    if not 1 <= count <= 7 or any(extent < 1 for extent in extents[1 : count + 1]):
        raise BadImage(f"damaged NIfTI file: extents of {list(extents)}")
    axes = [*extents[1 : count + 1], 1, 1, 1, 1, 1, 1][:7]
    if code not in _TYPES:
        raise BadImage(f"a NIfTI file of {_REFUSED.get(code, f'type {code}')} is not decoded")
    if not isfinite(offset) or offset < size + 4:
        raise BadImage(f"damaged NIfTI file: its numbers begin at byte {offset}")
    kind, values = _TYPES[code]
    if not slope or not (isfinite(slope) and isfinite(intercept)) or values > 1:
        slope, intercept = 1.0, 0.0  # a slope of zero means that nothing is scaled
    width, height, depth = axes[:3]
    return VolumeHeader(
        (depth, height, width, prod(axes[3:]), values),
        np.dtype(order + kind),
        int(offset),
        float(slope),
        float(intercept),
    )
