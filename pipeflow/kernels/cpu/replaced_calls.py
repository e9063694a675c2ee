"""Calls in functions of the user that others replace, because Numba has none, or one with other bits than NumPy's."""

import math
import operator
from collections.abc import Hashable
from typing import Any

import numpy as np
from numba import types
from numba.core import ir

from pipeflow.kernels.cpu.drawn_numbers import DRAW_HELPERS, draw_of
from pipeflow.kernels.cpu.inserted_code import InsertedCode
from pipeflow.kernels.cpu.limited_arrays import CLIP_HELPERS, as_bound, clipped
from pipeflow.kernels.cpu.numpy_functions import FUNCTION_HELPERS, FUNCTIONS, MATH, powered
from pipeflow.kernels.cpu.numpy_numbers import as_weak, rule
from pipeflow.kernels.cpu.padding import MODES, padded
from pipeflow.kernels.cpu.python_numbers import as_limit, is_limit
from pipeflow.kernels.cpu.variables import Names

_JOINING = (np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack)
_MOST_ITEMS = 16


def replaced_call(called: Any, method: str, value: Any, names: Names, insert: InsertedCode) -> Any:
    """The call in place of another one; None if it stays as it is."""
    if (called is np.clip or (called is None and method == "clip")) and not value.kws and not value.vararg:
        return _clip(called, value, names, insert)
    if called is None:
        generator = names.definitions[value.func.name].value if method else None
        if generator is not None and names.is_generator(generator):
            return draw_of(method, generator, value, names, insert)
        return None
    if not isinstance(called, Hashable):
        return None
    function = FUNCTIONS.get(called)
    if function is not None and not value.kws and not value.vararg:
        count = 2 if called in (np.power, np.arctan2, np.hypot, math.pow, math.atan2) else 1
        if len(value.args) == count:
            return insert.call(function, *_alike(value.args, names, insert, called in MATH))
    if called is np.pad and not value.vararg:
        return _pad(value, names, insert)
    if called in _JOINING and value.args:
        _join(value, names, insert)
    return None


def _clip(called: Any, value: Any, names: Names, insert: InsertedCode) -> Any:
    """The call in place of one of ``clip`` with two limits."""
    array, *limits = value.args if called is not None else [names.definitions[value.func.name].value, *value.args]
    if len(limits) != 2 or any(map(names.is_none, limits)) or names.is_weak(array):
        return None
    bounds = []
    for limit in limits:
        constant = is_limit(names.definitions.get(limit.name))
        bound = insert.call(as_bound, limit, array) if names.is_weak(limit) else limit
        bounds.append(bound if constant else insert.call(as_limit, bound))
    return insert.call(clipped, array, *bounds)


def _pad(value: Any, names: Names, insert: InsertedCode) -> Any:
    """The call in place of one of ``np.pad``."""
    found = dict(zip(("array", "pad_width", "mode"), value.args)) | dict(value.kws)
    mode = names.constant(found["mode"]) if "mode" in found else "constant"
    number = found.get("constant_values")
    if {*found} - {"array", "pad_width", "mode", "constant_values"} or mode not in MODES or len(value.args) > 3:
        return None
    if number is not None and (mode != "constant" or not names.is_weak(number)):
        return None
    number = insert.number(0) if number is None else number
    return insert.call(padded, found["array"], found["pad_width"], insert.number(MODES[mode]), number)


def is_replaced_method(value: Any, names: Names) -> bool:
    """True for a method or function that Numba does not know: its calls are replaced."""
    if not isinstance(value, ir.Expr) or value.op != "getattr":
        return False
    if value.attr == "pad":
        return names.value_of(value.value) is np
    return value.attr == "choice" and names.is_generator(value.value)


def _alike(arguments: list[Any], names: Names, insert: InsertedCode, of_python: bool) -> list[Any]:
    """The arguments of a function, in which a Python number has the type of the other one."""
    strong = [one for one in arguments if not names.is_weak(one)]
    if of_python or not strong:
        return arguments
    return [insert.call(as_weak, one, strong[0]) if names.is_weak(one) else one for one in arguments]


def _join(value: Any, names: Names, insert: InsertedCode) -> None:
    """Makes a tuple of a list that is an argument: Numba joins only those."""
    made = names.definition_of(value.args[0])
    if not isinstance(made, ir.Expr) or made.op not in ("build_list", "build_tuple"):
        return
    if not 0 < len(made.items) <= _MOST_ITEMS or (made.op == "build_list" and not names.is_used_once(value.args[0])):
        return
    items = []
    for item in made.items:
        part = names.definition_of(item)
        if isinstance(part, ir.Expr) and part.op == "build_list" and part.items and all(map(names.is_weak, part.items)):
            item = insert.call(as_array, insert.tuple_of(list(part.items)))
        items.append(item)
    value.args = [insert.tuple_of(items), *value.args[1:]]


def as_array(values: Any) -> Any:
    """``np.array(values)`` of Python numbers."""
    return np.array(values)


@rule(as_array)
def _(values: Any) -> Any:
    return lambda values: np.array(values)


def root_of(value: Any) -> Any:
    """``value ** 0.5``, for which NumPy computes the root of an array."""
    return value**0.5


@rule(root_of)
def _(value: Any) -> Any:
    kind = types.unliteral(value)
    if isinstance(kind, types.Array) and isinstance(kind.dtype, types.Float):
        return lambda value: np.sqrt(value)
    return (lambda value: powered(value, 0.5)) if kind == types.float64 else None


def replaced_power(value: Any, names: Names, insert: InsertedCode) -> Any:
    """The call in place of a power whose exponent is not 2; None if it stays as it is."""
    if value.fn not in (operator.pow, operator.ipow) or names.constant(value.rhs) == 2:
        return None
    left, right = names.is_weak(value.lhs), names.is_weak(value.rhs)
    exponent = names.constant(value.rhs)
    if left and right:
        floats = not names.bits_of(value.lhs) or not names.bits_of(value.rhs)
        return insert.call(MATH[math.pow], value.lhs, value.rhs) if floats else None
    if value.fn is operator.ipow or exponent in (-1, 0, 1):
        return None
    if exponent == 0.5:
        return insert.call(root_of, value.lhs)
    if right:
        return insert.call(powered, value.lhs, insert.call(as_weak, value.rhs, value.lhs))
    if left:
        return insert.call(powered, insert.call(as_weak, value.lhs, value.rhs), value.rhs)
    return insert.call(powered, value.lhs, value.rhs)


MORE_HELPERS = CLIP_HELPERS | DRAW_HELPERS | FUNCTION_HELPERS | {as_array, padded, root_of}
