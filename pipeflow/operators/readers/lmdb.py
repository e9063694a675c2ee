"""Reads and writes the records of an LMDB database: a file with a tree of pages, whose leaves have keys and values.

A reader makes no lock file, and a damaged database is an error like any other. A page begins with 16 bytes: its number (8), two
unused, its kind (2), the ends of the places of its nodes (2) and of free space (2). The first two pages describe the tree; the
one with the higher transaction number is used. A node is the size of its value or the page of its child in two halves (2 + 2),
its flags (2), the size of its key (2), the key and the value. Large values have pages of their own.
"""

import os
from struct import Struct
from typing import IO
from urllib.parse import urlsplit

import numpy as np

from pipeflow.errors import BadData
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.files import open_regular, read_into, size_of

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
# For databases that are written.
_PAGE = 4096
_OVERFLOW = 4
LONGEST_KEY = 511
_LARGEST_NODE = (_PAGE - _HEADER) // 2 - 2  # larger values have pages of their own


def file_of(path: str) -> str:
    """The file of a database. The path is a folder or the file itself; a URL is a file if its name has a dot."""
    if remote.is_url(path):
        return path if "." in urlsplit(path).path.rpartition("/")[2] else f"{path.rstrip('/')}/data.mdb"
    return os.path.join(path, "data.mdb") if os.path.isdir(path) else path


def places(path: str) -> np.ndarray:
    """(offset, length) of every value in the file of a database, in the order of the keys."""
    return entries(path)[:, :2]


def entries(path: str) -> np.ndarray:
    """(offset, length, offset of the key, length of the key) of every value, in the order of the keys."""
    with open_regular(path) as file:
        return _Tree(file, path).values()


class _Tree:
    def __init__(self, file: object, path: str) -> None:
        self.file, self.path = file, path
        self.size = size_of(file)
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
        """(offset, length, offset of the key, length of the key) of every value."""
        if self.flags & ~0x02:  # whole numbers as keys are stored like others; several values for one key are not
            raise BadData(
                f"{self.path}: a database of another kind than of one value for each key (flags {self.flags:#x})"
            )
        found = [np.empty((0, 4), np.int64)]
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
        return np.stack([offset, length, number * self.page_size + starts + 8, key], axis=1)


def _words(page: np.ndarray, places_: np.ndarray) -> np.ndarray:
    """The numbers of 16 bits at even places."""
    return page.view("<u2")[places_ // 2]


class DatabaseWriter:
    """Writes a database page by page: first the values, in rising order of their keys, then the branches of the tree."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._count = {_BRANCH: 0, _LEAF: 0, _OVERFLOW: 0}  # pages of each kind
        self._entries = 0
        self._pages = 2  # the two descriptions are pages too
        self._nodes: list[bytes] = []
        self._size = 0
        self._first = self._last = b""
        self._level: list[tuple[bytes, int]] = []  # first key and number of each page
        file.write(bytes(2 * _PAGE))

    def add(self, key: bytes, value: bytes) -> None:
        """Adds a value; its key is larger than all earlier ones."""
        if not 0 < len(key) <= LONGEST_KEY or key <= self._last:
            raise ValueError(
                f"keys have 1 to {LONGEST_KEY} bytes, in rising order; got {key[:40]!r} after {self._last[:40]!r}"
            )
        if len(value) >= 1 << 32:
            raise ValueError(f"a value of {len(value)} bytes does not fit into an LMDB database")
        head, inside = _node(len(value) & 0xFFFF, len(value) >> 16, 0, key), value
        if len(head) + len(value) > _LARGEST_NODE:
            head = _node(len(value) & 0xFFFF, len(value) >> 16, _BIG_VALUE, key)
            needed = -(-(_HEADER + len(value)) // _PAGE)
            self._flush_if(len(head) + 8)
            inside = (self._pages).to_bytes(8, "little")
            self._write(Struct("<QHHI").pack(self._pages, 0, _OVERFLOW, needed) + value, needed)
            self._count[_OVERFLOW] += needed
        else:
            self._flush_if(len(head) + len(value))
        node = head + inside
        node += bytes(len(node) % 2)
        self._first = self._first if self._nodes else key
        self._nodes.append(node)
        self._size += len(node) + 2
        self._last = key
        self._entries += 1

    def close(self) -> None:
        """Writes the branches and the two descriptions."""
        self._flush()
        level, depth = self._level, 1 if self._level else 0
        while len(level) > 1:
            self._level, depth = [], depth + 1
            for group in _branches(level):
                for key, page in group:
                    # The first node of a branch has no key: it is below all others.
                    name = key if self._nodes else b""
                    node = _node(page & 0xFFFF, page >> 16 & 0xFFFF, page >> 32, name)
                    self._nodes.append(node + bytes(len(node) % 2))
                self._first = group[0][0]
                self._flush(_BRANCH)
            level = self._level
        root = level[0][1] if level else _NOTHING
        free = _TREE.pack(_PAGE, 8, 0, 0, 0, 0, 0, _NOTHING)
        pages = (self._count[_BRANCH], self._count[_LEAF], self._count[_OVERFLOW])
        main = _TREE.pack(0, 0, depth, *pages, self._entries, root)
        for number in range(2):
            head = Struct("<QHHHH").pack(number, 0, 8, 0, 0) + _META.pack(_MAGIC, _VERSION)
            size = Struct("<QQ").pack(0, self._pages * _PAGE)
            ends = Struct("<QQ").pack(self._pages - 1, number)
            self._file.seek(number * _PAGE)
            self._file.write((head + size + free + main + ends).ljust(_PAGE, b"\0"))

    def _flush_if(self, needed: int) -> None:
        if self._size + needed + needed % 2 + 2 > _PAGE - _HEADER:
            self._flush()

    def _flush(self, kind: int = _LEAF) -> None:
        """Writes the nodes as a page: their places from the front, the nodes from the end."""
        if not self._nodes:
            return
        upper, places_ = _PAGE, []
        for node in self._nodes:
            upper -= len(node)
            places_.append(upper)
        lower = _HEADER + 2 * len(places_)
        head = Struct("<QHHHH").pack(self._pages, 0, kind, lower, upper) + Struct(f"<{len(places_)}H").pack(*places_)
        self._level.append((self._first, self._pages))
        self._count[kind] += 1
        self._write(head.ljust(upper, b"\0") + b"".join(reversed(self._nodes)), 1)
        self._nodes, self._size = [], 0

    def _write(self, data: bytes, pages: int) -> None:
        self._file.write(data.ljust(pages * _PAGE, b"\0"))
        self._pages += pages


def _branches(level: list[tuple[bytes, int]]) -> list[list[tuple[bytes, int]]]:
    """The children of each branch: as many as fit, and never one alone, which the LMDB library refuses."""
    groups: list[list[tuple[bytes, int]]] = []
    size = _PAGE
    for key, page in level:
        needed = 2 + 8 + len(key) + len(key) % 2
        if size + needed > _PAGE - _HEADER:
            groups.append([])
            size = 0
        groups[-1].append((key, page))
        size += needed
    if len(groups) > 1 and len(groups[-1]) == 1:
        groups[-1].insert(0, groups[-2].pop())
    return groups


def _node(low: int, high: int, flags: int, key: bytes) -> bytes:
    return Struct("<HHHH").pack(low, high, flags, len(key)) + key
