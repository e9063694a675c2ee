"""`fn.readers.webdataset`: samples from tar files; the extensions of files choose the components of a sample.

A sample is a run of consecutive files whose names agree up to the first dot of the last part. The tar files are never extracted.
An index of (sample, extension, offset, size) is read from an index file, or made once from the tar headers. Each component is
read from its place. Links, devices and names of files outside the archive are refused.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import default, required
from pipeflow.errors import BadData, count_of
from pipeflow.operators.readers.ahead import of_each
from pipeflow.operators.readers.files import Paths, open_regular, read_lines, read_range, size_at, size_of, stated
from pipeflow.operators.readers.places import expanded, strings
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.remote import is_url
from pipeflow.progress import over

_BLOCK = 512
_LONGEST_NAME = 1 << 20
# The most records of an extended header; real headers have a dozen.
_MOST_RECORDS = 10_000
_RECORD = re.compile(rb"([0-9]{1,9}) ([^=]{1,255})=")
_REGULAR = (b"0", b"\0", b"7")
_REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_INDEX_FIELDS = {"v1.1": 3, "v1.2": 4}


@dataclass(frozen=True)
class Component:
    """One file of a sample in a tar archive; the name is empty if the index does not have it."""

    extension: str
    offset: int
    size: int
    name: str = ""


@reader(
    "readers.webdataset",
    urls=True,
    outputs=lambda args: len(strings(args.ext, "ext")),
    examples=['fn.readers.webdataset(paths=["train-0.tar", "train-1.tar"], ext=["jpg;png", "cls"])'],
)
class WebdatasetReader:
    """Reads samples from tar files: for each element of `ext`, the bytes of the file with that extension.

    An element such as "jpg;png" takes the first file with any of these extensions. If a sample lacks a component, the
    output is an empty array (`missing_component_behavior` "empty", the default), the sample is left out ("skip"), or it
    is an error ("error"). `dtypes` reinterprets the bytes. `index_paths` names index files made by `write_index` or by
    DALI's wds2idx; without them the tar files are scanned at the start. Files whose name starts with a dot or has no
    extension belong to no sample.
    """

    def __init__(
        self,
        *,
        paths: Any = required("paths of the tar files"),
        ext: Any = required("extensions of the components, one for each output; `jpg;png` takes the first of several"),
        index_paths: Any = default(None, "path of the index of each file; default: the files are scanned at the start"),
        missing_component_behavior: str = default(
            "",
            "for a sample that lacks a component: `empty` returns an empty array (the default), `skip` leaves the sample "
            "out, `error` raises",
        ),
        dtypes: Any = default(None, "type that the bytes of each component are read as; default: UINT8"),
        case_sensitive_extensions: bool = default(True, "extensions distinguish small and capital letters"),
    ) -> None:
        behavior = missing_component_behavior.lower() or "empty"
        if behavior not in ("empty", "skip", "error"):
            raise ValueError(
                f"missing_component_behavior must be 'empty', 'skip' or 'error', got {missing_component_behavior!r}"
            )
        tars, groups = expanded(paths, "paths"), strings(ext, "ext")
        indexes = expanded(index_paths, "index_paths") if index_paths else [None] * len(tars)
        if len(indexes) != len(tars):
            raise ValueError(
                f"{count_of(len(tars), 'path')} and {count_of(len(indexes), 'index path')}: "
                "there must be one index for each tar file"
            )
        if not tars or not groups:
            raise ValueError("'paths' and 'ext' must not be empty")
        self._dtypes = _dtypes(dtypes, len(groups))
        columns: dict[str, int] = {}
        for column, group in enumerate(groups):
            for extension in group.split(";"):
                key = extension.strip().lstrip(".")
                columns.setdefault(key if case_sensitive_extensions else key.lower(), column)
        self._tars = Paths(tars)
        self.far = any(map(is_url, tars))
        self._indexes = Paths(index or "" for index in indexes)
        places, names, homes = [], [], []
        found = over(of_each(_samples_of, tars, indexes, far=self.far), "index of file", len(tars))
        for home, (tar, index, samples) in enumerate(zip(tars, indexes, found, strict=True)):
            for sample in samples:
                row, labels = self._row(sample, columns, len(groups), case_sensitive_extensions)
                missing = [groups[column] for column in range(len(groups)) if row[column][0] < 0]
                if missing and behavior == "skip":
                    continue
                if missing and behavior == "error":
                    raise BadData(
                        f"{index or tar}: the sample {sample[0].name or sample[0].offset!r} has no component "
                        f"{', '.join(map(repr, missing))}"
                    )
                self._check_sizes(row, tar if index is None else f"{index}, the index of {tar}")
                places.append(row)
                names += labels
                homes.append(home)
        if not places:
            named = ", ".join(index or tar for tar, index in list(zip(tars, indexes))[:3])
            raise BadData(f"no samples with the extensions {', '.join(groups)} in {named}")
        self._places = np.array(places, np.int64)
        self._names = Paths(names)
        self._homes = np.array(homes, np.int32)

    def _row(
        self, sample: Sequence[Component], columns: dict[str, int], count: int, case_sensitive: bool
    ) -> tuple[list[tuple[int, int]], list[str]]:
        row, labels = [(-1, 0)] * count, [""] * count
        for component in sample:
            extension = component.extension if case_sensitive else component.extension.lower()
            column = columns.get(extension)
            if column is not None and row[column][0] < 0:
                row[column] = (component.offset, component.size)
                labels[column] = component.name
        return row, labels

    def _check_sizes(self, row: Sequence[tuple[int, int]], tar: str) -> None:
        for (offset, size), dtype in zip(row, self._dtypes, strict=True):
            if size % dtype.itemsize:
                raise BadData(
                    f"{tar}: the component at {offset} has {size} bytes, which is no multiple of the "
                    f"{dtype.itemsize} of its type {dtype}"
                )

    def __len__(self) -> int:
        return len(self._places)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The components of one sample, each an array of one axis."""
        return self.assembled(index, None)

    def spans(self, index: int) -> list[tuple[str, int, int]]:
        """The places of the components of a sample, with the headers before them."""
        tar = self._tars[int(self._homes[index])]
        return [(tar, offset - _BLOCK, size + _BLOCK) for offset, size in self._places[index].tolist() if offset >= 0]

    def assembled(self, index: int, parts: Sequence[np.ndarray] | None) -> tuple[np.ndarray, ...]:
        """The components of one sample, from the bytes of its spans if they have been read."""
        home = int(self._homes[index])
        try:
            given = [read_range(*span) for span in self.spans(index)] if parts is None else parts
            return self._components(index, self._tars[home], iter(given))
        except BadData as error:
            if self._indexes[home]:
                error.add_note(f"the place comes from the index {self._indexes[home]}")
            raise

    def _components(self, index: int, tar: str, parts: Iterator[np.ndarray]) -> tuple[np.ndarray, ...]:
        outputs = []
        for (offset, size), dtype in zip(self._places[index].tolist(), self._dtypes, strict=True):
            if offset < 0:
                outputs.append(np.empty(0, dtype))
                continue
            data = next(parts)
            _check_header(data[:_BLOCK].tobytes(), size, tar, offset)
            outputs.append(data[_BLOCK:].view(dtype))
        return tuple(outputs)

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return stated(self._tars)

    def source_info(self, index: int) -> str:
        """The tar file, offset and name of the sample's first component."""
        row = self._places[index]
        column = int(np.argmax(row[:, 0] >= 0))
        name = self._names[index * row.shape[0] + column]
        return f"{self._tars[int(self._homes[index])]}:{int(row[column, 0])}:{name}"


def _samples_of(tar: str, index: str | None) -> list[list[Component]]:
    return scan(tar) if index is None else read_index(index, tar)


def _dtypes(dtypes: Any, count: int) -> list[np.dtype]:
    if dtypes is None:
        return [np.dtype(np.uint8)] * count
    listed = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]
    if len(listed) != count:
        raise ValueError(f"{count_of(len(listed), 'dtype')} for {count_of(count, 'extension')}: give one for each")
    return [types.as_dtype(dtype) for dtype in listed]


# ----------------------------------------------------------------------------------------------------
# The index of a tar file


def scan(path: str) -> list[list[Component]]:
    """The samples of a tar file: runs of files with the same name up to the first dot, from the tar headers."""
    found = []
    for stem, files in groupby(_files(path), key=lambda item: item[0]):
        if os.path.basename(stem):
            found.append([component for _, component in files if component.extension])
    return [sample for sample in found if sample]


def write_index(path: str, index_path: str) -> int:
    """Writes the index file of a tar file, in the format of DALI's wds2idx; returns the number of samples."""
    samples = scan(path)
    with open(index_path, "w", encoding="utf-8") as file:
        file.write(f"v1.2 {len(samples)}\n")
        for sample in samples:
            fields = [f"{part.extension} {part.offset} {part.size} {part.name}" for part in sample]
            if any(character.isspace() for part in sample for character in part.name):
                raise BadData(
                    f"{path}: the name {sample[0].name!r} has a space in it, which the index format "
                    "cannot express; read this file without an index"
                )
            file.write(" ".join(fields) + "\n")
    return len(samples)


def read_index(index_path: str, path: str) -> list[list[Component]]:
    """The samples of a tar file, from an index file; each entry must describe a place inside the tar file."""
    size = size_at(path)
    lines = read_lines(index_path)
    head = lines[0][1].split() if lines else []
    width = _INDEX_FIELDS.get(head[0]) if len(head) == 2 else None
    if width is None or head[1] != str(len(lines) - 1):
        raise BadData(
            f'{index_path}: expected a first line such as "v1.2 {max(len(lines) - 1, 0)}" with the number '
            f"of the {count_of(max(len(lines) - 1, 0), 'sample')} that follow, "
            f"got {lines[0][1][:80] if lines else ''!r}"
        )
    samples = []
    for number, line in lines[1:]:
        words = line.split()
        try:
            if len(words) % width:
                raise ValueError
            sample = [
                Component(words[at], int(words[at + 1]), int(words[at + 2]), *words[at + 3 : at + width])
                for at in range(0, len(words), width)
            ]
        except ValueError:
            raise BadData(
                f"{index_path}:{number}: expected groups of {width} words (extension, offset, size"
                f"{', name' if width == 4 else ''}), got {line[:80]!r}"
            ) from None
        for part in sample:
            if part.offset < _BLOCK or part.size < 0 or part.offset + part.size > size:
                raise BadData(
                    f"{index_path}:{number}: a component of {part.size} bytes at {part.offset} is not "
                    f"inside {path}, which has {size} bytes"
                )
        samples.append(sample)
    return samples


def _files(path: str) -> Iterator[tuple[str, Component]]:
    """(name without extension, component) of every regular file of a tar archive."""
    with open_regular(path) as file:
        total = size_of(file)
        offset, long_name, long_size = 0, "", None
        while True:
            file.seek(offset)
            block = file.read(_BLOCK)
            if len(block) < _BLOCK or not any(block):
                if block and len(block) < _BLOCK:
                    raise BadData(f"{path}: truncated tar file, it ends inside a header at {offset}")
                if offset == 0:
                    raise BadData(f"{path} is an empty tar file")
                return
            name, size, kind = _header(block, path, offset)
            data = offset + _BLOCK
            if kind in _REGULAR and long_size is not None:
                size = long_size
            if data + size > total:
                raise BadData(
                    f"{path}: truncated tar file: {name!r} should have {size} bytes at {data}, the file ends at {total}"
                )
            offset = data + -(-size // _BLOCK) * _BLOCK
            if kind in (b"L", b"x", b"K", b"g"):
                if size > _LONGEST_NAME:
                    raise BadData(f"{path}: an extended tar header of {size} bytes at {data}")
                text = file.read(size)
                if kind == b"L":
                    long_name = os.fsdecode(text.rstrip(b"\0"))
                elif kind == b"x":
                    long_name, long_size = _pax(text, path, data, long_name)
                continue
            name = long_name or name
            long_name, long_size = "", None
            if kind in _REFUSED:
                raise BadData(f"{path}: {name!r} is {_REFUSED[kind]}; only regular files are read from tar files")
            if os.path.isabs(name) or ".." in name.replace("\\", "/").split("/"):
                raise BadData(f"{path}: the name {name!r} leads out of the archive; refused")
            if kind in _REGULAR:
                folder, base = os.path.split(name)
                stem, _, extension = base.partition(".")
                yield os.path.join(folder, stem), Component(extension, data, size, name)


def _header(block: bytes, path: str, offset: int) -> tuple[str, int, bytes]:
    """(name, size, type) of a tar header whose checksum is right."""
    try:
        stated = int(block[148:156].rstrip(b"\0 ") or b"0", 8)
        stored = block[124:136]
        size = int.from_bytes(stored[1:], "big") if stored[0] & 0x80 else int(stored.rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        stated = size = -1
    if stated != sum(block) - sum(block[148:156]) + 8 * 32 or size < 0:
        raise BadData(f"{path}: damaged tar file: the header at {offset} has a wrong checksum")
    name = block[:100].rstrip(b"\0")
    prefix = block[345:500].rstrip(b"\0") if block[257:263] == b"ustar\0" else b""
    return os.fsdecode(prefix + b"/" + name if prefix else name), size, block[156:157]


def _pax(text: bytes, path: str, offset: int, name: str) -> tuple[str, int | None]:
    """The name and size that an extended header states: lines of "length key=value"."""
    size, place, end = None, 0, len(text.rstrip(b"\0"))
    for _ in range(_MOST_RECORDS):
        if place >= end:
            return name, size
        found = _RECORD.match(text, place)
        after = place + int(found[1]) if found else 0
        if found is None or after <= found.end() or after > len(text):
            raise BadData(f"{path}: damaged extended tar header at {offset}")
        key, value = found[2], text[found.end() : after - 1]
        if key == b"path":
            name = os.fsdecode(value)
        elif key == b"size":
            if not value.isdigit() or len(value) > 20:
                raise BadData(f"{path}: damaged extended tar header at {offset}: a size of {value[:40]!r}")
            size = int(value)
        elif key.startswith(b"GNU.sparse."):
            raise BadData(f"{path}: the entry at {offset} is a sparse file; only regular files are read from tar files")
        place = after
    raise BadData(f"{path}: an extended tar header of more than {_MOST_RECORDS} records at {offset}")


def _check_header(block: bytes, size: int, path: str, offset: int) -> None:
    """Raises an error unless a tar header of a regular file is before the data: an index may be wrong."""
    _, stated, kind = _header(block, path, offset - _BLOCK)
    # An extended header before this one may state a size that does not fit into the eleven digits here.
    if kind not in _REGULAR or (stated != size and stated != 0):
        raise BadData(f"{path}: there is no file of {size} bytes at {offset}; the index does not belong to this file")
