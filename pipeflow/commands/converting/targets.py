"""The formats that ``pipeflow convert`` writes: one shard at a time, complete or not at all."""

import contextlib
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from pipeflow.commands.converting.sample import (
    LABEL,
    LABELS,
    Sample,
    Value,
    as_file,
    ending,
    from_file,
    number,
    payload_of,
)
from pipeflow.commands.converting.sources import (
    KEY,
    LIST,
    LMDB,
    OWN_FILES,
    RecordIO,
    SampleSet,
    Tables,
    Tars,
    TFRecords,
)
from pipeflow.commands.files import complete
from pipeflow.errors import BadData, optional
from pipeflow.operators.readers import caffe, lmdb, mxnet, tfrecord, webdataset
from pipeflow.operators.readers.files import read_file

_LARGEST_LABEL = 1 << 24  # a float32 has every whole number up to this one


class Shard(NamedTuple):
    """The place of a shard: its number, the number of its first sample, and the folder of the output."""

    number: int
    first: int
    folder: Path
    alone: bool = False  # True if there is only this shard


class Target:
    """One file for each shard. A subclass says how samples are written."""

    suffix = ""
    source: Any = None  # the class that reads the written files

    def path(self, shard: Shard) -> Path:
        """The file of a shard."""
        return shard.folder / f"{shard.number:05d}{self.suffix}"

    def write(self, shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Writes a shard, and returns each sample as a reader will return it. The file gets its name when it is complete."""
        path = self.path(shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        with complete(path) as part, open(part, "wb") as file:
            yield from self.samples(file, shard, samples)
            file.flush()
            os.fsync(file.fileno())
        self.beside(path)

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Writes the samples."""
        raise NotImplementedError

    def beside(self, path: Path) -> None:
        """Writes the other files of a shard, such as its index."""

    def again(self, shard: Shard) -> Iterator[Sample]:
        """The samples of a shard that was written."""
        source: SampleSet = self.source([str(self.path(shard))])
        for index in range(len(source)):
            yield source.sample(index)

    def own(self, shard: Shard) -> list[tuple[str, str]]:
        """(SHA-256, path in the output) of the files of a shard, for the journal."""
        path = self.path(shard)
        found = [path, *(other for end in (".idx", ".lst") if (other := path.with_suffix(end)).is_file())]
        return [(sha256(file), file.relative_to(shard.folder).as_posix()) for file in found]

    def sums(self, shard: Shard, own: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The same for all files with samples of a shard, for SHA256SUMS."""
        return own

    def finish(self, folder: Path, shards: int) -> None:
        """Writes the files that are for all shards."""


class ToTars(Target):
    """Tar files in the form of WebDataset, with the indexes that ``readers.webdataset`` reads."""

    suffix, source = ".tar", Tars

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Each part is a file: the name of the sample, a dot, the name of the part."""
        before: set[str] = set()
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for sample in samples:
                name = safe(sample.name)
                if name in before:
                    raise ValueError(f"two samples have the name {name!r}: --names number names them by their numbers")
                before.add(name)
                for title, value in sample.parts.items():
                    suffix, data = as_file(title, value)
                    entry = tarfile.TarInfo(f"{name}.{suffix}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
                yield sample

    def beside(self, path: Path) -> None:
        """Writes the index. Its format allows no spaces in names: a shard with such names has no index."""
        with contextlib.suppress(BadData):
            webdataset.write_index(str(path), str(path.with_suffix(".idx")))


class ToTFRecords(Target):
    """TFRecord files with their indexes: bytes, int64 and float features, and the name as ``__key__``."""

    suffix, source = ".tfrecord", TFRecords

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Each sample is an Example."""
        for sample in samples:
            file.write(tfrecord.record_of({**sample.parts, KEY: sample.name.encode("utf-8", "surrogateescape")}))
            yield sample

    def beside(self, path: Path) -> None:
        """The index."""
        tfrecord.write_index(str(path), str(path.with_suffix(".idx")))


class ToRecordIO(Target):
    """RecordIO files of MXNet with their indexes, and a list of labels and names."""

    suffix, source = ".rec", RecordIO

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Each sample is a record with a file and its class or labels."""
        listed = self.path(shard).with_suffix(".lst")
        with complete(listed) as part, open(part, "w", encoding="utf-8", errors="surrogateescape") as names:
            for count, sample in enumerate(samples):
                several = sample.parts.get(LABELS)
                rest = {name: value for name, value in sample.parts.items() if name != LABELS}
                data, label = payload_of(Sample(sample.name, rest), "a RecordIO record holds one file and its labels")
                labels: np.ndarray | float = float(label or 0)
                if isinstance(several, np.ndarray):
                    if label is not None:
                        raise ValueError(
                            f"sample {sample.name!r} has both {LABEL!r} and {LABELS!r}: choose with --parts"
                        )
                    labels = several.astype(np.float32)
                elif abs(label or 0) > _LARGEST_LABEL:
                    raise ValueError(f"sample {sample.name!r}: the class {label} is no number that a float32 can hold")
                file.write(mxnet.frames(data, labels, shard.first + count))
                words = labels.tolist() if isinstance(labels, np.ndarray) else [labels]
                name = sample.name.replace("\t", " ").replace("\n", " ")
                names.write("\t".join([str(shard.first + count), *(f"{word:g}" for word in words), name]) + "\n")
                one = isinstance(labels, np.ndarray) and len(labels) == 1 and float(labels[0]).is_integer()
                read = number(int(words[0])) if one or not isinstance(labels, np.ndarray) else labels
                yield Sample(sample.name, {ending(data): data, LABEL: read})

    def beside(self, path: Path) -> None:
        """The index."""
        mxnet.write_index(str(path), str(path.with_suffix(".idx")))


class ToLMDB(Target):
    """LMDB databases of Caffe's Datum records. The keys are the numbers of the samples with their names."""

    source = LMDB

    def path(self, shard: Shard) -> Path:
        """A database is a folder with the file data.mdb; the only one is the output itself."""
        return shard.folder / ("data.mdb" if shard.alone else f"{shard.number:05d}/data.mdb")

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Each sample is a value."""
        writer = lmdb.DatabaseWriter(file)
        for count, sample in enumerate(samples):
            data, label = payload_of(sample, "a Datum holds one file and its class")
            key = f"{shard.first + count:08d}_{sample.name}".encode("utf-8", "surrogateescape")
            writer.add(key if len(key) <= lmdb.LONGEST_KEY else key[:9], caffe.datum(data, label))
            yield sample
        writer.close()


class ToTables(Target):
    """Parquet files: bytes columns, ``cls`` as a number, other numbers as lists, and the name as ``__key__``."""

    suffix, source = ".parquet", Tables
    rows = 512  # rows of a group, which can only be decoded as a whole

    def __init__(self) -> None:
        self._arrow = optional("pyarrow", "pipeflow convert", "pyarrow")
        self._parquet = optional("pyarrow.parquet", "pipeflow convert", "pyarrow")
        self.kinds: dict[str, str] = {}  # the kind of every part of the samples: the columns of all shards are equal

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Each sample is a row."""
        types = {"bytes": self._arrow.binary(), "label": self._arrow.int64()}
        types |= {f"list{kind}": self._arrow.list_(self._arrow.from_numpy_dtype(kind)) for kind in ("<i8", "<f4")}
        columns = [(KEY, self._arrow.string()), *((name, types[kind]) for name, kind in sorted(self.kinds.items()))]
        schema = self._arrow.schema(columns)
        rows: list[dict[str, Any]] = []
        with self._parquet.ParquetWriter(file, schema, compression="none") as writer:
            for sample in samples:
                row: dict[str, Any] = {KEY: sample.name}
                for name, value in sample.parts.items():
                    if self.kinds.get(name) != kind_of(name, value):
                        raise ValueError(
                            f"sample {sample.name!r}: the part {name!r} ({kind_of(name, value)}) is not in the columns that "
                            f"the first samples have ({', '.join(sorted(self.kinds))}): choose parts, --parts jpg,cls"
                        )
                    row[name] = value if isinstance(value, bytes) else value.tolist()
                    if self.kinds[name] == "label":
                        row[name] = row[name][0]
                rows.append(row)
                if len(rows) == self.rows:
                    writer.write_table(self._arrow.Table.from_pylist(rows, schema))
                    rows = []
                yield sample
            if rows:
                writer.write_table(self._arrow.Table.from_pylist(rows, schema))


def kind_of(name: str, value: Value) -> str:
    """The kind of column for a part."""
    if isinstance(value, bytes):
        return "bytes"
    return "label" if name == LABEL and len(value) == 1 and value.dtype == np.int64 else f"list{value.dtype.str}"


class ToFiles(Target):
    """A folder of files. Classes are sub-folders, and file_list.txt has a path and a class in each line, for ``readers.file``."""

    suffix = ".json"

    def path(self, shard: Shard) -> Path:
        """The list of the files of a shard."""
        return shard.folder / f".shard-{shard.number:05d}.json"

    def samples(self, file: IO[bytes], shard: Shard, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Each part is a file; one that exists already must be equal."""
        entries = []
        for sample in samples:
            label = sample.parts.get(LABEL)
            name = safe(sample.name)
            if isinstance(label, np.ndarray) and "/" not in name:
                name = f"{int(label[0]):05d}/{name}"
            written = []
            for title, value in sample.parts.items():
                if title == LABEL and isinstance(value, np.ndarray):
                    continue
                suffix, data = as_file(title, value)
                path = f"{name}.{suffix}"
                if path in OWN_FILES:
                    raise ValueError(f"the name {path!r} is that of a file of the conversion: --names number")
                place(shard.folder / path, data)
                written.append((hashlib.sha256(data).hexdigest(), path))
            entries.append([written, int(label[0]) if isinstance(label, np.ndarray) else None])
            yield sample
        file.write(json.dumps(entries).encode())

    def again(self, shard: Shard) -> Iterator[Sample]:
        """The samples of the files that were written, with their class."""
        for written, label in self._entries(shard.folder, shard.number):
            parts: dict[str, Value] = {}
            for number_, (_, path) in enumerate(written):
                data = read_file(str(shard.folder / path)).tobytes()
                name = os.path.basename(path).partition(".")[2]
                parts[f"{number_}"] = from_file(name, data)[1]
            if label is not None:
                parts[LABEL] = number(label)
            yield Sample("", parts)

    def sums(self, shard: Shard, own: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The checksums that were computed while the files were written."""
        return [(digest, path) for written, _ in self._entries(shard.folder, shard.number) for digest, path in written]

    def finish(self, folder: Path, shards: int) -> None:
        """Writes the list of files with their classes, from the lists of the shards."""
        lines = []
        for shard in range(shards):
            for written, label in self._entries(folder, shard):
                lines += [f"{written[0][1]} {label}\n"] if label is not None and written else []
        if lines:
            (folder / LIST).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")

    def _entries(self, folder: Path, shard: int) -> list[Any]:
        found: list[Any] = json.loads(self.path(Shard(shard, 0, folder)).read_text(encoding="utf-8"))
        return found


def safe(name: str) -> str:
    """The name of a sample as a path below the output; its last part has no dots, which would begin the ending."""
    *folders, base = name.split("/")
    if any(part in ("", ".", "..") for part in [*folders, base]) or "\0" in name or "\\" in name:
        raise ValueError(f"the name {name!r} leads out of the output: --names number names samples by their numbers")
    return "/".join([f"_{part[1:]}" if part.startswith(".") else part for part in folders] + [base.replace(".", "_")])


def place(path: Path, data: bytes) -> None:
    """Writes a file, complete or not at all; if a file with this name exists, it must be equal."""
    if path.exists():
        if read_file(str(path)).tobytes() != data:
            raise ValueError(f"there are two files {path}: --names number names samples by their numbers")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with complete(path) as part:
        part.write_bytes(data)


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


TARGETS: dict[str, type[Target]] = {
    "folder": ToFiles,
    "webdataset": ToTars,
    "tfrecord": ToTFRecords,
    "recordio": ToRecordIO,
    "lmdb": ToLMDB,
    "parquet": ToTables,
}
