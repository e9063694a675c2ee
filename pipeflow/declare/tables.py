"""The work of a whole batch as one table, computed without an object for each sample.

``@flip.rows`` declares ``(specs, args, keys) -> table``: a structured array with one row for each sample, whose fields say what
the kernel of this operator does: windows, factors, directions. ``specs`` are SpecColumns. In ``args`` an argument that differs
from sample to sample is an array with one row for each of them; the others are as in the body. ``keys`` are the keys of the
samples; the random numbers must be equal to those that ``draw`` makes from each key. A field ``shape`` has the extents of the
results, if these are not those of the first input. Addresses are added later, so the same table describes the work on every
device.

A table describes batches without errors. If a sample has an error, or is a rare case, the hook raises NoTable, and the samples
are computed one by one. So errors are reported only by the body, and the tests compare with the body.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.declare.parameters import Param


class NoTable(Exception):
    """A table does not describe this batch: its samples are computed one by one."""


@dataclass(frozen=True)
class SpecColumn:
    """The Specs of one input of all samples: their extents, a row for each sample, one type and one layout."""

    shapes: np.ndarray
    dtype: np.dtype
    layout: str

    def extents(self, letter: str) -> np.ndarray:
        """The extents of the axis with this letter."""
        return self.shapes[:, self.layout.index(letter)]


def require(described: Any) -> None:
    """Raises NoTable unless a condition is true, for all samples if it is an array."""
    if not (described.all() if isinstance(described, np.ndarray) else described):  # np.all takes four times as long
        raise NoTable


Loads = tuple[Callable[[], bool], Callable[[], None]]  # if compiled code is loaded, and the function that loads it


def all_of(*loads: Loads) -> Loads:
    """Several pieces of compiled code as one."""

    def load() -> None:
        for loaded, load_it in loads:
            if not loaded():
                load_it()

    return (lambda: all(loaded() for loaded, _ in loads)), load


_TYPES: dict[Any, type] = {bool: np.bool_, int: np.int64, float: np.float64}


def argument_column(param: Param, values: np.ndarray) -> np.ndarray:
    """The values of an argument for all samples, converted as ``from_sample`` converts each of them."""
    kind = param.type
    require(values.dtype.kind in "biuf" and values.dtype != np.uint64)
    flat = values.reshape(len(values), -1)
    if values.dtype.kind == "f":
        flat = flat.astype(np.float64)
        require(np.vdot(flat, flat) < 2.0**126)  # all are finite and less than 2**63, and no integer overflows
    if kind in ("ints", "floats"):
        return flat.astype(np.int64 if kind == "ints" else np.float64)
    require(flat.shape[1] == 1)
    flat = flat[:, 0]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        require(set(flat.tolist()) <= {member.value for member in kind})
        return flat.astype(np.int64)
    require(kind in (bool, int, float))
    return flat.astype(_TYPES[kind])


def half_up(values: np.ndarray) -> np.ndarray:
    """The nearest integers, halves rounded away from zero."""
    if (values >= 0).all():
        return np.floor(values + 0.5).astype(np.int64)
    return np.where(values >= 0, np.floor(values + 0.5), np.ceil(values - 0.5)).astype(np.int64)
