"""The places of the records of an LMDB database, read from its file: a tree of pages, whose leaves have keys and
values.

The file is only read: no lock file is made, and a damaged database is an error like any other. A page begins with 16 bytes:
its number (8), two unused, its kind (2), the ends of the places of its nodes (2) and of free space (2); the first two pages
describe the tree, the one with the higher transaction counts. A node is the size of its value or the page of its child in two
halves (2 + 2), its flags (2), the size of its key (2), the key and the value. Large values have pages of their own.
"""

import os
from struct import Struct

import numpy as np

from pipeflow.errors import BadData
from pipeflow.operators.readers.files import open_regular, read_into

_HEADER = 16
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_META = Struct("<II")  # at 16: magic and version
_TREE = Struct("<IHHQQQQQ")  # unused, flags, depth, pages of three kinds, entries, page of the root
_FREE_TREE, _MAIN_TREE, _TRANSACTION = 40, 88, 144
_PAGE_SIZES = [1 << bits for bits in range(9, 17)]
_NOTHING = 2**64 - 1
_BRANCH, _LEAF = 1, 2
_BIG_VALUE = 1
_DEEPEST = 32


def file_of(path: str) -> str:
    """The file of a database; the path is a folder or the file itself."""
    return os.path.join(path, "data.mdb") if os.path.isdir(path) else path


def places(path: str) -> np.ndarray:
    """(offset, length) of every value in the file of a database, in the order of the keys."""
    with open_regular(path) as file:
        return _Tree(file, path).values()


class _Tree:
    def __init__(self, file: object, path: str) -> None:
        self.file, self.path = file, path
        self.size = os.fstat(file.fileno()).st_size  # type: ignore[attr-defined]
        first = self._meta(0)
        self.page_size = _TREE.unpack_from(first, _FREE_TREE)[0]
        if self.page_size not in _PAGE_SIZES:
            raise BadData(f"{path}: pages of {self.page_size} bytes; an LMDB database has from 512 to 65536")
        second = self._meta(self.page_size)
        transactions = [int.from_bytes(meta[_TRANSACTION : _TRANSACTION + 8], "little") for meta in (first, second)]
        _, self.flags, self.depth, _, _, _, self.entries, self.root = _TREE.unpack_from(
            second if transactions[1] > transactions[0] else first, _MAIN_TREE
        )
        self.seen: set[int] = set()

    def _bytes(self, offset: int, length: int) -> np.ndarray:
        if offset + length > self.size:
            raise BadData(f"{self.path}: bytes {offset} to {offset + length} are not inside the file of {self.size}")
        return read_into(self.file, self.path, offset, length)

    def _meta(self, offset: int) -> bytes:
        meta = self._bytes(offset, _TRANSACTION + 8).tobytes()
        if _META.unpack_from(meta, _HEADER) != (_MAGIC, _VERSION):
            raise BadData(f"{self.path} is not an LMDB database of version 1: no mark at byte {offset + _HEADER}")
        return meta

    def values(self) -> np.ndarray:
        """(offset, length) of every value."""
        if self.flags & ~0x02:  # keys of whole numbers are stored as others are; several values for one key are not
            raise BadData(
                f"{self.path}: a database of another kind than of one value for each key (flags {self.flags:#x})"
            )
        found = [np.empty((0, 2), np.int64)]
        todo = [] if self.root == _NOTHING else [(self.root, 1)]
        while todo:
            number, depth = todo.pop()
            page, kind, starts = self._page(number)
            if kind & _BRANCH and depth < _DEEPEST:
                low, high, upper = (_words(page, starts + 2 * word).astype(np.int64) for word in range(3))
                todo += [(child, depth + 1) for child in (low | high << 16 | upper << 32)[::-1].tolist()]
            elif kind & _LEAF:
                found.append(self._leaf(number, page, starts))
            else:
                raise BadData(f"{self.path}: page {number} is neither a branch nor a leaf (kind {kind:#x})")
        table = np.concatenate(found)
        if len(table) != self.entries:
            raise BadData(f"{self.path}: the database states {self.entries} records and holds {len(table)}")
        if not len(table):
            raise BadData(f"{self.path} has no records")
        return table

    def _page(self, number: int) -> tuple[np.ndarray, int, np.ndarray]:
        """A page, its kind and the starts of its nodes."""
        if number in self.seen:
            raise BadData(f"{self.path}: page {number} is in the tree twice")
        self.seen.add(number)
        page = self._bytes(number * self.page_size, self.page_size)
        kind, lower = (int(word) for word in page[10:14].view("<u2"))
        if not _HEADER <= lower <= self.page_size or lower % 2:
            raise BadData(f"{self.path}: page {number} is damaged: its nodes end at {lower}")
        starts = page[_HEADER:lower].view("<u2").astype(np.int64)
        if len(starts) and (starts.min() < lower or starts.max() > self.page_size - 8 or (starts % 2).any()):
            raise BadData(f"{self.path}: page {number} is damaged: a node is outside of it")
        return page, kind, starts

    def _leaf(self, number: int, page: np.ndarray, starts: np.ndarray) -> np.ndarray:
        low, high, flags, key = (_words(page, starts + 2 * word).astype(np.int64) for word in range(4))
        length, inside = low | high << 16, starts + 8 + key
        big = flags == _BIG_VALUE
        if (flags & ~_BIG_VALUE).any():
            raise BadData(f"{self.path}: page {number} has databases or several values in it, which are not read")
        if (inside + np.where(big, 8, length) > self.page_size).any():
            raise BadData(f"{self.path}: page {number} is damaged: a value runs over its end")
        offset = number * self.page_size + inside
        for place in np.flatnonzero(big).tolist():
            own = int(page[inside[place] : inside[place] + 8].copy().view("<u8")[0])
            offset[place] = own * self.page_size + _HEADER if own < self.size else self.size
        if (offset + length > self.size).any():
            raise BadData(f"{self.path}: a value of page {number} is not inside the file of {self.size} bytes")
        return np.stack([offset, length], axis=1)


def _words(page: np.ndarray, places_: np.ndarray) -> np.ndarray:
    """The numbers of 16 bits at even places."""
    return page.view("<u2")[places_ // 2]
