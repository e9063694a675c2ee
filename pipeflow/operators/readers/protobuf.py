"""The encoding of protocol buffers: the fields of a message, one after the other.

A damaged message raises ValueError.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(data: memoryview, place: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    value = shift = 0
    while True:
        try:
            byte = data[place]
        except IndexError:
            raise ValueError("a number runs over the end") from None
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, value) of every field of a message; byte strings are views."""
    place, end = 0, len(data)
    while place < end:
        key, place = varint(data, place)
        wire = key & 7
        value: Any
        if wire == VARINT:
            value, place = varint(data, place)
        elif wire == BYTES:
            length, place = varint(data, place)
            if length > end - place:
                raise ValueError(f"a field of {length} bytes where {end - place} are left")
            value, place = data[place : place + length], place + length
        elif wire in (FIXED32, FIXED64):
            length = 4 if wire == FIXED32 else 8
            if length > end - place:
                raise ValueError("a number runs over the end")
            value, place = data[place : place + length], place + length
        else:
            raise ValueError(f"wire type {wire}")
        yield key >> 3, wire, value


def signed(number: int) -> int:
    """A number of 64 bits with its sign."""
    return number - (1 << 64) if number >> 63 else number


def numbers(kind: str, wire: int, value: Any) -> np.ndarray:
    """The numbers of one field: packed into bytes, or a single one."""
    if kind == "float32":
        if wire not in (BYTES, FIXED32) or len(value) % 4:
            raise ValueError("floating point numbers of another size than 4 bytes")
        return np.frombuffer(value, "<f4").astype(np.float32, copy=False)
    if wire == VARINT:
        return np.array([value], np.uint64).view(np.int64)
    if wire != BYTES:
        raise ValueError(f"integers of wire type {wire}")
    return packed_varints(np.frombuffer(value, np.uint8))


def packed_varints(data: np.ndarray) -> np.ndarray:
    """All numbers of a packed field at once: each byte gives seven bits, a byte below 128 ends a number."""
    ends = np.flatnonzero(data < 128)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise ValueError("a number runs over the end")
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - starts + 1
    if len(lengths) and lengths.max() > 10:
        raise ValueError("a number of more than ten bytes")
    shifts = (np.arange(len(data)) - np.repeat(starts, lengths)) * 7
    bits = (data & 127).astype(np.uint64) << shifts.astype(np.uint64)
    sums = np.add.reduceat(bits, starts) if len(starts) else np.empty(0, np.uint64)
    return sums.astype(np.uint64, copy=False).view(np.int64)


def encoded(number: int) -> bytes:
    """A whole number of 64 bits, seven bits a byte."""
    number &= (1 << 64) - 1
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def tagged(field: int, value: "int | bytes") -> bytes:
    """A field of a message: a whole number, or bytes."""
    if isinstance(value, bytes):
        return encoded(field << 3 | BYTES) + encoded(len(value)) + value
    return encoded(field << 3 | VARINT) + encoded(value)
