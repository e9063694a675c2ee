"""Features of `fn.readers.tfrecord`, under the names of `nvidia.dali.tfrecord`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow import types

int64 = types.INT64
float32 = types.FLOAT
string = types.STRING

_KINDS = {types.INT64: "int64", types.FLOAT: "float32", types.STRING: "string"}


@dataclass(frozen=True)
class Feature:
    """The description of one entry of a tf.train.Example; made by FixedLenFeature and VarLenFeature."""

    kind: str
    shape: tuple[int, ...] | None
    default: Any
    variable: bool

    @property
    def dtype(self) -> np.dtype:
        """The type of the output."""
        return np.dtype({"int64": np.int64, "float32": np.float32, "string": np.uint8}[self.kind])


def _kind(dtype: Any) -> str:
    try:
        return _KINDS[types.DALIDataType(dtype)]
    except (KeyError, ValueError):
        raise ValueError(f"a feature is of type tfrecord.int64, float32 or string, not {dtype!r}") from None


def FixedLenFeature(shape: Sequence[int], dtype: Any, default_value: Any) -> Feature:
    """A feature with exactly as many values as `shape` has elements; `default_value` is used if it is missing.

    A string is returned as its bytes, with any shape.
    """
    extents = tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"the shape of a FixedLenFeature has no negative extents: {list(extents)}")
    return Feature(_kind(dtype), extents, default_value, False)


def VarLenFeature(*arguments: Any) -> Feature:
    """A feature with any number of values: VarLenFeature(dtype, default_value) or (shape, dtype,
    default_value).

    With a shape the values are rows of this shape. If the feature is missing, the output is empty.
    """
    if len(arguments) not in (2, 3):
        raise TypeError("VarLenFeature takes (dtype, default_value) or (shape, dtype, default_value)")
    *shape, dtype, default = arguments
    kind = _kind(dtype)
    if kind == "string":
        raise ValueError("a VarLenFeature of strings has no form as one array; use FixedLenFeature([], string, '')")
    extents = tuple(int(extent) for extent in shape[0]) if shape else None
    if extents and any(extent < 1 for extent in extents):
        raise ValueError(f"the shape of a VarLenFeature has positive extents only: {list(extents)}")
    return Feature(kind, extents or None, default, True)
