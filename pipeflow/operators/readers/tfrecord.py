"""`fn.readers.tfrecord`: features of the tf.train.Example records in TFRecord files.

A record is its length (8 bytes), the length's CRC, the data and the data's CRC; both CRCs are checked. An index file has a line
"offset length" for each record (the whole record, with its 16 bytes of frame); without one, the lengths in the file are read
once, at the start.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np

from pipeflow.declare import default, find, required
from pipeflow.errors import BadData, count_of
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.readers.ahead import of_each
from pipeflow.operators.readers.files import Paths, open_regular, read_lines, read_range, size_at, size_of, stated
from pipeflow.operators.readers.places import expanded
from pipeflow.operators.readers.protobuf import BYTES, encoded, fields, numbers, tagged
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.remote import is_url
from pipeflow.progress import over
from pipeflow.tfrecord import Feature

_FRAME = 16
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_LENGTH = Struct("<Q")
_CRC = Struct("<I")
_LIST_OF_KIND = {1: "string", 2: "float32", 3: "int64"}


@reader(
    "readers.tfrecord",
    urls=True,
    outputs=lambda args: len(args.features),
    examples=[
        'fn.readers.tfrecord(path="a.tfrecord", features={"image": tfrecord.FixedLenFeature([], tfrecord.string, "")})'
    ],
)
class TFRecordReader:
    """Reads the named `features` of each record: a dictionary of outputs under the features' names.

    `path` and `index_path` are lists of the same length; without `index_path` the files are scanned at the
    start.
    """

    def __init__(
        self,
        *,
        path: Any = required("paths of the files"),
        features: Any = required("features to read, a dictionary from their names to FixedLenFeature or VarLenFeature"),
        index_path: Any = default(None, "path of the index of each file; default: the files are scanned at the start"),
    ) -> None:
        paths = expanded(path, "path")
        if not isinstance(features, Mapping) or not features:
            raise TypeError("'features' must be a dictionary from names to tfrecord.FixedLenFeature or VarLenFeature")
        for name, feature in features.items():
            if not isinstance(feature, Feature):
                raise TypeError(
                    f"feature {name!r} must be a tfrecord.FixedLenFeature or VarLenFeature, "
                    f"got {type(feature).__name__}"
                )
        indexes = expanded(index_path, "index_path") if index_path else [None] * len(paths)
        if len(indexes) != len(paths):
            raise ValueError(
                f"{count_of(len(paths), 'path')} and {count_of(len(indexes), 'index path')}: there must "
                "be one index for each file"
            )
        self.features: dict[str, Feature] = dict(features)
        self._encoded = {name.encode(): name for name in self.features}
        self._paths = Paths(paths)
        self.far = any(map(is_url, paths))
        self._indexes = Paths(index or "" for index in indexes)
        tables = list(over(of_each(_table_of, paths, indexes, far=self.far), "index of file", len(paths)))
        self._file = np.repeat(np.arange(len(paths)), [len(table) for table in tables])
        self._records = np.concatenate(tables)

    def __len__(self) -> int:
        return len(self._records)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The features of one record, in the order of the dictionary."""
        return self.assembled(index, None)

    def spans(self, index: int) -> list[tuple[str, int, int]]:
        """The place of the record in its file."""
        offset, length = self._records[index].tolist()
        return [(self._paths[int(self._file[index])], offset, length)]

    def assembled(self, index: int, parts: Sequence[np.ndarray] | None) -> tuple[np.ndarray, ...]:
        """The features of one record, from its bytes if they have been read."""
        home = int(self._file[index])
        where = self.source_info(index)
        try:
            [record] = [read_range(*span) for span in self.spans(index)] if parts is None else parts
            data = _checked(record, where)
        except BadData as error:
            if self._indexes[home]:
                error.add_note(f"the place comes from the index {self._indexes[home]}")
            raise
        try:
            found = dict(_features(data.data, self._encoded))
        except ValueError as error:
            raise BadData(f"{where}: damaged tf.train.Example: {error}") from None
        return tuple([_output(feature, found.get(name), name, where) for name, feature in self.features.items()])

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return stated(self._paths)

    def source_info(self, index: int) -> str:
        """The file and the record's offset in it."""
        return f"{self._paths[int(self._file[index])]} at index {int(self._records[index, 0])}"


@find("readers.tfrecord").result
def _(args: Any, outputs: Any) -> dict[str, Any]:
    return dict(zip(args.features, outputs if isinstance(outputs, (list, tuple)) else [outputs], strict=True))


# ----------------------------------------------------------------------------------------------------
# Records and their index


def _table_of(path: str, index: str | None) -> np.ndarray:
    return scan(path) if index is None else read_index(index, path)


def scan(path: str) -> np.ndarray:
    """(offset, length) of every record of a TFRecord file, found by reading the length of each record."""
    found = []
    with open_regular(path) as file:
        size = size_of(file)
        offset = 0
        while offset < size:
            file.seek(offset)
            head = file.read(12)
            length = _length(head, f"{path} at index {offset}") + _FRAME
            if offset + length > size:
                raise BadData(
                    f"{path} at index {offset}: truncated record of {length} bytes, the file ends after {size - offset}"
                )
            found.append((offset, length))
            offset += length
    if not found:
        raise BadData(f"{path} has no records")
    return np.array(found, np.int64)


def write_index(path: str, index_path: str) -> int:
    """Writes the index file of a TFRecord file, in the format of DALI's tfrecord2idx; returns the number of records."""
    table = scan(path)
    with open(index_path, "w", encoding="utf-8") as file:
        file.writelines(f"{offset} {length}\n" for offset, length in table.tolist())
    return len(table)


def read_index(index_path: str, path: str) -> np.ndarray:
    """(offset, length) of every record, from an index file; each line must describe a place inside the file."""
    size = size_at(path)
    found = []
    for number, line in read_lines(index_path):
        words = line.split()
        if len(words) != 2 or not all(map(_NUMBER.fullmatch, words)):
            raise BadData(f'{index_path}:{number}: expected "offset length", got {line[:80]!r}')
        offset, length = map(int, words)
        if offset < 0 or length < _FRAME or offset + length > size:
            raise BadData(
                f"{index_path}:{number}: a record of {length} bytes at {offset} is not inside {path}, "
                f"which has {size} bytes"
            )
        found.append((offset, length))
    if not found:
        raise BadData(f"the index file {index_path} names no records")
    return np.array(found, np.int64)


def _length(head: bytes, where: str) -> int:
    if len(head) < 12:
        raise BadData(f"{where}: truncated record, {len(head)} bytes do not hold its length")
    stored = _CRC.unpack_from(head, 8)[0]
    if kernels.crc32c.masked(np.frombuffer(head, np.uint8, 8)) != stored:
        raise BadData(f"{where}: the CRC of the record's length is wrong: damaged, or not a TFRecord file")
    return _LENGTH.unpack_from(head)[0]


def _checked(record: np.ndarray, where: str) -> np.ndarray:
    """The data of a whole record whose length and CRCs are right."""
    length = _length(record[:12].tobytes(), where)
    if length + _FRAME != len(record):
        raise BadData(f"{where}: the record has {length + _FRAME} bytes, its index says {len(record)}")
    data = record[12:-4]
    if kernels.crc32c.masked(data) != _CRC.unpack_from(record.data, len(record) - 4)[0]:
        raise BadData(f"{where}: the CRC of the record's data is wrong: the file is damaged")
    return data


# ----------------------------------------------------------------------------------------------------
# The protocol-buffer encoding of tf.train.Example


def _features(example: memoryview, wanted: Mapping[bytes, str]) -> Iterator[tuple[str, memoryview]]:
    """(name, encoded Feature) of the wanted entries of an Example."""
    for key, feature in _entries(example):
        name = wanted.get(key)
        if name is not None:
            yield name, feature


def _entries(example: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """(name, encoded Feature) of every entry of an Example."""
    for number, wire, features in fields(example):
        if number != 1 or wire != BYTES:
            continue
        for entry_number, entry_wire, entry in fields(features):
            if entry_number != 1 or entry_wire != BYTES:
                continue
            pair = {item: value for item, kind, value in fields(entry) if kind == BYTES}
            yield bytes(pair.get(1, b"")), pair.get(2, memoryview(b""))


def read_at(path: str, offset: int, length: int) -> dict[str, "list[bytes] | np.ndarray"]:
    """All features of the record at a place, by name: byte strings, or an array of numbers. Empty ones are left out."""
    where = f"{path} at index {offset}"
    data = _checked(read_range(path, offset, length), where)
    found: dict[str, list[bytes] | np.ndarray] = {}
    try:
        for key, feature in _entries(data.data):
            kind, values = _values(feature)
            if kind is not None:
                found[key.decode()] = list(map(bytes, values)) if kind == "string" else values
    except ValueError as error:
        raise BadData(f"{where}: damaged tf.train.Example: {error}") from None
    return found


def record_of(features: "Mapping[str, bytes | np.ndarray]") -> bytes:
    """A whole record: the Example of these features, with length and CRCs."""
    entries = [tagged(1, name.encode()) + tagged(2, _feature(features[name])) for name in sorted(features)]
    data = tagged(1, b"".join(tagged(1, entry) for entry in entries))
    head = _LENGTH.pack(len(data))
    check = [_CRC.pack(kernels.crc32c.masked(np.frombuffer(part, np.uint8))) for part in (head, data)]
    return b"".join((head, check[0], data, check[1]))


def _feature(value: "bytes | np.ndarray") -> bytes:
    """An encoded Feature: one byte string, float32 or int64."""
    if isinstance(value, bytes):
        return tagged(1, tagged(1, value))
    if value.dtype.kind == "f":
        return tagged(2, tagged(1, value.astype("<f4").tobytes()))
    return tagged(3, tagged(1, b"".join(map(encoded, value.tolist()))))


def _output(feature: Feature, encoded: memoryview | None, name: str, where: str) -> np.ndarray:
    try:
        kind, values = _values(memoryview(b"") if encoded is None else encoded)
    except ValueError as error:
        raise BadData(f"{where}: damaged feature {name!r}: {error}") from None
    if kind is None:
        return _missing(feature)
    if kind != feature.kind:
        raise BadData(f"{where}: feature {name!r} holds {kind} values, not {feature.kind}")
    if kind == "string":
        return np.frombuffer(values[0], np.uint8) if values else _missing(feature)
    shape = (-1, *feature.shape) if feature.variable and feature.shape else (-1,)
    if not feature.variable:
        assert feature.shape is not None
        shape = feature.shape
    try:
        return values.reshape(shape)
    except ValueError:
        wanted = "rows of shape" if feature.variable else "the shape"
        raise BadData(
            f"{where}: feature {name!r} has {count_of(len(values), 'value')}, which do not fill {wanted} "
            f"{list(feature.shape or ())}"
        ) from None


def _missing(feature: Feature) -> np.ndarray:
    if feature.kind == "string":
        text = feature.default
        return np.frombuffer(text if isinstance(text, bytes) else str(text).encode(), np.uint8)
    if feature.variable:
        return np.empty((0, *(feature.shape or ())), feature.dtype)
    return np.full(feature.shape or (), feature.default, feature.dtype)


def _values(feature: memoryview) -> tuple[str | None, Any]:
    """(kind, values) of an encoded Feature; kind is None if it is empty."""
    for number, wire, inner in fields(feature):
        kind = _LIST_OF_KIND.get(number)
        if kind is None or wire != BYTES:
            continue
        if kind == "string":
            return kind, [value for item, how, value in fields(inner) if item == 1 and how == BYTES]
        parts = [numbers(kind, how, value) for item, how, value in fields(inner) if item == 1]
        dtype = np.int64 if kind == "int64" else np.float32
        return kind, parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, dtype)
    return None, None
