"""The rewritten copy of a function as compiled code, under the names and lines of the original."""

import __future__

import ast
import functools
import inspect
import sys
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

from pipeflow import autograph_guard as guard
from pipeflow.record.autograph.rewriter import Rewriter
from pipeflow.record.autograph.trees import PLACE, copied

FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
TYPE_PARAMS: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}


class CompiledCopy(NamedTuple):
    """The compiled copy of a function's code, or the reason why there is none."""

    code: types.CodeType | None
    reason: str | None


def rewritten(function: types.FunctionType) -> Any:
    """The rewritten syntax tree of a function whose definition can be found."""
    node, _ = guard.find_definition(function)
    return Rewriter(function.__code__.co_filename, node).top(copied(node))


guard.rewriter = rewritten


def compiled(function: types.FunctionType) -> CompiledCopy:
    node, reason = guard.find_definition(function)
    if node is None:
        return CompiledCopy(None, reason)
    code = function.__code__
    new = rewritten(function)
    _strip(new)
    place = {name: getattr(new, name) for name in PLACE}
    body: list[Any] = [ast.copy_location(ast.Expr(new), new) if isinstance(new, ast.Lambda) else new]
    owner = _class_around(function, node)
    if not owner and isinstance(new, ast.FunctionDef) and new.name not in code.co_freevars:
        body.insert(0, ast.Global([new.name], **place))  # a recursive function calls the one of its module
    if owner:
        # Python puts the class name, without leading underscores, in front of private names. This name gives the same
        # result and hides no name of the user.
        body = [ast.ClassDef("_______" + owner.lstrip("_"), [], [], body, [], **TYPE_PARAMS, **place)]
    cells = ["__pf__", "__pf_locals__", "__pf_cells__", *code.co_freevars]
    arguments = ast.arguments([], [ast.arg(name, **place) for name in cells], None, [], [], None, [])
    factory = ast.FunctionDef("__pf_factory__", arguments, body, [], **TYPE_PARAMS, **place)
    tree = ast.Module([factory], [])
    whole = compile(tree, code.co_filename, "exec", code.co_flags & FUTURE, dont_inherit=True)
    depth = 3 if owner else 2
    made = next(item for item in _nested(whole, depth) if item.co_name == code.co_name)
    made = _renamed(made, made.co_qualname, code.co_qualname)
    guard.converted_codes.update(_expressions(made))
    return CompiledCopy(made, None)


def _nested(code: types.CodeType, depth: int) -> Iterable[types.CodeType]:
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    return inner if depth == 1 else [found for item in inner for found in _nested(item, depth - 1)]


def _renamed(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """The code, and the code inside it, under the qualified names from the user's file."""
    name = new + code.co_qualname.removeprefix(old)
    body_of_class = not code.co_flags & inspect.CO_OPTIMIZED  # the code of a class holds its own name as a constant

    def renamed(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _renamed(constant, old, new)
        return name if body_of_class and constant == code.co_qualname else constant

    return code.replace(co_qualname=name, co_consts=tuple(map(renamed, code.co_consts)))


def _expressions(code: types.CodeType) -> Iterable[types.CodeType]:
    """Converted code and its comprehensions, which are converted with it; functions inside are not."""
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType) and item.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
            yield from _expressions(item)


def _strip(function: Any) -> None:
    """Removes decorators, defaults and annotations: the copy gets them from the original function object."""
    arguments = function.args
    none = ast.copy_location(ast.Constant(None), function)
    arguments.defaults = [none for _ in arguments.defaults]
    arguments.kw_defaults = [item and none for item in arguments.kw_defaults]
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument:
            argument.annotation = None
    if isinstance(function, ast.FunctionDef):
        function.decorator_list, function.returns = [], None
        function.__dict__.update(TYPE_PARAMS)


def _class_around(function: types.FunctionType, node: ast.AST) -> str | None:
    source = guard.source_of(function.__code__.co_filename, function.__globals__)
    parent = source.parents.get(node) if source else None
    while parent is not None and not isinstance(parent, ast.ClassDef):
        parent = source.parents.get(parent) if source else None
    return parent.name if parent is not None else None
