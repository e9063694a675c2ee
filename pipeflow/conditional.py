"""Conditions on per-sample data while a graph is recorded: scopes, merges, conditional returns and jumps.

A *scope* is the set of samples that took a path: the samples of its parent for which a predicate has a polarity. Every
node belongs to one; at run time the chain of predicates of its scope is the guard of its step. Both branches of a
condition on a DataNode are recorded, one after the other, each from the same state of the variables and containers. At
the end every variable that differs becomes a *merge*, a node that reads the one side or the other; no sample is moved.

A path that leaves early, by ``return``, ``break`` or ``continue``, is an *exit* that keeps its state. The exits of a
function form a tree of forks with at most one *hole*, the samples that still run. ``Session.join`` is the one place
where paths meet again: after an ``if``, at the end of an iteration, of a loop, and of the function.

A variable that has no single value afterwards becomes ``Unusable`` and raises the reason when, and only when, it is used.
"""

import functools
import os
import sys
import types as python_types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from pipeflow import autograph, declare, types
from pipeflow import autograph_guard as guard
from pipeflow.declare import Spec

UNSET = autograph.UNSET
TRACE = bool(os.environ.get("PIPEFLOW_TRACE_CONDITIONALS"))
SEARCH_LIMIT = 10_000  # objects looked at per condition: a walk through all of a data set would cost more than the graph


class Scope:
    """The samples of ``parent`` for which ``predicate`` has the polarity; the root scope is the whole batch."""

    __slots__ = ("_children", "parent", "polarity", "predicate", "what")

    def __init__(self, parent: "Scope | None" = None, predicate: Any = None, polarity: bool = True, what: str = "") -> None:
        self.parent, self.predicate, self.polarity, self.what = parent, predicate, polarity, what
        self._children: dict[tuple[int, bool], Scope] = {}

    def child(self, predicate: Any, polarity: bool, where: str = "") -> "Scope":
        """The part of this scope with that answer: the same object whenever the same predicate is asked."""
        key = (id(predicate), polarity)  # children keep their predicate alive, so an id is not reused
        if key not in self._children:
            side = "if" if polarity else "else"
            self._children[key] = Scope(self, predicate, polarity, f"the `{side}` branch of the condition at {where}")
        return self._children[key]

    def within(self, other: "Scope") -> bool:
        """Whether all samples of this scope belong to the other one."""
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other

    def guard(self) -> tuple[tuple[Any, bool], ...]:
        """The chain of (predicate, polarity) from the root: each is asked only of samples that passed those before it."""
        return () if self.parent is None else (*self.parent.guard(), (self.predicate, self.polarity))

    def __str__(self) -> str:
        return self.what or "the top level"


class Node(Protocol):
    """What this module needs to know of a DataNode."""

    scope: Scope
    spec: Spec
    device: str
    origin: Any


class Recorder(Protocol):
    """What this module asks of the graph under construction."""

    scope: Scope

    def constant(self, value: Any) -> Any:
        """A node with the same value for every sample."""

    def merge(self, first: Any, second: Any, predicate: Any, scope: Scope, *, weak: tuple[bool, bool], name: str) -> Any:
        """A node in ``scope``: ``first`` where the predicate is true, else ``second``; a weak side takes the other's dtype."""

    def logical_not(self, node: Any, where: str) -> Any:
        """A 0-d bool node."""

    def check_predicate(self, node: Any, what: str) -> Any:
        """The node as 0-d bool, checked when it runs."""

    def check_bool(self, node: Any, operator: str, side: str, where: str) -> Any:
        """The node, checked to be 0-d bool when it runs."""


class Unusable:
    """Stands in a variable that has no single value after a condition; any use raises the reason."""

    __slots__ = ("_pf_kind", "_pf_message")

    def __init__(self, kind: type[Exception], message: str) -> None:
        object.__setattr__(self, "_pf_kind", kind)
        object.__setattr__(self, "_pf_message", message)

    def _pf_raise(self, *_: Any, **__: Any) -> NoReturn:
        raise self._pf_kind(self._pf_message)  # type: ignore[attr-defined]

    __hash__ = object.__hash__
    __class__ = property(_pf_raise)  # type: ignore[assignment]  # to ask what it is, as every operator does, is a use

    def __repr__(self) -> str:
        return "<variable without a single value>"


_USES = """
getattr setattr delattr call iter next bool len getitem setitem delitem contains index int float complex array str format
enter exit eq ne lt gt le ge neg pos abs invert round add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow
rpow matmul rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift divmod"""
for _name in _USES.split():
    setattr(Unusable, f"__{_name}__", Unusable._pf_raise)


def is_node(value: Any) -> bool:
    """Whether a value stands for a batch."""
    return isinstance(value, declare.Node)


def resolve(node: Any, scope: Scope) -> Any:
    """The node, if it may be read in ``scope``; ValueError if it exists for other samples only."""
    if not scope.within(node.scope):
        raise ValueError(
            f"this value was produced in {node.scope} and exists only for that branch's samples, but it is used in {scope}. "
            "It escaped through something that is not tracked (module-level state, or an object out of sight of the function "
            "with the condition). Assign it in both branches, or return it."
        )
    return node


# ----------------------------------------------------------------------------------------------------
# State: the variables of a frame, and the mutable containers that can be reached from them

SIMPLE = (
    int, float, complex, str, bytes, type(None), np.ndarray, np.generic, np.dtype, type, python_types.ModuleType, declare.Node,
)  # fmt: skip
SEQUENCES = (list, deque)
CELL_VALUE = "value"


class ModuleVariables:
    """The variables of a module that some function of its file declares ``global``, as a container."""

    def __init__(self, module: dict[str, Any], names: set[str]) -> None:
        self.module, self.names = module, names


class State(NamedTuple):
    """Values of variables, and per container (by id) its name, the object and what it held."""

    names: dict[str, Any]
    boxes: dict[int, tuple[str, Any, Any]]


def _is_plain(value: Any) -> bool:
    """Instances of the user's own classes, whose attributes a branch may change."""
    kind = type(value)
    return bool(kind.__flags__ & 1 << 9) and not isinstance(value, BaseException) and not guard.never_converted(kind.__module__)


def _slots(value: Any) -> Iterator[str]:
    for kind in type(value).__mro__:
        names = kind.__dict__.get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def content(box: Any) -> Any:
    """A copy of what a container holds: a list for sequences, a set for sets, else a dict."""
    if isinstance(box, SEQUENCES):
        return list(box)
    if isinstance(box, set | dict):
        return set(box) if isinstance(box, set) else dict(box)
    if isinstance(box, python_types.CellType):
        try:
            return {CELL_VALUE: box.cell_contents}
        except ValueError:
            return {}
    if isinstance(box, ModuleVariables):
        return {name: box.module[name] for name in box.names if name in box.module}
    found = dict(getattr(box, "__dict__", ()))
    for name in _slots(box):
        if name not in ("__dict__", "__weakref__") and hasattr(box, name):
            found[name] = getattr(box, name)
    return found


def put(box: Any, held: Any) -> None:
    """Makes a container hold this."""
    if isinstance(box, list):
        box[:] = held
    elif isinstance(box, deque):
        box.clear()
        box.extend(held)
    elif isinstance(box, set | dict):
        box.clear()
        box.update(held)
    elif isinstance(box, python_types.CellType):
        if held:
            box.cell_contents = held[CELL_VALUE]
        else:
            del box.cell_contents
    elif isinstance(box, ModuleVariables):
        for name in box.names - held.keys():
            box.module.pop(name, None)
        box.module.update(held)
    else:
        for name in content(box).keys() - held.keys():
            object.__delattr__(box, name)
        for name, value in held.items():
            object.__setattr__(box, name, value)


def same(first: Any, second: Any) -> bool:
    """Whether two contents are made of the same objects."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(value is second[key] for key, value in first.items())
    if isinstance(first, set):
        return first == second
    return len(first) == len(second) and all(map(lambda a, b: a is b, first, second))


def reachable(variables: Mapping[str, Any]) -> dict[int, tuple[str, Any]]:
    """The mutable containers that can be reached from some variables, the nearest first."""
    found: dict[int, tuple[str, Any]] = {}
    seen: set[int] = set()
    queue = deque((name, value) for name, value in variables.items() if not name.startswith("__pf"))
    while queue and len(seen) < SEARCH_LIMIT:
        name, value = queue.popleft()
        if type(value) is Unusable or isinstance(value, SIMPLE) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, tuple | list | deque):
            if not isinstance(value, tuple):
                found[id(value)] = (name, value)
            queue.extend((f"{name}[{index}]", item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            found[id(value)] = (name, value)
            queue.extend((f"{name}[{key!r}]", item) for key, item in list(value.items()))
        elif isinstance(value, set):
            found[id(value)] = (name, value)
        elif isinstance(value, python_types.FunctionType):
            cells = zip(value.__code__.co_freevars, value.__closure__ or ())
            queue.extend((label, cell) for label, cell in cells if not label.startswith("__pf"))
        elif isinstance(value, python_types.CellType):
            found[id(value)] = (name, value)
            queue.extend((name, item) for item in content(value).values())
        elif isinstance(value, python_types.MethodType):
            queue.extend(((name, value.__self__), (name, value.__func__)))
        elif isinstance(value, functools.partial):
            queue.extend(((name, value.func), (name, value.args), (name, value.keywords)))
        elif _is_plain(value):
            found[id(value)] = (name, value)
            queue.extend((f"{name}.{key}", item) for key, item in content(value).items())
    return found


# ----------------------------------------------------------------------------------------------------
# Paths

HOLE: Any = type("Hole", (), {"__repr__": lambda _: "HOLE"})()
RETURN, EXPRESSION = "return value", "conditional expression"


class Exit(NamedTuple):
    """The end of a path: why it ended, the state it had and the scope it was in."""

    kind: str
    state: State
    scope: Scope


class Fork(NamedTuple):
    """Two paths by a predicate. A side is an Exit, a Fork, the HOLE, or None: no sample is there."""

    predicate: Any
    first: Any
    second: Any
    where: str


def replaced(tree: Any, match: Callable[[Any], bool], new: Any) -> Any:
    """The tree with other leaves."""
    if isinstance(tree, Fork):
        return tree._replace(first=replaced(tree.first, match, new), second=replaced(tree.second, match, new))
    return new if match(tree) else tree


def fill(tree: Any, new: Any) -> Any:
    """The tree with its hole filled."""
    return replaced(tree, lambda leaf: leaf is HOLE, new)


def leaves(tree: Any) -> Iterator[Any]:
    """What stands at the ends of a tree."""
    if isinstance(tree, Fork):
        yield from leaves(tree.first)
        yield from leaves(tree.second)
    else:
        yield tree


class Frame:
    """The exits of one activation of a converted function."""

    def __init__(self, session: "Session", local: Any = (), cells: Any = ()) -> None:
        self.session, self.base, self.tree = session, session.scope, HOLE
        self.boxes = session.reachable({**dict(local), "outer variables": cells})

    @property
    def alive(self) -> bool:
        """Whether some samples still run."""
        return self.tree is HOLE or any(leaf is HOLE for leaf in leaves(self.tree))

    def leave(self, kind: str, state: State) -> None:
        """The samples that still run end here."""
        self.tree = fill(self.tree, Exit(kind, state, self.session.scope))

    def ret(self, value: Any) -> None:
        """The samples that still run return a value."""
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


def capture(names: Iterable[str], local: Any, boxes: Mapping[int, tuple[str, Any]]) -> State:
    """The present values of variables and contents of containers."""
    values = {name: local.get(name, UNSET) for name in names}
    return State(values, {key: (label, box, content(box)) for key, (label, box) in boxes.items()})


class NodeChoice:
    """A condition on a DataNode: both sides are recorded, then joined."""

    node = True

    def __init__(
        self, session: "Session", condition: Any, where: str, names: tuple[str, ...] = (), frame: Frame | None = None
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
        """Goes back to the start and enters the second side."""
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
        """Joins both sides; whether variables must be reloaded."""
        state = self._join(self.first, self._leave(local))
        self.now = self.start.names if state is None else state.names
        return True

    def vals(self) -> tuple[Any, ...]:
        """The variables to reload."""
        return tuple(self.now[name] for name in self.names)

    def poison(self, name: str) -> Unusable:
        """A name bound by ``:=`` in a part that only some samples evaluate."""
        return Unusable(
            RuntimeError,
            f"variable {name!r} cannot be used here: it is assigned by `:=` inside a conditional expression on a DataNode at "
            f"{self.where}; use an `if` statement instead.",
        )


class NodeTernary(NodeChoice):
    """``x if node else y``."""

    def end(self, first: Any, second: Any = UNSET) -> Any:  # type: ignore[override]
        """The merged value."""
        sides = (self.first, self._leave({}))
        ends = [side._replace(state=State({EXPRESSION: value}, side.state.boxes)) for side, value in zip(sides, (first, second))]
        state = self._join(*ends)
        assert state is not None
        value = state.names[EXPRESSION]
        if type(value) is Unusable:
            value._pf_raise()
        return value


class NodeLogical(NodeTernary):
    """``and`` or ``or`` with a DataNode on the left; the right side sees only the samples it decides for."""

    def __init__(self, session: "Session", left: Any, operator: str, where: str) -> None:
        super().__init__(session, left, where)
        self.operator, self.polarity = operator, operator == "and"

    def _predicate(self) -> Any:
        return self.session.boolean(self.condition, self.operator, "left", self.where)

    def end(self, first: Any, second: Any = UNSET) -> Any:  # type: ignore[override]
        """The merged bool."""
        right = self.session.boolean(first, self.operator, "right", self.where)
        taken = Exit("fall", State({EXPRESSION: right}, capture((), {}, self.boxes).boxes), self.session.scope)
        skipped_scope = self.outside.child(self.predicate, not self.polarity, self.where)
        skipped = Exit("fall", State({EXPRESSION: self.predicate}, self.start.boxes), skipped_scope)
        state = self._join(*((taken, skipped) if self.polarity else (skipped, taken)))
        assert state is not None
        return state.names[EXPRESSION]


class NodeLoop:
    """One run of a loop with conditional jumps: samples that broke out or continued wait for the others."""

    def __init__(self, session: "Session", frame: Frame, names: tuple[str, ...]) -> None:
        self.session, self.frame, self.names = session, frame, names
        self.base, self.saved = session.scope, frame.tree
        self.tree = self.frame.tree = HOLE
        self.start, self.boxes = session.scope, {}  # type: ignore[var-annotated]

    def _state(self, local: Any) -> State:
        return capture(self.names, local, {**self.session.reachable(local), **self.boxes})

    def _kind(self, jump: str) -> str:
        return f"{jump} {id(self)}"  # the `else` of an inner loop may hold jumps of the outer one

    def _whole(self) -> bool:
        """Whether all samples of the iteration are here."""
        return self.frame.tree is HOLE and self.session.scope is self.start

    def begin(self, local: Any) -> None:
        """Starts an iteration."""
        self.start, self.frame.tree = self.session.scope, HOLE
        self.boxes = self.session.reachable(local)

    def jump(self, kind: str, local: Any) -> bool:
        """Whether Python can jump, as all samples do; else those that are here wait."""
        if not self.frame.alive:
            return False
        if self._whole():
            return True
        self.frame.leave(self._kind(kind), self._state(local))
        return False

    def next(self, local: Any) -> bool:
        """The samples that continued meet those that reached the end of the body."""
        if self._whole():
            return False
        self.frame.leave("fall", self._state(local))
        tree, self.session.scope, state = self.session.join(self.frame.tree, self.start, ("fall", self._kind("continue")))
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
        """The samples that broke out meet those that ran to the end."""
        self.frame.leave("fall", self._state(local))
        tree = fill(self.tree, self.frame.tree)
        tree, self.session.scope, state = self.session.join(tree, self.base, ("fall", self._kind("break")))
        self.frame.tree = fill(self.saved, tree)
        return self._resume(state)

    def vals(self) -> tuple[Any, ...]:
        """The variables to reload."""
        return tuple(self.now[name] for name in self.names)


class NodeMark:
    """Where an exception handler goes back to: the scope and exits at the ``try``."""

    def __init__(self, session: "Session", frame: Frame | None) -> None:
        self.session, self.frame = session, frame
        self.scope, self.tree = session.scope, frame.tree if frame else None

    def reset(self, _: Any) -> None:
        """Goes back."""
        self.session.scope = self.scope
        if self.frame:
            self.frame.tree = self.tree

    def final(self, where: str) -> None:
        """Refuses a ``finally`` that changes something when samples that wait elsewhere will not see it."""
        if self.frame and self.frame.tree is not self.tree and isinstance(self.frame.tree, Fork):
            raise RuntimeError(
                f"some samples leave the `try` at {where} by return, break or continue, so its `finally` cannot assign "
                "anything for them: put the assignments before these, or after the `try`."
            )


# ----------------------------------------------------------------------------------------------------
# The hooks of a recording

_RANK = {"b": 0, "i": 1, "u": 1, "f": 2}


class Session(autograph.Hooks):
    """The hooks for one recording. With ``enabled`` False nothing is converted and only ``cond`` makes branches."""

    def __init__(self, recorder: Recorder, enabled: bool = True) -> None:
        self.recorder, self.enabled = recorder, enabled
        self._modules: dict[tuple[str, int], ModuleVariables] = {}
        self._weak: dict[int, tuple[Any, Any]] = {}
        self._checked: dict[tuple[int, Scope], tuple[Any, Any]] = {}
        self._merged: dict[tuple[int, int, int, Scope], tuple[Any, Any]] = {}

    @property
    def scope(self) -> Scope:
        """The scope that new nodes belong to."""
        return self.recorder.scope

    @scope.setter
    def scope(self, scope: Scope) -> None:
        self.recorder.scope = scope

    # The hooks
    def If(self, condition: Any, *details: Any) -> Any:
        return NodeChoice(self, condition, *details) if is_node(condition) else super().If(condition)

    def IfExp(self, condition: Any, *details: Any) -> Any:
        return NodeTernary(self, condition, *details) if is_node(condition) else super().IfExp(condition)

    def Bool(self, left: Any, operator: str, *details: Any) -> Any:
        return NodeLogical(self, left, operator, *details) if is_node(left) else super().Bool(left, operator)

    def Not(self, value: Any, *details: Any) -> Any:
        if not is_node(value):
            return not value
        where = details[0] if details else ""
        self._require_scalar(value, f"the operand of `not` at {where}")
        return self.recorder.logical_not(resolve(value, self.scope), where)

    def Frame(self, *details: Any) -> Any:
        return Frame(self, *details)

    def Loop(self, *details: Any) -> Any:
        return NodeLoop(self, *details)

    def Mark(self, *details: Any) -> Any:
        return NodeMark(self, *details)

    def subject(self, value: Any, *details: Any) -> Any:
        if is_node(value):
            raise TypeError(
                "DataNode has no single truth value (it holds one value per sample). "
                f"`match` at {details[0]} cannot depend on per-sample data: use if/elif."
            )
        return value

    def call(self, function: Any) -> Any:
        if not self.enabled:
            return function
        made = autograph.converted(function)
        if isinstance(made, python_types.FunctionType):
            self.enter_module(made)
        return made

    def enter_module(self, function: python_types.FunctionType) -> None:
        """From now on the ``global`` variables of the function's file take part in branches."""
        file, module = function.__code__.co_filename, function.__globals__
        if (file, id(module)) not in self._modules:
            source = guard.source_of(file, module)
            self._modules[file, id(module)] = ModuleVariables(module, source.globals if source else set())

    def reachable(self, variables: Mapping[str, Any]) -> dict[int, tuple[str, Any]]:
        """The containers that a branch may change."""
        return {**reachable(variables), **{id(box): ("", box) for box in self._modules.values() if box.names}}

    # Predicates
    def _require_scalar(self, node: Any, what: str) -> None:
        if node.device == "gpu":
            raise ValueError(f"{what} is on the GPU, and conditions are decided on the CPU: add .cpu() to it.")
        if node.spec.ndim:
            raise RuntimeError(scalar_error(what, f"{node.spec.ndim}-d data"))

    def predicate(self, node: Any, where: str) -> Any:
        """A condition as a 0-d bool node that can be read here."""
        resolve(node, self.scope)
        self._require_scalar(node, f"the condition at {where}")
        if node.spec.ndim == 0 and node.spec.dtype == np.bool_:
            return node
        key = (id(node), self.scope)
        if key not in self._checked:
            self._checked[key] = node, self.recorder.check_predicate(node, f"the condition at {where}")
        return self._checked[key][1]

    def boolean(self, value: Any, operator: str, side: str, where: str) -> Any:
        """An operand of ``and`` or ``or`` as a 0-d bool node that can be read here."""
        got = None
        if type(value) is Unusable:
            value._pf_raise()
        if isinstance(value, bool | np.bool_):
            return self._constant(bool(value))
        if not is_node(value):
            got = type(value).__name__
        elif value.device == "gpu":
            raise RuntimeError(logical_error(operator, side, where, "data on the GPU") + " Add .cpu() to it.")
        elif value.spec.dtype is not None and value.spec.dtype != np.bool_:
            got = str(value.spec.dtype)
        elif value.spec.ndim:
            got = f"{value.spec.ndim}-d data"
        if got is not None:
            raise RuntimeError(logical_error(operator, side, where, got))
        resolve(value, self.scope)
        known = value.spec.ndim == 0 and value.spec.dtype is not None
        return value if known else self.recorder.check_bool(value, operator, side, where)

    # Merging
    def apply(self, state: State) -> None:
        """Puts the contents of a state into its containers."""
        for _, box, held in state.boxes.values():
            if not same(content(box), held):
                put(box, held)

    def join(self, tree: Any, base: Scope, kinds: tuple[str, ...]) -> tuple[Any, Scope, State | None]:
        """Lets the exits of some kinds go on together: the tree with a hole for them, their scope and their merged state.

        None of them: the tree as it is, and no state.
        """

        def chosen(leaf: Any) -> bool:
            return isinstance(leaf, Exit) and leaf.kind in kinds

        if chosen(tree):
            return HOLE, tree.scope, tree.state
        sides = [any(map(chosen, leaves(side))) for side in (tree.first, tree.second)] if isinstance(tree, Fork) else []
        if not any(sides):
            return tree, base, None
        if not all(sides):
            side, inner = ("first", tree.first) if sides[0] else ("second", tree.second)
            inner, scope, state = self.join(inner, base.child(tree.predicate, sides[0], tree.where), kinds)
            return tree._replace(**{side: inner}), scope, state
        alive = self._selected(tree, base, chosen)
        if alive is True:
            return HOLE, base, self._folded(tree, base, chosen)[0]
        inside = base.child(alive, True, tree.where)
        inside.what = base.child(alive, False).what = f"the code after the condition at {tree.where}, which not all samples reach"
        state, _ = self._folded(tree, inside, chosen)
        return Fork(alive, HOLE, replaced(tree, chosen, None), tree.where), inside, state

    def _selected(self, tree: Any, scope: Scope, chosen: Callable[[Any], bool]) -> Any:
        """Which samples of a scope end in chosen exits: True, False or a bool node."""
        if not isinstance(tree, Fork):
            return chosen(tree)
        for side, other in ((tree.first, tree.second), (tree.second, tree.first)):
            if all(leaf is None for leaf in leaves(side)):
                return self._selected(other, scope, chosen)
        first = self._selected(tree.first, scope.child(tree.predicate, True, tree.where), chosen)
        second = self._selected(tree.second, scope.child(tree.predicate, False, tree.where), chosen)
        if first is second:
            return first
        if first is True and second is False:
            return tree.predicate
        sides = [self._constant(side) if isinstance(side, bool) else side for side in (first, second)]
        return self._merge_nodes(EXPRESSION, *sides, tree.predicate, scope, tree.where)  # type: ignore[call-arg]

    def _folded(self, tree: Any, scope: Scope, chosen: Callable[[Any], bool]) -> tuple[Any, Scope]:
        """The merged state of the chosen exits, all samples of ``scope``, and the scope it was taken in."""
        if not isinstance(tree, Fork):
            return tree.state, tree.scope
        for side, other in ((tree.first, tree.second), (tree.second, tree.first)):
            if not any(map(chosen, leaves(side))):
                return self._folded(other, scope, chosen)
        first, in_first = self._folded(tree.first, scope.child(tree.predicate, True, tree.where), chosen)
        second, in_second = self._folded(tree.second, scope.child(tree.predicate, False, tree.where), chosen)

        def merged(name: str, a: Any, b: Any) -> Any:
            return self._merge(name, a, b, in_first, in_second, tree.predicate, scope, tree.where)

        names = {name: merged(name, value, second.names[name]) for name, value in first.names.items()}
        boxes = {**first.boxes, **second.boxes}
        for key in first.boxes.keys() & second.boxes.keys():
            label, box, held = first.boxes[key]
            boxes[key] = (label, box, self._merge_content(label, box, held, second.boxes[key][2], scope, merged))
        return State(names, boxes), scope

    @staticmethod
    def _merge_content(
        label: str, box: Any, first: Any, second: Any, scope: Scope, merged: Callable[[str, Any, Any], Any]
    ) -> Any:
        items = first.values() if isinstance(first, dict) else first
        if same(first, second) and all(scope.within(item.scope) for item in items if is_node(item)):
            return first
        if isinstance(first, dict):
            kinds = {ModuleVariables: "{1}", python_types.CellType: "{0}"}
            form = kinds.get(type(box), "{0}[{1!r}]" if isinstance(box, dict) else "{0}.{1}")
            return {
                key: merged(form.format(label, key), first.get(key, UNSET), second.get(key, UNSET)) for key in {**first, **second}
            }
        result = merged(label, first, second)
        if type(result) is Unusable:  # a list or set has no place for a reason: it cannot be looked at any more
            result._pf_raise()
        return result

    def _merge(self, name: str, a: Any, b: Any, in_a: Scope, in_b: Scope, predicate: Any, scope: Scope, where: str) -> Any:
        """One value for both sides of a condition; Unusable with the reason where there is none."""
        for value in (a, b):
            if type(value) is Unusable:
                return value
        if a is b and not isinstance(a, declare.Node | tuple):
            return a
        if a is UNSET or b is UNSET:
            side = "else" if b is UNSET else "if"
            return Unusable(RuntimeError, (
                f"variable {name!r} cannot be used here: it has no value in the `{side}` branch of the condition at {where}; "
                "assign it in every path or give it a default before the `if`."
            ))  # fmt: skip
        if type(a) is type(b) and isinstance(a, tuple | list | dict | deque):
            return self._merge_structure(name, a, b, in_a, in_b, predicate, scope, where)
        if not is_node(a) and type(a) is type(b) and _equal(a, b):
            return a
        try:
            first, second = self._as_node(a, in_a), self._as_node(b, in_b)
        except ValueError as error:
            return Unusable(ValueError, f"variable {name!r} cannot be used here: {error}")
        if first is None or second is None:
            return _unmergeable(name, a, b, where)
        try:
            return self._merge_nodes(name, first, second, predicate, scope, where)
        except (RuntimeError, ValueError) as error:
            return Unusable(type(error), str(error))

    def _merge_structure(self, name: str, a: Any, b: Any, *context: Any) -> Any:
        where = context[-1]

        def merged(key: Any, x: Any, y: Any) -> Any:
            return self._merge(f"{name}[{key!r}]", x, y, *context)

        if isinstance(a, dict):
            if a.keys() != b.keys():
                return Unusable(ValueError, (
                    f"{name!r} cannot be used here: the branches of the condition at {where} made dicts with different keys: "
                    f"{sorted(map(str, a))} (if) vs {sorted(map(str, b))} (else)."
                ))  # fmt: skip
            result = a.copy()
            result.update({key: merged(key, value, b[key]) for key, value in a.items()})
            return result
        if len(a) != len(b):
            what = f"{name!r} is a {type(a).__name__} of different length"
            what = "the branches return a different number of values" if name == RETURN else what
            return Unusable(ValueError, f"{what}: {len(a)} (if) vs {len(b)} (else), by the condition at {where}.")
        items = [merged(index, x, y) for index, (x, y) in enumerate(zip(a, b))]
        if name == RETURN:
            for item in items:
                if type(item) is Unusable:
                    return item
        return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)

    def _as_node(self, value: Any, scope: Scope) -> Any:
        """A value that is batch data as a node, else None."""
        if is_node(value):
            return resolve(value, scope)
        if isinstance(value, bool | int | float | np.ndarray | np.generic):
            return self._constant(value)
        return None

    def _constant(self, value: Any, dtype: np.dtype | None = None) -> Any:
        node = self.recorder.constant(value if dtype is None else types.ScalarConstant(value, dtype))
        if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
            self._weak[id(node)] = node, value
        return node

    def _adopted(self, node: Any, dtype: np.dtype) -> Any:
        """A Python number, or a merge of Python numbers, as a node of another dtype; None where it does not fit."""
        known = self._weak.get(id(node))
        if known is None or _RANK.get(node.spec.dtype.kind, 9) > _RANK.get(dtype.kind, -1):
            return None
        if isinstance(known[1], tuple):
            first, second, predicate, scope, where = known[1]
            sides = [self._adopted(side, dtype) for side in (first, second)]
            if any(side is None for side in sides):
                return None
            return self._merge_nodes(EXPRESSION, *sides, predicate, scope, where)  # type: ignore[call-arg]
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= known[1] <= np.iinfo(dtype).max:
            return None
        return self._constant(known[1], dtype)

    def _merge_nodes(self, name: str, first: Any, second: Any, predicate: Any, scope: Scope, where: str) -> Any:
        if first is second and scope.within(first.scope):
            return first  # else it is read through a merge of the same samples under their new name
        key = (id(first), id(second), id(predicate), scope)
        if key in self._merged:
            return self._merged[key][1]
        given = (first, second)
        dtypes = first.spec.dtype, second.spec.dtype
        if all(dtype is not None for dtype in dtypes) and dtypes[0] != dtypes[1]:  # float64 == None in NumPy
            adopted = self._adopted(first, dtypes[1])
            if adopted is not None:
                first = adopted
            else:
                adopted = self._adopted(second, dtypes[0])
                second = second if adopted is None else adopted
        weak = id(first) in self._weak, id(second) in self._weak
        _check_kinds(name, first, second)
        node = self.recorder.merge(first, second, predicate, scope, weak=weak, name=name)
        if TRACE:
            sys.stderr.write(f"pipeflow: merging {name!r} after the condition at {where}: {node.spec}\n")
        if all(weak):
            self._weak[id(node)] = node, (first, second, predicate, scope, where)
        self._merged[key] = given, node
        return node


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return False
    try:
        return bool(a == b)
    except Exception:  # the user's __eq__ may do anything, with nodes inside above all
        return False


def _kind_of(value: Any) -> str:
    return "a DataNode" if is_node(value) else "None" if value is None else f"{type(value).__name__} {value!r:.60}"


def _unmergeable(name: str, a: Any, b: Any, where: str) -> Unusable:
    if name == RETURN and (a is None or b is None):
        return Unusable(RuntimeError, (
            f"some samples return a value and others return nothing (condition at {where}); add a return to the other path."
        ))  # fmt: skip
    structure = a is None or b is None or isinstance(a, tuple | list | dict) or isinstance(b, tuple | list | dict)
    return Unusable(ValueError if structure else TypeError, (
        f"variable {name!r} cannot be used here: the branches of the condition at {where} gave it values that cannot be merged "
        f"into one batch: {_kind_of(a)} (if) vs {_kind_of(b)} (else)."
    ))  # fmt: skip


CAST = "Add fn.cast(..., dtype=...)."
RESHAPE = "Give both the same number of dimensions, e.g. with fn.reshape."
LAYOUT = "Give both the same layout, e.g. with fn.transpose or fn.reshape(..., layout=...)."


def merge_error(name: str, first: str, second: str, advice: str) -> str:
    """The message for two sides that cannot be one batch; also of merges that find out when they run."""
    return f"{name!r}: {first}, {second}. {advice}"


def scalar_error(what: str, got: str) -> str:
    """The message for a condition that is not one number."""
    return f"{what} must be one number per sample (0-d), got {got}. Reduce it first, e.g. fn.reductions.max(x) != 0."


def logical_error(operator: str, side: str, where: str, got: str) -> str:
    """The message for an operand of ``and`` or ``or`` that is no scalar bool."""
    return f"`{operator}` at {where} needs a scalar bool on its {side} side, got {got}; compare it (x != 0) or use & / |."


def place(node: Any, side: str) -> str:
    """`` in the `if` branch (my.py:81)``"""
    origin = getattr(node, "origin", None)
    line = f" ({os.path.basename(origin.file)}:{origin.line})" if origin is not None else ""
    return f"in the `{side}` branch{line}"


def _check_kinds(name: str, first: Any, second: Any) -> None:
    """RuntimeError if it is known that two nodes cannot be one batch."""
    a, b = first.spec, second.spec
    if first.device != second.device:
        sides = [f"on {node.device.upper()} {place(node, side)}" for node, side in ((first, "if"), (second, "else"))]
        raise RuntimeError(f"{name!r} is {sides[0]}, {sides[1]}. Add .gpu() or .cpu() to one of them.")
    advice = None
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        advice = CAST
    elif a.ndim is not None and b.ndim is not None and a.ndim != b.ndim:
        advice = RESHAPE
    elif a.layout and b.layout and a.layout != b.layout:
        advice = LAYOUT
    if advice:
        sides = [
            f"{spec.dtype or 'data'} {spec.layout or ('?' if spec.ndim is None else f'{spec.ndim}-d')} {place(node, side)}"
            for node, spec, side in ((first, a, "if"), (second, b, "else"))
        ]
        raise RuntimeError(merge_error(name, *sides, advice))  # type: ignore[call-arg]


# ----------------------------------------------------------------------------------------------------
# What users and the graph call

def truth_error(frame: Any = None) -> TypeError:
    """The error for a DataNode used as one truth value, with the place and the reason."""
    frame = frame or sys._getframe(1)
    package = os.path.dirname(os.path.abspath(__file__)) + os.sep
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    session = autograph.hooks.get()
    return TypeError(guard.explain_truth_test(frame, isinstance(session, Session) and session.enabled))


def cond(predicate: Any, if_function: Callable[..., Any], else_function: Callable[..., Any], *args: Any) -> Any:
    """``if_function(*args)`` for the samples where the predicate is true, ``else_function(*args)`` for the others.

    It needs no source text and no ``enable_conditionals``. Both functions are called once while the graph is built, and
    what they return is merged: nodes, numbers, and tuples, lists and dicts of them. Outside a pipeline the predicate is a
    plain value and one function is called.
    """
    session = autograph.hooks.get()
    caller = sys._getframe(1)
    choice = session.IfExp(predicate, f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}")
    scope = {"args": args, "if_function": if_function, "else_function": else_function}
    first = session.call(if_function)(*args) if choice.then(scope) else UNSET
    second = session.call(else_function)(*args) if choice.other(scope) else UNSET
    return choice.end(first, second)
