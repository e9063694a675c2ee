"""Statements that the compiler of user functions puts before another one."""

from collections.abc import Callable
from typing import Any

from numba.core import ir


class InsertedCode:
    """Statements before a statement, in the order in which they are made."""

    def __init__(self, scope: Any, place: Any) -> None:
        self._scope, self._place = scope, place
        self.statements: list[Any] = []

    def _assign(self, name: str, value: Any) -> Any:
        held = self._scope.redefine(f"$pipeflow_{name}", self._place)
        self.statements.append(ir.Assign(value, held, self._place))
        return held

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The variable with the result of a call."""
        held = self._assign("function", ir.Global(function.__name__, function, self._place))
        return self._assign("number", ir.Expr.call(held, list(arguments), (), self._place))

    def known(self, value: Any) -> Any:
        """The variable with a function or a type."""
        return self._assign("value", ir.Global(value.__name__, value, self._place))

    def number(self, value: Any) -> Any:
        """The variable with a constant."""
        return self._assign("constant", ir.Const(value, self._place))

    def tuple_of(self, variables: list[Any]) -> Any:
        """The variable with a tuple of others."""
        return self._assign("tuple", ir.Expr.build_tuple(variables, self._place))
