"""Refuses compiled functions of the user whose results would have other types, or other elements, on some of their paths.

In Python a variable may hold an integer on one path and a float on another one. Numba gives it one type, so that a later result
has another type than NumPy's. Samples that take the rare path may come after the last comparison. For the same reason a copy
that NumPy makes only of some arrays must not be written to.
"""

import operator
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numba import types
from numba.core import ir
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.np import numpy_support

from pipeflow.kernels.cpu import numpy_numbers, python_numbers
from pipeflow.kernels.cpu.python_numbers import NotExact

WEAK = "pipeflow_weak"  # in the metadata of a compilation: the names of Python numbers
_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
_CHECKED = {function: function.__name__ for function in python_numbers.CHECKED.values()}
_OPERATIONS = {"added": "add", "subtracted": "sub", "multiplied": "mul"}


@dataclass(frozen=True)
class _NumberKind:
    """What a variable may hold: elements of a type, and if it is a Python number. ``known`` is true for a constant."""

    dtype: np.dtype
    weak: bool
    known: bool = False


_Kinds = frozenset[_NumberKind]
_PYTHON_TYPES = ("|b1", "<i8", "<f8")
# Of functions that others call: True if they may return Python's numbers, False if they may return those of NumPy.
_returned: "weakref.WeakKeyDictionary[Any, set[bool]]" = weakref.WeakKeyDictionary()


def check_paths(state: Any, names: Any) -> None:
    """Refuses a function with a variable whose type differs between paths, if that can change a result."""
    statements = [statement for block in state.func_ir.blocks.values() for statement in block.body]
    if not any(_joins(statement, names) for statement in statements):
        return
    reader = _PathReader(state, names)
    changed = True
    while changed:
        changed = False
        for statement in statements:
            if isinstance(statement, ir.Assign):
                changed |= reader.assign(statement)
    for statement in statements:
        reader.check(statement)
    returned = {
        kind for statement in statements if isinstance(statement, ir.Return) for kind in reader.of(statement.value)
    }
    _returned.setdefault(state.func_id.func, set()).update(kind.weak for kind in returned)
    if len({kind.dtype for kind in returned}) > 1:
        raise NotExact("it returns numbers of several types", loc=state.func_ir.loc)


def _joins(statement: Any, names: Any) -> bool:
    value = getattr(statement, "value", None)
    if isinstance(statement, ir.Return):
        return True
    if isinstance(value, ir.Expr) and value.op in ("phi", "build_list", "build_map", "build_set"):
        return True
    return isinstance(value, ir.Expr) and value.op == "call" and names.value_of(value.func) in (min, max)


class _PathReader:
    def __init__(self, state: Any, names: Any) -> None:
        self._types, self._names, self._weak = state.typemap, names, state.metadata.get(WEAK, frozenset())
        self._kinds: dict[str, _Kinds] = {}
        self._made_arrays = _made_arrays(state.func_ir.blocks, names)  # lists that are used only for np.array

    def of(self, variable: Any) -> _Kinds:
        """The kinds of numbers that a variable may hold; none for other values."""
        return self._kinds.get(variable.name, frozenset())

    def assign(self, statement: Any) -> bool:
        """Finds the kinds of a variable; returns True if these are new."""
        value, name = statement.value, statement.target.name
        found = self._found(value, statement.target)
        known = self._kinds.get(name, frozenset())
        self._kinds[name] = known | found
        return not found <= known

    def _found(self, value: Any, target: Any) -> _Kinds:
        if isinstance(value, ir.Var):
            return self.of(value)
        if isinstance(value, ir.Expr):
            if value.op == "cast":
                return self.of(value.value)
            if value.op == "phi":
                return frozenset().union(*[self.of(one) for one in value.incoming_values if one is not ir.UNDEFINED])
            if value.op in ("binop", "inplace_binop"):
                return self._computed(value.fn.__name__, value.lhs, value.rhs, value.op == "inplace_binop", target)
            if value.op == "unary":
                mixed = self.of(value.value)
                if value.fn in (operator.neg, operator.invert) and not self._is_of_one_kind(value.value):
                    raise _refused(value.loc)
                return frozenset(replace(kind, known=False) for kind in mixed) if len(mixed) > 1 else self._own(target)
            if value.op == "call":
                called = self._names.value_of(value.func)
                if isinstance(called, Dispatcher):
                    return self._either(target, _returned.get(called.py_func, {True, False}))
                if called in (min, max):
                    return frozenset().union(*[self.of(one) for one in value.args])
                if _of(called, _CHECKED) and called.__name__ in _OPERATIONS:
                    one, other = value.args
                    return self._computed(_OPERATIONS[called.__name__], one, other, False, target)
                if _of(called, _PYTHON_NUMBERS):
                    return frozenset(replace(kind, weak=True) for kind in self._own(target))
            if value.op in ("getitem", "static_getitem") and isinstance(self._types[value.value.name], types.BaseTuple):
                return self._item(value, target)
        if isinstance(value, ir.Arg):
            return self._either(target)
        return self._own(target, isinstance(value, ir.Const))

    def _item(self, value: Any, target: Any) -> _Kinds:
        """The kinds of an item of a tuple."""
        if target.name in self._weak:
            return self._own(target)
        item = self._names.item_of_tuple(value) if value.op == "static_getitem" else None
        return self._either(target) if item is None else self.of(item) or self._own(target)

    def _either(self, target: Any, weak: Iterable[bool] = (True, False)) -> _Kinds:
        """The kinds of a variable that may be one of Python's numbers: an argument of a helper, or an item of a tuple."""
        own = self._own(target)
        if isinstance(self._types[target.name], types.Array) or not all(
            kind.dtype.str in _PYTHON_TYPES for kind in own
        ):
            return own
        return frozenset(replace(kind, weak=one) for kind in own for one in weak)

    def _own(self, target: Any, known: bool = False) -> _Kinds:
        kind = types.unliteral(self._types[target.name])
        element = kind.dtype if isinstance(kind, types.Array) else kind
        if not isinstance(element, (types.Number, types.Boolean)):
            return frozenset()
        try:
            dtype = numpy_support.as_dtype(element)
        except (NotImplementedError, NumbaError):
            return frozenset()
        return frozenset({_NumberKind(dtype, self._is_weak(target, kind), known)})

    def _is_weak(self, target: Any, kind: Any) -> bool:
        return target.name in self._weak and not isinstance(kind, types.Array)

    def _computed(self, name: str, one: Any, other: Any, in_place: bool, target: Any) -> _Kinds:
        left, right = self.of(one), self.of(other)
        alike = len({kind.weak for kind in (*left, *right)}) == 1  # else NumPy's type may be another one than Numba's
        if not left or not right or (alike and self._is_of_one_kind(one) and self._is_of_one_kind(other)):
            return frozenset(
                replace(kind, weak=kind.weak or self._both_weak(left, right)) for kind in self._own(target)
            )
        if in_place and isinstance(self._types[one.name], types.Array):
            return left
        name = name.removeprefix("i") if in_place else name
        made = self._own(target)
        found = set()
        for first, second in product(left, right):
            result = _result(name, first, second)
            if name not in _COMPARISONS and {replace(result, weak=False, known=False)} != {
                replace(kind, weak=False, known=False) for kind in made
            }:
                whole = result.dtype.kind == "i" and first.known and second.known and name in ("add", "sub", "mul")
                if not (whole and result.weak and {kind.dtype.str for kind in made} == {"<f8"}):
                    raise _refused(one.loc)
            if (
                name in _COMPARISONS
                and not (first.weak and second.weak)
                and "f" in first.dtype.kind + second.dtype.kind
            ):
                strong = {kind.dtype for kind in (*left, *right) if not kind.weak}
                if len(strong) > 1 or (strong and max(len({k.weak for k in side}) for side in (left, right)) > 1):
                    raise _refused(one.loc)
            found.add(result)
        return frozenset(found)

    def _is_of_one_kind(self, variable: Any) -> bool:
        """True if a variable has one kind of numbers on all paths, which is also that of Numba."""
        kinds = self.of(variable)
        return _unlike(kinds) <= 1 and {kind.dtype for kind in kinds} == {kind.dtype for kind in self._own(variable)}

    @staticmethod
    def _both_weak(left: _Kinds, right: _Kinds) -> bool:
        return bool(left and right) and all(kind.weak for kind in (*left, *right))

    def check(self, statement: Any) -> None:
        """Refuses a statement that does with a variable of several types what is not known to give the same results."""
        value = getattr(statement, "value", None)
        if not isinstance(statement, ir.Assign) or not isinstance(value, ir.Expr):
            return
        if value.op in ("build_list", "build_map", "build_set", "build_tuple"):
            items = [item for pair in value.items for item in (pair[1:] if value.op == "build_map" else [pair])]
            kinds = {kind.dtype for item in items for kind in self.of(item)}
            named = isinstance(self._types[statement.target.name], types.LiteralStrKeyDict)
            if (
                value.op != "build_tuple"
                and not named
                and len(kinds) > 1
                and statement.target.name not in self._made_arrays
            ):
                raise _refused(value.loc)
            self._refuse_mixed(items, value.loc)
        elif value.op == "call":
            called = self._names.value_of(value.func)
            if _of(called, _SAME_CAST):
                self._refuse_unlike_casts(value, called)
            elif not _of(called, _ANY_KIND):
                self._refuse_mixed([*value.args, *(one for _, one in value.kws)], value.loc)

    def _refuse_mixed(self, variables: list[Any], place: Any) -> None:
        for variable in variables:
            if len({kind.dtype for kind in self.of(variable)}) > 1:
                raise _refused(place)

    def _refuse_unlike_casts(self, call: Any, called: Any) -> None:
        """``as_weak(number, other)``: NumPy must give the same type for all types of the number and of the other one."""
        number, others = self.of(call.args[0]), self.of(call.args[1])
        name = "truediv" if called is numpy_numbers.as_divisor else "add"
        if len({_result(name, one, other).dtype for one, other in product(number, others)}) > 1:
            raise _refused(call.loc)


def _made_arrays(blocks: dict[int, Any], names: Any) -> set[str]:
    """The names of variables that are used only as arguments of ``np.array``."""
    uses: dict[str, bool] = {}
    for block in blocks.values():
        for statement in block.body:
            value = getattr(statement, "value", None)
            call = (
                isinstance(value, ir.Expr)
                and value.op == "call"
                and names.value_of(value.func) in (np.array, np.asarray)
            )
            target = getattr(statement, "target", None)
            for variable in statement.list_vars():
                if variable is not target and not isinstance(statement, ir.Del):
                    uses[variable.name] = uses.get(variable.name, True) and call
    return {name for name, only in uses.items() if only}


def _unlike(kinds: _Kinds) -> int:
    """The number of kinds that differ not only in being constants."""
    return len({replace(kind, known=False) for kind in kinds})


def _of(called: Any, functions: Any) -> bool:
    return any(called is function for function in functions)


def _refused(place: Any) -> NotExact:
    return NotExact(
        "a variable holds numbers of several types, which depend on the path: write 1.0 instead of 1", loc=place
    )


_SAME_CAST = (numpy_numbers.as_weak, numpy_numbers.as_divisor, numpy_numbers.as_compared)
_PYTHON_NUMBERS = (
    numpy_numbers.as_integer,
    *python_numbers.INTEGERS,
    *python_numbers.FLOATS,
    *_CHECKED,
    int,
    float,
    len,
)
# Calls whose result does not depend on the type of a number.
_ANY_KIND = (
    *(min, max, int, float, bool, range, len, slice, *_CHECKED),
    *(numpy_numbers.as_stored, numpy_numbers.store, numpy_numbers.as_integer, python_numbers.as_floor),
    *(python_numbers.as_ceil, python_numbers.as_double, python_numbers.as_square, python_numbers.as_rounded),
    *(numpy_numbers.with_axes, python_numbers.low_of),
)


def _result(name: str, one: _NumberKind, other: _NumberKind) -> _NumberKind:
    """The kind of result of NumPy or Python."""
    known = one.known and other.known
    if name in _COMPARISONS:
        return _NumberKind(np.dtype(bool), one.weak and other.weak)
    whole = one.dtype.kind in "biu" and other.dtype.kind in "biu"
    if one.weak and other.weak:
        return _NumberKind(np.dtype(np.float64 if name == "truediv" or not whole else np.int64), True, known)
    if name == "truediv" and whole:
        return _NumberKind(np.dtype(np.float64), False)
    if one.weak == other.weak:
        return _NumberKind(np.result_type(one.dtype, other.dtype), False)
    strong, weak = (one, other) if other.weak else (other, one)
    if "biuf".index(strong.dtype.kind) >= 3 or weak.dtype.kind in ("b", strong.dtype.kind):
        return _NumberKind(strong.dtype, False)
    if weak.dtype.kind == "i" and strong.dtype.kind == "u":
        return _NumberKind(strong.dtype, False)
    return _NumberKind(np.dtype(np.float64 if weak.dtype.kind == "f" else np.int64), False)


# Texts.


def check_texts(state: Any, names: Any) -> None:
    """Refuses texts of numbers for anything but messages: Numba writes floats in another way."""
    made: set[str] = set()
    for _, block in sorted(state.func_ir.blocks.items()):
        for statement in block.body:
            value = getattr(statement, "value", None)
            called = names.value_of(value.func) if isinstance(value, ir.Expr) and value.op == "call" else None
            message = isinstance(called, type) and issubclass(called, Exception)
            if not isinstance(statement, ir.Assign) or message or not isinstance(value, (ir.Expr, ir.Var)):
                continue
            if called is str:
                made.add(statement.target.name)
            elif any(one.name in made for one in ([value] if isinstance(value, ir.Var) else value.list_vars())):
                joined = isinstance(value, ir.Var) or value.op in ("build_string", "cast")
                if not joined and (value.op != "binop" or value.fn is not operator.add):
                    raise NotExact("a text of a number", loc=statement.loc)
                made.add(statement.target.name)


# Copies.

_COPYING = ("ravel", "ascontiguousarray", "reshape")
_PARTS = ("getitem", "static_getitem", "getattr", "cast")


def check_copies(state: Any, names: Any) -> None:
    """Refuses ``ravel`` and similar calls of arrays that may be contiguous or not, if one of both arrays is written to: NumPy
    returns a view of a contiguous array, and compiled code a copy.
    """
    statements = [statement for block in state.func_ir.blocks.values() for statement in block.body]
    places = _written(statements, names)
    written = [set(_line_of(variable, names)) for variable in places]
    for statement in statements:
        value = getattr(statement, "value", None)
        if not written or not isinstance(statement, ir.Assign) or not isinstance(value, ir.Expr) or value.op != "call":
            continue
        called = names.value_of(value.func)
        if (names.method_of(value.func) if called is None else getattr(called, "__name__", "")) not in _COPYING:
            continue
        array = value.args[0] if called is not None else names.definitions[value.func.name].value
        kind = state.typemap.get(array.name)
        if not isinstance(kind, types.Array) or kind.layout == "C":
            continue
        *_, root = [array.name, *_line_of(array, names)]
        for line, place in zip(written, places):
            if statement.target.name in line or (
                root in line and (place.loc.line > value.loc.line or len(state.func_ir.blocks) > 1)
            ):
                raise NotExact("an array is written to that may be a copy or a view", loc=value.loc)


_WRITING = ("fill", "sort", "put", "partition", "itemset")


def _written(statements: list[Any], names: Any) -> list[Any]:
    """The variables of arrays that are written to."""
    found = []
    for statement in statements:
        value = getattr(statement, "value", None)
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            found.append(statement.target)
        elif isinstance(value, ir.Expr) and value.op == "inplace_binop":
            found.append(value.lhs)
        elif isinstance(value, ir.Expr) and value.op == "call":
            called = names.value_of(value.func)
            if called is numpy_numbers.store:
                found.append(value.args[0])
            elif isinstance(called, Dispatcher):
                found += value.args
            elif called is None and names.method_of(value.func) in _WRITING:
                found.append(names.definitions[value.func.name].value)
    return found


def _line_of(variable: Any, names: Any) -> Iterator[str]:
    """The names of a variable and of the arrays that it is a part of."""
    seen = set()
    while isinstance(variable, ir.Var) and variable.name not in seen:
        seen.add(variable.name)
        yield variable.name
        value = names.definitions.get(variable.name)
        if isinstance(value, ir.Expr) and value.op == "call":
            method = names.method_of(value.func)
            variable = names.definitions[value.func.name].value if method else value.args[0] if value.args else None
        elif isinstance(value, ir.Expr) and value.op in _PARTS:
            variable = value.value
        else:
            variable = value
