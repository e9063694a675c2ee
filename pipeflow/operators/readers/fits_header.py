"""The headers of FITS files: lines of 80 characters, "KEYWORD = value / comment", in blocks of 2880 bytes, up to END."""

import re
from typing import Any

from pipeflow.errors import BadData, count_of
from pipeflow.operators.readers.files import read_into

BLOCK, _LINE = 2880, 80
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([EeDd][+-]?\d+)?")
_MOST_AXES = 999
MOST_AXES = 32  # of an array of NumPy
STORED = {8: ">u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}  # BITPIX -> type of the values
_MOST_LINES = 100_000


def read_header(file: Any, path: str, offset: int, size: int, number: int) -> tuple[dict[str, str], int]:
    """The keywords of a unit with their values as text, and where its data begins."""
    found: dict[str, str] = {}
    lines = 0
    while offset + BLOCK <= size:
        block = read_into(file, path, offset, BLOCK).tobytes().decode("latin-1")
        offset += BLOCK
        for begin in range(0, BLOCK, _LINE):
            line = block[begin : begin + _LINE]
            keyword = line[:8].rstrip()
            if not lines and keyword != ("SIMPLE" if number == 1 else "XTENSION"):
                raise BadData(f"{path} is not a FITS file: unit {number} begins with {line[:30]!r}")
            lines += 1
            if keyword == "END":
                return found, offset
            if line[8:10] == "= ":
                value = line[10:].strip()
                text = value[1:].partition("'")[0].strip() if value.startswith("'") else value.partition("/")[0].strip()
                found.setdefault(keyword, text)
        if lines > _MOST_LINES:
            break
    if not lines:
        raise BadData(f"{path} has {count_of(number - 1, 'unit')}, unit {number} was to be read; the first one is 1")
    raise BadData(f"{path}: the header of unit {number} has no end")


def integer(header: dict[str, str], key: str, where: str, least: int, most: int, missing: int | None = None) -> int:
    """The whole number of a keyword; an error if it is not within the limits, or is missing without a default."""
    text = header.get(key)
    if text is None and missing is not None:
        return missing
    if text is None or len(text) > 20 or not re.fullmatch(r"[+-]?[0-9]+", text) or not least <= int(text) <= most:
        raise BadData(f"{where}: {key} must be a whole number from {least} to {most}, got {(text or 'nothing')[:40]!r}")
    return int(text)


def decimal(header: dict[str, str], key: str, where: str, missing: float) -> float:
    """The number of a keyword."""
    text = header.get(key)
    if text is None:
        return missing
    if len(text) > 70 or not _NUMBER.fullmatch(text):
        raise BadData(f"{where}: {key} must be a number, got {text[:40]!r}")
    return float(text.replace("D", "E").replace("d", "e"))


def extents_of(header: dict[str, str], where: str, prefix: str = "") -> list[int]:
    """The extents of an array, first that of the axis that varies fastest. The keywords of a compressed image have a prefix."""
    axes = integer(header, f"{prefix}NAXIS", where, 0, _MOST_AXES)
    return [integer(header, f"{prefix}NAXIS{axis}", where, 0, 2**62) for axis in range(1, axes + 1)]
