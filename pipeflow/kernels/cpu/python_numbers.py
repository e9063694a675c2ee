"""Python's integers, and limits of calls, in compiled functions of the user: what Numba leaves undefined raises an exception.

Python's integers have any number of bits, those of Numba 64. ``math.floor`` of a NaN raises, and a generator refuses a range
without numbers; Numba returns any number. ``exact_functions.py`` puts calls of these functions in place of such operations. The
caller runs the plain function after an exception.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils, errors, ir
from numba.extending import intrinsic, register_jitable

from pipeflow.kernels.cpu.numpy_numbers import element_of, in_64_bits, rule


class NotExact(errors.TypingError):
    """A part of a function that is not known to give NumPy's bits."""


def added(one: Any, other: Any) -> Any:
    """``one + other`` for Python numbers."""
    return one + other


def subtracted(one: Any, other: Any) -> Any:
    """``one - other`` for Python numbers."""
    return one - other


def multiplied(one: Any, other: Any) -> Any:
    """``one * other`` for Python numbers."""
    return one * other


def shifted_left(one: Any, other: Any) -> Any:
    """``one << other`` for Python numbers."""
    return one << other


def shifted_right(one: Any, other: Any) -> Any:
    """``one >> other`` for Python numbers."""
    return one >> other


def as_floor(value: Any) -> Any:
    """``math.floor(value)``."""
    return math.floor(value)


def as_ceil(value: Any) -> Any:
    """``math.ceil(value)``."""
    return math.ceil(value)


def as_double(value: Any) -> Any:
    """An argument of a function of ``math``, which computes with 64 bits."""
    return float(value)


def as_square(value: Any) -> Any:
    """The argument of ``math.sqrt``."""
    return float(value)


def as_rounded(value: Any) -> Any:
    """``round(value)``."""
    return round(value)


def as_limit(limit: Any) -> Any:
    """A limit of ``np.clip``; an exception for a NaN, which Numba ignores, and for a negative zero."""
    return limit


def absolute(value: Any) -> Any:
    """``abs(value)``, also for an array."""
    return abs(value)


def rounded(value: Any) -> Any:
    """``np.round(value)``."""
    return np.round(value)


def sign_of(value: Any) -> Any:
    """``np.sign(value)``, which is 0.0 for a negative zero."""
    return np.sign(value)


def safe_divisor(value: Any) -> Any:
    """A divisor of integers; an exception for 0 and -1, which NumPy treats in its own way."""
    return value


def no_number() -> int:
    """The first limit of random integers for which only the last one is given."""
    return 0


def low_of(low: Any, high: Any) -> Any:
    """The first limit of random integers; an exception if no integer is between the limits."""
    return low


def start_of(low: Any, high: Any) -> Any:
    """The first limit of ``rng.uniform``; an exception for a range that is not finite or negative."""
    return low


def apart(value: Any, target: Any) -> Any:
    """The array that changes another one in place; an exception if both are in the same memory, where NumPy makes a copy."""
    return value


def _with_overflow(name: str) -> Any:
    """An operation of two integers that returns the result, and True if it has more than 64 bits."""

    @intrinsic
    def compute(typingctx, one, other):
        def generate(context, builder, signature, arguments):
            made = getattr(builder, name)(*arguments)
            parts = [builder.extract_value(made, place) for place in range(2)]
            return cgutils.pack_struct(
                builder, [parts[0], context.cast(builder, parts[1], types.boolean, types.boolean)]
            )

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), generate

    return compute


def _checked(function: Callable[..., Any], operation: Callable[..., Any], name: str) -> None:
    compute = _with_overflow(name)

    def integers(one: Any, other: Any) -> Any:
        result, beyond = compute(np.int64(one), np.int64(other))
        if beyond:
            raise OverflowError("an integer has more than 64 bits")
        return result

    plain = _of_operator(operation)

    @rule(function)
    def _(one: Any, other: Any) -> Any:
        return integers if _are_integers(one, other) else plain


def _are_integers(*kinds: Any) -> bool:
    return all(isinstance(types.unliteral(kind), types.Integer) for kind in kinds)


def _of_operator(operation: Callable[..., Any]) -> Callable[..., Any]:
    def plain(one: Any, other: Any) -> Any:
        return operation(one, other)

    return plain


_checked(added, operator.add, "sadd_with_overflow")
_checked(subtracted, operator.sub, "ssub_with_overflow")
_checked(multiplied, operator.mul, "smul_with_overflow")


@rule(shifted_left)
def _(one: Any, other: Any) -> Any:
    def shift(one: Any, other: Any) -> Any:
        number, bits = np.int64(one), np.int64(other)
        if bits < 0 or bits > 62 or (number << bits) >> bits != number:
            raise OverflowError("an integer has more than 64 bits, or the shift is negative")
        return number << bits

    return shift if _are_integers(one, other) else _of_operator(operator.lshift)


@rule(shifted_right)
def _(one: Any, other: Any) -> Any:
    def shift(one: Any, other: Any) -> Any:
        number, bits = np.int64(one), np.int64(other)
        if bits < 0:
            raise ValueError("a shift is negative")
        return number >> (63 if bits > 63 else bits)

    return shift if _are_integers(one, other) else _of_operator(operator.rshift)


def _rounding(function: Callable[..., Any], called: Callable[..., Any]) -> None:
    def floats(value: Any) -> Any:
        return in_64_bits(called(np.float64(value)))

    @rule(function)
    def _(value: Any) -> Any:
        return floats if isinstance(types.unliteral(value), types.Float) else _as_it_is(value)


def _as_it_is(value: Any) -> Any:
    return (lambda value: np.int64(value)) if _are_integers(value) else None


_rounding(as_floor, np.floor)
_rounding(as_ceil, np.ceil)
_rounding(as_rounded, np.rint)


def _checking(function: Callable[..., Any], kind: Any, check: Callable[..., Any]) -> None:
    """Makes the function return its value after a check of each number of it, if they are of this kind."""
    check = register_jitable(check)

    @rule(function)
    def _(value: Any) -> Any:
        if not isinstance(element_of(value), kind):
            return lambda value: value
        if isinstance(value, types.Array):

            def of_array(value: Any) -> Any:
                for number in value.flat:
                    check(number)
                return value

            return of_array

        def of_number(value: Any) -> Any:
            check(value)
            return value

        return of_number


def _check_divisor(number):
    if number == 0 or number == -1:
        raise ZeroDivisionError("a division of integers by 0 or -1")


def _check_limit(number):
    if number != number or (number == 0 and np.signbit(number)):
        raise ValueError("a limit is not a number, or a negative zero")


_checking(safe_divisor, types.Integer, _check_divisor)
_checking(as_limit, types.Float, _check_limit)


@rule(as_double)
def _(value: Any) -> Any:
    return lambda value: np.float64(value)


@rule(as_square)
def _(value: Any) -> Any:
    def square(value: Any) -> Any:
        number = np.float64(value)
        if number < 0:
            raise ValueError("the root of a negative number")
        return number

    return square


@rule(sign_of)
def _(value: Any) -> Any:
    element = element_of(value)
    if not isinstance(element, types.Float):
        return lambda value: np.sign(value)
    zero = (np.float32 if element.bitwidth == 32 else np.float64)(0)
    return lambda value: np.sign(value) + zero


@rule(absolute)
def _(value: Any) -> Any:
    kind = types.unliteral(value)
    if isinstance(kind, types.Array):
        return lambda value: np.abs(value)
    if isinstance(kind, types.Integer) and kind.signed and kind.bitwidth < 64:  # the smallest number stays as it is
        cast = getattr(np, kind.name)
        return lambda value: cast(abs(value))
    return lambda value: abs(value)


@rule(rounded)
def _(value: Any) -> Any:
    if isinstance(element_of(value), types.Float):
        return lambda value: np.rint(value)
    return (lambda value: value.copy()) if isinstance(value, types.Array) and _are_integers(value.dtype) else None


@rule(no_number)
def _() -> Any:
    return lambda: 0


@rule(low_of)
def _(low: Any, high: Any) -> Any:
    if not _are_integers(low, high):
        return None

    def check(low: Any, high: Any) -> Any:
        if low >= high:
            raise ValueError("no integer is between the limits")
        return low

    return check


@rule(start_of)
def _(low: Any, high: Any) -> Any:
    numbers = (types.Integer, types.Float, types.Boolean)
    if not all(isinstance(types.unliteral(kind), numbers) for kind in (low, high)):
        return None

    def check(low: Any, high: Any) -> Any:
        extent = np.float64(high) - np.float64(low)
        if not (np.isfinite(extent) and extent >= 0):
            raise OverflowError("the range is not finite, or negative")
        return low

    return check


@rule(apart)
def _(value: Any, target: Any) -> Any:
    if not isinstance(value, types.Array) or not isinstance(target, types.Array):
        return lambda value, target: value

    def check(value: Any, target: Any) -> Any:
        first, end = _extent(value)
        begin, last = _extent(target)
        if first < last and begin < end:
            raise ValueError("an array changes itself in place")
        return value

    return check


@numba.njit(nogil=True)
def _extent(array):
    """The first address of an array, and the one after its last."""
    first = end = array.ctypes.data
    if array.size == 0:
        return first, first
    for axis in range(array.ndim):
        reach = (array.shape[axis] - 1) * array.strides[axis]
        if reach < 0:
            first += reach
        else:
            end += reach
    return first, end + array.itemsize


def is_limit(value: Any) -> bool:
    """True for a constant of the code that ``np.clip`` may have as a limit without a check."""
    if not isinstance(value, (ir.Const, ir.Global, ir.FreeVar)):
        return False
    number = value.value
    return (
        number is None or type(number) in (bool, int) or (type(number) is float and str(number) not in ("nan", "-0.0"))
    )


def check_limits(call: Any, method: str, names: Any, insert: Callable[..., Any]) -> None:
    """Puts a check into a call of ``rng.integers`` or ``rng.uniform``, which raise for limits without a number between them."""
    named = dict(call.kws)
    places: list[Any] = list(call.args[:2])
    low = places[0] if places else named.get("low")
    high = places[1] if len(places) > 1 else named.get("high")
    if low is None:
        return
    if method == "integers" and high is None:
        if len(call.args) != 1:
            raise NotExact("limits of rng.integers are not known", loc=call.loc)
        low, high = insert(no_number), low
        call.args = [low, high]
        if names.constant(high) is not None:
            return
    elif None not in (names.constant(low), names.constant(high)):
        return
    if method == "integers" and (len(call.args) > 3 or {"dtype", "endpoint"} & {*named}):
        raise NotExact("limits of rng.integers with a type or an endpoint", loc=call.loc)
    checked = (
        insert(low_of, low, high) if method == "integers" else insert(start_of, low, low if high is None else high)
    )
    if call.args:
        call.args = [checked, *call.args[1:]]
    else:
        call.kws = [(word, checked if word == "low" else one) for word, one in call.kws]


CHECKED = {
    operator.add: added,
    operator.iadd: added,
    operator.sub: subtracted,
    operator.isub: subtracted,
    operator.mul: multiplied,
    operator.imul: multiplied,
    operator.lshift: shifted_left,
    operator.ilshift: shifted_left,
    operator.rshift: shifted_right,
    operator.irshift: shifted_right,
}
INTEGERS = {as_floor, as_ceil, as_rounded}  # these return Python's integers
FLOATS = {as_double, as_square}
PYTHON_HELPERS = {
    *(*CHECKED.values(), *INTEGERS, *FLOATS),
    *(safe_divisor, as_limit, absolute, rounded, sign_of, no_number, low_of, start_of, apart),
}
