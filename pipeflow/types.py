"""Types, layouts and the small records that user callbacks receive, under DALI's names and numbers.

NumPy dtypes are accepted wherever a type is: ``types.FLOAT``, ``np.float32`` and ``"float32"`` mean the same.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np


class DALIDataType(IntEnum):
    """Element types by DALI's ids."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    STRING = 12
    NO_TYPE = -1

    def __repr__(self) -> str:
        return f"types.{self.name}"

    __str__ = __repr__


class DALIImageType(IntEnum):
    """Colour spaces of decoded images."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4

    def __repr__(self) -> str:
        return f"types.{self.name}"


class DALIInterpType(IntEnum):
    """Interpolation filters."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5

    def __repr__(self) -> str:
        return f"types.{self.name}"


class PipelineAPIType(IntEnum):
    """Which of the two ways of running a pipeline has been used since the last reset."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


(UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, FLOAT64, BOOL, STRING, NO_TYPE) = (
    DALIDataType
)
RGB, BGR, GRAY, YCbCr, ANY_DATA = DALIImageType
INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_TRIANGULAR, INTERP_GAUSSIAN = DALIInterpType
CPU_ONLY_DEVICE_ID = -99999
NCHW, NHWC, NFHWC, NFCHW, SAME = "CHW", "HWC", "FHWC", "FCHW", ""

_NUMPY = {
    UINT8: np.uint8, UINT16: np.uint16, UINT32: np.uint32, UINT64: np.uint64,
    INT8: np.int8, INT16: np.int16, INT32: np.int32, INT64: np.int64,
    FLOAT16: np.float16, FLOAT: np.float32, FLOAT64: np.float64, BOOL: np.bool_, STRING: np.object_,
}  # fmt: skip
_TO_NUMPY = {kind: np.dtype(scalar) for kind, scalar in _NUMPY.items()}
_FROM_NUMPY = {dtype: kind for kind, dtype in _TO_NUMPY.items()}

# Every type of numbers, BOOL included; STRING is not one of them.
NUMBERS = frozenset(dtype for dtype in _FROM_NUMPY if dtype.kind != "O")
_GROUPS = {"number": "buif", "integer": "ui", "float": "f", "bool": "b"}


def dtypes_of(words: str) -> frozenset[np.dtype]:
    """The types meant by names and groups: ``"uint8 float"``; groups are number (everything), integer, float, bool."""
    chosen: set[np.dtype] = set()
    for word in words.split():
        kinds = _GROUPS.get(word)
        chosen |= {np.dtype(word)} if kinds is None else {dtype for dtype in NUMBERS if dtype.kind in kinds}
    return frozenset(chosen)


def in_order(dtypes: frozenset[np.dtype]) -> list[np.dtype]:
    """Types in the order of DALI's ids."""
    return sorted(dtypes, key=_FROM_NUMPY.__getitem__)


def to_numpy_type(kind: "DALIDataType | int") -> type:
    """The NumPy scalar type of a DALI type."""
    try:
        return _NUMPY[DALIDataType(kind)]
    except (KeyError, ValueError):
        raise TypeError(f"{kind!r} has no NumPy type") from None


def to_dali_type(dtype: Any) -> DALIDataType:
    """The DALI type of a NumPy dtype, scalar type or dtype name."""
    return _FROM_NUMPY[as_dtype(dtype)]


def as_dtype(value: Any) -> np.dtype:
    """The NumPy dtype meant by a DALI type, a NumPy dtype or type, a name, or Python's bool, int, float, str, bytes.

    Python's ``int`` and ``float`` mean INT32 and FLOAT, as the type of a Python number does in arithmetic.
    """
    if isinstance(value, np.dtype):
        dtype = value
    elif isinstance(value, IntEnum):
        if not isinstance(value, DALIDataType) or value not in _TO_NUMPY:
            raise TypeError(f"{value!r} is not the type of any data")
        return _TO_NUMPY[value]
    elif value in (bool, int, float):
        return {bool: _TO_NUMPY[BOOL], int: _TO_NUMPY[INT32], float: _TO_NUMPY[FLOAT]}[value]
    elif value in (str, bytes, object):
        return _TO_NUMPY[STRING]
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            return _TO_NUMPY[DALIDataType(value)]
        except (KeyError, ValueError):
            raise TypeError(f"{value!r} is not a type; use types.UINT8 ... types.BOOL or a NumPy dtype") from None
    else:
        try:
            dtype = np.dtype(value)
        except TypeError:
            raise TypeError(f"{value!r} is not a type; use types.UINT8 ... types.BOOL or a NumPy dtype") from None
    dtype = dtype.newbyteorder("=") if not dtype.isnative else dtype
    if dtype not in _FROM_NUMPY:
        raise TypeError(f"dtype {dtype} is not supported; supported are {', '.join(str(d) for d in _FROM_NUMPY)}")
    return dtype


def default_number_dtype(value: Any) -> np.dtype | None:
    """The type a Python number takes in a graph (bool BOOL, int INT32, float FLOAT), None for anything else."""
    if type(value) is bool:
        return _TO_NUMPY[BOOL]
    if type(value) is int:
        return _TO_NUMPY[INT32]
    if type(value) is float:
        return _TO_NUMPY[FLOAT]
    return None


def as_constant(value: Any, dtype: Any = None) -> np.ndarray:
    """A Python number, list or array as the array a constant node holds: 64-bit data is narrowed unless ``dtype`` says."""
    if dtype is not None:
        wanted = as_dtype(dtype)
        array = np.asarray(value)
        converted = array.astype(wanted)
        if array.dtype.kind in "iu" and wanted.kind in "iu" and not np.array_equal(converted, array):
            raise ValueError(f"{value!r} does not fit into {wanted}")
        return converted
    if isinstance(value, np.generic):
        return np.asarray(value)
    kind = default_number_dtype(value)
    if kind is not None and (type(value) is not int or -(2**31) <= value < 2**31):
        return np.array(value, kind)
    array = np.asarray(value)
    if array.dtype == np.int64:
        narrow = array.astype(np.int32)
        if not np.array_equal(narrow, array):
            raise ValueError(
                f"{value!r} does not fit into INT32, the type of integer constants; give dtype=types.INT64"
            )
        return narrow
    if array.dtype == np.float64:
        return array.astype(np.float32)
    as_dtype(array.dtype)
    return array


@dataclass(frozen=True)
class ScalarConstant:
    """A number with an explicit type, to be used in arithmetic with a DataNode."""

    value: bool | int | float
    dtype: np.dtype


@dataclass(frozen=True)
class SampleInfo:
    """What a per-sample callback is told about the sample it must produce."""

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


@dataclass(frozen=True)
class BatchInfo:
    """What a per-batch callback is told about the batch it must produce."""

    iteration: int
    epoch_idx: int


class TensorLayout(str):
    """A layout such as "HWC": one letter an axis."""

    __slots__ = ()


def check_layout(layout: Any, what: str = "layout") -> str:
    """The layout as a plain string, or TypeError."""
    if layout is None:
        return ""
    if not isinstance(layout, str):
        raise TypeError(f"{what} must be a string such as 'HWC', got {type(layout).__name__} {layout!r}")
    return str(layout)


def saturate(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in another type as DALI converts them: rounded half away from zero, limited to the type's range."""
    if array.dtype == dtype:
        return array
    if dtype.kind == "b":
        return array != 0
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # what is beyond the type is infinite in it
            return array.astype(dtype)
    limits = np.iinfo(dtype)
    if array.dtype == np.float16:  # which has neither halves above 1024 nor the limits of other types
        array = array.astype(np.float32)
    if array.dtype.kind == "f":
        rounded = np.copysign(np.floor(np.abs(array) + 0.5), array)
        inside = np.clip(np.nan_to_num(rounded, nan=0.0), float(limits.min), float(limits.max))
        # float(max) of 64-bit types is one above the type's maximum: those are set by hand
        result = np.where(inside >= float(limits.max), 0.0, inside).astype(dtype)
        return np.where(inside >= float(limits.max), dtype.type(limits.max), result)
    if array.dtype.kind == "b":
        return array.astype(dtype)
    source = np.iinfo(array.dtype)
    low, high = max(limits.min, source.min), min(limits.max, source.max)
    return np.clip(array, array.dtype.type(low), array.dtype.type(high)).astype(dtype)


@dataclass(frozen=True, eq=False)
class ArrayConstant:
    """An array that is the same for every sample of a batch."""

    value: np.ndarray
    layout: str
    device: str


# Set while a pipeline is being defined: makes the node of an array constant, which can be indexed and computed with.
constant_node: ContextVar[Callable[[ArrayConstant], Any] | None] = ContextVar("pipeflow_constant_node", default=None)


def Constant(
    value: Any, dtype: Any = None, shape: Any = None, layout: str | None = None, device: str | None = None
) -> Any:
    """A constant for a graph: a number with a type, or an array (with ``shape``: filled with the number).

    Inside a pipeline definition an array is a DataNode at once; numbers become one where they meet a DataNode.
    """
    if device not in (None, "cpu", "gpu"):
        raise ValueError(f"device must be 'cpu' or 'gpu', got {device!r}")
    scalar = isinstance(value, (bool, int, float, np.generic)) and shape is None and layout is None and device is None
    array = as_constant(value, dtype)
    if scalar:
        return ScalarConstant(array.item(), array.dtype)
    if shape is not None:
        extents = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
        array = np.full(extents, array, array.dtype) if array.size == 1 else array.reshape(extents)
    if layout and len(layout) != array.ndim:
        raise ValueError(f"layout {layout!r} has {len(layout)} axes and the constant has {array.ndim}")
    # a copy, because the node makes its array read-only and the caller may go on to change theirs
    constant = ArrayConstant(np.array(array), check_layout(layout), device or "cpu")
    make_node = constant_node.get()
    return constant if make_node is None else make_node(constant)
