"""`fn.readers.parquet`: rows of Parquet files.

A file is stored in groups of rows, and a group can only be decoded as a whole. The groups that were used last are kept, up to a
number of bytes. The group after the one that is being read is decoded in advance. For files on servers, the needed columns of
the groups of later batches are requested in advance (`groups_ahead.py`).
"""

import glob
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np

from pipeflow.declare import default, required
from pipeflow.errors import BadData, optional
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.ahead import of_each
from pipeflow.operators.readers.arrow import Rows, chosen, column_rows
from pipeflow.operators.readers.files import stated
from pipeflow.operators.readers.order import Order, located
from pipeflow.operators.readers.pieces import FileOfPieces, Piece, Requests
from pipeflow.operators.readers.places import expanded, strings
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.view import RemoteView, current, use
from pipeflow.operators.readers.windowed_order import Groups, in_windows

_FOOTER = 1 << 16  # bytes at the end of a file that are read first: the list of its groups is seldom longer


@reader(
    "readers.parquet",
    urls=True,
    outputs=lambda args: len(strings(args.columns, "columns")),
    examples=['fn.readers.parquet(paths="data", columns=["image.bytes", "label"])'],
)
class ParquetReader:
    """Reads `columns` of the rows of Parquet files: numbers, lists of numbers, text, and bytes as the input of
    decoders.

    If shuffled, the rows of all files are in one permutation. A file can only be decoded in groups of rows: groups that do
    not fit into `decoded_bytes` are decoded many times. With `shuffle_window` each group is decoded once in an epoch: the
    groups of all files are shuffled, and the rows within windows of several groups.
    """

    def __init__(
        self,
        paths: Any = required("files, folders of `.parquet` files, or patterns with `*`; one, or a list"),
        columns: Any = required("names of the columns, one output each; `image.bytes` is a field of a structure"),
        *,
        decoded_bytes: int = default(2**30, "size of decoded groups of rows that are kept in memory"),
        shuffle_window: int | None = default(
            None,
            "number of rows, rounded to whole groups, that are shuffled together; two windows are kept in memory whatever "
            "`decoded_bytes` is; default: all rows of the epoch",
        ),
    ) -> None:
        parquet = optional("pyarrow.parquet", "fn.readers.parquet", "pyarrow")
        self._columns = strings(columns, "columns")
        if not self._columns:
            raise ValueError("'columns' is an empty list: at least one column is needed")
        if decoded_bytes < 0:
            raise ValueError(f"decoded_bytes must not be negative, got {decoded_bytes}")
        if shuffle_window is not None and shuffle_window < 1:
            raise ValueError(f"shuffle_window must be a number of rows from 1 on, got {shuffle_window}")
        self._window = shuffle_window
        self._files = files_of(paths)
        self._open = partial(parquet.ParquetFile, page_checksum_verification=True)  # of pages that have one
        self._requests = Requests()
        self._pieces: dict[int, list[Piece]] = {}  # the bytes of groups that were requested and not decoded yet
        self._lock = threading.Lock()
        self._groups: list[tuple[int, int]] = []  # file and group in it
        counts = []
        far = [remote.is_url(path) for path in self._files]
        self.in_groups = any(far)
        self._footers: list[Any] = []  # for files on servers: without them, each group would need two more requests
        for number, found in enumerate(of_each(self._footer, self._files, far=self.in_groups)):
            self._footers.append(found if far[number] else None)
            for group in range(found.num_row_groups):
                self._groups.append((number, group))
                counts.append(found.row_group(group).num_rows)
        self._ends = np.cumsum(counts, dtype=np.int64)
        # the last batches of a window and the first ones of the next are prepared at the same time
        least = 2 * Groups(self._ends, shuffle_window).most() if shuffle_window and self._groups else 2
        self._cache = _DecodedGroups(self._decoded, decoded_bytes, least, len(self._groups))
        if self._groups and self.in_groups:
            self._cache.get(0)
        elif self._groups:
            self._decoded(0)  # so a wrong name is an error when the pipeline is built

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def arranged(self, order: Order) -> Order:
        """The order of the rows: `shuffle_window` keeps the rows of a group together."""
        return order if self._window is None else in_windows(order, self._ends, self._window)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The columns of one row."""
        group, row = located(self._ends, index)
        columns = self._cache.get(group)
        return tuple([column(row) for column in columns])

    def shared_files(self) -> list[str]:
        """The files that have several samples each."""
        return stated(self._files)

    def source_info(self, index: int) -> str:
        """The file and the row's number in it."""
        group, row = located(self._ends, index)
        number = self._groups[group][0]
        first = next(n for n, (file, _) in enumerate(self._groups) if file == number)
        before = int(self._ends[group - 1] - (self._ends[first - 1] if first else 0)) if group > first else 0
        return f"{self._files[number]} row {before + row}"

    def groups(self, indices: np.ndarray) -> list[int]:
        """The groups of rows, in the order in which they are needed."""
        found = np.searchsorted(self._ends, indices, side="right")
        _, first = np.unique(found, return_index=True)
        return found[np.sort(first)].tolist()

    def request(self, group: int) -> None:
        """Requests the bytes of a group, unless its file is on this machine or the group is decoded already."""
        number, _ = self._groups[group]
        if self._footers[number] is not None and not self._cache.has(group):
            with self._lock:
                if group not in self._pieces:
                    self._pieces[group] = self._requested_pieces(group)

    def requested(self) -> int:
        """The bytes that were requested and not decoded yet."""
        with self._lock:
            return sum(piece.end - piece.begin for pieces in self._pieces.values() for piece in pieces)

    def forget(self) -> None:
        """Drops the bytes that were requested, because other batches come next."""
        with self._lock:
            dropped, self._pieces = self._pieces, {}
        for pieces in dropped.values():
            for piece in pieces:
                piece.future.cancel()

    def _footer(self, path: str) -> Any:
        """The description of the groups and columns of a file."""
        if not remote.is_url(path):
            return self._metadata(path, path)
        size = remote.size_of_url(path)
        begin = max(0, size - _FOOTER)
        return self._metadata(path, FileOfPieces(path, self._requests.begin([(path, begin, size - begin)])))

    def _metadata(self, path: str, source: Any) -> Any:
        try:
            with self._open(source) as file:
                return file.metadata
        except ValueError as error:
            raise BadData(f"{path} is not a complete file of Parquet: {error}") from error

    def _requested_pieces(self, group: int) -> list[Piece]:
        """Requests the needed columns of a group."""
        number, within = self._groups[group]
        path, footer = self._files[number], self._footers[number]
        found = footer.row_group(within)
        names = {part for name in self._columns for part in (name, name.partition(".")[0])}
        spans = []
        for place in range(found.num_columns):
            column = found.column(place)
            if column.path_in_schema.partition(".")[0] in names or column.path_in_schema in names:
                begin = column.data_page_offset
                if column.has_dictionary_page and column.dictionary_page_offset:
                    begin = min(begin, column.dictionary_page_offset)
                spans.append((path, begin, column.total_compressed_size))
        return self._requests.begin(spans)

    def _file(self, group: int) -> Any:
        """The open file of a group. If it is on a server, the requested bytes of the group are read as they come."""
        number, _ = self._groups[group]
        path, footer = self._files[number], self._footers[number]
        if footer is None:
            return self._open(path)
        with self._lock:
            pieces = self._pieces.pop(group, None)
        if pieces is None or any(piece.future.cancelled() for piece in pieces):
            pieces = self._requested_pieces(group)
        return self._open(FileOfPieces(path, pieces), metadata=footer)

    def _decoded(self, group: int) -> tuple[list[Rows], int]:
        """The columns of a group of rows, and its size."""
        number, within = self._groups[group]
        path = self._files[number]
        with self._file(group) as file:
            known = list(file.schema_arrow.names)
            wanted = [name if name in known else name.partition(".")[0] for name in self._columns]
            for name, outer in zip(self._columns, wanted):
                if outer not in known:
                    raise KeyError(f"{path} has no column {name!r}; it has {known}")
            try:
                table = file.read_row_group(within, columns=list(dict.fromkeys(wanted)))
            except (ValueError, OSError) as error:
                error.add_note(f"while row group {within} of {path} was read")
                raise
        where = f"row group {within} of {path}"
        rows = [column_rows(chosen(table, name, path), name, where) for name in self._columns]
        return rows, int(table.nbytes)


class _DecodedGroups:
    """Decoded groups of rows. The first thread that reads a group decodes it, and it is kept while there is room."""

    def __init__(self, decode: Any, most: int, least: int, count: int) -> None:
        self._decode, self._most, self._least, self._count = decode, most, least, count
        self._kept: OrderedDict[int, Future[tuple[list[Rows], int]]] = OrderedDict()
        self._lock = threading.Lock()
        self._last = -1

    def has(self, group: int) -> bool:
        """True if a group is decoded or being decoded."""
        with self._lock:
            return group in self._kept

    def get(self, group: int) -> list[Rows]:
        """The columns of a group. If groups are read one after another, the next one is decoded at the same time."""
        with self._lock:
            ahead = group == self._last + 1 and group + 1 < self._count and group + 1 not in self._kept
            self._last = group
            future, mine = self._claimed(group)
            following = self._claimed(group + 1)[0] if ahead else None
        if following is not None:
            threading.Thread(
                target=self._fill_ahead, args=(current(), group + 1, following), daemon=True, name="pipeflow parquet"
            ).start()
        if mine:
            self._fill(group, future)
        return future.result()[0]

    def _claimed(self, group: int) -> tuple[Any, bool]:
        if group in self._kept:
            self._kept.move_to_end(group)
            return self._kept[group], False
        future: Future[tuple[list[Rows], int]] = Future()
        self._kept[group] = future
        return future, True

    def _fill_ahead(self, view: RemoteView, group: int, future: Any) -> None:
        use(view)
        self._fill(group, future)

    def _fill(self, group: int, future: Any) -> None:
        try:
            future.set_result(self._decode(group))
        except BaseException as error:
            with self._lock:
                self._kept.pop(group, None)  # another try may succeed
            future.set_exception(error)
            return
        with self._lock:
            done = [x for x in self._kept if self._kept[x].done()]
            size = sum(self._kept[x].result()[1] for x in done)
            for old in done[: -self._least]:  # at least the present group and the next one are kept
                if size <= self._most:
                    return
                size -= self._kept.pop(old).result()[1]


def files_of(paths: Any) -> list[str]:
    """The files that paths, folders and patterns name, in order."""
    files: list[str] = []
    for path in expanded(paths, "paths"):
        if os.path.isdir(path):
            found = sorted(glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True))
        else:
            found = [path]
        if not found:
            raise FileNotFoundError(f"there is no .parquet file in {path}")
        files += found
    if not files:
        raise ValueError("'paths' is an empty list: at least one file is needed")
    return files
