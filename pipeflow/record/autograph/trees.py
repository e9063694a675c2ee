"""Syntax trees: the names a block binds, where it may be left, copies and templates."""

import ast
import functools
from collections.abc import Iterable
from typing import Any

from pipeflow import autograph_guard as guard


class Stores(ast.NodeVisitor):
    """Collects the names that a block binds or deletes in its own function."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self.names: dict[str, None] = {}
        for node in nodes:
            self.visit(node)

    def _add(self, *names: str | None) -> None:
        self.names.update(dict.fromkeys(name for name in names if name))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._add(node.id)

    def visit_FunctionDef(self, node: Any) -> None:
        self._add(node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def visit_ListComp(self, node: ast.AST) -> None:
        self._add(*walrus_targets([node]))

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_Import(self, node: Any) -> None:
        self._add(*[alias.asname or alias.name.partition(".")[0] for alias in node.names])

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: Any) -> None:
        self._add(getattr(node, "name", None), getattr(node, "rest", None))
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = visit_ExceptHandler


def walrus_targets(nodes: Iterable[ast.AST]) -> list[str]:
    """The names bound by ``:=`` in some expressions, without those of nested functions."""
    return list(dict.fromkeys(node.target.id for node in within(nodes) if isinstance(node, ast.NamedExpr)))


def within(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes of a block that belong to its own function."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, guard.SCOPES):
            todo.extend(ast.iter_child_nodes(node))


def returns(*nodes: ast.AST) -> bool:
    """True if a block contains a ``return``."""
    return any(isinstance(node, ast.Return) for node in within(nodes))


def jumps(node: ast.AST) -> bool:
    """True if a statement contains a ``break`` or ``continue`` of the loop around it."""
    if isinstance(node, ast.For | ast.While | ast.AsyncFor):
        return any(map(jumps, node.orelse))
    if isinstance(node, guard.SCOPES):
        return False
    return isinstance(node, ast.Break | ast.Continue) or any(map(jumps, ast.iter_child_nodes(node)))


@functools.cache
def template(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def copied(node: Any, at: Any = None, parts: Any = None) -> Any:
    """A copy of a tree, many times faster than deepcopy.

    Of a template it fills in the names in ``parts`` and sets the position ``at``.
    """
    kind: Any = type(node)
    held = node.__dict__
    if not held:
        return node  # a context or an operator has no fields and needs no copy
    if parts and kind is ast.Name and node.id in parts:
        part = parts[node.id]
        return ast.Name(part, node.ctx, **(at or {})) if isinstance(part, str) else part
    new = kind.__new__(kind)
    fields = new.__dict__
    fields.update(held)
    for name, value in held.items():
        if isinstance(value, ast.AST):
            fields[name] = copied(value, at, parts)
        elif type(value) is list:
            items: list[Any] = []
            for item in value:
                block = parts and type(item) is ast.Expr and type(item.value) is ast.Name and parts.get(item.value.id)
                if type(block) is list:
                    items.extend(block)
                else:
                    items.append(copied(item, at, parts) if isinstance(item, ast.AST) else item)
            fields[name] = items
    if at is not None and kind._attributes:
        fields.update(at)
    return new


PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")
