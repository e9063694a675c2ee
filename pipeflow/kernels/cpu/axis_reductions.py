"""Means, smallest and largest numbers along axes in functions of the user: Numba has them only for whole arrays.

They are for integers, whose sums in float64 are exact in any order, so the bits are those of NumPy.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import ir
from numba.core.registry import cpu_target
from numba.extending import overload, register_jitable
from numba.np import numpy_support

_NAMES = {"mean": "mean", "max": "max", "amax": "max", "min": "min", "amin": "min"}
Axes = tuple[int, ...]


def reduction_of(called: Any, method: str, call: Any, names: Any) -> Callable[..., Any] | None:
    """The function of this file for a call like ``np.mean(x, axis=2)`` or ``x.max(0)``; None for any other call."""
    name = method if called is None else getattr(called, "__name__", "")
    if name not in _NAMES or (called is not None and called is not getattr(np, name)):
        return None
    given = [*call.args[int(called is not None) :], *(variable for word, variable in call.kws if word == "axis")]
    if len(given) != 1 or len(call.kws) > 1 or (call.kws and call.kws[0][0] != "axis") or call.vararg:
        return None
    axes = _axes(given[0], names)
    return None if axes is None else _reduction(_NAMES[name], axes)


def flip_of(call: Any, names: Any) -> Callable[..., Any] | None:
    """The function of this file for ``np.flip(x, axis)``; None if the axis is not a constant."""
    given = [*call.args[1:], *(variable for word, variable in call.kws if word == "axis")]
    if len(call.args) + len(call.kws) > 2 or len(given) != len(call.args) + len(call.kws) - 1 or call.vararg:
        return None
    axes = _axes(given[0], names) if given else ()
    return None if axes is None else _flip(axes)


def _axes(variable: Any, names: Any) -> Axes | None:
    """The axes that an argument names; None if they are not constants."""
    value = names.definitions.get(variable.name)
    if isinstance(value, ir.Expr) and value.op == "build_tuple":
        found = [_axes(item, names) for item in value.items]
        return None if None in found else tuple(axis for axes in found if axes for axis in axes)
    constant = getattr(value, "value", None) if isinstance(value, (ir.Const, ir.Global, ir.FreeVar)) else None
    constants = constant if isinstance(constant, tuple) else (constant,)
    return constants if constants and all(type(one) is int for one in constants) else None


_made: set[Any] = set()


def is_reduction(function: Any) -> bool:
    """True for a function of this file."""
    return getattr(function, "__module__", "") == __name__ and function in _made


@cache
def _flip(axes: Axes) -> Callable[..., Any]:
    """The function that Numba compiles for a flip along these axes, or all of them."""

    def flipped(array):
        raise NotImplementedError

    @overload(flipped)
    def _(array):
        if not isinstance(array, types.Array) or not all(-array.ndim <= axis < array.ndim for axis in axes):
            return None
        turned = {axis % array.ndim for axis in axes} if axes else {*range(array.ndim)}
        if (axes and len(turned) != len(axes)) or not array.ndim:
            return None
        steps = ", ".join("::-1" if axis in turned else ":" for axis in range(array.ndim))
        namespace: dict[str, Any] = {}
        exec(f"def along(array): return array[{steps}]", namespace)
        return namespace["along"]

    return _declared(flipped)


def _declared(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a new implementation: a compiler is at work, and read the declarations before."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    _made.add(function)
    return function


@cache
def _reduction(name: str, axes: Axes) -> Callable[..., Any]:
    """The function that Numba compiles for such a call."""

    def reduced(array):
        raise NotImplementedError

    @overload(reduced)
    def _(array):
        if not isinstance(array, types.Array) or not isinstance(array.dtype, types.Integer):
            return None
        chosen = sorted({axis % array.ndim for axis in axes if -array.ndim <= axis < array.ndim})
        if len(chosen) != len(axes) or len(chosen) == array.ndim or chosen[-1] - chosen[0] >= len(chosen):
            return None
        if name == "mean" and array.dtype.bitwidth > 32:
            return None
        first, end = chosen[0], chosen[-1] + 1
        element = np.dtype(np.float64) if name == "mean" else numpy_support.as_dtype(array.dtype)
        compute, mean, contiguous = _KERNELS[name], name == "mean", array.layout == "C"

        def along(array):
            outer = middle = inner = 1
            for axis in range(array.ndim):
                if axis < first:
                    outer *= array.shape[axis]
                elif axis < end:
                    middle *= array.shape[axis]
                else:
                    inner *= array.shape[axis]
            if middle == 0:
                raise ValueError("an axis without elements")
            result = np.empty(array.shape[:first] + array.shape[end:], element)
            numbers = array if contiguous else np.ascontiguousarray(array)
            flat = result.reshape(result.size)
            compute(numbers.reshape(numbers.size), outer, middle, inner, flat)
            if mean:
                for place in range(flat.size):
                    flat[place] /= middle
            return result

        return along

    return _declared(reduced)


def _kernel(combine: Callable[..., Any]) -> Any:
    combined = register_jitable(combine)

    def compute(flat, outer, middle, inner, out):
        for row in range(outer):
            if inner < 16:  # in registers
                for place in range(inner):
                    best = out.dtype.type(flat[row * middle * inner + place])
                    for line in range(row * middle + 1, (row + 1) * middle):
                        best = out.dtype.type(combined(best, flat[line * inner + place]))
                    out[row * inner + place] = best
            else:  # several elements at once
                found, begin = out[row * inner : (row + 1) * inner], row * middle * inner
                for place in range(inner):
                    found[place] = flat[begin + place]
                for line in range(1, middle):
                    numbers = flat[begin + line * inner : begin + (line + 1) * inner]
                    for place in range(inner):
                        found[place] = combined(found[place], numbers[place])

    return numba.njit(nogil=True, boundscheck=False)(compute)


_KERNELS = {
    "mean": _kernel(lambda one, other: one + other),
    "max": _kernel(lambda one, other: one if one > other else other),
    "min": _kernel(lambda one, other: one if one < other else other),
}
