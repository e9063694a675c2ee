"""The formats that ``pipeflow convert`` reads. A source has a length and gives each sample by its number.

Nothing is unpickled and nothing is extracted; the readers of the library check lengths, places and checksums.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import local
from typing import Any, Protocol

import numpy as np

from pipeflow.commands.converting.sample import (
    LABEL,
    LABELS,
    Sample,
    Value,
    ending,
    from_file,
    from_record,
    npy_of,
    number,
)
from pipeflow.commands.result import Refused
from pipeflow.errors import BadData, optional
from pipeflow.operators.readers import caffe, lmdb, mxnet, tfrecord, webdataset
from pipeflow.operators.readers.files import read_file, read_range
from pipeflow.progress import over

KEY = "__key__"  # the name of a sample in records and tables
JOURNAL, SUMS, LIST = OWN_FILES = "convert.json", "SHA256SUMS", "file_list.txt"  # convert writes them next to the data
_INDEX = re.compile(r"[0-9]{8}_")


class SampleSet(Protocol):
    """The samples of a data set."""

    files: list[str]
    classes: Sequence[str]  # the classes of a folder with a sub-folder for each class

    def __len__(self) -> int: ...

    def sample(self, index: int) -> Sample:
        """One sample."""

    def names(self) -> set[str] | None:
        """The names of all parts, if they are known before the samples are read."""


class Files:
    """A folder of files. Files of one folder with the same name are a sample; the sub-folder is the class."""

    def __init__(self, places: Sequence[str]) -> None:
        if len(places) != 1 or not os.path.isdir(places[0]):
            raise Refused(f"a folder of files is one folder, got {', '.join(places)}")
        self.root = places[0]
        made = os.path.exists(os.path.join(self.root, JOURNAL))
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.files, tops = [], set()
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = os.path.relpath(folder, self.root).replace(os.sep, "/")
            for file in sorted(files):
                if file.startswith(".") or (inside == "." and file in OWN_FILES):
                    continue
                # A name may have dots in it; only files that convert has written are cut at the first one.
                stem, _, suffix = file.partition(".") if made else file.rpartition(".")
                name = (stem or suffix) if inside == "." else f"{inside}/{stem or suffix}"
                groups[name].append((suffix if stem else "bin", os.path.join(folder, file)))
                self.files.append(os.path.join(folder, file))
                if inside != ".":
                    tops.add(inside.partition("/")[0])
        self._samples = sorted(groups.items())
        self.classes = sorted(tops)
        self._labels = _listed(self.root) if made else {}
        self._number = {name: place for place, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self._samples)

    def names(self) -> set[str] | None:
        """The endings of the files, and the class."""
        found = {suffix for _, files in self._samples for suffix, _ in files}
        plain = {name.removesuffix(".npy") if name != "npy" else name for name in found}
        return found | plain | ({LABEL} if self.classes or self._labels else set())

    def sample(self, index: int) -> Sample:
        """The files of one name."""
        name, files = self._samples[index]
        parts = dict(from_file(suffix, read_file(path).tobytes()) for suffix, path in files)
        if LABEL not in parts:
            listed = next((self._labels[key] for _, path in files if (key := self._inside(path)) in self._labels), None)
            if listed is not None:
                parts[LABEL] = number(listed)
            elif "/" in name and not self._labels:
                parts[LABEL] = number(self._number[name.partition("/")[0]])
        return Sample(name, parts)

    def _inside(self, path: str) -> str:
        return os.path.relpath(path, self.root).replace(os.sep, "/")


def _listed(root: str) -> dict[str, int]:
    """The classes of a folder that convert has written."""
    path = Path(root, LIST)
    if not path.is_file():
        return {}
    pairs = (line.rpartition(" ") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: int(label) for name, _, label in pairs}


class Tars:
    """Tar files in the manner of WebDataset."""

    classes: Sequence[str] = ()

    def __init__(self, places: Sequence[str]) -> None:
        self.files = _files(places, "*.tar")
        self._samples = [(file, sample) for file in _scanned(self.files) for sample in webdataset.scan(file)]

    def __len__(self) -> int:
        return len(self._samples)

    def names(self) -> set[str] | None:
        """The endings of all files."""
        found = {part.extension for _, sample in self._samples for part in sample}
        return found | {name.removesuffix(".npy") for name in found if name != "npy"}

    def sample(self, index: int) -> Sample:
        """The components of one sample."""
        file, components = self._samples[index]
        folder, _, base = components[0].name.rpartition("/")
        stem = base.partition(".")[0]
        parts: dict[str, Value] = {}
        for part in components:
            name, value = from_file(part.extension, read_range(file, part.offset, part.size).tobytes())
            if name in parts:
                raise BadData(f"{file}: the sample {stem!r} has two files {part.extension!r}")
            parts[name] = value
        return Sample(f"{folder}/{stem}" if folder else stem, parts)


class TFRecords:
    """TFRecord files of tf.train.Example records."""

    classes: Sequence[str] = ()

    def __init__(self, places: Sequence[str]) -> None:
        self.files = _files(places, "*.tfrecord*", "*.tfrec")
        self._records = [(file, *place) for file in _scanned(self.files) for place in tfrecord.scan(file).tolist()]

    def __len__(self) -> int:
        return len(self._records)

    def names(self) -> set[str] | None:
        """Unknown: they are inside the records."""
        return None

    def sample(self, index: int) -> Sample:
        """The features of one record."""
        file, offset, length = self._records[index]
        parts: dict[str, Value] = {}
        found = tfrecord.read_at(file, offset, length)
        name = found.pop(KEY, None)
        for key, values in found.items():
            if isinstance(values, list) and len(values) != 1:
                raise BadData(
                    f"{file} at index {offset}: feature {key!r} has {len(values)} byte strings; one can be converted"
                )
            title, value = from_record(key, values[0] if isinstance(values, list) else values)
            parts[title] = value
        return Sample(name[0].decode() if isinstance(name, list) and name else f"{index:08d}", parts)


class RecordIO:
    """RecordIO files of MXNet; the names of samples are in the file NAME.lst, if there is one."""

    classes: Sequence[str] = ()

    def __init__(self, places: Sequence[str]) -> None:
        self.files = _files(places, "*.rec")
        self._records = [(file, place) for file in _scanned(self.files) for place in mxnet.scan(file)]
        self._names = [name for file in self.files for name in _list_names(file)]

    def __len__(self) -> int:
        return len(self._records)

    def names(self) -> set[str] | None:
        """Unknown: they depend on the bytes."""
        return None

    def sample(self, index: int) -> Sample:
        """The payload and the labels of one record."""
        file, offset = self._records[index]
        payload, labels = mxnet.read_at(file, offset)
        data = payload.tobytes()
        parts: dict[str, Value] = {ending(data): data}
        if len(labels) == 1 and float(labels[0]).is_integer():
            parts[LABEL] = number(int(labels[0]))
        else:
            parts[LABELS] = labels
        named = len(self._names) == len(self._records)
        return Sample(self._names[index] if named else f"{index:08d}", parts)


def _list_names(file: str) -> list[str]:
    path = Path(file).with_suffix(".lst")
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [line.rpartition("\t")[2] for line in lines]


class LMDB:
    """LMDB databases of Caffe's Datum records; other values are files without a class."""

    classes: Sequence[str] = ()

    def __init__(self, places: Sequence[str]) -> None:
        self.files = [
            lmdb.file_of(place) for place in places if not os.path.isdir(place) or os.path.exists(lmdb.file_of(place))
        ] or _files(places, "*.mdb", "*.lmdb", "*/data.mdb")
        self._records = [(file, *place) for file in self.files for place in lmdb.entries(file).tolist()]

    def __len__(self) -> int:
        return len(self._records)

    def names(self) -> set[str] | None:
        """Unknown: they depend on the bytes."""
        return None

    def sample(self, index: int) -> Sample:
        """The image and the class of one value."""
        file, offset, length, key_offset, key_length = self._records[index]
        key = read_range(file, key_offset, key_length).tobytes().decode(errors="replace")
        name = _INDEX.sub("", key, count=1) or key
        value = read_range(file, offset, length)
        data, label = value, np.empty(0)
        if ending(value.tobytes()[:16]) == "bin":
            data, label = caffe.image_and_label(value, f"{file} record {key!r}")
        kind, content = from_file(ending(data.tobytes()[:16]), data.tobytes())
        parts: dict[str, Value] = {kind: content}
        if data.ndim == 3:
            parts = {"npy": npy_of(data)}
        if len(label):
            parts[LABEL] = number(int(label[0]))
        return Sample(name, parts)


class Tables:
    """Parquet files: a row is a sample, and a column a part; the fields of a structure are columns ``image.bytes``."""

    classes: Sequence[str] = ()

    def __init__(self, places: Sequence[str]) -> None:
        self._parquet = optional("pyarrow.parquet", "pipeflow convert", "pyarrow")
        self.files = _files(places, "*.parquet")
        self._ends, self._groups = [], []
        total = 0
        for file in self.files:
            found = self._parquet.ParquetFile(file).metadata
            for group in range(found.num_row_groups):
                total += found.row_group(group).num_rows
                self._groups.append((file, group))
                self._ends.append(total)
        self._kept = local()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def names(self) -> set[str] | None:
        """Unknown: the contents of columns with usual names of images and classes decide about their new names."""
        return None

    def sample(self, index: int) -> Sample:
        """One row."""
        group = int(np.searchsorted(self._ends, index, side="right"))
        row = self._rows(group)[index - (self._ends[group - 1] if group else 0)]
        where = f"row {index} of {self._groups[group][0]}"
        parts: dict[str, Value] = {}
        name = f"{index:08d}"
        for key, value in _flat(row):
            if key == KEY:
                name = str(value)
            elif value is not None:
                title, part = from_record(key, _part(value, f"column {key!r}, {where}"))
                parts[title] = part
        return Sample(name, parts)

    def _rows(self, group: int) -> list[dict[str, Any]]:
        """The rows of a group; the last one of each thread is kept."""
        if getattr(self._kept, "group", None) != group:
            file, number_ = self._groups[group]
            self._kept.rows = self._parquet.ParquetFile(file).read_row_group(number_).to_pylist()
            self._kept.group = group
        rows: list[dict[str, Any]] = self._kept.rows
        return rows


def _flat(row: dict[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for key, value in row.items():
        found += (
            [(f"{key}.{name}", inner) for name, inner in _flat(value)] if isinstance(value, dict) else [(key, value)]
        )
    return found


def _part(value: Any, where: str) -> Value:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    try:
        array = np.array(value if isinstance(value, list) else [value])
    except ValueError:
        array = np.empty(0, object)
    if array.ndim == 1 and (array.dtype.kind in "biu" or not array.size):
        return array.astype(np.int64)
    if array.ndim == 1 and array.dtype.kind == "f":
        return array.astype(np.float32)
    raise BadData(f"{where} has {type(value).__name__}; bytes, text, numbers and lists of numbers can be converted")


SOURCES: dict[str, Any] = {
    "folder": Files,
    "webdataset": Tars,
    "tfrecord": TFRecords,
    "recordio": RecordIO,
    "lmdb": LMDB,
    "parquet": Tables,
}
ENDINGS = {
    ".tar": "webdataset", ".wds": "webdataset", ".tfrecord": "tfrecord", ".tfrecords": "tfrecord", ".tfrec": "tfrecord",
    ".rec": "recordio", ".mdb": "lmdb", ".lmdb": "lmdb", ".parquet": "parquet",
}  # fmt: skip


def format_of(places: Sequence[str]) -> str:
    """The format of a source: the ending of a file, or the files of a folder."""
    place = Path(places[0])
    if not place.exists():
        raise Refused(f"there is no file or folder {place}")
    if place.is_file():
        found = next((ENDINGS[suffix] for suffix in reversed(_suffixes(place)) if suffix in ENDINGS), None)
        if found is None:
            raise Refused(f"the format of {place} is unknown: add --from {'|'.join(SOURCES)}")
        return found
    if (place / "data.mdb").is_file() or any(place.glob("*/data.mdb")):
        return "lmdb"
    there = {suffix for path in place.iterdir() if path.is_file() for suffix in _suffixes(path)}
    return next((kind for suffix, kind in ENDINGS.items() if suffix in there), "folder")


def _suffixes(path: Path) -> list[str]:
    """The endings of a name; that of ``train.tfrecord-00001-of-00010`` is ``.tfrecord``."""
    return [suffix.partition("-")[0] for suffix in path.suffixes]


def fingerprint(source: SampleSet) -> str:
    """A digest of the names and sizes of a source's files."""
    digest = hashlib.sha256()
    for file in source.files:
        digest.update(f"{os.path.basename(file)}\0{os.path.getsize(file)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _scanned(files: list[str]) -> Iterator[str]:
    return over(files, "index of file", len(files))


def _files(places: Sequence[str], *patterns: str) -> list[str]:
    """The files at these places, in order: files themselves, and the files of folders that match the patterns."""
    found: list[str] = []
    for place in places:
        if os.path.isdir(place):
            inside = sorted(
                {str(path) for pattern in patterns for path in Path(place).glob(pattern) if path.suffix != ".idx"}
            )
            if not inside:
                raise Refused(f"there is no {patterns[0]} in {place}")
            found += inside
        elif os.path.isfile(place):
            found.append(place)
        else:
            raise Refused(f"there is no file or folder {place}")
    return found
