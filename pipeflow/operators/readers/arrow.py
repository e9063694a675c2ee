"""Columns of Arrow as arrays, row by row.

Numbers and booleans become arrays without axes, lists of numbers become arrays with one axis for each level, bytes
become an array of uint8, the input of decoders, and text stays text. A structure with a field "bytes", as Hugging Face
keeps images and sound, is that field.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.errors import optional

Rows = Callable[[int], np.ndarray]  # the value of a row

_SAME = {"string_view": "string", "binary_view": "binary"}  # types that differ only in their place in memory


class _Missing(Exception):
    """A row that lacks a value: the place of the value in the lists of the row."""

    def __init__(self, *place: int) -> None:
        super().__init__()
        self.place = place


def column_rows(column: Any, name: str, where: str) -> Rows:
    """The rows of a chunked array as arrays; `where` names the table in errors."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    if len(chunks) != 1:
        column = column.combine_chunks()
        chunks = column.chunks if hasattr(column, "chunks") else [column]
    if not chunks:
        return lambda _row: np.empty(0)
    array = chunks[0]
    if hasattr(array.type, "index_type"):  # repeated values, stored once in a dictionary
        array = array.dictionary_decode()
    if hasattr(array, "storage"):  # an extension type: read the type that it is stored as
        array = array.storage
    rows = _valid_rows(array, name, where)

    def named(row: int) -> np.ndarray:
        try:
            return rows(row)
        except _Missing as missing:
            place = "".join(f"[{n}]" for n in missing.place[1:])
            raise ValueError(
                f"row {row} of {where} has no value {f'at {place} ' if place else ''}in column {name!r}: "
                "fill it before (table.fill_null), or leave such rows out"
            ) from None

    return named


def _valid_rows(array: Any, name: str, where: str) -> Rows:
    """The rows of an array; one without a value is `_Missing`."""
    rows = _rows_of(array, name, where)
    if not array.null_count:
        return rows
    valid = array.is_valid().to_numpy(zero_copy_only=False)

    def checked(row: int) -> np.ndarray:
        if not valid[row]:
            raise _Missing(row)
        return rows(row)

    return checked


def _rows_of(array: Any, name: str, where: str) -> Rows:
    types = optional("pyarrow.types", "a column of Arrow", "pyarrow")
    kind = array.type
    if types.is_struct(kind):
        if kind.get_field_index("bytes") < 0:
            fields = [kind.field(n).name for n in range(kind.num_fields)]
            raise TypeError(
                f"column {name!r} of {where} is a structure of {fields}: say which field as {name + '.' + fields[0]!r}"
                if fields
                else f"column {name!r} of {where} is a structure without fields"
            )
        return _valid_rows(array.field("bytes"), name, where)
    if types.is_fixed_size_binary(kind) or str(kind) in _SAME:
        array = array.cast(_SAME.get(str(kind), "binary"))
        kind = array.type
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _slices(array, np.uint8)
    if types.is_string(kind) or types.is_large_string(kind):
        raw = _slices(array, np.uint8)
        return lambda row: np.array(raw(row).tobytes().decode(), object)
    if types.is_fixed_size_list(kind):
        size, first = kind.list_size, array.offset
        return _lists_of(array.values, (first + np.arange(len(array) + 1)) * size, name, where)
    if types.is_list(kind) or types.is_large_list(kind):
        offsets = array.offsets.to_numpy()
        if types.is_list(array.values.type) or types.is_large_list(array.values.type):
            inner = _valid_rows(array.values, name, where)
            return lambda row: _stacked(inner, offsets[row], offsets[row + 1], name, row, where)
        return _lists_of(array.values, offsets, name, where)
    values = _numbers(array, name, where)
    return lambda row: values[row, ...].copy()


def _slices(array: Any, dtype: Any) -> Rows:
    """The bytes of each row of a column of bytes or text."""
    if not len(array):
        return lambda _row: np.empty(0, dtype)
    wide = 8 if str(array.type).startswith("large") else 4
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, f"<i{wide}", len(array) + 1, array.offset * wide)
    flat = np.frombuffer(data, dtype) if data is not None else np.empty(0, dtype)
    return lambda row: flat[places[row] : places[row + 1]].copy()


def _numbers(array: Any, name: str, where: str) -> np.ndarray:
    types = optional("pyarrow.types", "a column of Arrow", "pyarrow")
    kind = array.type
    if types.is_temporal(kind):
        array = array.cast("int64" if kind.bit_width == 64 else "int32")
        kind = array.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise TypeError(
            f"column {name!r} of {where} is of type {kind}, which cannot be an array: columns may have numbers, "
            "text, bytes and lists of numbers"
        )
    if array.null_count:
        array = array.fill_null(
            False if types.is_boolean(kind) else 0
        )  # a row without a value is refused when it is read
    return array.to_numpy(zero_copy_only=False)


def _lists_of(inner: Any, offsets: np.ndarray, name: str, where: str) -> Rows:
    """The parts of an array of numbers between the offsets."""
    values = _numbers(inner, name, where)
    if not inner.null_count:
        return lambda row: values[offsets[row] : offsets[row + 1]].copy()
    valid = inner.is_valid().to_numpy(zero_copy_only=False)

    def checked(row: int) -> np.ndarray:
        begin, end = offsets[row], offsets[row + 1]
        if not valid[begin:end].all():
            raise _Missing(row, int(np.argmin(valid[begin:end])))
        return values[begin:end].copy()

    return checked


def _stacked(inner: Rows, begin: int, end: int, name: str, row: int, where: str) -> np.ndarray:
    values = []
    for number in range(begin, end):
        try:
            values.append(inner(number))
        except _Missing as missing:
            raise _Missing(row, number - begin, *missing.place[1:]) from None
    try:
        return np.stack(values) if values else np.empty((0, 0))
    except ValueError:
        shapes = sorted({value.shape for value in values})[:3]
        raise ValueError(f"row {row} of {where} has lists of different lengths {shapes} in column {name!r}") from None


def chosen(table: Any, name: str, where: str) -> Any:
    """A column by its name; ``image.bytes`` is a field of a structure."""
    if name in table.column_names:
        return table.column(name)
    outer, _, inner = name.partition(".")
    if inner and outer in table.column_names:
        column = table.column(outer).combine_chunks()
        column = column.chunk(0) if hasattr(column, "chunks") else column
        if column.null_count:  # a field alone has values where its structure has none
            return optional("pyarrow.compute:struct_field", "a column of Arrow", "pyarrow")(column, inner)
        return column.field(inner)
    raise KeyError(f"{where} has no column {name!r}; it has {list(table.column_names)}")
