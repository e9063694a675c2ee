"""`fn.readers.caffe`: images with labels from LMDB databases of Caffe's Datum records.

A Datum has the extents of an image (channels 1, height 2, width 3), its data (4), a label (5), and 1 if the data is an encoded
image (7). Data that is not encoded has the extents as its shape, channels last.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import default, required
from pipeflow.errors import BadData
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.files import read_range, stated
from pipeflow.operators.readers.lmdb import file_of, places
from pipeflow.operators.readers.order import located
from pipeflow.operators.readers.places import expanded
from pipeflow.operators.readers.protobuf import BYTES, VARINT, fields, signed, tagged
from pipeflow.operators.readers.reader import reader

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7


class Records:
    """The records of several databases, one after the other."""

    def __init__(self, path: Any) -> None:
        self._files = [file_of(item) for item in expanded(path, "path")]
        if not self._files:
            raise ValueError("'path' is an empty list: at least one database is needed")
        tables = [places(file) for file in self._files]
        self.far = any(map(remote.is_url, self._files))
        self._table = np.concatenate(tables)
        self._ends = np.cumsum([len(table) for table in tables])

    def __len__(self) -> int:
        return len(self._table)

    def read(self, index: int) -> np.ndarray:
        """The bytes of one record."""
        offset, length = self._table[index].tolist()
        return read_range(self._files[located(self._ends, index)[0]], offset, length)

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return stated(self._files)

    def source_info(self, index: int) -> str:
        """The file and the record's number in it."""
        file, record = located(self._ends, index)
        return f"{self._files[file]} record {record}"


def check_outputs(image: bool, others: bool, name: str) -> None:
    """Raises an error if the call has no outputs."""
    if not image and not others:
        raise ValueError(f"'image_available' and '{name}' leave nothing to read")


def image_of(data: memoryview, extents: Sequence[int], where: str) -> np.ndarray:
    """The values of an image that is not encoded, in its shape."""
    height, width, channels = extents
    if min(extents) < 0 or height * width * channels != len(data):
        raise BadData(f"{where}: {len(data)} bytes for an image of {height} by {width} with {channels} channels")
    return np.frombuffer(data, np.uint8).reshape(height, width, channels)


def _entries(data: memoryview, where: str) -> dict[int, Any]:
    """The entries of a Datum by their numbers."""
    try:
        return {n: value for n, wire, value in fields(data) if wire == (BYTES if n == _DATA else VARINT)}
    except ValueError as error:
        raise BadData(f"{where}: damaged Datum: {error}") from None


def _image(found: dict[int, Any], where: str) -> np.ndarray:
    data = found.get(_DATA, memoryview(b""))
    if found.get(_ENCODED) != 0 or not {_HEIGHT, _WIDTH, _CHANNELS} <= found.keys():
        return np.frombuffer(data, np.uint8)
    if not len(data):
        raise BadData(f"{where}: a Datum of floating point values, or of none, is not read")
    return image_of(data, [signed(found[n]) for n in (_HEIGHT, _WIDTH, _CHANNELS)], where)


def _label(found: dict[int, Any], where: str) -> np.ndarray:
    """The label; empty if the Datum has none."""
    label = [signed(found[_LABEL])] if _LABEL in found else []
    if label and not -(2**31) <= label[0] < 2**31:
        raise BadData(f"{where}: the label {label[0]} is not a number of 32 bits")
    return np.array(label, np.int32)


def image_and_label(record: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The image of a Datum, and its label, which is empty if there is none."""
    found = _entries(record.data, where)
    return _image(found, where), _label(found, where)


def datum(image: bytes, label: "int | None") -> bytes:
    """A Datum with an encoded image."""
    number = b"" if label is None else tagged(_LABEL, label)
    return tagged(_DATA, image) + number + tagged(_ENCODED, 1)


@reader(
    "readers.caffe",
    urls=True,
    outputs=lambda args: bool(args.image_available) + bool(args.label_available),
    examples=['fn.readers.caffe(path="train_lmdb", random_shuffle=True)'],
)
class CaffeReader:
    """Reads the encoded image (bytes) and the label (int32 of shape (1,)) of each record of Caffe's LMDB databases.

    Images that are stored as values are returned in their shape, HWC. The label of a record without label is empty. The
    databases are only read; no library for LMDB is needed.
    """

    def __init__(
        self,
        *,
        path: Any = required("folders of the databases, or their files or URLs; several are read one after the other"),
        image_available: bool = default(True, "give the image"),
        label_available: bool = default(True, "give the label"),
    ) -> None:
        check_outputs(image_available, label_available, "label_available")
        self._image, self._label = image_available, label_available
        self._records = Records(path)
        self.far = self._records.far

    def __len__(self) -> int:
        return len(self._records)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The contents of the record."""
        where = self.source_info(index)
        found = _entries(self._records.read(index).data, where)
        outputs = []
        if self._image:
            outputs.append(_image(found, where))
        if self._label:
            outputs.append(_label(found, where))
        return tuple(outputs)

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return self._records.shared_files()

    def source_info(self, index: int) -> str:
        """The file and the record's number in it."""
        return self._records.source_info(index)
