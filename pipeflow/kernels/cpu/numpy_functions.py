"""``np.exp``, powers and similar functions in functions of the user, with the bits of NumPy.

Numba computes them in its own way. These call NumPy's loops (numpy_code.py), and for single numbers of Python the functions of C
that the module ``math`` calls. NumPy computes arrays with gaps in another way: they are refused.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.np import numpy_support

from pipeflow.kernels.cpu.numpy_code import BINARY, OF_MATH, UNARY, is_known, loop, math_known, of_math
from pipeflow.kernels.cpu.numpy_numbers import element_of, rule

# NumPy computes powers with these exponents in other ways.
_SPECIAL = (-1.0, 0.0, 0.5, 1.0, 2.0)


def _dtype_for(kind: Any) -> np.dtype | None:
    """The type that NumPy computes such a function with; None for types of 8 bits."""
    element = types.unliteral(element_of(kind))
    if isinstance(element, types.Float):
        return numpy_support.as_dtype(element)
    if not isinstance(element, types.Integer) or element.bitwidth < 16:
        return None
    return np.dtype(np.float32 if element.bitwidth == 16 else np.float64)


def _usable(name: str, *kinds: Any) -> np.dtype | None:
    """The type to compute with, if compiled code can do so."""
    dtypes = [dtype for kind in kinds if (dtype := _dtype_for(kind)) is not None]
    if len(dtypes) < len(kinds):
        return None
    dtype = np.result_type(*dtypes)
    gaps = any(isinstance(kind, types.Array) and kind.layout != "C" for kind in kinds)
    return None if gaps or dtype.kind != "f" or not is_known(name, dtype) else dtype


def _unary(name: str) -> Callable[..., Any]:
    def computed(value: Any) -> Any:
        return getattr(np, name)(value)

    @rule(computed)
    def _(value: Any) -> Any:
        kind = types.unliteral(value)
        dtype = _usable(name, kind)
        if dtype is None:
            return None
        run, cast, size = loop(name, dtype), dtype.type, dtype.itemsize
        if not isinstance(kind, types.Array):

            def of_number(value: Any) -> Any:
                cell = np.empty(2, cast)
                cell[0] = value
                run((cell.ctypes.data, cell[1:].ctypes.data), (0, 0), 1)
                return cell[1]

            return of_number
        if numpy_support.as_dtype(kind.dtype) == dtype:

            def of_array(value: Any) -> Any:
                result = np.empty(value.shape, cast)
                run((value.ctypes.data, result.ctypes.data), (size, size), value.size)
                return result

            return of_array

        def of_integers(value: Any) -> Any:
            numbers = value.astype(cast)
            run((numbers.ctypes.data, numbers.ctypes.data), (size, size), value.size)
            return numbers

        return of_integers

    return _named(computed, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function with the name that the user wrote, for messages."""
    function.__name__ = function.__qualname__ = name
    return function


def _binary(name: str, special: bool = False) -> Callable[..., Any]:
    def computed(one: Any, other: Any) -> Any:
        return getattr(np, name)(one, other)

    @rule(computed)
    def _(one: Any, other: Any) -> Any:
        kinds = [types.unliteral(kind) for kind in (one, other)]
        dtype = _usable(name, *kinds)
        arrays = [isinstance(kind, types.Array) for kind in kinds]
        whole = name == "power" and isinstance(element_of(kinds[1]), types.Integer)
        if dtype is None or not any(arrays) or whole:
            return None
        run, cast, size = loop(name, dtype), dtype.type, dtype.itemsize
        if not arrays[0]:

            def of_first_number(one: Any, other: Any) -> Any:
                first, second, result = np.empty(1, cast), other.astype(cast), np.empty(other.shape, cast)
                first[0] = one
                run((first.ctypes.data, second.ctypes.data, result.ctypes.data), (0, size, size), other.size)
                return result

            return of_first_number
        if arrays[1]:

            def of_arrays(one: Any, other: Any) -> Any:
                if one.shape != other.shape:
                    raise ValueError("arrays of different shapes")
                first, second, result = one.astype(cast), other.astype(cast), np.empty(one.shape, cast)
                places = first.ctypes.data, second.ctypes.data, result.ctypes.data
                run(places, (size, size, size), one.size)
                return result

            return of_arrays if kinds[0].ndim == kinds[1].ndim else None

        def of_number(one: Any, other: Any) -> Any:
            if special and (other in _SPECIAL):
                raise ValueError("NumPy computes this power in another way")
            first, second, result = one.astype(cast), np.empty(1, cast), np.empty(one.shape, cast)
            second[0] = other
            run((first.ctypes.data, second.ctypes.data, result.ctypes.data), (size, 0, size), one.size)
            return result

        return of_number

    return _named(computed, name)


def _declared(name: str) -> Callable[..., Any]:
    """A function of one or two Python numbers."""
    from_c = of_math(name)

    def number(kind: Any) -> bool:
        return isinstance(types.unliteral(kind), (types.Float, types.Integer, types.Boolean))

    if OF_MATH[name] == 2:

        def of_two(one: Any, other: Any) -> Any:
            return getattr(math, name)(one, other)

        @rule(of_two)
        def _(one: Any, other: Any) -> Any:
            if not (number(one) and number(other) and math_known()):
                return None

            def compute(one: Any, other: Any) -> Any:
                result = from_c((np.float64(one), np.float64(other)))
                if not (np.isfinite(np.float64(one)) and np.isfinite(np.float64(other)) and np.isfinite(result)):
                    raise ValueError("numbers that are not finite")
                return result

            return compute

        return of_two

    def of_one(value: Any) -> Any:
        return getattr(math, name)(value)

    @rule(of_one)
    def _(value: Any) -> Any:
        if not (number(value) and math_known()):
            return None

        def compute(value: Any) -> Any:
            result = from_c((np.float64(value),))
            if not (np.isfinite(np.float64(value)) and np.isfinite(result)):
                raise ValueError("numbers that are not finite")
            return result

        return compute

    return of_one


def powered(one: Any, other: Any) -> Any:
    """``one ** other`` for an array, or for a float64 of NumPy."""
    return one**other


_power_of_array = _binary("power", special=True)
_pow = _declared("pow")


@rule(powered)
def _(one: Any, other: Any) -> Any:
    kinds = [types.unliteral(kind) for kind in (one, other)]
    if any(isinstance(kind, types.Array) for kind in kinds):
        return lambda one, other: _power_of_array(one, other)
    # NumPy's own float32 has a power of its own; that of a float64 is the function of C
    if types.float64 in kinds and not any(isinstance(kind, types.Array) or kind == types.float32 for kind in kinds):
        return lambda one, other: _pow(one, other)
    return None


_UNARY = {getattr(np, name): _unary(name) for name in UNARY}
_BINARY = {getattr(np, name): _binary(name) for name in BINARY}
MATH = {getattr(math, name): _declared(name) for name in OF_MATH}
FUNCTIONS: dict[Any, Callable[..., Any]] = {**_UNARY, **_BINARY, **MATH}
FUNCTION_HELPERS = {*FUNCTIONS.values(), powered, _power_of_array, _pow}
