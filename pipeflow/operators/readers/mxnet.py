"""`fn.readers.mxnet`: images and labels from MXNet's RecordIO files.

A record is a magic number, a word with its length (29 bits) and which part of a record it is (3 bits), the data and padding to
four bytes. Data in which the magic number occurs is written in parts, without the number between them. Data begins with a header
of 24 bytes: the number of labels that follow (0: the label in the header is the only one), a label, two numbers of the sample.
An index has a line "key offset" for each record.
"""

import re
from struct import Struct
from typing import Any

import numpy as np

from pipeflow.declare import required
from pipeflow.errors import BadData
from pipeflow.operators.readers.files import read_lines, read_range, size_at, stated
from pipeflow.operators.readers.order import located
from pipeflow.operators.readers.places import expanded
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.remote import is_url

_MAGIC = 0xCED7230A
_FRAME = Struct("<II")
_HEADER = Struct("<IfQQ")
_LONGEST = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_OFFSET = re.compile(r"[0-9]{1,18}")


@reader("readers.mxnet", urls=True, outputs=2, examples=['fn.readers.mxnet(path="train.rec", index_path="train.idx")'])
class MXNetReader:
    """Reads the encoded image (bytes) and the labels (float32, one or several) of each record.

    The samples come in the order of their places in the files; the order of the index has no effect.
    """

    def __init__(
        self,
        *,
        path: Any = required("paths of the RecordIO files; several files are read one after another"),
        index_path: Any = required("path of the index, or a list with this path"),
    ) -> None:
        self._paths = expanded(path, "path")
        indexes = expanded(index_path, "index_path")
        if not self._paths or len(indexes) != 1:
            raise ValueError(
                f"one index for all files, and at least one file: got 'path' {self._paths} and 'index_path' {indexes}"
            )
        self._index = indexes[0]
        self.far = any(map(is_url, self._paths))
        self._ends = np.cumsum([size_at(file) for file in self._paths])
        self._offsets = _read_index(self._index, self._paths, int(self._ends[-1]))

    def __len__(self) -> int:
        return len(self._offsets)

    def fetch(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The payload and the labels of one record."""
        path, offset = self._place(index)
        where = self.source_info(index)
        try:
            record = _record(path, offset, where)
        except BadData as error:
            error.add_note(f"the place comes from the index {self._index}")
            raise
        return _image_and_labels(record, where)

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return stated(self._paths)

    def source_info(self, index: int) -> str:
        """The file and the record's offset in it."""
        path, offset = self._place(index)
        return f"{path} at index {offset}"

    def _place(self, index: int) -> tuple[str, int]:
        file, offset = located(self._ends, int(self._offsets[index]))
        return self._paths[file], offset


def _read_index(path: str, files: list[str], size: int) -> np.ndarray:
    """The offsets of all records, in rising order; each must be inside the files."""
    offsets = []
    for number, line in read_lines(path):
        words = line.split()
        if len(words) != 2 or not _OFFSET.fullmatch(words[1]):
            raise BadData(f'{path}:{number}: expected "key offset", got {line[:80]!r}')
        offset = int(words[1])
        if offset >= size:
            where = files[0] if len(files) == 1 else f"the {len(files)} files from {files[0]} on"
            raise BadData(f"{path}:{number}: a record at {offset} is not inside {where}, of {size} bytes")
        offsets.append(offset)
    if not offsets:
        raise BadData(f"the index file {path} names no records")
    return np.sort(np.array(offsets, np.int64))


def _record(path: str, offset: int, where: str) -> np.ndarray:
    """The data of the record at a place, its parts joined."""
    parts: list[np.ndarray] = []
    while True:
        magic, word = _FRAME.unpack(read_range(path, offset, _FRAME.size).data)
        if magic != _MAGIC:
            raise BadData(f"{where}: there is no RecordIO record at {offset}: it starts with {magic:#010x}")
        kind, length = word >> 29, word & 0x1FFFFFFF
        if kind not in ((_MIDDLE, _LAST) if parts else (_WHOLE, _FIRST)):
            raise BadData(f"{where}: part {kind} of a record at {offset} is out of order")
        data = read_range(path, offset + _FRAME.size, length)
        if kind == _WHOLE:
            return data
        if parts:
            parts.append(np.frombuffer(_FRAME.pack(_MAGIC, 0)[:4], np.uint8))
        parts.append(data)
        if kind == _LAST:
            return np.concatenate(parts)
        offset += _FRAME.size + length + -length % 4


def _image_and_labels(record: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The payload and the labels of a record."""
    if len(record) < _HEADER.size:
        raise BadData(f"{where}: a record of {len(record)} bytes does not hold its header of {_HEADER.size}")
    count, label, _, _ = _HEADER.unpack_from(record.data)
    begin = _HEADER.size + 4 * count
    if begin > len(record):
        raise BadData(f"{where}: {count} labels do not fit into a record of {len(record)} bytes")
    labels = record[_HEADER.size : begin].view("<f4").astype(np.float32) if count else np.array([label], np.float32)
    return record[begin:], labels


def read_at(path: str, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """The payload and the labels of the record at a place."""
    where = f"{path} at index {offset}"
    return _image_and_labels(_record(path, offset, where), where)


def frames(payload: bytes, labels: "np.ndarray | float", number: int) -> bytes:
    """A record with its header; data in which the magic number is at a multiple of four is written in parts."""
    if isinstance(labels, np.ndarray):
        data = _HEADER.pack(len(labels), 0.0, number, 0) + labels.astype("<f4").tobytes() + payload
    else:
        data = _HEADER.pack(0, labels, number, 0) + payload
    words = np.frombuffer(data, "<u4", len(data) // 4)
    cuts = [4 * int(place) for place in np.flatnonzero(words == _MAGIC)]
    parts = [data[begin:end] for begin, end in zip([0, *(cut + 4 for cut in cuts)], [*cuts, len(data)])]
    if max(map(len, parts)) > _LONGEST:
        raise ValueError(f"a RecordIO record holds at most {_LONGEST} bytes, got {len(data)}")
    kinds = [_FIRST, *[_MIDDLE] * (len(parts) - 2), _LAST] if len(parts) > 1 else [_WHOLE]
    return b"".join(
        _FRAME.pack(_MAGIC, kind << 29 | len(part)) + part + bytes(-len(part) % 4) for kind, part in zip(kinds, parts)
    )


def scan(path: str) -> list[int]:
    """The offsets of all records of a RecordIO file, found by reading the length of each record."""
    size = size_at(path)
    offset, offsets = 0, []
    while offset < size:
        where = f"{path} at index {offset}"
        if offset + _FRAME.size > size:
            raise BadData(f"{where}: {size - offset} bytes do not hold the head of a record")
        magic, word = _FRAME.unpack(read_range(path, offset, _FRAME.size).data)
        kind, length = word >> 29, word & 0x1FFFFFFF
        if magic != _MAGIC:
            raise BadData(f"{where}: there is no RecordIO record: it starts with {magic:#010x}")
        if offset + _FRAME.size + length > size:
            raise BadData(
                f"{where}: truncated record of {length} bytes, the file ends after {size - offset - _FRAME.size}"
            )
        if kind in (_WHOLE, _FIRST):
            offsets.append(offset)
        offset += _FRAME.size + length + -length % 4
    if not offsets:
        raise BadData(f"{path} has no records")
    return offsets


def write_index(path: str, index_path: str) -> int:
    """Writes the index file of a RecordIO file, a line with number and offset for each record; returns the number of records."""
    offsets = scan(path)
    with open(index_path, "w", encoding="utf-8") as file:
        file.writelines(f"{number}\t{place}\n" for number, place in enumerate(offsets))
    return len(offsets)
