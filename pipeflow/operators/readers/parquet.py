"""`fn.readers.parquet`: rows of Parquet files.

A file is stored in groups of rows, and a group can only be decoded whole. Groups that were decoded are kept, up to a number of
bytes, the ones used last; the group after the one that is being read is decoded ahead.
"""

import glob
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Any

import numpy as np

from pipeflow.declare import default, required
from pipeflow.errors import optional
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.arrow import Rows, chosen, column_rows
from pipeflow.operators.readers.order import Order, located
from pipeflow.operators.readers.places import expanded, strings
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.windowed_order import Groups, in_windows


@reader(
    "readers.parquet",
    outputs=lambda args: len(strings(args.columns, "columns")),
    examples=['fn.readers.parquet(paths="data", columns=["image.bytes", "label"])'],
)
class ParquetReader:
    """Reads `columns` of the rows of Parquet files: numbers, lists of numbers, text, and bytes as the input of
    decoders.

    Shuffled, the rows are in one permutation of all files. A file can only be decoded in groups of rows: groups that do
    not fit into `cache_bytes` are decoded many times. With `shuffle_window` each group is decoded once in an epoch: the
    groups of all files are shuffled, and the rows within windows of several groups.
    """

    def __init__(
        self,
        *,
        paths: Any = required("files, folders of `.parquet` files, or patterns with `*`; one, or a list"),
        columns: Any = required("names of the columns, one output each; `image.bytes` is a field of a structure"),
        cache_bytes: int = default(2**30, "size of decoded groups of rows that are kept in memory"),
        shuffle_window: int | None = default(
            None,
            "number of rows, rounded to whole groups, that are shuffled together; two windows are kept in memory whatever "
            "`cache_bytes` is; default: all rows of the epoch",
        ),
    ) -> None:
        parquet = optional("pyarrow.parquet", "fn.readers.parquet", "pyarrow")
        self._columns = strings(columns, "columns")
        if not self._columns:
            raise ValueError("'columns' is an empty list: at least one column is needed")
        if cache_bytes < 0:
            raise ValueError(f"cache_bytes must not be negative, got {cache_bytes}")
        if shuffle_window is not None and shuffle_window < 1:
            raise ValueError(f"shuffle_window must be a number of rows from 1 on, got {shuffle_window}")
        self._window = shuffle_window
        self._files = files_of(paths)
        self._open = parquet.ParquetFile
        self._groups: list[tuple[int, int]] = []  # file and group in it
        counts = []
        for number, path in enumerate(self._files):
            with parquet.ParquetFile(_opened(path)) as file:
                found = file.metadata
                for group in range(found.num_row_groups):
                    self._groups.append((number, group))
                    counts.append(found.row_group(group).num_rows)
        self._ends = np.cumsum(counts, dtype=np.int64)
        # the last batches of a window and the first ones of the next are prepared at the same time
        least = 2 * Groups(self._ends, shuffle_window).most() if shuffle_window and self._groups else 2
        self._cache = _Groups(self._decoded, cache_bytes, least, len(self._groups))
        if self._groups:
            self._decoded(0)  # a wrong name is an error of the build

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

    def source_info(self, index: int) -> str:
        """The file and the row's number in it."""
        group, row = located(self._ends, index)
        number = self._groups[group][0]
        first = next(n for n, (file, _) in enumerate(self._groups) if file == number)
        before = int(self._ends[group - 1] - (self._ends[first - 1] if first else 0)) if group > first else 0
        return f"{self._files[number]} row {before + row}"

    def _decoded(self, group: int) -> tuple[list[Rows], int]:
        """The columns of a group of rows, and its size."""
        number, within = self._groups[group]
        path = self._files[number]
        with self._open(_opened(path)) as file:
            known = set(file.schema_arrow.names)
            wanted = [name if name in known else name.partition(".")[0] for name in self._columns]
            table = file.read_row_group(within, columns=list(dict.fromkeys(x for x in wanted if x in known)))
        where = f"row group {within} of {path}"
        rows = [column_rows(chosen(table, name, path), name, where) for name in self._columns]
        return rows, int(table.nbytes)


class _Groups:
    """Decoded groups of rows: the first reader of a group decodes it, and it is kept while there is room."""

    def __init__(self, decode: Any, most: int, least: int, count: int) -> None:
        self._decode, self._most, self._least, self._count = decode, most, least, count
        self._kept: OrderedDict[int, Future[tuple[list[Rows], int]]] = OrderedDict()
        self._lock = threading.Lock()
        self._last = -1

    def get(self, group: int) -> list[Rows]:
        """The columns of a group; where groups come one after another, the next one is decoded meanwhile."""
        with self._lock:
            ahead = group == self._last + 1 and group + 1 < self._count and group + 1 not in self._kept
            self._last = group
            future, mine = self._claimed(group)
            following = self._claimed(group + 1)[0] if ahead else None
        if following is not None:
            threading.Thread(
                target=self._fill, args=(group + 1, following), daemon=True, name="pipeflow parquet"
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


def _opened(path: str) -> Any:
    return remote.RemoteFile(path) if remote.is_url(path) else path


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
