"""The .npy format: a header with dtype, order and shape, then the elements.

The header is read with a parser of literals and never with pickle; arrays of objects are refused.
"""

import ast
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from pipeflow.autograph_guard import parse
from pipeflow.errors import BadData

_LONGEST_HEADER = 65536
_USUAL_HEADER = 128
_MOST_AXES = 32
_LARGEST_ARRAY = 2**63 - 1
_EXTENT = r"(?:0|[1-9]\d{0,17})"
# The header as NumPy writes it; a parser reads any other form.
_PLAIN = re.compile(
    r"\{'descr': '([^'\\]*)', 'fortran_order': (True|False), "
    rf"'shape': \((|{_EXTENT},|{_EXTENT}(?:, {_EXTENT})+,?)\),? ?\}}\s*"
)
_DESCRIPTION = re.compile(r"[<>|=][biuf]\d{1,2}")


@dataclass(frozen=True)
class NpyHeader:
    """The header of a .npy file, checked against the number of its bytes."""

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @cached_property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return prod(self.shape) * self.dtype.itemsize

    @cached_property
    def plain(self) -> bool:
        """True if the elements are in memory as those of a NumPy array."""
        return self.dtype.isnative and not self.fortran


@lru_cache(maxsize=64)
def known_header(start: bytes, size: int) -> NpyHeader:
    """The header of an input of `size` bytes, from its first bytes: arrays of a data set often have equal ones."""
    return read_header(start, size, "the input")


def read_header(start: bytes, size: int, where: str) -> NpyHeader:
    """The header of a .npy file of `size` bytes, from its first bytes; `where` names the file in messages."""
    if start[:6] != b"\x93NUMPY":
        raise BadData(f"{where} is not a .npy file: it starts with {start[:8]!r}")
    if start[6:8] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise BadData(f"{where}: .npy files of version {'.'.join(map(str, start[6:8]))} are not known; 1.0 to 3.0 are")
    wide = start[6:7] >= b"\x02"
    first = 12 if wide else 10
    length = int.from_bytes(start[8:first], "little")
    if length > _LONGEST_HEADER or len(start) < first + length:
        raise BadData(f"{where}: truncated or damaged .npy file, its header should have {length} bytes")
    text = start[first : first + length].decode("latin-1")
    description, fortran, shape = _fields(text, where)
    if not isinstance(description, str) or not _DESCRIPTION.fullmatch(description):
        raise BadData(
            f"{where}: elements of type {description!r} are not supported; booleans, integers and floating "
            "point numbers are (arrays of objects would have to be unpickled)"
        )
    try:
        dtype = np.dtype(description)
    except TypeError:
        raise BadData(f"{where}: {description!r} is not a dtype") from None
    if dtype.newbyteorder("=") not in _SUPPORTED:
        raise BadData(f"{where}: elements of type {dtype} are not supported")
    plain = isinstance(shape, tuple) and all(type(extent) is int and extent >= 0 for extent in shape)
    if not plain or len(shape) > _MOST_AXES or type(fortran) is not bool:
        raise BadData(f"{where}: damaged .npy header: shape {shape!r}, fortran_order {fortran!r}")
    header = NpyHeader(dtype, shape, fortran, first + length)
    if header.offset + header.nbytes > size:
        raise BadData(
            f"{where}: truncated .npy file: an array of shape {shape} and type {dtype} needs "
            f"{header.offset + header.nbytes} bytes, the file has {size}"
        )
    # The other extents are limited even if one extent is 0: NumPy limits them too.
    if prod(max(extent, 1) for extent in shape) * dtype.itemsize > _LARGEST_ARRAY:
        raise BadData(f"{where}: damaged .npy header: no array has the shape {shape!r}")
    return header


def _fields(text: str, where: str) -> tuple[Any, Any, Any]:
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        return plain[1], plain[2] == "True", tuple(map(int, re.findall(r"\d+", plain[3])))
    try:
        (statement,) = parse(text.strip()).body
        fields = ast.literal_eval(statement.value)  # type: ignore[attr-defined]
        return fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        raise BadData(f"{where}: damaged .npy header {text[:80]!r}") from None


_SUPPORTED = frozenset(np.dtype(code) for code in "?bhiqBHIQefd")


def header_bytes(start: bytes) -> int:
    """The number of bytes of the header of a file, from its first 12 bytes."""
    if start[6:7] >= b"\x02":
        return 12 + min(int.from_bytes(start[8:12], "little"), _LONGEST_HEADER)
    return 10 + int.from_bytes(start[8:10], "little")


def elements(data: np.ndarray, header: NpyHeader) -> np.ndarray:
    """The array in the bytes that follow the header, in C order and native byte order; a view where possible."""
    flat = data[: header.nbytes].view(header.dtype)
    array = flat.reshape(header.shape[::-1]).T if header.fortran else flat.reshape(header.shape)
    return np.ascontiguousarray(array, header.dtype.newbyteorder("=")).reshape(header.shape)


def decode(data: np.ndarray) -> np.ndarray:
    """The array of a whole .npy file in memory."""
    start = data[:_USUAL_HEADER].tobytes()
    length = header_bytes(start)
    start = start[:length] if length <= len(start) else data[:length].tobytes()
    header = known_header(start, len(data))
    if header.plain and data.flags.c_contiguous:
        return np.ndarray(header.shape, header.dtype, data, header.offset)
    return elements(np.ascontiguousarray(data[header.offset :]), header)
