"""Arithmetic, comparison, bitwise and mathematical operators with DALI's type promotion.

``a + b`` on DataNodes and the functions of ``pipeflow.math`` record them. All are elementwise: the same body is used for single
samples and whole columns. Promotion: bool < integers < floats; a signed and an unsigned integer give the next wider signed type;
an integer and a float give the float; Python numbers are BOOL, INT32 and FLOAT. Complex operands give complex results.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import UNKNOWN, KernelArray, KernelCalls, OpDef, Out, Sample, Spec, operator, require
from pipeflow.errors import UnsupportedType
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import small_calls

BOOL, FLOAT = np.dtype(bool), np.dtype(np.float32)
# Chains compute them with single numbers, for conditions.
SMALL = frozenset(
    ["eq", "ne", "lt", "le", "gt", "ge", "fdiv", "mod", "bitand", "bitor", "bitxor", "bitnot", "minus", "abs"]
)
# These functions take complex numbers, as in NumPy.
COMPLEX = frozenset(["add", "sub", "mul", "div", "pow", "minus", "plus", "abs", "eq", "ne"])


def promote(left: np.dtype, right: np.dtype) -> np.dtype:
    """The common type of two operands."""
    if left == right:
        return left
    kinds = {left.kind, right.kind}
    if "b" in kinds:
        return right if left.kind == "b" else left
    if "c" in kinds:
        return np.result_type(*[np.dtype(np.complex64) if dtype.kind in "ui" else dtype for dtype in (left, right)])
    if "f" in kinds:
        if left.kind == right.kind:
            return max(left, right, key=lambda dtype: dtype.itemsize)
        return left if left.kind == "f" else right
    if left.kind == right.kind:
        return max(left, right, key=lambda dtype: dtype.itemsize)
    unsigned, signed = (left, right) if left.kind == "u" else (right, left)
    if unsigned.itemsize < signed.itemsize:
        return signed
    return np.dtype(f"i{min(8, 2 * unsigned.itemsize)}")


def broadcast(*shapes: Any) -> Any:
    """NumPy's broadcasting on shapes whose dimensions may be unknown."""
    if any(shape is UNKNOWN for shape in shapes):
        return UNKNOWN
    ndim = max(len(shape) for shape in shapes)
    result: list[Any] = []
    for axis in range(-ndim, 0):
        dims = [shape[axis] for shape in shapes if len(shape) >= -axis]
        known = {dim for dim in dims if dim is not UNKNOWN and dim != 1}
        if len(known) > 1:
            listed = ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
            raise RuntimeError(f"Can't broadcast shapes: {listed}")
        result.append(known.pop() if known else (UNKNOWN if UNKNOWN in dims else 1))
    return tuple(result)


def _layout(specs: tuple[Spec, ...], symbol: str, shape: Any) -> str | None:
    """The longest layout; the others must be its end. Operands without a layout are ignored."""
    known = [(index, spec.layout) for index, spec in enumerate(specs) if spec.layout]
    if not known:
        return None if any(spec.layout is None for spec in specs) else ""
    index, longest = max(known, key=lambda item: len(item[1]))
    for other, layout in known:
        if not longest.endswith(layout):
            (first, one), (second, two) = sorted([(index, longest), (other, layout)])
            raise RuntimeError(
                f"Layouts of subexpressions {first} and {second} for arithmetic operation {symbol} do not match: {one!r} "
                f"and {two!r}. They must be equal or one must be a suffix of the other; fn.reinterpret(x, layout='') removes one"
            )
    return longest if shape is UNKNOWN or len(shape) == len(longest) else ""


def common_type(specs: Sequence[Spec]) -> Any:
    """The common type of operands."""
    dtype = specs[0].dtype
    for spec in specs[1:]:
        dtype = UNKNOWN if dtype is UNKNOWN or spec.dtype is UNKNOWN else promote(dtype, spec.dtype)
    return dtype


def _declare(
    name: str,
    arity: int,
    compute: Callable[..., Any],
    result: Callable[[Any], Any],
    summary: str,
    accepts: Callable[[np.dtype], bool] = lambda dtype: dtype.kind in "uif",
    complaint: str = "{inputs}: use fn.cast, or the bitwise `&`, `|`, `^` and `~`",
    symbol: str = "",
) -> OpDef:
    """One elementwise operator: ``compute(arrays in the common type, out)`` and the dtype of its result."""
    symbol = symbol or name

    def run(inputs: tuple[np.ndarray, ...], out: Any) -> np.ndarray:
        common = common_type(tuple(Spec(x.shape, x.dtype) for x in inputs))
        with np.errstate(all="ignore"):  # integers beyond FLOAT16 become infinite
            arrays = [x if x.dtype == common else x.astype(common) for x in inputs]
        return compute(*arrays, out)

    if arity == 1:

        def body(x: Sample, /, *, out: Out) -> Sample:
            return run((x,), out)
    elif arity == 2:

        def body(left: Sample, right: Sample, /, *, out: Out) -> Sample:  # type: ignore[misc]
            return run((left, right), out)
    else:

        def body(value: Sample, low: Sample, high: Sample, /, *, out: Out) -> Sample:  # type: ignore[misc]
            return run((value, low, high), out)

    body.__doc__ = summary
    op = operator(
        f"math.{name}",
        dtypes="number complex",
        elementwise=True,
        hidden=True,
        gpu=True,
        dali_class="_ArithmeticGenericOp",
    )(body)

    @op.infer
    def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
        dtype = common_type(specs)
        if dtype is not UNKNOWN:
            if dtype.kind == "c" and name not in COMPLEX:
                raise UnsupportedType(
                    f"`{symbol}` does not take {dtype}; fn.python_function can compute it with NumPy, and `abs` gives "
                    "the absolute value"
                )
            if dtype.kind != "c" and not accepts(dtype):
                several, one = (
                    "Inputs to arithmetic operator `{}` cannot be booleans",
                    "Input to arithmetic operator `{}` cannot be a boolean",
                )
                inputs = (one if arity == 1 else several).format(symbol)
                raise RuntimeError(complaint.format(inputs=inputs, symbol=symbol, dtype=dtype))
            dtype = result(dtype)
        shape = broadcast(*[spec.shape for spec in specs])
        return Spec(shape, dtype, _layout(specs, symbol, shape))

    def small(calls: KernelCalls) -> None:
        common = common_type([Spec((), x.dtype) for x in calls.inputs])
        small_calls.computed(calls, name, common, result(common))

    if name in SMALL:
        op.calls(small, small=True)
    return op


TYPES_OF_CALLS = {np.dtype(dtype) for dtype in (np.uint8, np.int32, np.float32)}


def _calls(op: OpDef, operation: int, result: Callable[[Any], Any]) -> None:
    """The work of a sum, difference, product or quotient of an array and a number or an array of the same extents."""

    @op.calls
    def _(calls: KernelCalls) -> None:
        left, right = calls.inputs
        common = common_type([Spec((), x.dtype) for x in (left, right)])
        dtype = result(common)
        if not (left.extents or right.extents):
            small_calls.computed(calls, op.leaf, common, dtype)
            return
        require({left.dtype, right.dtype} <= TYPES_OF_CALLS and dtype.itemsize == 4)
        arithmetic, kernel, shape = kernels.arithmetic, kernels.arithmetic.of_arrays, left.extents
        if not right.extents:
            kernel = arithmetic.with_number
        elif not left.extents:
            kernel, shape = arithmetic.of_number, right.extents
        else:
            require(len(left.extents) == len(right.extents))
            for one, other in zip(left.extents, right.extents):
                calls.require(one == other)
        calls.need(arithmetic.wanted(kernel, left.dtype, right.dtype, dtype))
        calls.call(kernel, left.flat, right.flat, operation, calls.output(shape, dtype).flat)


def _limits(op: OpDef, above: int) -> None:
    """The work of ``min`` or ``max`` of single numbers, of an array and a number, or of arrays of the same extents."""

    @op.calls
    def _(calls: KernelCalls) -> None:
        left, right = calls.inputs
        common = common_type([Spec((), x.dtype) for x in (left, right)])
        if not (left.extents or right.extents):
            small_calls.computed(calls, op.leaf, common, common)
            return
        _limit(calls, left, right, above, calls.output(_shape_of(calls, left, right), common))


def _shape_of(calls: KernelCalls, left: KernelArray, right: KernelArray) -> tuple[Any, ...]:
    """The extents of the result of an array and a number, or of arrays of the same extents."""
    if left.extents and right.extents:
        require(len(left.extents) == len(right.extents))
        for one, other in zip(left.extents, right.extents):
            calls.require(one == other)
    return left.extents or right.extents


def _limit(calls: KernelCalls, left: KernelArray, right: KernelArray, above: int, out: KernelArray) -> None:
    """Writes the smaller or the larger ones of an array and a number, or of two arrays."""
    require({left.dtype, right.dtype} <= TYPES_OF_CALLS and out.dtype.itemsize == 4)
    require(out.dtype.kind != "f" or kernels.small_numbers.limits_as_numpy())
    arithmetic = kernels.arithmetic
    kernel = arithmetic.limited_by_array if left.extents else arithmetic.number_limited
    kernel = kernel if right.extents else arithmetic.limited_by_number
    calls.need(arithmetic.wanted(kernel, left.dtype, right.dtype, out.dtype))
    calls.call(kernel, left.flat, right.flat, above, out.flat)


def _clamp_calls(calls: KernelCalls) -> None:
    """The work of ``clamp`` of an array or a number between two numbers."""
    value, low, high = calls.inputs
    require(not (low.extents or high.extents))
    common = common_type([Spec((), x.dtype) for x in calls.inputs])
    require({low.dtype, high.dtype, value.dtype} <= TYPES_OF_CALLS)
    out = calls.output(value.extents, common)
    between = calls.scratch(value.extents, common)
    _limit(calls, value, low, 1, between)
    _limit(calls, between, high, 0, out)


def _bits(op: OpDef, operation: int) -> None:
    """The work of a bitwise operation on an array of bytes and a byte, or on single numbers."""
    small = op.calls_hook
    assert small is not None

    @op.calls
    def _(calls: KernelCalls) -> None:
        left, right = calls.inputs
        if not (left.extents or right.extents):
            small(calls)
            return
        values, number = (left, right) if left.extents else (right, left)
        require(not number.extents and left.dtype == right.dtype == np.uint8)
        calls.need(kernels.arithmetic.wanted_bits())
        out = calls.output(values.extents, values.dtype)
        calls.call(kernels.arithmetic.bits_of_bytes, values.flat, number.flat, operation, out.flat)


def _ufunc(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*arrays_and_out: Any) -> np.ndarray:
        *arrays, out = arrays_and_out
        with np.errstate(all="ignore"):
            ufunc(*arrays, out=out, casting="unsafe")
        return out

    return compute


def _in_float(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """Mathematical functions of integers are computed in FLOAT."""

    def compute(*arrays_and_out: Any) -> np.ndarray:
        *arrays, out = arrays_and_out
        wide = np.float64 if out.dtype == np.float64 else np.float32
        with np.errstate(all="ignore"):
            np.copyto(out, ufunc(*[x.astype(wide, copy=False) for x in arrays]), casting="unsafe")
        return out

    return compute


def _truediv(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        np.true_divide(left.astype(out.dtype, copy=False), right.astype(out.dtype, copy=False), out=out)
    return out


def _refuse_zero(right: np.ndarray) -> None:
    if not np.all(right):
        raise ValueError("Integer division by zero.")


def _floordiv(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Division as in C: quotients of integers are truncated towards zero, floats are divided."""
    if left.dtype.kind == "f":
        return _truediv(left, right, out)
    _refuse_zero(right)
    with np.errstate(all="ignore"):
        np.floor_divide(left - np.fmod(left, right), right, out=out, casting="unsafe")
    return out


def _mod(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    if left.dtype.kind != "f":
        _refuse_zero(right)
    with np.errstate(all="ignore"):
        np.fmod(left, right, out=out, casting="unsafe")
    return out


def _power(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Powers; an integer to a negative power is 0."""
    with np.errstate(all="ignore"):
        if left.dtype.kind != "i":
            np.power(left, right, out=out, casting="unsafe")
        else:
            powers = np.power(left, np.maximum(right, 0))
            np.copyto(out, np.where(right < 0, 0, powers), casting="unsafe")
    return out


def _clamp(value: np.ndarray, low: np.ndarray, high: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.minimum(np.maximum(value, low), high, out=out, casting="unsafe")
    return out


def _negative(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        np.subtract(x.dtype.type(0), x, out=out, casting="unsafe")
    if x.dtype.kind in "fc":
        np.negative(x, out=out)
    return out


def _positive(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.copyto(out, x)
    return out


def _shift(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """Shifts; BOOL is shifted as the numbers 0 and 1."""

    def compute(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
        if left.dtype == BOOL:
            np.not_equal(ufunc(left.view(np.uint8), right.view(np.uint8)), 0, out=out)
        else:
            ufunc(left, right, out=out, casting="unsafe")
        return out

    return compute


def _absolute(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "u":
        np.copyto(out, x)
    else:
        np.absolute(x, out=out)
    return out


def same(dtype: np.dtype) -> np.dtype:
    """The result has the type of the operands."""
    return dtype


def to_bool(_dtype: np.dtype) -> np.dtype:
    """The result is BOOL."""
    return BOOL


def to_float(dtype: np.dtype) -> np.dtype:
    """The result is FLOAT, or the operands' own floating type."""
    return dtype if dtype.kind in "fc" else FLOAT


def to_real(dtype: np.dtype) -> np.dtype:
    """The result has the type of the operands, or that of the parts of complex ones."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


_INTEGRAL: dict[str, Any] = {
    "accepts": lambda dtype: dtype.kind in "bui",
    "complaint": "Inputs to bitwise operator `{symbol}` must be of integral type, got {dtype}",
}
_ANY: dict[str, Any] = {"accepts": lambda dtype: dtype.kind in "buif", "complaint": "`{symbol}` does not take {dtype}"}

_added = _declare("add", 2, _ufunc(np.add), same, "``left + right``; integers wrap around.", symbol="+")
_subtracted = _declare("sub", 2, _ufunc(np.subtract), same, "``left - right``; integers wrap around.", symbol="-")
_multiplied = _declare(
    "mul", 2, _ufunc(np.multiply), same, "``left * right``; integers wrap around.", **_ANY, symbol="*"
)
_divided = _declare("div", 2, _truediv, to_float, "``left / right``; integers give FLOAT.", symbol="/")
for _number, _op in enumerate((_added, _subtracted, _multiplied, _divided)):
    _calls(_op, _number, to_float if _op is _divided else same)
_declare(
    "fdiv", 2, _floordiv, same, "``left // right``; as in C, integers are truncated and floats divided.", symbol="//"
)
_declare("mod", 2, _mod, same, "``left % right``; as in C, the sign is that of the left side.", symbol="%")
_declare("pow", 2, _power, same, "``base ** exponent``; an integer to a negative power is 0.")
_declare("fpow", 2, _in_float(np.power), to_float, "``base ** exponent`` in floating point.")
_declare("minus", 1, _negative, same, "``-x``; unsigned integers wrap around.", symbol="-")
_declare("plus", 1, _positive, same, "``+x``.", **_ANY, symbol="+")
_bits(_declare("bitand", 2, _ufunc(np.bitwise_and), same, "``left & right``, elementwise.", **_INTEGRAL, symbol="&"), 0)
_bits(_declare("bitor", 2, _ufunc(np.bitwise_or), same, "``left | right``, elementwise.", **_INTEGRAL, symbol="|"), 1)
_bits(_declare("bitxor", 2, _ufunc(np.bitwise_xor), same, "``left ^ right``, elementwise.", **_INTEGRAL, symbol="^"), 2)
_declare("shl", 2, _shift(np.left_shift), same, "``left << right``.", **_INTEGRAL, symbol="<<")
_declare("shr", 2, _shift(np.right_shift), same, "``left >> right``.", **_INTEGRAL, symbol=">>")
_declare("bitnot", 1, _ufunc(np.invert), same, "``~x``.", **_INTEGRAL, symbol="~")
_limits(_declare("min", 2, _ufunc(np.minimum), same, "The smaller of two values."), 0)
_limits(_declare("max", 2, _ufunc(np.maximum), same, "The larger of two values."), 1)
_declare("clamp", 3, _clamp, same, "The value limited to low ... high.").calls(_clamp_calls)
_declare(
    "abs", 1, _absolute, to_real, "The absolute value in the same type; of complex numbers in that of their parts."
)
_declare("fabs", 1, _in_float(np.absolute), to_float, "The absolute value in floating point.")
_declare("atan2", 2, _in_float(np.arctan2), to_float, "The angle of the point (right, left).")
_declare("rsqrt", 1, _in_float(lambda x: 1 / np.sqrt(x)), to_float, "One divided by the square root.")
for _name, _function in {
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "floor": np.floor,
    "ceil": np.ceil,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}.items():
    _declare(_name, 1, _in_float(_function), to_float, f"{_name} of each element; integers give FLOAT.")


def _compare(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    def compute(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
        ufunc(left, right, out=out)
        return out

    return compute


for _name, _symbol, _comparison in (
    ("eq", "==", np.equal),
    ("ne", "!=", np.not_equal),
    ("lt", "<", np.less),
    ("le", "<=", np.less_equal),
    ("gt", ">", np.greater),
    ("ge", ">=", np.greater_equal),
):
    _declare(
        _name, 2, _compare(_comparison), to_bool, f"``left {_symbol} right``, elementwise.", **_ANY, symbol=_symbol
    )


class PythonOperator(NamedTuple):
    """An operator of Python: its special method without the underscores, its sign, and the operator that a node records."""

    method: str
    sign: str
    operator: str


def _python(*rows: str) -> tuple[PythonOperator, ...]:
    """Each row is: method, sign, name of the function."""
    return tuple(PythonOperator(method, sign, f"math.{name}") for method, sign, name in map(str.split, rows))


BINARY = _python(
    "add + add", "sub - sub", "mul * mul", "truediv / div", "floordiv // fdiv", "mod % mod", "pow ** pow",
    "and & bitand", "or | bitor", "xor ^ bitxor", "lshift << shl", "rshift >> shr",
)  # fmt: skip
COMPARISONS = _python("eq == eq", "ne != ne", "lt < lt", "le <= le", "gt > gt", "ge >= ge")
UNARY = _python("neg - minus", "pos + plus", "invert ~ bitnot", "abs abs abs")
