"""A sample between two formats: a name, and parts by their names."""

import io
import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

LABEL = "cls"  # the part with the class: one whole number
LABELS = "labels"  # several numbers, as in RecordIO files
Value = bytes | np.ndarray  # an array has one axis of int64 or float32

_WHOLE = re.compile(rb"\s*[+-]?[0-9]{1,18}\s*")
_MAGIC = (
    (b"\xff\xd8\xff", "jpg"), (b"\x89PNG", "png"), (b"GIF8", "gif"), (b"BM", "bmp"), (b"II*\0", "tiff"), (b"MM\0*", "tiff"),
    (b"fLaC", "flac"), (b"OggS", "ogg"), (b"\x93NUMPY", "npy"), (b"\0\0\0\x0cjP", "jp2"),
)  # fmt: skip
# What programs call the encoded image and the class in records and tables.
_IMAGES = ("image", "img", "image/encoded", "image.bytes", "img.bytes", "image_raw")
_CLASSES = ("label", "image/class/label", "fine_label")


class Sample(NamedTuple):
    """The contents of one sample."""

    name: str
    parts: Mapping[str, Value]

    def digest(self) -> int:
        """A checksum of the values. It does not depend on their names and order, which may differ between formats."""
        found = 0
        for value in self.parts.values():
            data = value if isinstance(value, bytes) else value.dtype.str.encode() + value.tobytes()
            found += zlib.crc32(data) | len(data) << 32
        return found


def number(value: int) -> np.ndarray:
    """A whole number as a part."""
    return np.array([value], np.int64)


def ending(data: bytes) -> str:
    """The ending of a file, from its first bytes."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "webp", b"WAVE": "wav"}.get(data[8:12], "bin")
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "bin")


def from_file(name: str, data: bytes) -> tuple[str, Value]:
    """A file of a sample as a part: ``cls`` with a number is the class, ``NAME.npy`` with one axis of numbers is NAME."""
    if name == LABEL and _WHOLE.fullmatch(data):
        return LABEL, number(int(data))
    if name.endswith(".npy") and data.startswith(b"\x93NUMPY"):
        try:
            array = np.load(io.BytesIO(data), allow_pickle=False)
        except ValueError:
            return name, data
        if array.ndim == 1 and array.dtype in (np.int64, np.float32):
            return name.removesuffix(".npy"), array
    return name, data


def as_file(name: str, value: Value) -> tuple[str, bytes]:
    """The opposite of ``from_file``: the ending and the bytes of a file."""
    plain = re.sub(r"[\s/\\\0]", "_", name).lstrip(".") or "bin"
    if isinstance(value, bytes):
        return plain, value
    if name == LABEL and len(value) == 1 and value.dtype == np.int64:
        return plain, str(int(value[0])).encode()
    return f"{plain}.npy", npy_of(value)


def npy_of(array: np.ndarray) -> bytes:
    """An array as a file of NumPy."""
    written = io.BytesIO()
    np.save(written, np.ascontiguousarray(array), allow_pickle=False)
    return written.getvalue()


def from_record(name: str, value: Value) -> tuple[str, Value]:
    """An entry of a record or a table as a part: usual names of images and classes become ``jpg``, ``cls`` and so on."""
    if isinstance(value, bytes) and name in _IMAGES:
        return ending(value), value
    if isinstance(value, np.ndarray) and name in _CLASSES and value.dtype == np.int64 and len(value) == 1:
        return LABEL, value
    return name, value


def payload_of(sample: Sample, limit: str) -> tuple[bytes, int | None]:
    """The only file of a sample and its class, for formats whose records have nothing else."""
    files = [name for name, value in sample.parts.items() if isinstance(value, bytes)]
    others = [name for name, value in sample.parts.items() if not isinstance(value, bytes) and name != LABEL]
    label = sample.parts.get(LABEL)
    if len(files) != 1 or others or (label is not None and (isinstance(label, bytes) or len(label) != 1)):
        there = ", ".join(sample.parts) or "nothing"
        raise ValueError(
            f"sample {sample.name!r} has {there}; {limit}: choose parts, --parts {files[0] if files else 'jpg'},cls"
        )
    file = sample.parts[files[0]]
    assert isinstance(file, bytes)
    return file, None if label is None else int(label[0])
