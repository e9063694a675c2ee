"""`fn.readers.file`: encoded files with labels, from folders, lists or a list file."""

import os
import re
from typing import Any

import numpy as np

from pipeflow.declare import Fetched, FilesToRead, Room, default
from pipeflow.errors import BadData, count_of
from pipeflow.operators.readers.files import (
    IMAGES,
    OPEN_FLAGS,
    Listing,
    Paths,
    matcher,
    one_source_of_files,
    read_file,
    read_lines,
)
from pipeflow.operators.readers.places import expanded, strings
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.remote import is_url

_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
_NUMBER = re.compile(r"[+-]?[0-9]+")

DEFAULT_FILTERS = (*IMAGES, "*.flac", "*.ogg", "*.wav")


@reader("readers.file", urls=True, outputs=2, examples=['fn.readers.file(file_root="train", random_shuffle=True)'])
class FileReader:
    """Reads files and their labels: the bytes of each file, and an integer.

    With `file_root` alone, its sub-folders in alphabetical order have the labels 0, 1, 2 ...; `dir_filters`
    and `file_filters` (glob patterns) choose among folders and files. `files` lists paths, with `labels` or
    numbered from 0. `file_list` names a text file of lines "path label". Relative paths start at `file_root`,
    and those of a `file_list` without `file_root` at its folder.
    """

    def __init__(
        self,
        *,
        file_root: str | None = default(None, "folder of the files, or of relative paths"),
        files: Any = default(None, "paths of the files"),
        labels: Any = default(None, "label of each of the files; default: numbered from 0"),
        file_list: str | None = default(None, "path of a text file with a path and a label in each line"),
        file_filters: Any = default(DEFAULT_FILTERS, "patterns that the names of files match"),
        dir_filters: Any = default(None, "patterns that the names of the sub-folders match; default: all sub-folders"),
        case_sensitive_filter: bool = default(False, "patterns distinguish small and capital letters"),
    ) -> None:
        one_source_of_files(file_list, files, file_root)
        self._listing: Listing | None = None
        if labels is not None and files is None:
            raise ValueError("'labels' belong to 'files': give both, or write the labels into the file_list")
        if files is not None:
            paths = expanded(files, "files", file_root)
            if not paths:
                raise ValueError("'files' is an empty list")
            numbers = list(range(len(paths))) if labels is None else _labels(labels)
            if len(numbers) != len(paths):
                raise ValueError(f"{count_of(len(numbers), 'label')} for {count_of(len(paths), 'file')}")
            found = list(zip(paths, numbers, strict=True))
        elif file_list is not None:
            listed = _listed(file_list)
            found = [(path, label) for _, path, label in listed]
            self._listing = Listing(file_list, (line for line, _, _ in listed))
            file_root = os.path.dirname(file_list) if file_root is None else file_root
            if not found:
                raise BadData(f"the file list {file_list} names no files")
        else:
            assert file_root is not None
            patterns = strings(file_filters, "file_filters")
            if not patterns:
                raise ValueError("file_filters must have a pattern at least; '*' matches every name")
            folders = strings(dir_filters, "dir_filters") if dir_filters is not None else ["*"]
            found = _discovered(file_root, patterns, folders, case_sensitive_filter)
            if not found:
                raise BadData(_nothing_found(file_root, patterns, case_sensitive_filter))
        self._paths = Paths([path for path, _ in found], file_root)
        self.far = any(is_url(path) for path, _ in found)
        self._labels = np.array([label for _, label in found], np.int32)

    def __len__(self) -> int:
        return len(self._paths)

    def fetch(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The file's bytes and its label."""
        if self._listing is None:
            return read_file(self._paths[index]), self._labels[index : index + 1].copy()
        with self._listing.naming(index):
            return read_file(self._paths[index]), self._labels[index : index + 1].copy()

    def fetch_many(self, indices: np.ndarray, room: Room) -> Fetched | None:
        """The outputs of ``fetch`` for several samples. Files that cannot be read are missing: ``fetch`` reports the error."""
        files = self._paths.read_files(indices, room)
        if files is None:
            return None
        return Fetched((files, self._labels[indices][:, None]), np.flatnonzero(files.sizes < 0).tolist())

    def files_to_read(self, indices: np.ndarray) -> FilesToRead | None:
        """The same files for compiled code, which reads them itself."""
        paths = self._paths.addresses(indices)
        return None if paths is None else FilesToRead(paths, OPEN_FLAGS, (self._labels[indices][:, None],))

    def source_info(self, index: int) -> str:
        """The file's path."""
        return self._paths[index]

    def source_name(self, index: int) -> str:
        """The file's path without `file_root`."""
        return self._paths.short(index)


def _labels(labels: Any) -> list[int]:
    """The labels of a call, checked: whole numbers of int32."""
    numbers = np.ravel(labels).tolist()
    for place, number in enumerate(numbers):
        if not isinstance(number, int):
            raise TypeError(f"labels are whole numbers, got {number!r} at place {place}")
        if not _SMALLEST <= number <= _LARGEST:
            raise ValueError(f"labels are int32, from {_SMALLEST} to {_LARGEST}, got {number} at place {place}")
    return numbers


def _listed(file_list: str) -> list[tuple[int, str, int]]:
    """(line, path, label) of every file of a list."""
    found = []
    for number, line in read_lines(file_list):
        *before, text = line.strip().rsplit(None, 1)  # blanks or tabs, as in DALI
        path = before[0] if before else ""
        label = int(text) if len(text) < 20 and _NUMBER.fullmatch(text) else None
        if not path or (label is None and not _NUMBER.fullmatch(text)):
            raise BadData(f"{file_list}:{number}: expected a path and an integer label, got {line[:200]!r}")
        if label is None or not _SMALLEST <= label <= _LARGEST:
            raise BadData(
                f"{file_list}:{number}: labels are int32, from {_SMALLEST} to {_LARGEST}, got {text[:40]} for {path!r}"
            )
        found.append((number, path, label))
    return found


def _nothing_found(root: str, patterns: list[str], case_sensitive: bool) -> str:
    wanted = matcher(patterns, case_sensitive)
    with os.scandir(root) as entries:
        loose = [entry.name for entry in entries if entry.is_file() and wanted.match(entry.name)]
    if loose:  # a folder without sub-folders is the most common mistake: the sub-folders are the labels
        return (
            f"no files found in the sub-folders of {root}, but {count_of(len(loose), 'file')} directly in it ({min(loose)!r}): "
            "every sub-folder is a label; for files without labels, or with labels of your own, give files= and labels="
        )
    return f"no files found in the sub-folders of {root}: none match {', '.join(patterns)}"


def _discovered(root: str, patterns: list[str], folders: list[str], case_sensitive: bool) -> list[tuple[str, int]]:
    wanted_file, wanted_folder = matcher(patterns, case_sensitive), matcher(folders, case_sensitive)
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and wanted_folder.match(entry.name))
    found = []
    for label, folder in enumerate(names):
        with os.scandir(os.path.join(root, folder)) as entries:
            files = sorted(entry.name for entry in entries if entry.is_file() and wanted_file.match(entry.name))
        found += [(os.path.join(folder, file), label) for file in files]
    return found
