"""Sums, means, limits and similar reductions along axes in functions of the user: Numba has most only for whole arrays.

Sums of integers in float64 are exact in any order. Those of floats are computed in NumPy's order (float_sums.py). A limit of
floats that is no number, or a zero that may have a sign, raises an exception, and the plain function computes the sample.
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

from pipeflow.kernels.cpu.float_reductions import WHOLE, has_negative_zero
from pipeflow.kernels.cpu.float_sums import mean_along, sum_along, sum_of_squares, variance_along

_NAMES = {name: name for name in ("mean", "sum", "var", "std", "max", "min", "any", "all", "argmax", "argmin")}
_NAMES |= {"amax": "max", "amin": "min", "norm": "norm"}
Axes = tuple[int, ...]


def reduction_of(called: Any, method: str, call: Any, names: Any) -> Callable[..., Any] | None:
    """The function of this file for a call like ``np.mean(x, axis=2)`` or ``x.max(0, keepdims=True)``; None for any other
    call.
    """
    name = method if called is None else getattr(called, "__name__", "")
    if name not in _NAMES or (called is not None and called is not getattr(np.linalg if name == "norm" else np, name)):
        return None
    words = dict(call.kws)
    given = [*call.args[int(called is not None) :], *([words["axis"]] if "axis" in words else [])]
    if len(given) > 1 or {*words} - {"axis", "keepdims"} or call.vararg:
        return None
    keeps = names.constant(words["keepdims"]) if "keepdims" in words else False
    none = not given or (isinstance(made := names.definitions.get(given[0].name), ir.Const) and made.value is None)
    axes = () if none else _axes(given[0], names)
    if axes is None or type(keeps) is not bool or (none and not keeps and not name.startswith("arg")):
        return None
    if name == "norm" and (called is None or none or type(names.constant(given[0])) is not int):
        return None
    if name.startswith("arg") and (len(axes) > 1 or keeps):
        return None
    return _reduction(_NAMES[name], axes, keeps)


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
def _reduction(name: str, axes: Axes, keeps: bool) -> Callable[..., Any]:
    """The function that Numba compiles for such a call. Without axes it reduces all of them."""

    def reduced(array):
        raise NotImplementedError

    @overload(reduced)
    def _(array):
        if not isinstance(array, types.Array) or not isinstance(
            array.dtype, (types.Integer, types.Float, types.Boolean)
        ):
            return None
        if not all(-array.ndim <= axis < array.ndim for axis in axes) or array.ndim == 0:
            return None
        chosen = {axis % array.ndim for axis in axes} if axes else {*range(array.ndim)}
        if axes and len(chosen) != len(axes):
            return None
        if len(chosen) == array.ndim and not keeps:  # one number
            return _of_whole(name, array)
        compute = _along(name, array, tuple(axis in chosen for axis in range(array.ndim)))
        if compute is None or not keeps:
            return compute
        kept = ", ".join("1" if axis in chosen else f"array.shape[{axis}]" for axis in range(array.ndim))
        namespace: dict[str, Any] = {"compute": register_jitable(compute)}
        exec(f"def along(array): return compute(array).reshape(({kept},))", namespace)
        return namespace["along"]

    reduced.__name__ = reduced.__qualname__ = name
    return _declared(reduced)


def _of_whole(name: str, array: Any) -> Callable[..., Any] | None:
    """The implementation for all axes."""
    if name in ("any", "all"):
        compute = np.any if name == "any" else np.all
        return lambda array: compute(array)
    if name == "norm":
        return None
    if name not in _PLACES:
        whole = WHOLE[name]
        return lambda array: whole(array)
    compute = _PLACES[name]

    def place(array):
        if array.size == 0:
            raise ValueError("no elements have no limit")
        numbers = np.ascontiguousarray(array)
        return compute(numbers.reshape(numbers.size), 0, array.size, 1)

    return place


def _along(name: str, array: Any, reduced: tuple[bool, ...]) -> Callable[..., Any] | None:
    """The implementation for an array of this type, along the axes that are ``reduced``."""
    floats = isinstance(array.dtype, types.Float)
    axes = [axis for axis, one in enumerate(reduced) if one]
    rest = [axis for axis, one in enumerate(reduced) if not one]
    together = axes[-1] - axes[0] < len(axes)
    shape = "(" + "".join(f"array.shape[{axis}], " for axis in rest) + ")" if rest else "(1,)"
    namespace: dict[str, Any] = {}
    exec(f"def shape_of(array): return {shape}", namespace)
    shape_of = register_jitable(namespace["shape_of"])
    small = isinstance(array.dtype, types.Boolean) or (not floats and array.dtype.bitwidth <= 32)
    if name in ("mean", "sum", "var", "std", "norm") and (floats or (small and (name != "mean" or not together))):
        if (floats or name in ("var", "std", "norm")) and array.layout != "C":  # NumPy's order depends on the strides
            return None
        return _of_floats(name, array, reduced, shape_of)
    if not together or name in ("var", "std", "norm") or (name == "mean" and not small):
        return None
    first, end = axes[0], axes[-1] + 1
    element = _element(name, numpy_support.as_dtype(array.dtype))
    mean, contiguous = name == "mean", array.layout == "C"
    compute = (_LIMITS if floats and name in ("max", "min") else _PLACES_ALONG | _KERNELS)[name]

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
        result = np.empty(shape_of(array), element)
        numbers = array if contiguous else np.ascontiguousarray(array)
        flat = result.reshape(result.size)
        compute(numbers.reshape(numbers.size), outer, middle, inner, flat)
        if mean:
            for place in range(flat.size):
                flat[place] /= middle
        return result

    return along


def _element(name: str, dtype: np.dtype) -> np.dtype:
    """The type of a result for numbers of this type."""
    if name == "mean":
        return np.dtype(np.float64)
    if name in ("any", "all"):
        return np.dtype(np.bool_)
    if name in ("argmax", "argmin"):
        return np.dtype(np.intp)
    if name == "sum":
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return dtype


def _of_floats(name: str, array: Any, reduced: tuple[bool, ...], shape_of: Any) -> Callable[..., Any] | None:
    """The implementation for sums in NumPy's order; those of small integers are exact."""
    floats, contiguous = isinstance(array.dtype, types.Float), array.layout == "C"
    element = numpy_support.as_dtype(array.dtype) if floats else np.dtype(np.float64)
    flags = np.array(reduced)
    flags.setflags(write=False)
    if name == "sum" and not floats:
        whole = _element("sum", numpy_support.as_dtype(array.dtype))

        def of_integers(array):
            numbers = array if contiguous else np.ascontiguousarray(array)
            wide = numbers.astype(np.float64).reshape(array.size)
            return sum_along(wide, np.array(array.shape), flags, np.empty(shape_of(array), np.float64)).astype(whole)

        return of_integers
    compute = {"sum": sum_along, "mean": mean_along, "norm": sum_of_squares}.get(name, variance_along)
    root = name in ("std", "norm")

    def of_floats(array):
        numbers = array if contiguous else np.ascontiguousarray(array)
        wide = numbers.astype(element).reshape(array.size)
        result = compute(wide, np.array(array.shape), flags, np.empty(shape_of(array), element))
        return np.sqrt(result) if root else result

    def of_same(array):
        result = compute(array.reshape(array.size), np.array(array.shape), flags, np.empty(shape_of(array), element))
        return np.sqrt(result) if root else result

    return of_same if floats and contiguous else of_floats


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


def _truth(wanted: bool) -> Any:
    """Finds out if one number, or all of them, are true."""

    def compute(flat, outer, middle, inner, out):
        for row in range(outer):
            if inner == 1:
                count = 0
                for place in range(row * middle, (row + 1) * middle):
                    count += (flat[place] != 0) == wanted
                out[row] = (count > 0) == wanted
                continue
            found = out[row * inner : (row + 1) * inner]
            for place in range(inner):
                found[place] = False
            for line in range(row * middle, (row + 1) * middle):
                numbers = flat[line * inner : (line + 1) * inner]
                for place in range(inner):
                    found[place] |= (numbers[place] != 0) == wanted
            for place in range(inner):
                found[place] = found[place] == wanted

    return numba.njit(nogil=True, boundscheck=False)(compute)


@numba.njit(nogil=True, boundscheck=False)
def _count_nan(x):
    count = 0
    for place in range(x.size):
        count += x[place] != x[place]
    return count


def _limits_of_floats(larger: bool) -> Any:
    def best_of(numbers):
        best = numbers[0]
        for place in range(numbers.size):
            if larger:
                best = numbers[place] if numbers[place] > best else best
            else:
                best = numbers[place] if numbers[place] < best else best
        return best

    # Several elements at once: a NaN, and a zero with a sign, are found in another loop.
    best_of = numba.njit(nogil=True, boundscheck=False, fastmath={"nnan", "nsz"})(best_of)

    def compute(flat, outer, middle, inner, out):
        if _count_nan(flat):
            raise ValueError("numbers that are none")
        for row in range(outer):
            if inner == 1:
                out[row] = best_of(flat[row * middle : (row + 1) * middle])
                continue
            found = out[row * inner : (row + 1) * inner]
            for line in range(row * middle, (row + 1) * middle):
                numbers = flat[line * inner : (line + 1) * inner]
                for place in range(inner):
                    number, best = numbers[place], found[place] if line > row * middle else numbers[place]
                    if larger:
                        found[place] = number if number > best else best
                    else:
                        found[place] = number if number < best else best
        zeros = 0
        for place in range(out.size):
            zeros += out[place] == 0
        if zeros and has_negative_zero(flat):
            raise ValueError("zeros with a sign")

    return numba.njit(nogil=True, boundscheck=False)(compute)


def _place_of(larger: bool) -> Any:
    """The first place of the largest or smallest number, or that of the first NaN."""

    def compute(flat, begin, count, step):
        found = 0
        best = flat[begin]
        for place in range(count):
            number = flat[begin + place * step]
            if number != number:
                return place
            if number > best if larger else number < best:
                best, found = number, place
        return found

    return numba.njit(nogil=True, boundscheck=False)(compute)


def _places_along(place_of: Any) -> Any:
    def compute(flat, outer, middle, inner, out):
        for row in range(outer):
            for place in range(inner):
                out[row * inner + place] = place_of(flat, row * middle * inner + place, middle, inner)

    return numba.njit(nogil=True, boundscheck=False)(compute)


_SUM = _kernel(lambda one, other: one + other)
_KERNELS = {
    "mean": _SUM,
    "sum": _SUM,
    "max": _kernel(lambda one, other: one if one > other else other),
    "min": _kernel(lambda one, other: one if one < other else other),
    "any": _truth(True),
    "all": _truth(False),
}
_LIMITS = {"max": _limits_of_floats(True), "min": _limits_of_floats(False)}
_PLACES = {"argmax": _place_of(True), "argmin": _place_of(False)}
_PLACES_ALONG = {name: _places_along(compute) for name, compute in _PLACES.items()}
