"""The paths of samples through a function: choices, loops, and early exits.

A path that ends early, by ``return``, ``break`` or ``continue``, is an *exit*. It keeps its state. The exits of a
function form a tree of forks with at most one *hole*: the samples that still run. ``Session.join`` is the only place
where paths meet again: after an ``if``, at the end of an iteration, of a loop, and of the function.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from pipeflow.record.conditional.scopes import Scope, Unusable
from pipeflow.record.conditional.state import UNSET, State, capture, reachable

TRACE = bool(os.environ.get("PIPEFLOW_TRACE_CONDITIONALS"))


HOLE: Any = type("Hole", (), {"__repr__": lambda _: "HOLE"})()
RETURN, EXPRESSION = "return value", "conditional expression"


class Exit(NamedTuple):
    """The end of a path: the reason, the state of its variables, and its scope."""

    kind: str
    state: State
    scope: Scope


class Fork(NamedTuple):
    """Two paths by a predicate. A side is an Exit, a Fork, the HOLE, or None if no sample takes it."""

    predicate: Any
    first: Any
    second: Any
    where: str


def replaced(tree: Any, match: Callable[[Any], bool], new: Any) -> Any:
    """The tree with each leaf replaced."""
    if isinstance(tree, Fork):
        return tree._replace(first=replaced(tree.first, match, new), second=replaced(tree.second, match, new))
    return new if match(tree) else tree


def fill(tree: Any, new: Any) -> Any:
    """The tree with its hole filled."""
    return replaced(tree, lambda leaf: leaf is HOLE, new)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of a tree."""
    if isinstance(tree, Fork):
        yield from leaves(tree.first)
        yield from leaves(tree.second)
    else:
        yield tree


class Recording(Protocol):
    """The methods of the recording session that paths call."""

    scope: Scope

    def reachable(self, variables: Mapping[str, Any]) -> dict[int, tuple[str, Any]]:
        """The containers that a branch may change."""

    def predicate(self, node: Any, where: str) -> Any:
        """A condition as a 0-d bool node."""

    def boolean(self, value: Any, operator: str, side: str, where: str) -> Any:
        """An operand of ``and`` or ``or`` as a 0-d bool node."""

    def apply(self, state: State) -> None:
        """Puts the contents of a state into its containers."""

    def join(self, tree: Any, base: Scope, kinds: tuple[str, ...]) -> tuple[Any, Scope, State | None]:
        """Merges the exits of these kinds, so that their samples continue together."""


class Frame:
    """The exits of one activation of a converted function."""

    def __init__(self, session: Recording, local: Any = (), cells: Any = ()) -> None:
        self.session, self.base, self.tree = session, session.scope, HOLE
        self.boxes = session.reachable({**dict(local), "outer variables": cells})

    @property
    def alive(self) -> bool:
        """True if some samples still run."""
        return self.tree is HOLE or any(leaf is HOLE for leaf in leaves(self.tree))

    def leave(self, kind: str, state: State) -> None:
        """Ends the path of the samples that still run."""
        self.tree = fill(self.tree, Exit(kind, state, self.session.scope))

    def ret(self, value: Any) -> None:
        """Records that the samples that still run return this value."""
        boxes = {**reachable({RETURN: value}), **self.boxes}
        self.leave("return", State({RETURN: value}, capture((), {}, boxes).boxes))

    def finish(self) -> Any:
        """The merged return value."""
        if self.alive:
            self.ret(None)
        self.session.scope = self.base
        if isinstance(self.tree, Exit):
            return self.tree.state.names[RETURN]
        _, _, state = self.session.join(self.tree, self.base, ("return",))
        assert state is not None
        value = state.names[RETURN]
        if type(value) is Unusable:
            value._pf_raise()
        self.session.apply(state)
        return value


class NodeChoice:
    """A condition on a DataNode: both sides are recorded, then joined."""

    node = True

    def __init__(
        self, session: Recording, condition: Any, where: str, names: tuple[str, ...] = (), frame: Frame | None = None
    ) -> None:
        self.session, self.condition, self.where, self.names = session, condition, where, names
        self.frame = frame or Frame(session)
        self.polarity = True

    def _predicate(self) -> Any:
        return self.session.predicate(self.condition, self.where)

    def then(self, local: Any) -> bool:
        """Enters the first side."""
        self.outside, self.saved = self.session.scope, self.frame.tree
        self.predicate = self._predicate()
        self.boxes = self.session.reachable(local)
        self.start = capture(self.names, local, self.boxes)
        self._enter(self.polarity)
        return True

    def _enter(self, polarity: bool) -> None:
        self.frame.tree = HOLE
        self.session.scope = self.outside.child(self.predicate, polarity, self.where)
        if TRACE:
            sys.stderr.write(f"pipeflow: recording {self.session.scope}\n")

    def _leave(self, local: Any) -> Any:
        self.frame.leave("fall", capture(self.names, local, self.boxes))
        return self.frame.tree

    def other(self, local: Any) -> bool:
        """Returns to the start and enters the second side."""
        self.first = self._leave(local)
        self.session.apply(self.start)
        self.now = self.start.names
        self._enter(not self.polarity)
        return True

    def _join(self, first: Any, second: Any) -> State | None:
        fork = Fork(self.predicate, first, second, self.where)
        tree, scope, state = self.session.join(fork, self.outside, ("fall",))
        self.frame.tree, self.session.scope = fill(self.saved, tree), scope
        if state is not None:
            self.session.apply(state)
        return state

    def end(self, local: Any) -> bool:
        """Joins both sides; returns True if variables have to be reloaded."""
        state = self._join(self.first, self._leave(local))
        self.now = self.start.names if state is None else state.names
        return True

    def vals(self) -> tuple[Any, ...]:
        """The variables to reload."""
        return tuple(self.now[name] for name in self.names)

    def poison(self, name: str) -> Unusable:
        """The value of a name that ``:=`` binds in a part that only some samples evaluate."""
        return Unusable(
            RuntimeError,
            f"variable {name!r} cannot be used here: it is assigned by `:=` inside a conditional expression on a DataNode at "
            f"{self.where}; use an `if` statement instead.",
        )


class NodeTernary(NodeChoice):
    """``x if node else y``."""

    def end(self, first: Any, second: Any = UNSET) -> Any:
        """The merged value."""
        sides = (self.first, self._leave({}))
        ends = [
            side._replace(state=State({EXPRESSION: value}, side.state.boxes))
            for side, value in zip(sides, (first, second))
        ]
        state = self._join(*ends)
        assert state is not None
        value = state.names[EXPRESSION]
        if type(value) is Unusable:
            value._pf_raise()
        return value


class NodeLogical(NodeTernary):
    """``and`` or ``or`` with a DataNode on the left. The right side is evaluated for the samples that need it."""

    def __init__(self, session: Recording, left: Any, operator: str, where: str) -> None:
        super().__init__(session, left, where)
        self.operator, self.polarity = operator, operator == "and"

    def _predicate(self) -> Any:
        return self.session.boolean(self.condition, self.operator, "left", self.where)

    def end(self, first: Any, second: Any = UNSET) -> Any:
        """The merged bool."""
        right = self.session.boolean(first, self.operator, "right", self.where)
        taken = Exit("fall", State({EXPRESSION: right}, capture((), {}, self.boxes).boxes), self.session.scope)
        skipped_scope = self.outside.child(self.predicate, not self.polarity, self.where)
        skipped = Exit("fall", State({EXPRESSION: self.predicate}, self.start.boxes), skipped_scope)
        state = self._join(*((taken, skipped) if self.polarity else (skipped, taken)))
        assert state is not None
        return state.names[EXPRESSION]


class NodeLoop:
    """A loop with conditional jumps: samples that left it, or an iteration, wait for the others."""

    def __init__(self, session: Recording, frame: Frame, names: tuple[str, ...]) -> None:
        self.session, self.frame, self.names = session, frame, names
        self.base, self.saved = session.scope, frame.tree
        self.tree = self.frame.tree = HOLE
        self.start, self.boxes = session.scope, {}  # type: ignore[var-annotated]

    def _state(self, local: Any) -> State:
        return capture(self.names, local, {**self.session.reachable(local), **self.boxes})

    def _kind(self, jump: str) -> str:
        return f"{jump} {id(self)}"  # the `else` of an inner loop may contain jumps of the outer loop

    def _whole(self) -> bool:
        """True if all samples of the iteration have reached this point."""
        return self.frame.tree is HOLE and self.session.scope is self.start

    def begin(self, local: Any) -> None:
        """Starts an iteration."""
        self.start, self.frame.tree = self.session.scope, HOLE
        self.boxes = self.session.reachable(local)

    def jump(self, kind: str, local: Any) -> bool:
        """True if all samples jump, so Python itself can jump. Else the samples that have reached this point wait."""
        if not self.frame.alive:
            return False
        if self._whole():
            return True
        self.frame.leave(self._kind(kind), self._state(local))
        return False

    def next(self, local: Any) -> bool:
        """Joins the samples that continued and those that reached the end of the body."""
        if self._whole():
            return False
        self.frame.leave("fall", self._state(local))
        tree, self.session.scope, state = self.session.join(
            self.frame.tree, self.start, ("fall", self._kind("continue"))
        )
        self.tree = fill(self.tree, tree)
        self.frame.tree = None if state is None else HOLE
        return self._resume(state)

    def _resume(self, state: State | None) -> bool:
        if state is None:
            return False
        self.session.apply(state)
        self.now = state.names
        return True

    def end(self, local: Any) -> bool:
        """Joins the samples that broke out and those that ran to the end."""
        self.frame.leave("fall", self._state(local))
        tree = fill(self.tree, self.frame.tree)
        tree, self.session.scope, state = self.session.join(tree, self.base, ("fall", self._kind("break")))
        self.frame.tree = fill(self.saved, tree)
        return self._resume(state)

    def vals(self) -> tuple[Any, ...]:
        """The variables to reload."""
        return tuple(self.now[name] for name in self.names)


class NodeMark:
    """The scope and the exits at a ``try``, which its exception handlers restore."""

    def __init__(self, session: Recording, frame: Frame | None) -> None:
        self.session, self.frame = session, frame
        self.scope, self.tree = session.scope, frame.tree if frame else None

    def reset(self, _: Any) -> None:
        """Restores the scope and the exits."""
        self.session.scope = self.scope
        if self.frame:
            self.frame.tree = self.tree

    def final(self, where: str) -> None:
        """Refuses a ``finally`` that assigns variables while some samples have left the ``try``."""
        if self.frame and self.frame.tree is not self.tree and isinstance(self.frame.tree, Fork):
            raise RuntimeError(
                f"some samples leave the `try` at {where} by return, break or continue, so its `finally` cannot assign "
                "anything for them: put the assignments before these, or after the `try`."
            )
