"""Tables of Arrow as data sets."""

from typing import Any

from pipeflow.operators.readers.arrow import Rows, column_rows


class TableRows:
    """The rows of a table as dictionaries of arrays and text."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self._columns: dict[str, Rows] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "_columns": None}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        if self._columns is None:
            names = self.table.column_names
            self._columns = {name: column_rows(self.table.column(name), name, "the table") for name in names}
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a table of {len(self)} rows")
        found = {name: values(row % len(self)) for name, values in self._columns.items()}
        return {name: value.item() if value.dtype == object else value for name, value in found.items()}


def is_table(value: Any) -> bool:
    """True for a table of Arrow."""
    return type(value).__module__.partition(".")[0] == "pyarrow" and hasattr(value, "column_names")
