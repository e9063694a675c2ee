"""`fn.readers.fits`: images from FITS files, the format of astronomy.

A file is a list of units, each a header and data, in blocks of 2880 bytes. A header is lines of 80 characters,
"KEYWORD = value / comment", up to END; numbers are stored with the high byte first, the first axis varies fastest.
"""

from typing import Any

import numpy as np

from pipeflow.declare import Ints, alias, default, find
from pipeflow.errors import BadData, count_of
from pipeflow.operators.readers import fits_tiles
from pipeflow.operators.readers.files import Listed, open_regular, read_into, size_of
from pipeflow.operators.readers.fits_header import BLOCK, MOST_AXES, STORED, decimal, extents_of, integer, read_header
from pipeflow.operators.readers.reader import reader
from pipeflow.types import as_dtype, shown

# Types without a code in FITS are stored shifted by half of their range.
_MOVED = {("u1", -(2**7)): np.int8, ("i2", 2**15): np.uint16, ("i4", 2**31): np.uint32, ("i8", 2**63): np.uint64}


@reader(
    "readers.fits",
    urls=True,
    outputs=lambda args: len(args.hdu_indices),
    examples=['fn.readers.fits(file_root="sky", hdu_indices=[1])'],
)
class FitsReader:
    """Reads images from the units of FITS files, one output for each of `hdu_indices`, the first unit being 1.

    The axes are in the order of NumPy: the last one varies fastest. Unsigned types are recognised by their offset; other scales
    and offsets are applied, in float32 for 8 and 16 bits and in float64 for more. Compressed images are decompressed.
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
        self.far = self._files.far

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
                header, offset = read_header(file, path, offset, size, number)
                length = _length(header, path, number)
                if offset + length > size:
                    raise BadData(
                        f"{path}: the data of unit {number}, {length} bytes, is not inside the file of {size}"
                    )
                if number in self._units:
                    found[number] = _image(header, read_into(file, path, offset, length), path, number)
                offset += -(-length // BLOCK) * BLOCK
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

    def source_name(self, index: int) -> str:
        """The file's path without `file_root`."""
        return self._files.short(index)


def _length(header: dict[str, str], path: str, number: int) -> int:
    """Bytes of the data of a unit."""
    where = f"{path}: unit {number}"
    bits = integer(header, "BITPIX", where, -64, 64)
    if bits not in STORED:
        raise BadData(f"{where}: BITPIX is {bits}, there are {', '.join(map(str, STORED))}")
    extents = extents_of(header, where)
    if not extents:
        return 0
    grouped = extents[0] == 0 and header.get("GROUPS") == "T"
    values = 1
    for extent in extents[1:] if grouped else extents:
        values *= extent
    more = integer(header, "PCOUNT", where, 0, 2**62, 0)
    return abs(bits) // 8 * integer(header, "GCOUNT", where, 1, 2**62, 1) * (more + values)


def _image(header: dict[str, str], data: np.ndarray, path: str, number: int) -> np.ndarray:
    where = f"{path}: unit {number}"
    kind = header.get("XTENSION", "IMAGE")
    if kind == "BINTABLE" and header.get("ZIMAGE") == "T":
        values = fits_tiles.decompressed(header, data, where)
        return _scaled(header, values, where, "ZBLANK" if "ZBLANK" in header else "BLANK")
    if kind != "IMAGE" or header.get("GROUPS") == "T":
        raise BadData(f"{where} is not an image but {'groups' if kind == 'IMAGE' else kind}")
    extents = extents_of(header, where)
    if not extents:
        raise BadData(f"{where} has no data (NAXIS is 0); images are often in unit 2, the first extension")
    if len(extents) > MOST_AXES:
        raise BadData(f"{where}: an image of {len(extents)} axes")
    stored = np.dtype(STORED[integer(header, "BITPIX", where, -64, 64)])
    count = int(np.prod(extents, dtype=object))
    return _scaled(header, data[: count * stored.itemsize].view(stored).reshape(extents[::-1]), where, "BLANK")


def _scaled(header: dict[str, str], values: np.ndarray, where: str, blank: str) -> np.ndarray:
    """The stored values in the type that they stand for. ``blank`` is the keyword of the number for missing values."""
    stored = values.dtype
    scale, zero = decimal(header, "BSCALE", where, 1.0), decimal(header, "BZERO", where, 0.0)
    native = stored.newbyteorder("=")
    if scale == 1.0 and zero == 0.0:
        return values.astype(native, copy=False)
    moved = (
        _MOVED.get((stored.kind + str(stored.itemsize), int(zero))) if scale == 1.0 and zero == round(zero) else None
    )
    if moved is not None:  # the highest bit is inverted
        unsigned = values.astype(native, copy=False).view(f"u{native.itemsize}")
        return (unsigned ^ unsigned.dtype.type(1 << 8 * native.itemsize - 1)).view(moved)
    floats = np.dtype(np.float32 if stored.itemsize <= 2 or native == np.float32 else np.float64)
    scaled: np.ndarray = values.astype(floats) * floats.type(scale) + floats.type(zero)
    if stored.kind in "iu" and blank in header:
        scaled[values == integer(header, blank, where, -(2**63), 2**63 - 1)] = np.nan
    return scaled


find("readers.fits").devices = ("cpu", "gpu")  # with "gpu" the images are copied there
alias(find("readers.fits"), "experimental.readers.fits")
