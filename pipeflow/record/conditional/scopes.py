"""Scopes: the samples that have a value, where it may be read, and variables without a single value.

A *scope* is the set of samples that took a path: the samples of its parent for which a predicate has a polarity. Every
node has one. When the pipeline runs, the predicates from the root to its scope are the guard of its step.
"""

from typing import Any, NoReturn, Protocol

from pipeflow import declare
from pipeflow.declare import Spec


class Scope:
    """The samples of ``parent`` for which ``predicate`` has the polarity; the root scope is the whole batch."""

    __slots__ = ("_children", "parent", "polarity", "predicate", "what")

    def __init__(
        self, parent: "Scope | None" = None, predicate: Any = None, polarity: bool = True, what: str = ""
    ) -> None:
        self.parent, self.predicate, self.polarity, self.what = parent, predicate, polarity, what
        self._children: dict[tuple[int, bool], Scope] = {}

    def child(self, predicate: Any, polarity: bool, where: str = "") -> "Scope":
        """The samples of this scope for which the predicate has that polarity. Every call returns the same object."""
        key = (id(predicate), polarity)  # the child keeps its predicate alive, so its id is not used again
        if key not in self._children:
            side = "if" if polarity else "else"
            self._children[key] = Scope(self, predicate, polarity, f"the `{side}` branch of the condition at {where}")
        return self._children[key]

    def within(self, other: "Scope | None") -> bool:
        """True if all samples of this scope are in the other one. None has no samples and is within every scope."""
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other

    def guard(self) -> tuple[tuple[Any, bool], ...]:
        """The (predicate, polarity) pairs from the root; each is evaluated only for samples that passed those before."""
        return () if self.parent is None else (*self.parent.guard(), (self.predicate, self.polarity))

    def __str__(self) -> str:
        return self.what or "the top level"


class NodeLike(Protocol):
    """The attributes of a DataNode that this module uses."""

    scope: Scope | None
    spec: Spec
    device: str
    origin: Any


class RecorderLike(Protocol):
    """The methods of the recorder that this module calls."""

    scope: Scope

    def own(self, node: Any) -> Any:
        """The node as one of this graph; a node from outside a pipeline is recorded now."""

    def constant(self, value: Any) -> Any:
        """A node with the same value for every sample."""

    def merge(
        self, first: Any, second: Any, predicate: Any, scope: Scope, *, weak: tuple[bool, bool], name: str
    ) -> Any:
        """A node in ``scope``: ``first`` if the predicate is true, else ``second``. A weak side gets the other's dtype."""

    def logical_not(self, node: Any, where: str) -> Any:
        """A 0-d bool node."""

    def check_predicate(self, node: Any, what: str) -> Any:
        """The node converted to a 0-d bool, checked when it runs."""

    def check_bool(self, node: Any, operator: str, side: str, where: str) -> Any:
        """The node, checked to be 0-d bool when it runs."""


class Unusable:
    """The value of a variable that has no single value after a condition. Any use raises an error with the reason."""

    __slots__ = ("_pf_kind", "_pf_message")

    def __init__(self, kind: type[Exception], message: str) -> None:
        object.__setattr__(self, "_pf_kind", kind)
        object.__setattr__(self, "_pf_message", message)

    def _pf_raise(self, *_: Any, **__: Any) -> NoReturn:
        raise self._pf_kind(self._pf_message)  # type: ignore[attr-defined]

    __hash__ = object.__hash__
    __class__ = property(_pf_raise)  # reading its class, as every operator does, is a use

    def __repr__(self) -> str:
        return "<variable without a single value>"


_USES = """
getattr setattr delattr call iter next bool len getitem setitem delitem contains index int float complex array str format
enter exit eq ne lt gt le ge neg pos abs invert round add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow
rpow matmul rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift divmod"""
for _name in _USES.split():
    setattr(Unusable, f"__{_name}__", Unusable._pf_raise)


def is_node(value: Any) -> bool:
    """True for a DataNode."""
    return isinstance(value, declare.Node)


def resolve(node: Any, scope: Scope) -> Any:
    """The node, if it may be read in ``scope``; a ValueError if it exists only for other samples."""
    if not scope.within(node.scope):
        raise ValueError(
            f"this value was produced in {node.scope} and exists only for that branch's samples, but it is used in {scope}. "
            "It escaped through something that is not tracked (module-level state, or an object out of sight of the function "
            "with the condition). Assign it in both branches, or return it."
        )
    return node
