"""Types, layouts, and the small records that user functions receive, with DALI's names and numbers.

NumPy dtypes are accepted in every place for a type: ``types.FLOAT``, ``np.float32`` and ``"float32"`` mean the same.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import numpy as np

from pipeflow.errors import BadArgument, BadValue, DoesNotFit, UnsupportedType


class _Named(IntEnum):
    """Numbers with names: ``repr`` is what a program writes, ``str`` is as in DALI."""

    def __repr__(self) -> str:
        return f"types.{self.name}"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, form: str) -> str:
        return format(str(self), form)


class DALIDataType(_Named):
    """Element types by DALI's ids. DALI has no complex types."""

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
    FEATURE = 17
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22
    TENSOR_LAYOUT = 23
    PYTHON_OBJECT = 24
    NO_TYPE = -1
    COMPLEX64 = 1000
    COMPLEX128 = 1001


class DALIImageType(_Named):
    """Colour spaces of decoded images."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


class DALIInterpType(_Named):
    """Interpolation filters."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


class StreamPolicy(Enum):
    """CUDA streams in DALI. It has no effect here: a pipeline always has its own streams."""

    SINGLE = 16
    PER_BACKEND = 32
    PER_OPERATOR = 48
    UNSPECIFIED = 0


class OperatorConcurrency(Enum):
    """Concurrent operators in DALI. It has no effect here: all operators may run concurrently."""

    NONE = 2
    BACKEND = 4
    FULL = 6
    UNSPECIFIED = 0


class PipelineAPIType(IntEnum):
    """The way of running a pipeline that has been used since the last reset."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


(UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, FLOAT64, BOOL, STRING) = list(DALIDataType)[
    :13
]
(FEATURE, IMAGE_TYPE, DATA_TYPE, INTERP_TYPE, TENSOR_LAYOUT, PYTHON_OBJECT, NO_TYPE, COMPLEX64, COMPLEX128) = list(
    DALIDataType
)[13:]
RGB, BGR, GRAY, YCbCr, ANY_DATA = DALIImageType
INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_TRIANGULAR, INTERP_GAUSSIAN = DALIInterpType
CPU_ONLY_DEVICE_ID = -99999
NCHW, NHWC, NFHWC, NFCHW, SAME = "CHW", "HWC", "FHWC", "FCHW", ""

_NUMPY = {
    UINT8: np.uint8, UINT16: np.uint16, UINT32: np.uint32, UINT64: np.uint64,
    INT8: np.int8, INT16: np.int16, INT32: np.int32, INT64: np.int64,
    FLOAT16: np.float16, FLOAT: np.float32, FLOAT64: np.float64, BOOL: np.bool_, STRING: np.object_,
    COMPLEX64: np.complex64, COMPLEX128: np.complex128,
}  # fmt: skip
_TO_NUMPY = {kind: np.dtype(scalar) for kind, scalar in _NUMPY.items()}
_FROM_NUMPY = {dtype: kind for kind, dtype in _TO_NUMPY.items()}

# All types of real numbers and BOOL, without STRING and the complex types.
NUMBERS = frozenset(dtype for dtype in _FROM_NUMPY if dtype.kind in "buif")
_GROUPS = {
    "number": "buif", "integer": "ui", "float": "f", "bool": "b", "complex": "c", "text": "O", "any": "buifcO"
}  # fmt: skip


def dtypes_of(words: str) -> frozenset[np.dtype]:
    """Types by names and groups: ``"uint8 float"``; groups are number, integer, float, bool, complex, text and any."""
    chosen: set[np.dtype] = set()
    for word in words.split():
        kinds = _GROUPS.get(word)
        chosen |= {np.dtype(word)} if kinds is None else {dtype for dtype in _FROM_NUMPY if dtype.kind in kinds}
    return frozenset(chosen)


def in_order(dtypes: frozenset[np.dtype]) -> list[np.dtype]:
    """Types in the order of DALI's ids."""
    return sorted(dtypes, key=_FROM_NUMPY.__getitem__)


def shown(dtype: np.dtype) -> str:
    """The name of a type in messages and tables."""
    return "text" if dtype.hasobject else str(dtype)


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
    """The NumPy dtype meant by a DALI type, a NumPy dtype or type, a name, or Python's bool, int, float, complex, str, bytes.

    Python's ``int``, ``float`` and ``complex`` mean INT32, FLOAT and COMPLEX64, as the type of a Python number in arithmetic.
    """
    if isinstance(value, np.dtype):
        dtype = value
    elif isinstance(value, IntEnum):
        if value in (IMAGE_TYPE, DATA_TYPE, INTERP_TYPE) and isinstance(value, DALIDataType):
            return _TO_NUMPY[INT32]  # samples of names such as types.RGB are their numbers
        if not isinstance(value, DALIDataType) or value not in _TO_NUMPY:
            raise TypeError(f"{value!r} is not the type of any data")
        return _TO_NUMPY[value]
    elif value in (bool, int, float, complex):
        return _TO_NUMPY[{bool: BOOL, int: INT32, float: FLOAT, complex: COMPLEX64}[value]]
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
        raise UnsupportedType(f"dtype {dtype} is not supported; supported are {', '.join(map(shown, _FROM_NUMPY))}")
    return dtype


def default_number_dtype(value: Any) -> np.dtype | None:
    """The type of a Python number in a graph (bool BOOL, int INT32, float FLOAT, complex COMPLEX64), None for anything else."""
    if type(value) is bool:
        return _TO_NUMPY[BOOL]
    if type(value) is int:
        return _TO_NUMPY[INT32]
    if type(value) is float:
        return _TO_NUMPY[FLOAT]
    if type(value) is complex:
        return _TO_NUMPY[COMPLEX64]
    return None


def as_constant(value: Any, dtype: Any = None) -> np.ndarray:
    """A Python number, list or array as the array of a constant node: without ``dtype``, 64-bit data is narrowed."""
    if isinstance(value, ScalarConstant):
        return as_constant(value.value, value.dtype)
    if dtype is not None:
        wanted = as_dtype(dtype)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            try:
                return array.astype(wanted)
            except OverflowError as error:
                raise DoesNotFit(f"{value!r} does not fit into {wanted}") from error
        converted = np.asarray(saturate(array, wanted))
        if array.dtype.kind in "iu":
            fits = wanted.kind not in "iu" or np.array_equal(converted, array)
        else:
            fits = array.dtype.kind != "f" or wanted.kind not in "iu" or bool(np.all(np.abs(array - converted) <= 0.5))
        if not fits:
            raise DoesNotFit(f"{value!r} does not fit into {wanted}")
        return converted
    if isinstance(value, np.generic):
        return np.asarray(value)
    if value is None:
        raise TypeError("a constant must be a number, a list of numbers or an array, got None")
    kind = default_number_dtype(value)
    if kind is not None and (type(value) is not int or -(2**31) <= value < 2**31):
        with np.errstate(over="ignore"):
            return np.array(value, kind)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BadArgument(f"the lists of a constant must have equal lengths, got {value!r:.80}") from error
    return narrowed(array)


def narrowed(array: np.ndarray) -> np.ndarray:
    """A constant array with INT64, UINT64, FLOAT64 and COMPLEX128 converted to types of half the size."""
    as_dtype(array.dtype)
    if array.dtype == np.complex128:
        with np.errstate(over="ignore"):
            return array.astype(np.complex64)
    if array.dtype.itemsize != 8 or array.dtype.kind not in "iuf":
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(f"{array.dtype.kind}4")
    if array.dtype.kind in "iu" and not np.array_equal(narrow, array):
        kinds = ("INT32", "INT64") if array.dtype.kind == "i" else ("UINT32", "UINT64")
        raise DoesNotFit(
            f"{array.tolist()!r:.60} does not fit into {kinds[0]}, the type of integer constants; give dtype=types.{kinds[1]}"
        )
    return narrow


class ScalarConstant:
    """A number with an explicit type, for arithmetic with a DataNode and for arguments that are numbers.

    ``types.Constant(10).uint8()`` is the same number with another type.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: Any = None) -> None:
        if not isinstance(value, (bool, int, float, complex, np.generic)):
            raise TypeError(f"Expected scalar value of type 'bool', 'int' or 'float', got {type(value)}.")
        kind = as_constant(value).dtype if dtype is None else as_dtype(dtype)
        self.dtype: DALIDataType = _FROM_NUMPY[kind]
        plain: Any = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, complex) and kind.kind != "c":
            raise TypeError(f"{plain} is complex and does not fit into {self.dtype!r}")
        self.value: bool | int | float | complex = {"b": bool, "u": int, "i": int, "f": float, "c": complex}[kind.kind](
            plain
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(): a constant is one number."""
        return ()

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)  # type: ignore[arg-type]  # a complex number raises Python's TypeError

    def __float__(self) -> float:
        return float(self.value)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.value}:{self.dtype}"

    def __repr__(self) -> str:
        return f"types.Constant({self.value!r}, dtype={self.dtype!r})"

    def __reduce__(self) -> Any:
        return ScalarConstant, (self.value, self.dtype)


def _conversions() -> None:
    """Makes methods such as ``constant.uint8()``: the same number with the type of that name."""

    def conversion(kind: DALIDataType) -> Callable[[ScalarConstant], ScalarConstant]:
        def convert(self: ScalarConstant) -> ScalarConstant:
            return ScalarConstant(self.value, kind)

        convert.__doc__ = f"The number with the type {kind!r}."
        return convert

    for kind, dtype in _TO_NUMPY.items():
        if dtype.kind != "O":
            setattr(ScalarConstant, dtype.name, conversion(kind))


_conversions()


@dataclass(frozen=True)
class SampleInfo:
    """The sample that a per-sample callback must return."""

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


@dataclass(frozen=True)
class BatchInfo:
    """The batch that a per-batch callback must return."""

    iteration: int
    epoch_idx: int


class TensorLayout(str):
    """A layout such as "HWC", with one letter for each axis."""

    __slots__ = ()


def check_layout(layout: Any, what: str = "layout") -> str:
    """The layout as a plain string, or TypeError."""
    if layout is None:
        return ""
    if not isinstance(layout, str):
        raise TypeError(f"{what} must be a string such as 'HWC', got {type(layout).__name__} {layout!r}")
    return str(layout)


def saturate(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converts numbers to another type as DALI does: rounded half away from zero, limited to the type's range."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise DoesNotFit(
            f"{array.dtype} does not become {dtype}: that would drop the imaginary part. Take it apart first"
        )
    if dtype.kind == "c":
        return array.astype(dtype)
    if dtype.kind == "b":
        return array != 0
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # a value outside the type's range becomes infinite
            return array.astype(dtype)
    limits = np.iinfo(dtype)
    if array.dtype == np.float16:  # this type has no halves above 1024 and cannot represent the limits of other types
        array = array.astype(np.float32)
    if array.dtype.kind == "f":
        rounded = np.copysign(np.floor(np.abs(array) + 0.5), array)
        inside = np.clip(np.nan_to_num(rounded, nan=0.0), float(limits.min), float(limits.max))
        # float(max) of 64-bit types is one more than the type's maximum: these values are set separately
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
    name: str | None = None

    def __getitem__(self, index: Any) -> "ArrayConstant":
        return ArrayConstant(np.asarray(self.value[index]), "", self.device)


# Set while a pipeline is being defined: makes the node of an array constant, which supports indexing and arithmetic.
constant_node: ContextVar[Callable[[ArrayConstant], Any] | None] = ContextVar("pipeflow_constant_node", default=None)


def Constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    layout: str | None = None,
    device: str | None = None,
    *,
    name: str | None = None,
) -> Any:
    """A constant for a graph: a number with a type, or an array (with ``shape``: filled with the number).

    Inside a pipeline definition an array becomes a DataNode immediately, with the name ``name``; a number becomes one
    when it is used together with a DataNode.
    """
    if device not in (None, "cpu", "gpu"):
        raise ValueError(f"device must be 'cpu' or 'gpu', got {device!r}")
    one = shape is None or (np.ndim(shape) < 2 and np.prod(shape, dtype=np.int64) == 1 and np.size(shape) < 2)
    alone = one and layout is None and device is None and name is None
    if isinstance(value, (bool, int, float, complex, np.generic)) and alone:
        return ScalarConstant(value, dtype)
    if type(value) is np.ndarray and not value.ndim and alone:
        return ScalarConstant(value[()], dtype or value.dtype)
    if isinstance(value, ScalarConstant) and alone:
        return ScalarConstant(value.value, value.dtype if dtype is None else dtype)
    array = as_constant(value, dtype)
    if isinstance(value, (np.generic, np.ndarray)) and dtype is None:
        array = narrowed(array)
    if shape is not None:
        extents = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
        try:
            array = np.full(extents, array, array.dtype) if array.size == 1 else array.reshape(extents)
        except ValueError as error:
            raise BadValue(f"{array.size} numbers do not fill the shape {extents}") from error
    if layout and len(layout) != array.ndim:
        raise BadValue(f"layout {layout!r} has {len(layout)} axes and the constant has {array.ndim}")
    # a copy, because the node makes its array read-only, and the caller may change the original later
    constant = ArrayConstant(np.array(array), check_layout(layout), device or "cpu", name)
    make_node = constant_node.get()
    return constant if make_node is None else make_node(constant)


def ConstantNode(device: str, value: Any, dtype: Any, shape: Any, layout: str | None, **options: Any) -> Any:
    """The node that ``Constant`` makes from an array; all arguments are positional."""
    return Constant(value, dtype, shape, layout, device, **options)
