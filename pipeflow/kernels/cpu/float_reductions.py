"""Sums, means, deviations and limits of floats in functions of the user, with the bits of NumPy.

Sums have NumPy's order (float_sums.py). The bits of a NaN, and of the largest one of several zeros, depend on NumPy's loops: an
exception leaves them to the plain function.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from pipeflow.kernels.cpu.float_sums import mean_of_all, sum_of_all, variance_of_all
from pipeflow.kernels.cpu.numpy_numbers import element_of, rule, where


def sum_of(array: Any) -> Any:
    """``array.sum()``."""
    return array.sum()


def mean_of(array: Any) -> Any:
    """``array.mean()``."""
    return array.mean()


def variance_of(array: Any) -> Any:
    """``array.var()``."""
    return array.var()


def deviation_of(array: Any) -> Any:
    """``array.std()``."""
    return array.std()


def greatest_of(array: Any) -> Any:
    """``array.max()``."""
    return array.max()


def least_of(array: Any) -> Any:
    """``array.min()``."""
    return array.min()


def larger_of(one: Any, other: Any) -> Any:
    """``np.maximum(one, other)``."""
    return np.maximum(one, other)


def smaller_of(one: Any, other: Any) -> Any:
    """``np.minimum(one, other)``."""
    return np.minimum(one, other)


def _is_flat_float(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.layout == "C" and isinstance(kind.dtype, types.Float)


def _is_small(kind: Any) -> bool:
    element = element_of(kind)
    return isinstance(element, types.Boolean) or (isinstance(element, types.Integer) and element.bitwidth <= 32)


@rule(sum_of)
def _(array: Any) -> Any:
    if isinstance(array, types.Array) and isinstance(array.dtype, (types.Integer, types.Boolean)):
        return lambda array: array.sum()
    return (lambda array: sum_of_all(array.reshape(array.size))) if _is_flat_float(array) else None


@rule(mean_of)
def _(array: Any) -> Any:
    if isinstance(array, types.Array) and _is_small(array):

        def mean(array: Any) -> Any:
            if array.size == 0:
                raise ValueError("the mean of no elements")
            return array.mean()

        return mean
    return (lambda array: mean_of_all(array.reshape(array.size))) if _is_flat_float(array) else None


@rule(variance_of)
def _(array: Any) -> Any:
    if isinstance(array, types.Array) and array.layout == "C" and _is_small(array):
        return lambda array: variance_of_all(array.reshape(array.size).astype(np.float64))
    return (lambda array: variance_of_all(array.reshape(array.size))) if _is_flat_float(array) else None


@rule(deviation_of)
def _(array: Any) -> Any:
    if isinstance(array, types.Array) and array.layout == "C" and _is_small(array):
        return lambda array: np.sqrt(variance_of_all(array.reshape(array.size).astype(np.float64)))
    return (lambda array: np.sqrt(variance_of_all(array.reshape(array.size)))) if _is_flat_float(array) else None


# Limits.


@numba.njit(nogil=True, boundscheck=False)
def _limit(x, larger):
    """The largest or smallest float. Four are found at the same time."""
    if x.size == 0:
        raise ValueError("no elements have no limit")
    strange = 0
    for place in range(x.size):
        strange += x[place] != x[place]
    a = b = c = d = x[0]
    end = x.size - x.size % 4
    for place in range(0, end, 4):
        p, q, r, s = x[place], x[place + 1], x[place + 2], x[place + 3]
        if larger:
            a, b, c, d = p if p > a else a, q if q > b else b, r if r > c else c, s if s > d else d
        else:
            a, b, c, d = p if p < a else a, q if q < b else b, r if r < c else c, s if s < d else d
    for place in range(end, x.size):
        a = x[place] if (x[place] > a) == larger and x[place] != a else a
    for other in (b, c, d):
        a = other if (other > a) == larger and other != a else a
    if strange or (a == 0 and has_negative_zero(x)):
        raise ValueError("a limit that is no number, or a zero with a sign")
    return a


@numba.njit(nogil=True, boundscheck=False)
def has_negative_zero(x):
    found = 0
    for place in range(x.size):
        found += x[place] == 0 and np.signbit(x[place])
    return found > 0


def _limit_rule(function: Callable[..., Any], larger: bool) -> None:
    @rule(function)
    def _(array: Any) -> Any:
        if _is_flat_float(array):
            return lambda array: _limit(array.reshape(array.size), larger)
        if isinstance(array, types.Array) and isinstance(array.dtype, types.Float):
            return lambda array: _limit(np.ascontiguousarray(array).reshape(array.size), larger)
        return (lambda array: array.max()) if larger else (lambda array: array.min())


_limit_rule(greatest_of, True)
_limit_rule(least_of, False)


@cache
def _as_these() -> bool:
    """True if NumPy takes the second one of two equal numbers, and the first NaN, in all its loops."""
    for dtype in (np.float32, np.float64):
        for count in (*range(1, 40), 65):
            for step in (1, 2, -1):
                one = np.resize(np.array([0.0, -0.0, np.nan, -np.nan, 1.0], dtype), count * abs(step))[::step]
                for other in (one[::-1], -one, dtype(0), dtype(-0.0)):
                    for called, above in ((np.maximum, np.greater), (np.minimum, np.less)):
                        wanted = np.where(above(one, other) | (one != one), one, other)
                        if called(one, other).tobytes() != wanted.tobytes():
                            return False
    return True


@numba.njit(nogil=True, boundscheck=False)
def _limited(x, number, larger, out):
    for place in range(x.size):
        value = x[place]
        out[place] = value if (value > number if larger else value < number) or value != value else number


def _pair_rule(function: Callable[..., Any], larger: bool) -> None:
    @rule(function)
    def _(one: Any, other: Any) -> Any:
        elements = [types.unliteral(element_of(kind)) for kind in (one, other)]
        if not any(isinstance(element, types.Float) for element in elements):
            return (
                (lambda one, other: np.maximum(one, other)) if larger else (lambda one, other: np.minimum(one, other))
            )
        if elements[0] != elements[1] or not _as_these():
            return None
        arrays = [isinstance(kind, types.Array) for kind in (one, other)]
        if not any(arrays):
            if larger:
                return lambda one, other: one if one > other or one != one else other
            return lambda one, other: one if one < other or one != one else other
        if _is_flat_float(one) and not arrays[1]:

            def of_number(one: Any, other: Any) -> Any:
                result = np.empty_like(one)
                _limited(one.reshape(one.size), other, larger, result.reshape(one.size))
                return result

            return of_number
        if larger:
            return lambda one, other: where((one > other) | (one != one), one, other)
        return lambda one, other: where((one < other) | (one != one), one, other)


_pair_rule(larger_of, True)
_pair_rule(smaller_of, False)
WHOLE = {
    **{"sum": sum_of, "mean": mean_of, "var": variance_of, "std": deviation_of},
    **{"max": greatest_of, "amax": greatest_of, "min": least_of, "amin": least_of},
}
PAIRS: dict[Any, Callable[..., Any]] = {np.maximum: larger_of, np.minimum: smaller_of}
FLOAT_HELPERS = {*WHOLE.values(), *PAIRS.values()}


def whole_reduction(called: Any, method: str, call: Any) -> Callable[..., Any] | None:
    """The function for a call like ``x.mean()`` or ``np.mean(x)``, without other arguments; None for any other call."""
    name = method if called is None else getattr(called, "__name__", "")
    if len(call.args) != (called is not None) or call.kws or call.vararg:
        return None
    found = WHOLE.get(name)
    return found if found is None or called is None or called is getattr(np, name) else None
