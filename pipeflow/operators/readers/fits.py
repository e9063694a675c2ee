"""`fn.readers.fits`: images from FITS files, the format of astronomy.

A file is a list of units, each a header and data, in blocks of 2880 bytes. A header is lines of 80 characters,
"KEYWORD = value / comment", up to END; numbers are stored with the high byte first, the first axis varies fastest.
"""

import re
from typing import Any

import numpy as np

from pipeflow.declare import Ints, alias, default, find
from pipeflow.errors import BadData, count_of
from pipeflow.operators.readers.files import Listed, open_regular, read_into, size_of
from pipeflow.operators.readers.reader import reader
from pipeflow.types import as_dtype, shown

_BLOCK, _LINE = 2880, 80
_STORED = {8: ">u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
# Types without a code in FITS are stored shifted by half of their range.
_MOVED = {(8, -(2**7)): np.int8, (16, 2**15): np.uint16, (32, 2**31): np.uint32, (64, 2**63): np.uint64}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([EeDd][+-]?\d+)?")
_MOST_AXES = 999
_MOST_LINES = 100_000


@reader(
    "readers.fits",
    outputs=lambda args: len(args.hdu_indices),
    examples=['fn.readers.fits(file_root="sky", hdu_indices=[1])'],
)
class FitsReader:
    """Reads images from the units of FITS files, one output for each of `hdu_indices`, the first unit being 1.

    The axes are in the order of NumPy: the last one varies fastest. Unsigned types are recognised by their offset; other scales
    and offsets are applied, in float32 for 8 and 16 bits and in float64 for more. Compressed images are refused.
    """

    def __init__(
        self,
        *,
        file_root: str | None = default(None, "folder of the files, or of relative paths"),
        files: Any = default(None, "paths of the files"),
        file_list: str | None = default(None, "path of a text file with a path in each line"),
        file_filter: str = default("*.fits", "pattern that the names of files match"),
        hdu_indices: Ints = default((2,), "numbers of the units that are read, from 1"),
        dtypes: Any = default(None, "types that the units must have, one or a list; default: any"),
    ) -> None:
        if not hdu_indices or min(hdu_indices) < 1:
            raise ValueError(f"hdu_indices must be one or more numbers from 1 on, got {list(hdu_indices)}")
        self._units = list(hdu_indices)
        given = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(self._units)
        if len(given) != len(self._units):
            raise ValueError(f"{count_of(len(given), 'type')} in 'dtypes' for {count_of(len(self._units), 'unit')}")
        self._types = [None if dtype is None else np.dtype(as_dtype(dtype)) for dtype in given]
        self._files = Listed(file_root, files, file_list, file_filter)

    def __len__(self) -> int:
        return len(self._files)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The images of one file."""
        with self._files.naming(index):
            return self._read(self._files[index])

    def _read(self, path: str) -> tuple[np.ndarray, ...]:
        found: dict[int, np.ndarray] = {}
        with open_regular(path) as file:
            size, offset = size_of(file), 0
            for number in range(1, max(self._units) + 1):
                header, offset = _header(file, path, offset, size, number)
                length = _length(header, path, number)
                if offset + length > size:
                    raise BadData(
                        f"{path}: the data of unit {number}, {length} bytes, is not inside the file of {size}"
                    )
                if number in self._units:
                    found[number] = _image(header, read_into(file, path, offset, length), path, number)
                offset += -(-length // _BLOCK) * _BLOCK
        for number, dtype in zip(self._units, self._types, strict=True):
            if dtype is not None and found[number].dtype != dtype:
                raise TypeError(
                    f"{path}: unit {number} holds {shown(found[number].dtype)}, 'dtypes' says {shown(dtype)}; read it as it "
                    "is and convert it with fn.cast"
                )
        return tuple(found[number] for number in self._units)

    def source_info(self, index: int) -> str:
        """The file's path."""
        return self._files[index]


def _header(file: Any, path: str, offset: int, size: int, number: int) -> tuple[dict[str, str], int]:
    """The keywords of a unit with their values as text, and where its data begins."""
    found: dict[str, str] = {}
    lines = 0
    while offset + _BLOCK <= size:
        block = read_into(file, path, offset, _BLOCK).tobytes().decode("latin-1")
        offset += _BLOCK
        for begin in range(0, _BLOCK, _LINE):
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


def _integer(header: dict[str, str], key: str, where: str, least: int, most: int, missing: int | None = None) -> int:
    text = header.get(key)
    if text is None and missing is not None:
        return missing
    if text is None or len(text) > 20 or not re.fullmatch(r"[+-]?[0-9]+", text) or not least <= int(text) <= most:
        raise BadData(f"{where}: {key} must be a whole number from {least} to {most}, got {(text or 'nothing')[:40]!r}")
    return int(text)


def _number(header: dict[str, str], key: str, where: str, missing: float) -> float:
    text = header.get(key)
    if text is None:
        return missing
    if len(text) > 70 or not _NUMBER.fullmatch(text):
        raise BadData(f"{where}: {key} must be a number, got {text[:40]!r}")
    return float(text.replace("D", "E").replace("d", "e"))


def _extents(header: dict[str, str], where: str) -> list[int]:
    axes = _integer(header, "NAXIS", where, 0, _MOST_AXES)
    return [_integer(header, f"NAXIS{axis}", where, 0, 2**62) for axis in range(1, axes + 1)]


def _length(header: dict[str, str], path: str, number: int) -> int:
    """Bytes of the data of a unit."""
    where = f"{path}: unit {number}"
    bits = _integer(header, "BITPIX", where, -64, 64)
    if bits not in _STORED:
        raise BadData(f"{where}: BITPIX is {bits}, there are {', '.join(map(str, _STORED))}")
    extents = _extents(header, where)
    if not extents:
        return 0
    grouped = extents[0] == 0 and header.get("GROUPS") == "T"
    values = 1
    for extent in extents[1:] if grouped else extents:
        values *= extent
    more = _integer(header, "PCOUNT", where, 0, 2**62, 0)
    return abs(bits) // 8 * _integer(header, "GCOUNT", where, 1, 2**62, 1) * (more + values)


def _image(header: dict[str, str], data: np.ndarray, path: str, number: int) -> np.ndarray:
    where = f"{path}: unit {number}"
    kind = header.get("XTENSION", "IMAGE")
    if header.get("ZIMAGE") == "T":
        raise BadData(f"{where} is a compressed image, which is not read; convert it with funpack")
    if kind != "IMAGE" or header.get("GROUPS") == "T":
        raise BadData(f"{where} is not an image but {'groups' if kind == 'IMAGE' else kind}")
    extents = _extents(header, where)
    if not extents:
        raise BadData(f"{where} has no data (NAXIS is 0); images are often in unit 2, the first extension")
    if len(extents) > 32:
        raise BadData(f"{where}: an image of {len(extents)} axes")
    bits = _integer(header, "BITPIX", where, -64, 64)
    stored = np.dtype(_STORED[bits])
    count = int(np.prod(extents, dtype=object))
    values = data[: count * stored.itemsize].view(stored).reshape(extents[::-1])
    scale, zero = _number(header, "BSCALE", where, 1.0), _number(header, "BZERO", where, 0.0)
    native = stored.newbyteorder("=")
    if scale == 1.0 and zero == 0.0:
        return values.astype(native)
    moved = _MOVED.get((bits, int(zero))) if scale == 1.0 and zero == round(zero) else None
    if moved is not None:  # the highest bit is inverted
        unsigned = values.astype(native).view(f"u{native.itemsize}")
        return (unsigned ^ unsigned.dtype.type(1 << 8 * native.itemsize - 1)).view(moved)
    floats = np.dtype(np.float32 if bits in (8, 16, -32) else np.float64)
    scaled: np.ndarray = values.astype(floats) * floats.type(scale) + floats.type(zero)
    if bits > 0 and "BLANK" in header:
        scaled[values == _integer(header, "BLANK", where, -(2**63), 2**63 - 1)] = np.nan
    return scaled


find("readers.fits").devices = ("cpu", "gpu")  # with "gpu" the images are copied there
alias(find("readers.fits"), "experimental.readers.fits")
