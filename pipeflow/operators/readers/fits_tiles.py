"""Compressed images in FITS files: a table with a row for each tile of the image.

The table has an area for arrays of any length behind its rows (the heap). A row holds the size and the place of the compressed
bytes of its tile there. The keywords of the image have a "Z" before their names. The bytes of a tile are in one of three columns:
as the algorithm of the header says, compressed by gzip because that algorithm could not store it, or not compressed.

Tiles of floating point numbers are quantized: whole numbers, with a scale and an offset for each tile. To hide the steps, the
writer has added a number between -0.5 and 0.5 to each before rounding, from a list of random numbers that is the same everywhere.
"""

import zlib
from collections.abc import Callable
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from pipeflow.errors import BadData
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.readers.fits_header import MOST_AXES, STORED, decimal, extents_of, integer

_BYTES = {"L": 1, "X": 1, "B": 1, "I": 2, "J": 4, "K": 8, "A": 1, "E": 4, "D": 8, "C": 8, "M": 16, "P": 8, "Q": 16}
_NUMBERS = {"I": ">i2", "J": ">i4", "K": ">i8", "E": ">f4", "D": ">f8"}
_MOST_COLUMNS = 999
_MOST_PARAMETERS = 99
# A header of a few bytes must not ask for a terabyte. A byte of a unit holds at most so many bytes of values, but an empty tile
# of HCOMPRESS_1 has 26 bytes for any size: images up to a usual size are always read.
_LARGEST_FACTOR, _USUAL_BYTES = 20_000, 1 << 26
_DITHERED = ("SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2")
_EXACT_ZERO = -2147483646  # in SUBTRACTIVE_DITHER_2 this number is 0.0


def decompressed(header: dict[str, str], data: np.ndarray, where: str) -> np.ndarray:
    """The stored values of a compressed image; ``data`` is the table with its heap."""
    bits = integer(header, "ZBITPIX", where, -64, 64)
    extents = extents_of(header, where, "Z")
    if bits not in STORED or not 1 <= len(extents) <= MOST_AXES:
        raise BadData(f"{where}: a compressed image of {len(extents)} axes and ZBITPIX {bits}")
    stored = np.dtype(STORED[bits])
    if prod(extents) * stored.itemsize > max(_LARGEST_FACTOR * data.size, _USUAL_BYTES):
        raise BadData(f"{where}: {data.size} bytes cannot hold an image with the extents {extents}")
    sizes = [
        integer(header, f"ZTILE{axis}", where, 1, 2**62, extent if axis == 1 and extent else 1)
        for axis, extent in enumerate(extents, 1)
    ]
    grid = [-(-extent // size) for extent, size in zip(extents, sizes)]
    table = _Table(header, data, where)
    if table.rows < prod(grid):
        raise BadData(f"{where}: {table.rows} rows for an image of {prod(grid)} tiles")
    image = np.empty(extents[::-1], stored.newbyteorder("="))
    tiles = _Tiles(header, table, stored, where)
    for row in range(prod(grid)):
        places = np.unravel_index(row, grid[::-1])
        region = tuple(slice(place * size, (place + 1) * size) for place, size in zip(places, sizes[::-1]))
        part = image[region]
        part[...] = tiles.values(row, part.size).reshape(part.shape)
    return image


class _TableColumn(NamedTuple):
    begin: int  # bytes from the beginning of a row
    code: str  # its type, a letter of _BYTES; "" if it is empty
    element: str  # the same for the arrays in the heap to which it refers


class _Table:
    """The rows of a table, and its heap."""

    def __init__(self, header: dict[str, str], data: np.ndarray, where: str) -> None:
        self.where = where
        extents = extents_of(header, where)
        if len(extents) != 2:
            raise BadData(f"{where}: a table of {len(extents)} axes")
        width, self.rows = extents
        self.columns: dict[str, _TableColumn] = {}
        begin = 0
        for number in range(1, integer(header, "TFIELDS", where, 0, _MOST_COLUMNS) + 1):
            form = header.get(f"TFORM{number}", "")
            letters = form.lstrip("0123456789")
            repeated = form[: len(form) - len(letters)]
            code, element = letters[:1], letters[1:2]
            if code not in _BYTES or not code or len(repeated) > 9 or (code in "PQ" and element not in _BYTES):
                raise BadData(f"{where}: TFORM{number} is {form[:40]!r}, which is no type of a column")
            count = int(repeated or 1)
            name = header.get(f"TTYPE{number}", "").upper()
            self.columns.setdefault(name, _TableColumn(begin, code if count else "", element))
            begin += -(-count // 8) if code == "X" else count * _BYTES[code]
        if begin > width:
            raise BadData(f"{where}: the columns take {begin} bytes, a row has {width}")
        self._cells = data[: self.rows * width].reshape(self.rows, width)
        self._heap = data[integer(header, "THEAP", where, self.rows * width, data.size, self.rows * width) :]

    def numbers(self, name: str) -> np.ndarray | None:
        """The numbers of a column, one in each row; None without this column."""
        column = self.columns.get(name)
        if column is None or not column.code:
            return None
        if column.code not in _NUMBERS:
            raise BadData(f"{self.where}: the column {name} has the type {column.code!r}, which is not a number")
        return self._read(column, _NUMBERS[column.code], 1)[:, 0]

    def arrays(self, name: str) -> Callable[[int], np.ndarray]:
        """A function that returns the bytes of the array of a row; they are empty without this column."""
        column = self.columns.get(name)
        if column is None or not column.code:
            return lambda _: self._heap[:0]
        if column.code not in "PQ":
            raise BadData(
                f"{self.where}: the column {name} has the type {column.code!r}, which is not an array in the heap"
            )
        places, size = self._read(column, ">i4" if column.code == "P" else ">i8", 2), _BYTES[column.element]

        def array(row: int) -> np.ndarray:
            count, begin = (int(number) for number in places[row])
            if count < 0 or begin < 0 or begin + count * size > self._heap.size:
                raise BadData(
                    f"{self.where}: tile {row + 1} has {count * size} bytes from byte {begin} on, of {self._heap.size}"
                )
            return self._heap[begin : begin + count * size]

        return array

    def _read(self, column: _TableColumn, dtype: str, count: int) -> np.ndarray:
        size = np.dtype(dtype).itemsize * count
        return np.ascontiguousarray(self._cells[:, column.begin : column.begin + size]).view(dtype)


class _Tiles:
    """The tiles of a compressed image."""

    def __init__(self, header: dict[str, str], table: _Table, stored: np.dtype, where: str) -> None:
        self._header, self._stored, self._where = header, stored, where
        self._name = header.get("ZCMPTYPE", "")
        if self._name not in _ALGORITHMS:
            raise BadData(
                f"{where} is compressed by {self._name[:40] or 'nothing'}, which is not read; there are "
                f"{', '.join(_ALGORITHMS)}. Decompress the file with funpack"
            )
        self._parameters = {
            header.get(f"ZNAME{number}", ""): f"ZVAL{number}" for number in range(1, _MOST_PARAMETERS + 1)
        }
        self._compressed, self._zipped, self._plain = (
            table.arrays(f"{prefix}_DATA") for prefix in ("COMPRESSED", "GZIP_COMPRESSED", "UNCOMPRESSED")
        )
        self._scales, self._zeros = self._constants(table, "ZSCALE"), self._constants(table, "ZZERO")
        self._blanks = self._constants(table, "ZBLANK")
        self._quantized = stored.kind == "f" and self._scales is not None
        self._dither = header.get("ZQUANTIZ", "")
        self._first = integer(header, "ZDITHER0", where, 1, _RANDOM, 1) - 1 if self._dither in _DITHERED else 0

    def _constants(self, table: _Table, name: str) -> Callable[[int], float] | None:
        """The number of a row: from the column, or from the header for all rows."""
        column = table.numbers(name)
        if column is not None:
            return lambda row: column[row].item()
        if name not in self._header:
            return None
        value = decimal(self._header, name, self._where, 0.0)
        return lambda _: value

    def _parameter(self, name: str, missing: int, least: int = 1) -> int:
        key = self._parameters.get(name)
        return missing if key is None else integer(self._header, key, self._where, least, 2**31 - 1)

    def values(self, row: int, count: int) -> np.ndarray:
        """The values of a tile, without axes."""
        tile = _PackedTile(
            self._compressed(row), count, self._stored, f"{self._where}: tile {row + 1}", self._parameter
        )
        if tile.data.size and self._quantized:
            return self._restored(_ALGORITHMS[self._name](tile._replace(kind=np.dtype(">i4"))), row)
        if tile.data.size:
            return _ALGORITHMS[self._name](tile)
        zipped = self._zipped(row)
        if zipped.size:
            return _unzipped(tile._replace(data=zipped))
        return _copied(tile._replace(data=self._plain(row)))

    def _restored(self, numbers: np.ndarray, row: int) -> np.ndarray:
        """The floating point numbers of quantized ones."""
        assert self._scales is not None
        exact = numbers.astype(np.float64)
        if self._dither in _DITHERED:
            exact -= _random_numbers(self._first + row, numbers.size)
            exact += 0.5
        exact *= self._scales(row)
        exact += 0.0 if self._zeros is None else self._zeros(row)
        if self._dither == _DITHERED[1]:
            exact[numbers == _EXACT_ZERO] = 0.0
        if self._blanks is not None:
            exact[numbers == self._blanks(row)] = np.nan
        return exact


class _PackedTile(NamedTuple):
    """The bytes of a tile, and what is known of its values."""

    data: np.ndarray
    length: int  # the number of values
    kind: np.dtype
    where: str
    parameter: Callable[..., int]  # a setting of the algorithm, or its default


def _copied(tile: _PackedTile) -> np.ndarray:
    if tile.data.size != tile.length * tile.kind.itemsize:
        raise BadData(f"{tile.where} has {tile.data.size} bytes for {tile.length} values of {tile.kind.itemsize}")
    return tile.data.view(tile.kind)


def _unzipped(tile: _PackedTile) -> np.ndarray:
    size = tile.length * tile.kind.itemsize
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib
    try:
        found = stream.decompress(tile.data.tobytes(), size + 1)
    except zlib.error as error:
        raise BadData(f"{tile.where} cannot be decompressed: {error}") from None
    if not stream.eof and len(found) <= size:
        raise BadData(f"{tile.where} cannot be decompressed: it is cut off")
    return _copied(tile._replace(data=np.frombuffer(found, np.uint8)))


def _shuffled(tile: _PackedTile) -> np.ndarray:
    """First the highest bytes of all values, then the next ones."""
    found = _unzipped(tile).view(np.uint8).reshape(tile.kind.itemsize, tile.length)
    return np.ascontiguousarray(found.T).view(tile.kind)[:, 0]


def _rice(tile: _PackedTile) -> np.ndarray:
    width, block = tile.parameter("BYTEPIX", 4), tile.parameter("BLOCKSIZE", 32)
    if width not in kernels.rice.CODES:
        raise BadData(f"{tile.where}: values of {width} bytes")
    found = kernels.rice.decode(tile.data, tile.length, width, block)
    if isinstance(found, str):
        raise BadData(f"{tile.where} cannot be decompressed: {found}")
    return found.astype(np.uint8) if width == 1 else found.astype(f"u{width}").view(f"i{width}")


def _line_list(tile: _PackedTile) -> np.ndarray:
    words = tile.data[: tile.data.size & ~1].view(">i2").astype(np.int64)
    found = kernels.plio.decode(words, tile.length)
    if found is None:
        raise BadData(f"{tile.where}: its instructions are damaged, or for more than {tile.length} values")
    return found


def _transformed(tile: _PackedTile) -> np.ndarray:
    if tile.parameter("SMOOTH", 0, 0):
        raise BadData(f"{tile.where} is to be smoothed after decompression, which is not done; use funpack")
    found = kernels.hcompress.decode(tile.data, tile.length)
    if found is None:
        raise BadData(f"{tile.where} cannot be decompressed: it is damaged, or not of {tile.length} values")
    return found


_ALGORITHMS: dict[str, Callable[[_PackedTile], np.ndarray]] = {
    "RICE_1": _rice,
    "RICE_ONE": _rice,
    "GZIP_1": _unzipped,
    "GZIP_2": _shuffled,
    "PLIO_1": _line_list,
    "HCOMPRESS_1": _transformed,
    "NOCOMPRESS": _copied,
}

_RANDOM = 10_000


@cache
def _randoms() -> np.ndarray:
    """The list of the standard: a generator that multiplies by 7 ** 5, modulo 2 ** 31 - 1."""
    numbers, modulus = [1], 2**31 - 1
    for _ in range(_RANDOM):
        numbers.append(numbers[-1] * 7**5 % modulus)
    return (np.array(numbers[1:]) / modulus).astype(np.float32)


def _random_numbers(place: int, count: int) -> np.ndarray:
    """The numbers for a tile: the list, each time from a place that the next number of the list gives."""
    numbers, parts = _randoms(), []
    while count:
        begin = int(numbers[place % _RANDOM] * np.float32(500))
        parts.append(numbers[begin : begin + count])
        count -= parts[-1].size
        place += 1
    return np.concatenate([np.empty(0, np.float32), *parts]).astype(np.float64)
