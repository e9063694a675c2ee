"""The journal of a run: a small file with the batches that are done. It is valid at any moment that the program is killed.

The first line has the data that does not change during the run. Two places of equal size follow. Each batch that is done is
written to the one without the newest state, with a number and a checksum: if a record is cut off, the earlier one
remains. One byte after a record marks that the loop has the next batch. So the file does not grow, whatever the length of
the run, and only these bytes are written for a batch. If a record becomes larger than its place, a file with larger places
is written under another name and moved into place.

What may happen at any moment, and what is read then:

1. The process is killed: every written record counts. The last batch that was delivered and is not done is delivered again.
2. The machine stops: without ``fsync`` the system may lose the records of the last seconds, and batches that were done are
   delivered again; with ``fsync`` none are.
3. Two pipelines use one file: the second is refused as long as the first has it.
"""

import gc
import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeflow import system
from pipeflow.errors import InvalidState, add_notes

KIND, FORMAT = "pipeflow journal", 1
_ROOM = 1.3  # a place is larger than the first record by this factor, because numbers grow,
_PLACE_OF_LOOP = 120  # and by this number of bytes for each pipeline that a loop adds with its first batch
_OUT, _BACK = b"!", b"."  # the byte after a record: the loop has the next batch, or not
_ATTEMPTS = 10  # attempts to open a file that is in use
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


class Damaged(ValueError):
    """The file is not a journal, or has no complete record."""


class Contents:
    """The contents of a journal: the fixed data, the state after the last done batch, and True if the loop had another one."""

    def __init__(self, fixed: dict[str, Any], changing: list[dict[str, Any]], handed_out: bool) -> None:
        self.fixed = fixed
        self.changing = changing
        self.handed_out = handed_out


class JournalFile:
    """One journal on disk: ``open``, ``begin``, then ``handed_out`` and ``done`` for each batch."""

    def __init__(self, path: "str | os.PathLike[str]", fsync: bool = False) -> None:
        self.path = Path(path)
        self.fsync = fsync
        self._descriptor = -1
        self._fixed: dict[str, Any] = {}
        self._start = self._place = 0  # where the first place begins, and the bytes of each
        self._newest = 0, 0  # the number of the newest record, and the place of its mark

    def open(self) -> Contents | None:
        """The contents of the file, or None if it is empty; from now on this pipeline uses it."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return None
        try:
            _lock(descriptor, self.path)
            contents = read(self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return contents

    def begin(self, fixed: Mapping[str, Any], changing: list[dict[str, Any]]) -> None:
        """Writes a new file: the fixed data, and the current state."""
        self._fixed = dict(fixed)
        record = _record(0, changing)
        place = int(len(record) * _ROOM) + _PLACE_OF_LOOP * len(changing)
        head = _line({"kind": KIND, "format": FORMAT, "place": place, **self._fixed})
        empty = b" " * (place - 1) + b"\n"
        partial = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.part")
        descriptor = os.open(partial, _NEW, 0o666)
        try:
            _lock(descriptor, self.path)
            with _named(self.path):
                content = head + record + _BACK + empty[len(record) + 1 :] + empty
                # On a full disk the system first writes a part, and reports the error with the next write.
                while content:
                    content = content[os.write(descriptor, content) :]
                os.fsync(descriptor)
                os.replace(partial, self.path)
                _sync_folder(self.path.parent)
        except BaseException:
            os.close(descriptor)
            partial.unlink(missing_ok=True)
            raise
        before, self._descriptor = self._descriptor, descriptor
        self._start, self._place = len(head), place
        self._newest = 0, self._start + len(record)
        if before >= 0:
            os.close(before)

    def done(self, changing: list[dict[str, Any]]) -> None:
        """Records the state after a batch that is done; after an interrupt it may be called again."""
        number = self._newest[0] + 1
        record = _record(number, changing)
        if len(record) + len(_BACK) + 1 > self._place:
            self.begin(self._fixed, changing)
            return
        begin = self._start + number % 2 * self._place
        # One write, so that a killed process has written all or nothing; spaces cover an older, longer record.
        self._write(record + _BACK + b" " * (self._place - len(record) - 2), begin)
        self._newest = number, begin + len(record)

    def handed_out(self) -> None:
        """Marks that the loop has the batch after the last one that is done."""
        self._write(_OUT, self._newest[1])

    def _write(self, content: bytes, place: int) -> None:
        with _named(self.path):
            os.pwrite(self._descriptor, content, place)
            if self.fsync:
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file, so that other pipelines may use it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def read(path: "str | os.PathLike[str]") -> Contents | None:
    """The contents of a journal; None for an empty file."""
    content = Path(path).read_bytes()
    if not content:
        return None
    head, _, rest = content.partition(b"\n")
    fixed = _checked(head)
    if not _is_head(fixed):
        raise Damaged(f"{path} is not a journal of a pipeline, or is damaged: remove it to begin the run again")
    if fixed["format"] != FORMAT:
        raise Damaged(f"{path} has format {fixed['format']!r}; this version reads format {FORMAT}")
    place = fixed["place"]
    found = [_written(rest[:place]), _written(rest[place : 2 * place])]
    whole = [record for record in found if record is not None]
    if not whole:
        raise Damaged(f"{path} is damaged, it has no complete record: remove it to begin the run again")
    _, changing, handed_out = max(whole, key=lambda record: record[0])
    return Contents(fixed, changing, handed_out)


def _is_head(value: Any) -> bool:
    """True if the contents of the first line are those of a journal."""
    return (
        isinstance(value, dict)
        and value.get("kind") == KIND
        and "format" in value
        and all(type(value.get(name)) is int and value[name] >= 0 for name in ("place", "generation"))
        and _is_list_of_states(value.get("pipelines"))
    )


def _is_list_of_states(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(state, dict) for state in value)


def _written(place: bytes) -> tuple[int, list[dict[str, Any]], bool] | None:
    """The record in a place with its number and its mark; None if it is not complete."""
    end = max(place.rfind(_OUT), place.rfind(_BACK))
    record = _checked(place[:end]) if end > 0 else None
    if not isinstance(record, list) or len(record) != 2:
        return None
    number, changing = record
    if type(number) is not int or not _is_list_of_states(changing):
        return None
    return number, changing, place[end : end + 1] == _OUT


def _record(number: int, changing: list[dict[str, Any]]) -> bytes:
    return _line([number, changing])[:-1]


def _line(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _checked(line: bytes) -> Any:
    """The contents of a line; None if it is not complete."""
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if b"%08x" % zlib.crc32(text) == checksum else None


def _lock(descriptor: int, path: Path) -> None:
    for attempt in range(_ATTEMPTS):
        if system.lock(descriptor):
            return
        # A pipeline of this process that was dropped may not have been collected yet. While another thread collects, a call
        # does nothing, so there is a second one; in a large program each may take a second.
        if attempt in (0, _ATTEMPTS - 2):
            gc.collect()
        time.sleep(0.02)
    raise InvalidState(f"the journal {path} is in use by another pipeline: each process needs a journal of its own")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A context that adds the name of the journal to errors of the system."""
    try:
        yield
    except OSError as error:
        add_notes(error, [f"while writing the journal {path}", *system.limits_reached(error)])
        raise


def _sync_folder(folder: Path) -> None:
    """Makes the system write the names in a folder to the disk."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # some systems cannot open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
