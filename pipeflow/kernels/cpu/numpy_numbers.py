"""Gives numbers in compiled functions of the user the types of NumPy; a number that does not fit raises an exception.

``exact_functions.py`` puts calls of the functions of this file into a user's function before its types are known; each has one
implementation for each kind of arguments. A Python number is *weak* (the word of NumPy's promotion rules): the type of the other
operand decides.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from pipeflow.kernels.cpu.user_calls import gather


def as_weak(weak: Any, _other: Any) -> Any:
    """A Python number in the type that NumPy gives it next to the other operand."""
    return weak


def as_divisor(weak: Any, _other: Any) -> Any:
    """The same for a division, which NumPy computes with float64 if both numbers are integers."""
    return weak


def as_divided(value: Any, _other: Any) -> Any:
    """One of the two sides of a division, of which neither is weak: NumPy divides integers as float64."""
    return value


def as_compared(weak: Any, _other: Any) -> Any:
    """The same for comparisons, in which an integer may be beyond the range of the other operand."""
    return weak


def as_stored(value: Any, _target: Any) -> Any:
    """A number that is stored in an array; an exception if it does not fit."""
    return value


def store(target: Any, index: Any, value: Any) -> None:
    """``target[index] = value``; Numba has no masks with several axes."""
    target[index] = value


def selected(array: Any, mask: Any) -> Any:
    """``array[mask]``, for a mask with one axis or more."""
    return array[mask]


def where(condition: Any, one: Any, other: Any) -> Any:
    """``np.where(condition, one, other)``."""
    return np.where(condition, one, other)


def as_integer(value: Any) -> Any:
    """``int(value)``; an exception if it has more than 64 bits."""
    return int(value)


def as_cast(array: np.ndarray, dtype: Any) -> np.ndarray:
    """``array.astype(dtype)``; an exception if a number does not fit."""
    return array.astype(dtype)


def flat(array: np.ndarray) -> np.ndarray:
    """The array with one axis."""
    return array.reshape(array.size)


def with_axes(result: Any, array: np.ndarray) -> Any:
    """A result that was computed from ``flat(array)`` with the axes of the array."""
    return result.reshape(array.shape)


def copied(value: Any) -> Any:
    """``value.copy()``."""
    return value.copy()


def rule(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the implementations of a function by types. Numba compares signatures, so the implementations have no
    annotations.
    """

    def register(typer: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(typer)
        def plain(*kinds: Any, **named: Any) -> Any:
            made = typer(*kinds, **named)
            if made is not None:
                made.__annotations__.clear()
            return made

        typer.__annotations__.clear()
        plain.__annotations__.clear()
        made: Callable[..., Any] = overload(function)(plain)
        return made

    return register


def element_of(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return kind.dtype if isinstance(kind, types.Array) else kind


_WHOLE = (types.Integer, types.Boolean)


def _in_range(element: types.Integer) -> Callable[..., Any]:
    """Casts an integer to a type of integers, or raises."""
    if element.signed and element.bitwidth == 64:
        return lambda value, other: value
    low, high, cast = element.minval, element.maxval, getattr(np, element.name)

    def convert(value: Any, other: Any) -> Any:
        if value < low or value > high:
            raise OverflowError("a number does not fit into the type of the array")
        return cast(value)

    return convert


def _weak_float(weak: Any, element: Any) -> Callable[..., Any]:
    if isinstance(element, types.Float) and isinstance(weak, (types.Float, types.Integer, types.Boolean)):
        cast = np.float32 if element.bitwidth == 32 else np.float64
        return lambda value, other: cast(value)
    return lambda value, other: value


@rule(as_weak)
def _(value: Any, other: Any) -> Any:
    weak, element = types.unliteral(value), element_of(other)
    if isinstance(element, types.Integer) and isinstance(weak, types.Integer):
        return _in_range(element)
    return _weak_float(weak, element)


@rule(as_divisor)
def _(value: Any, other: Any) -> Any:
    element = element_of(other)
    return _weak_float(types.unliteral(value), types.float64 if isinstance(element, _WHOLE) else element)


@rule(as_divided)
def _(value: Any, other: Any) -> Any:
    kinds = [types.unliteral(kind) for kind in (value, other)]
    arrays = [isinstance(kind, types.Array) for kind in kinds]
    if not any(arrays) or not all(isinstance(element_of(kind), _WHOLE) for kind in kinds):
        return lambda value, other: value
    return (lambda value, other: value.astype(np.float64)) if arrays[0] else (lambda value, other: np.float64(value))


@rule(as_compared)
def _(value: Any, other: Any) -> Any:
    return _weak_float(types.unliteral(value), element_of(other))


@rule(as_stored)
def _(value: Any, other: Any) -> Any:
    value, element = types.unliteral(value), element_of(other)
    if isinstance(element, types.Integer) and isinstance(value, types.Float):
        if element.bitwidth == 64:
            inside = _inside(float(element.minval), float(element.maxval), True)

            def convert(value: Any, other: Any) -> Any:
                if not inside(value):
                    raise OverflowError("a number does not fit into the type of the array")
                return value

            return convert
        low, high, cast = element.minval, element.maxval, getattr(np, element.name)

        def convert_short(value: Any, other: Any) -> Any:  # with two comparisons of floats it takes a third more time
            number = _cut_off(value)
            if number < low or number > high:
                raise OverflowError("a number does not fit into the type of the array")
            return cast(number)

        return convert_short
    return lambda value, other: value


@rule(store)
def _(target: Any, index: Any, value: Any) -> Any:
    masked = isinstance(index, types.Array) and isinstance(index.dtype, types.Boolean)
    number = isinstance(types.unliteral(value), (types.Number, types.Boolean))
    if masked and number and index.layout == target.layout == "C" and index.ndim == target.ndim:

        def convert(target: Any, index: Any, value: Any) -> None:
            if target.shape != index.shape:
                raise IndexError("the mask has another shape than the array")
            _put(target.reshape(target.size), index.reshape(index.size), value)

        return convert
    if masked and number and index.layout == target.layout == "C" and index.ndim < target.ndim:
        axes = index.ndim

        def convert(target: Any, index: Any, value: Any) -> None:
            if target.shape[:axes] != index.shape:
                raise IndexError("the mask has another shape than the array")
            _put_rows(target.reshape(target.size), index.reshape(index.size), value)

        return convert
    if masked and isinstance(value, types.Array) and target.layout == "C" and index.ndim <= target.ndim:
        axes, rows = index.ndim, value.ndim > target.ndim - index.ndim

        def convert(target: Any, index: Any, value: Any) -> None:
            if target.shape[:axes] != index.shape:
                raise IndexError("the mask has another shape than the array")
            mask = np.ascontiguousarray(index).reshape(index.size)
            width = target.size // max(index.size, 1)
            count = np.count_nonzero(mask) if rows else 1
            if value.size != count * width or value.shape[rows:] != target.shape[axes:]:
                raise ValueError("the values do not have the shape of the mask")
            _put_each(target.reshape(target.size), mask, value.copy().reshape(value.size), width, rows)

        return convert if value.ndim - rows == target.ndim - index.ndim else None
    if masked and number and index.ndim > 1:

        def convert(target: Any, index: Any, value: Any) -> None:
            if target.shape != index.shape:
                raise IndexError("the mask has another shape than the array")
            for place in np.ndindex(index.shape):
                if index[place]:
                    target[place] = value

        return convert

    def plain(target: Any, index: Any, value: Any) -> None:
        target[index] = value

    return plain


@numba.njit(nogil=True, boundscheck=False)
def _put(target, mask, value):
    """Writes a number where a mask is true. All elements are read and written, so that the processor takes several at once: 1.5
    microseconds for 37,632 bytes, and 28 if an element is read only where it is kept.
    """
    number = target.dtype.type(value)
    for place in range(target.size):
        old = target[place]
        target[place] = number if mask[place] else old


@numba.njit(nogil=True, boundscheck=False)
def _put_rows(target, mask, value):
    """Writes a number to all elements that a mask of fewer axes has one element for."""
    number, width = target.dtype.type(value), target.size // max(mask.size, 1)
    for row in range(mask.size):
        if mask[row]:
            for place in range(row * width, (row + 1) * width):
                target[place] = number


@numba.njit(nogil=True, boundscheck=False)
def _put_each(target, mask, values, width, rows):
    """Writes elements where a mask is true: others for each place of the mask, or with ``rows`` false the same ones."""
    place = 0
    for row in range(mask.size):
        if mask[row]:
            for column in range(width):
                target[row * width + column] = values[place + column]
            place += width if rows else 0


@numba.njit(nogil=True, boundscheck=False)
def _select(array, mask, width, out):
    place = 0
    for row in range(mask.size):
        if mask[row]:
            for column in range(width):
                out[place + column] = array[row * width + column]
            place += width


@rule(selected)
def _(array: Any, mask: Any) -> Any:
    if not (isinstance(array, types.Array) and isinstance(mask, types.Array) and isinstance(mask.dtype, types.Boolean)):
        return lambda array, mask: array[mask]
    axes = mask.ndim
    if axes > array.ndim or axes == 0:
        return None

    def select(array: Any, mask: Any) -> Any:
        if array.shape[:axes] != mask.shape:
            raise IndexError("the mask has another shape than the array")
        chosen = np.ascontiguousarray(mask).reshape(mask.size)
        result = np.empty((np.count_nonzero(chosen),) + array.shape[axes:], array.dtype)
        width = array.size // max(mask.size, 1)
        _select(np.ascontiguousarray(array).reshape(array.size), chosen, width, result.reshape(result.size))
        return result

    return select


@numba.njit(nogil=True, boundscheck=False)
def _choose(condition, one, other, result):
    for place in range(result.size):
        chosen, rest = one[place], other[place]
        result[place] = chosen if condition[place] else rest


@numba.njit(nogil=True, boundscheck=False)
def _choose_or_number(condition, one, other, result):
    for place in range(result.size):
        chosen = one[place]
        result[place] = chosen if condition[place] else other


@rule(where)
def _(condition: Any, one: Any, other: Any) -> Any:
    choices = [types.unliteral(kind) for kind in (one, other)]
    arrays = [kind for kind in (condition, *choices) if isinstance(kind, types.Array)]
    if (
        condition in arrays
        and len(arrays) > 1
        and isinstance(condition.dtype, types.Boolean)
        and all(array.layout == "C" and array.ndim == condition.ndim for array in arrays)
        and element_of(choices[0]) == element_of(choices[1])
        and all(isinstance(element_of(kind), (types.Number, types.Boolean)) for kind in choices)
    ):
        if len(arrays) == 3:

            def of_arrays(condition: Any, one: Any, other: Any) -> Any:
                if one.shape != condition.shape or other.shape != condition.shape:
                    return np.where(condition, one, other)
                result, size = np.empty_like(one), condition.size
                _choose(condition.reshape(size), one.reshape(size), other.reshape(size), result.reshape(size))
                return result

            return of_arrays
        if one in arrays:

            def of_array(condition: Any, one: Any, other: Any) -> Any:
                if one.shape != condition.shape:
                    return np.where(condition, one, other)
                result, size = np.empty_like(one), condition.size
                _choose_or_number(condition.reshape(size), one.reshape(size), other, result.reshape(size))
                return result

            return of_array

        def of_number(condition: Any, one: Any, other: Any) -> Any:
            if other.shape != condition.shape:
                return np.where(condition, one, other)
            result, size = np.empty_like(other), condition.size
            _choose_or_number(~condition.reshape(size), other.reshape(size), one, result.reshape(size))
            return result

        return of_number

    def plain(condition: Any, one: Any, other: Any) -> Any:
        return np.where(condition, one, other)

    return plain


def _inside(low: float, high: float, wide: bool) -> Any:
    """True if a float without its fraction is in the range of this integer type; False for NaN."""
    if wide:  # float64 has high + 1, but not high
        return register_jitable(lambda value: value >= low and value < high)
    return register_jitable(lambda value: value > low - 1 and value < high + 1)


_IS_X86 = binding.get_process_triple().startswith("x86_64")
SMALLEST = -(2**63)


@intrinsic
def _cut_off(_typing, value):
    """The integer in front of the point of a float; SMALLEST for NaN, and for a number of more than 64 bits."""
    if not isinstance(value, types.Float):
        return None

    def generate(context, builder, _signature, arguments):
        (number,), result = arguments, ir.IntType(64)
        double = value.bitwidth == 64
        if _IS_X86:  # one instruction of the processor
            lanes = ir.VectorType(number.type, 2 if double else 4)
            name = "llvm.x86.sse2.cvttsd2si64" if double else "llvm.x86.sse.cvttss2si64"
            cut = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [lanes]), name)
            return builder.call(cut, [builder.insert_element(ir.Constant(lanes, None), number, ir.IntType(32)(0))])
        name = f"llvm.fptosi.sat.i64.f{value.bitwidth}"
        cut = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [number.type]), name)
        fits = [
            builder.fcmp_ordered(sign, number, ir.Constant(number.type, limit))
            for sign, limit in ((">=", -(2.0**63)), ("<", 2.0**63))
        ]
        return builder.select(builder.and_(*fits), builder.call(cut, [number]), result(SMALLEST))

    return types.int64(value), generate


@register_jitable
def in_64_bits(value):
    """A float without its fraction as an integer; an exception for NaN and for a number of more than 64 bits."""
    number = _cut_off(value)
    if number == SMALLEST:
        raise OverflowError("a number has more than 64 bits")
    return number


@rule(as_integer)
def _(value: Any) -> Any:
    kind = types.unliteral(value)
    if isinstance(kind, types.Float):
        return lambda value: in_64_bits(value)
    if kind is types.uint64:
        return None
    return lambda value: np.int64(value)


@numba.njit(nogil=True, boundscheck=False)
def _outside(x, low, high):
    """How many numbers are not between two others; a NaN is none of these."""
    count = 0
    for place in range(x.size):
        count += not (x[place] > low and x[place] < high)
    return count


@rule(as_cast)
def _(value: Any, dtype: Any) -> Any:
    if not isinstance(value, types.Array) or not isinstance(dtype, types.NumberClass):
        return None
    if isinstance(value.dtype, types.Float) and isinstance(dtype.dtype, types.Integer):
        element = dtype.dtype
        inside = _inside(float(element.minval), float(element.maxval), element.bitwidth == 64)

        if value.layout == "C" and value.ndim and element.bitwidth <= 16:  # floats have these limits exactly
            limit = np.float32 if value.dtype.bitwidth == 32 else np.float64
            low, high = limit(element.minval - 1), limit(element.maxval + 1)

            def convert_line(value: Any, dtype: Any) -> Any:
                numbers = value.reshape(value.size)
                if _outside(numbers, low, high):
                    raise OverflowError("a number does not fit into the type of the array")
                return numbers.astype(dtype).reshape(value.shape)

            return convert_line

        def convert(value: Any, dtype: Any) -> Any:
            fit = True
            for number in value.flat:
                fit &= inside(number)
            if not fit:
                raise OverflowError("a number does not fit into the type of the array")
            return value.astype(dtype)

        return convert
    if value.layout == "C" and value.ndim > 1:
        return lambda value, dtype: value.reshape(value.size).astype(dtype).reshape(value.shape)
    return lambda value, dtype: value.astype(dtype)


@rule(flat)
def _(array: Any) -> Any:
    return lambda array: array.reshape(array.size)


@rule(with_axes)
def _(result: Any, array: Any) -> Any:
    if isinstance(result, types.Array):
        return lambda result, array: result.reshape(array.shape)
    return lambda result, array: result


@rule(copied)
def _(value: Any) -> Any:
    if (
        not isinstance(value, types.Array)
        or value.layout == "C"
        or not isinstance(value.dtype, (types.Number, types.Boolean))
    ):
        return lambda value: value.copy()
    axes = value.ndim

    def copy(value: Any) -> Any:  # for a mirrored image in a third of the time of Numba's loops
        result, numbers = np.empty(value.shape, value.dtype), np.empty(2 * axes, np.int64)
        for axis in range(axes):
            numbers[axis], numbers[axes + axis] = value.shape[axis], value.strides[axis]
        _gather(value, result, numbers)
        return result

    return copy


@numba.njit(nogil=True, boundscheck=False)
def _gather(array, result, numbers):
    places = numbers.ctypes.data
    gather(array.ctypes.data, result.ctypes.data, places, places + 8 * array.ndim, array.ndim, array.itemsize)


HELPERS = {
    *(
        copied,
        flat,
        with_axes,
        as_weak,
        as_divided,
        as_divisor,
        as_compared,
        as_stored,
        store,
        selected,
        as_integer,
        as_cast,
        where,
    )
}
