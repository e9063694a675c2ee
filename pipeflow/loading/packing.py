"""Documents packed into rows of one length, as a data set."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pipeflow.kernels import cpu as kernels
from pipeflow.tensors import as_sample

_MOST = 2**31 - 1


class Packed:
    """Rows of `length` tokens with as many documents as fit: `tokens`, `segments` and `positions`, each of this length.

    Segments count the documents of a row from 1, positions count the tokens of a document from 0. The rest of a row is `pad`,
    with segment 0. The lengths alone determine which document is in which row, and this is computed once. A row is made when it
    is read, so a loader shuffles, shards and resumes rows like other items.
    """

    def __init__(
        self,
        documents: Any,
        length: int,
        *,
        lengths: Any = None,
        method: Literal["best_fit", "in_order"] = "best_fit",
        longer: Literal["split", "cut", "refuse"] = "split",
        pad: int = 0,
    ) -> None:
        if length < 1 or length > _MOST:
            raise ValueError(f"length must be at least 1, and less than 2**31, got {length}")
        if method not in ("best_fit", "in_order"):
            raise ValueError(f'method must be "best_fit" or "in_order", got {method!r}')
        if longer not in ("split", "cut", "refuse"):
            raise ValueError(f'longer must be "split", "cut" or "refuse", got {longer!r}')
        self.length, self.pad = length, pad
        self._documents = documents
        self._flat = isinstance(documents, tuple) and len(documents) == 2
        self._lengths = _lengths_of(documents, lengths, self._flat)
        self._pieces: np.ndarray | None = None
        self._begins: np.ndarray | None = None  # document and first token of each piece, if any document is split
        packed = self._lengths
        if len(packed) and int(packed.max()) > length:
            if longer == "refuse":
                first = int(np.argmax(packed > length))
                raise ValueError(
                    f'document {first} has {packed[first]} tokens, and a row {length}: longer="split" or "cut" takes such'
                )
            packed = np.minimum(packed, length) if longer == "cut" else self._split(packed, length)
        if len(packed) > _MOST:
            raise ValueError(f"{len(packed)} documents are more than can be packed at once: make several data sets")
        kernel = getattr(kernels.packing, method)
        self._members, self._offsets = kernel(packed.astype(np.int32), length)
        self._packed = packed
        self.fill = float(packed.sum() / max(1, len(self) * length))  # the share of the rows that is filled with tokens

    def _split(self, lengths: np.ndarray, length: int) -> np.ndarray:
        counts = np.maximum(1, -(-lengths // length))
        self._pieces = np.repeat(np.arange(len(lengths)), counts)
        within = np.arange(len(self._pieces)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._begins = within * length
        return np.minimum(length, lengths[self._pieces] - self._begins)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        segments = np.zeros(self.length, np.int32)
        positions = np.zeros(self.length, np.int32)
        tokens: np.ndarray | None = None
        at = 0
        for number, piece in enumerate(self.documents_of(row), 1):
            count = int(self._packed[piece])
            values = self._tokens(piece, count)
            if tokens is None:
                tokens = np.full(self.length, self.pad, values.dtype)
            if values.dtype != tokens.dtype and not np.can_cast(values.dtype, tokens.dtype):
                raise TypeError(
                    f"documents of the types {tokens.dtype} and {values.dtype} are in row {row}: give all of them one type"
                )
            tokens[at : at + count] = values
            segments[at : at + count] = number
            positions[at : at + count] = np.arange(count)
            at += count
        assert tokens is not None, "a row has a document"
        return {"tokens": tokens, "segments": segments, "positions": positions}

    def documents_of(self, row: int) -> np.ndarray:
        """The numbers of the pieces in a row; if no document is split, the numbers of its documents."""
        return self._members[self._offsets[row] : self._offsets[row + 1]]

    def _tokens(self, piece: int, count: int) -> np.ndarray:
        document, begin = int(piece), 0
        if self._pieces is not None and self._begins is not None:
            document, begin = int(self._pieces[piece]), int(self._begins[piece])
        if self._flat:
            flat, offsets = self._documents
            begin += int(offsets[document])
            return as_sample(flat[begin : begin + count])
        values = as_sample(self._documents[document])
        if values.ndim != 1 or len(values) != self._lengths[document]:
            raise ValueError(
                f"document {document} has the shape {values.shape}, and its length was {self._lengths[document]}: "
                "documents must be arrays with one axis, of the given lengths"
            )
        return values[begin : begin + count]


def _lengths_of(documents: Any, lengths: Any, flat: bool) -> np.ndarray:
    """The number of tokens of each document."""
    if flat:
        tokens, offsets = len(documents[0]), np.asarray(documents[1], np.int64)
        if offsets.ndim != 1 or (len(offsets) and (offsets[0] < 0 or offsets.max() > tokens)):
            raise ValueError(
                f"offsets must be places in the {tokens} tokens, from the first to the end, got {offsets.tolist()[:3]} ... "
                f"{offsets.tolist()[-1:]}: two documents that are not (tokens, offsets) must be a list"
            )
        found = np.diff(offsets)
    elif lengths is not None:
        found = np.asarray(lengths, np.int64)
        if found.shape != (len(documents),):
            raise ValueError(f"lengths has the shape {found.shape} for {len(documents)} documents")
    elif isinstance(documents, (Sequence, Mapping)) or hasattr(documents, "__getitem__"):
        found = np.fromiter((len(documents[n]) for n in range(len(documents))), np.int64, len(documents))
    else:
        raise TypeError(f"{type(documents).__name__} has no index: documents are a sequence, or (tokens, offsets)")
    if len(found) and int(found.min()) < 0:
        raise ValueError(f"document {int(np.argmin(found))} has the length {int(found.min())}")
    return found


def pack(
    documents: Any,
    length: int,
    *,
    lengths: Any = None,
    method: Literal["best_fit", "in_order"] = "best_fit",
    longer: Literal["split", "cut", "refuse"] = "split",
    pad: int = 0,
) -> Packed:
    """Documents packed into rows of ``length`` tokens: a data set with tokens, segments and positions.

    ``documents`` is a sequence of arrays, or ``(tokens, offsets)``: document n is ``tokens[offsets[n]:offsets[n + 1]]``. If
    ``lengths`` is given, the documents are not read to find their lengths. "best_fit" puts the longest documents first, each
    into the row with the least room that is enough; "in_order" fills rows one after another. Documents of more than ``length``
    tokens are split into several, cut or refused.
    """
    return Packed(documents, length, lengths=lengths, method=method, longer=longer, pad=pad)
