"""The converted form of functions, methods, classes and other callables."""

import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

from pipeflow import autograph_guard as guard
from pipeflow.record.autograph.compiling import CompiledCopy, compiled
from pipeflow.record.autograph.plain import Door

_conversions: dict[Any, CompiledCopy] = {}
_door = Door()


def convert(function: types.FunctionType) -> types.FunctionType:
    """The converted copy of a Python function, or the function itself if it cannot or must not be converted."""
    if hasattr(function, guard.ORIGINAL):
        return function
    code = function.__code__
    reason = guard.reason_against(function)
    if reason is None:
        key = (code, code.co_filename, code.co_qualname)
        conversion = _conversions.get(key) or _conversions.setdefault(key, compiled(function))
        reason = conversion.reason
    if reason is not None:
        guard.left_alone[code] = reason
        return function
    cells = {
        "__pf__": types.CellType(_door),
        "__pf_locals__": types.CellType(builtins.locals),
        "__pf_cells__": types.CellType(function.__closure__ or ()),
        **dict(zip(code.co_freevars, function.__closure__ or ())),
    }
    made = conversion.code
    assert made is not None
    copy = types.FunctionType(
        made,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in made.co_freevars),
    )
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    setattr(copy, guard.ORIGINAL, function)
    return copy


def converted(function: Any) -> Any:
    """The converted form of any callable, or the callable itself. It never raises: unknown callables are returned unchanged."""
    if isinstance(function, types.FunctionType):
        return convert(function)
    if isinstance(function, types.BuiltinFunctionType | types.MethodWrapperType):
        return _keyed(function) if function.__name__ in ("sorted", "min", "max", "reduce") else function
    if guard.is_marked(function) or guard.is_marked(type(function)):
        _leave_marked(function)
        return function
    if isinstance(function, types.MethodType):
        inner = function.__func__
        new = convert(inner) if isinstance(inner, types.FunctionType) else inner
        return function if new is inner else types.MethodType(new, function.__self__)
    if type(function) is functools.partial:
        new = converted(function.func)
        return function if new is function.func else functools.partial(new, *function.args, **function.keywords)
    if isinstance(function, type):
        return _higher_order(function) if function in (map, filter) else _constructor(function)
    call = getattr(type(function), "__call__", None)  # noqa: B004 (the function is wanted)
    if isinstance(call, types.FunctionType):
        new = convert(call)
        return function if new is call else types.MethodType(new, function)
    return function


def _leave_marked(function: Any) -> None:
    python = guard.python_function(function)
    if python is not None:
        guard.left_alone[python.__code__] = "it is marked @do_not_convert"


def _higher_order(function: Any) -> Callable[..., Any]:
    return lambda inner, *args, **keywords: function(converted(inner), *args, **keywords)


def _keyed(function: Any) -> Any:
    if function is functools.reduce:
        return _higher_order(function)
    if function not in (sorted, min, max):
        return function

    def keyed(*args: Any, **keywords: Any) -> Any:
        if keywords.get("key") is not None:
            keywords["key"] = converted(keywords["key"])
        return function(*args, **keywords)

    return keyed


def _constructor(cls: type) -> Any:
    """The call of a plain class with a converted ``__init__``."""
    init = cls.__init__  # type: ignore[misc]
    if type(cls) is not type or cls.__new__ is not object.__new__ or not isinstance(init, types.FunctionType):
        return cls
    new = convert(init)
    if new is init:
        return cls

    def construct(*args: Any, **keywords: Any) -> Any:
        instance = object.__new__(cls)  # type: ignore[var-annotated]
        new(instance, *args, **keywords)
        return instance

    return construct
