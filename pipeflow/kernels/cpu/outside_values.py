"""Parts of a user's function that Numba does not know, and that the code can do without.

Lists and dictionaries from outside of the function become constants; the caller compares their items before every call
(tried_functions.py). The handlers of ``try`` are left out: after an exception the caller runs the plain function.
"""

import operator
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from numba.core import ir

_MOST_ITEMS = 64
_VIEWS: dict[str, Callable[[Any], Any]] = {
    "items": lambda found: tuple(found.items()),
    "keys": lambda found: tuple(found),
    "values": lambda found: tuple(found.values()),
}


def is_constant(value: Any) -> bool:
    """True for numbers and texts, and for tuples of these."""
    return type(value) in (bool, int, float, str) or (type(value) is tuple and all(map(is_constant, value)))


def items_of(value: Any) -> tuple[Any, ...] | None:
    """The items of a list, or the keys and values of a dictionary, if all are constants; None for other values."""
    if type(value) not in (list, dict):
        return None
    found = (*value, *value.values()) if type(value) is dict else tuple(value)
    return found if 0 < len(value) <= _MOST_ITEMS and all(map(is_constant, found)) else None


def has_items(value: Any, items: tuple[Any, ...]) -> bool:
    """True if a list or a dictionary still has these items."""
    found = (*value, *value.values()) if type(value) is dict else value
    return len(found) == len(items) and all(map(operator.is_, found, items))


def put_items(blocks: dict[int, Any]) -> None:
    """Puts constants in place of the lists and dictionaries of a function."""
    known: dict[str, Any] = {}
    for block in blocks.values():
        for statement in block.find_insts(ir.Assign):
            value = statement.value
            if isinstance(value, (ir.Global, ir.FreeVar)) and items_of(value.value) is not None:
                if type(value.value) is list:
                    value.value = tuple(value.value)
                else:
                    known[statement.target.name] = value.value
    if not known:
        return
    methods = {
        statement.target.name: (known[statement.value.value.name], statement.value.attr)
        for block in blocks.values()
        for statement in block.find_insts(ir.Assign)
        if isinstance(statement.value, ir.Expr)
        and statement.value.op == "getattr"
        and statement.value.value.name in known
        and statement.value.attr in _VIEWS
    }
    lengths = {
        statement.target.name
        for block in blocks.values()
        for statement in block.find_insts(ir.Assign)
        if isinstance(statement.value, ir.Global) and statement.value.value is len
    }
    for block in blocks.values():
        block.body = [
            new for statement in block.body for new in _changed(statement, block.scope, known, methods, lengths)
        ]
    _remove_unused(blocks, {*known, *methods})


def _changed(statement: Any, scope: Any, known: Any, methods: Any, lengths: set[str]) -> Iterator[Any]:
    value = getattr(statement, "value", None)
    if not isinstance(statement, ir.Assign) or not isinstance(value, ir.Expr):
        yield statement
        return
    place = statement.loc

    def constant(found: Any) -> Any:
        return ir.Const(found, place) if type(found) is not tuple else ir.Global("items", found, place)

    def held(found: Any) -> tuple[Any, Any]:
        variable = scope.redefine("$pipeflow_items", place)
        return variable, ir.Assign(constant(found), variable, place)

    found = known.get(value.value.name) if value.op in ("static_getitem", "getitem", "getiter") else None
    if found is not None and value.op == "static_getitem" and _has(found, value.index):
        statement.value = constant(found[value.index])
    elif found is not None and value.op == "getiter":
        value.value, made = held(tuple(found))
        yield made
    elif found is not None and value.op == "getitem":
        pairs = []
        for pair in found.items():
            variables = [held(item) for item in pair]
            yield from (made for _, made in variables)
            pairs.append(tuple(variable for variable, _ in variables))
        mapping = scope.redefine("$pipeflow_mapping", place)
        yield ir.Assign(ir.Expr.build_map(pairs, len(pairs), None, None, place), mapping, place)
        value.value = mapping
    elif value.op == "binop" and value.fn is operator.contains and value.lhs.name in known:
        value.lhs, made = held(tuple(known[value.lhs.name]))
        yield made
    elif value.op == "call" and value.func.name in methods and not value.args:
        mapping, name = methods[value.func.name]
        statement.value = constant(_VIEWS[name](mapping))
    elif value.op == "call" and value.func.name in lengths and len(value.args) == 1 and value.args[0].name in known:
        statement.value = ir.Const(len(known[value.args[0].name]), place)
    yield statement


def _has(found: Any, key: Any) -> bool:
    return type(key) in (int, str) and key in found


def _remove_unused(blocks: dict[int, Any], names: set[str]) -> None:
    """Puts numbers in place of dictionaries and methods that no statement uses any more."""
    for _ in range(2):  # a method uses its dictionary
        used = set()
        for block in blocks.values():
            for statement in block.body:
                if not isinstance(statement, ir.Del):
                    target = getattr(statement, "target", None) if isinstance(statement, ir.Assign) else None
                    used |= {variable.name for variable in statement.list_vars() if variable is not target}
        for block in blocks.values():
            for statement in block.find_insts(ir.Assign):
                if statement.target.name in names - used:
                    statement.value = ir.Const(0, statement.loc)


def without_handlers(function: Any) -> Any:
    """The function without the handlers of its exceptions."""
    code = function.__code__.replace(co_exceptiontable=b"")
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__module__, made.__dict__ = function.__module__, dict(function.__dict__)
    return made
