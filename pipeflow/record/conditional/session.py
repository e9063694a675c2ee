"""Conditions on per-sample data during recording: the hooks that rewritten code calls, and the merges.

Both branches of a condition on a DataNode are recorded, one after the other, each from the same state of the variables and
containers. At the end every variable that differs becomes a *merge*: a node that reads one side or the other. No sample is
moved. A variable without a single value becomes ``Unusable``: only its use raises an error, with the reason.
"""

import os
import sys
import types as python_types
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeflow import autograph_guard as guard
from pipeflow import declare, types
from pipeflow.errors import (
    CAST,
    LAYOUT,
    PACKAGE,
    RESHAPE,
    BadValue,
    DivergentBranches,
    logical_error,
    merge_error,
    scalar_error,
    user_origin,
)
from pipeflow.record import autograph
from pipeflow.record.conditional.paths import (
    EXPRESSION,
    HOLE,
    RETURN,
    TRACE,
    Exit,
    Fork,
    Frame,
    NodeChoice,
    NodeLogical,
    NodeLoop,
    NodeMark,
    NodeTernary,
    leaves,
    replaced,
)
from pipeflow.record.conditional.scopes import RecorderLike, Scope, Unusable, is_node, resolve
from pipeflow.record.conditional.state import UNSET, ModuleVariables, State, content, put, reachable, same

_RANK = {"b": 0, "i": 1, "u": 1, "f": 2}


class Session(autograph.Hooks):
    """The hooks for one recording. If ``enabled`` is False, nothing is converted and only ``cond`` makes branches."""

    def __init__(self, recorder: RecorderLike, enabled: bool = True) -> None:
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
    def choice(self, condition: Any, where: str = "", names: tuple[str, ...] = (), frame: Any = None) -> Any:
        return NodeChoice(self, condition, where, names, frame) if is_node(condition) else super().choice(condition)

    def ternary(self, condition: Any, where: str = "") -> Any:
        return NodeTernary(self, condition, where) if is_node(condition) else super().ternary(condition)

    def logical(self, left: Any, operator: str, where: str = "") -> Any:
        return NodeLogical(self, left, operator, where) if is_node(left) else super().logical(left, operator)

    def negation(self, value: Any, where: str = "") -> Any:
        if not is_node(value):
            return not value
        self._require_scalar(value, f"the operand of `not` at {where}")
        return self.recorder.logical_not(resolve(value, self.scope), where)

    def frame(self, variables: Any = (), cells: Any = ()) -> Any:
        return Frame(self, variables, cells)

    def loop(self, frame: Any, names: tuple[str, ...]) -> Any:
        return NodeLoop(self, frame, names)

    def mark(self, frame: Any) -> Any:
        return NodeMark(self, frame)

    def subject(self, value: Any, where: str = "") -> Any:
        if is_node(value):
            raise TypeError(
                "DataNode has no single truth value (it holds one value per sample). "
                f"`match` at {where} cannot depend on per-sample data: use if/elif."
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
        """Lets branches change the ``global`` variables of the function's file from now on."""
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
        node = resolve(self.recorder.own(node), self.scope)
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
        value = resolve(self.recorder.own(value), self.scope)
        known = value.spec.ndim == 0 and value.spec.dtype is not None
        return value if known else self.recorder.check_bool(value, operator, side, where)

    # Merging
    def apply(self, state: State) -> None:
        """Puts the contents of a state into its containers."""
        for _, box, held in state.boxes.values():
            if not same(content(box), held):
                put(box, held)

    def join(self, tree: Any, base: Scope, kinds: tuple[str, ...]) -> tuple[Any, Scope, State | None]:
        """Merges the exits of these kinds. Returns the tree with a hole in their place, their scope and their merged state.

        If there are no such exits, it returns the tree unchanged, and None as the state.
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
        inside.what = base.child(alive, False).what = (
            f"the code after the condition at {tree.where}, which not all samples reach"
        )
        state, _ = self._folded(tree, inside, chosen)
        return Fork(alive, HOLE, replaced(tree, chosen, None), tree.where), inside, state

    def _selected(self, tree: Any, scope: Scope, chosen: Callable[[Any], bool]) -> Any:
        """The samples of a scope that end in chosen exits: True for all, False for none, else a bool node."""
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
        one, other = (self._constant(side) if isinstance(side, bool) else side for side in (first, second))
        return self._merge_nodes(EXPRESSION, one, other, tree.predicate, scope, tree.where)

    def _folded(self, tree: Any, scope: Scope, chosen: Callable[[Any], bool]) -> tuple[Any, Scope]:
        """The merged state of the chosen exits, and its scope. All samples of ``scope`` end in these exits."""
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
                key: merged(form.format(label, key), first.get(key, UNSET), second.get(key, UNSET))
                for key in {**first, **second}
            }
        result = merged(label, first, second)
        if type(result) is Unusable:  # a list or set cannot contain a reason: it becomes unusable as a whole
            result._pf_raise()
        return result

    def _merge(
        self, name: str, a: Any, b: Any, in_a: Scope, in_b: Scope, predicate: Any, scope: Scope, where: str
    ) -> Any:
        """One value for both sides of a condition, or Unusable with the reason."""
        for value in (a, b):
            if type(value) is Unusable:
                return value
        if a is b and not isinstance(a, declare.Node | tuple):
            return a
        if a is UNSET or b is UNSET:
            side = "else" if b is UNSET else "if"
            return Unusable(
                RuntimeError,
                (
                    f"variable {name!r} cannot be used here: it has no value in the `{side}` branch of the condition at {where}; "
                    "assign it in every path or give it a default before the `if`."
                ),
            )
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
                return Unusable(
                    ValueError,
                    (
                        f"{name!r} cannot be used here: the branches of the condition at {where} made dicts with different keys: "
                        f"{sorted(map(str, a))} (if) vs {sorted(map(str, b))} (else)."
                    ),
                )
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
        """The value as a node if it is data of a batch, else None."""
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
        """A Python number, or a merge of Python numbers, as a node of another dtype; None if it does not fit."""
        known = self._weak.get(id(node))
        if known is None or _RANK.get(node.spec.dtype.kind, 9) > _RANK.get(dtype.kind, -1):
            return None
        if isinstance(known[1], tuple):
            first, second, predicate, scope, where = known[1]
            one, other = self._adopted(first, dtype), self._adopted(second, dtype)
            if one is None or other is None:
                return None
            return self._merge_nodes(EXPRESSION, one, other, predicate, scope, where)
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= known[1] <= np.iinfo(dtype).max:
            return None
        return self._constant(known[1], dtype)

    def _merge_nodes(self, name: str, first: Any, second: Any, predicate: Any, scope: Scope, where: str) -> Any:
        if first is second and scope.within(first.scope):
            return first  # if this scope cannot read the node, the merge below makes a node of the same samples that it can read
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
    except Exception:  # the user's __eq__ may raise anything, especially with nodes inside
        return False


def _kind_of(value: Any) -> str:
    return "a DataNode" if is_node(value) else "None" if value is None else f"{type(value).__name__} {value!r:.60}"


def _unmergeable(name: str, a: Any, b: Any, where: str) -> Unusable:
    if name == RETURN and (a is None or b is None):
        return Unusable(
            BadValue,
            (
                f"some samples return a value and others return nothing (condition at {where}); add a return to the other path."
            ),
        )
    structure = a is None or b is None or isinstance(a, tuple | list | dict) or isinstance(b, tuple | list | dict)
    return Unusable(
        ValueError if structure else TypeError,
        (
            f"variable {name!r} cannot be used here: the branches of the condition at {where} gave it values that cannot be "
            f"merged into one batch: {_kind_of(a)} (if) vs {_kind_of(b)} (else)."
        ),
    )


def branch_of(node: Any, side: str) -> str:
    """`` in the `if` branch (my.py:81)``"""
    origin = getattr(node, "origin", None)
    line = f" ({os.path.basename(origin.file)}:{origin.line})" if origin is not None else ""
    return f"in the `{side}` branch{line}"


def _check_kinds(name: str, first: Any, second: Any) -> None:
    """Raises an error if two nodes are on different devices; warns if a batch with samples of both will certainly fail."""
    a, b = first.spec, second.spec
    if first.device != second.device:
        sides = [
            f"on {node.device.upper()} {branch_of(node, side)}" for node, side in ((first, "if"), (second, "else"))
        ]
        raise RuntimeError(f"{name!r} is {sides[0]}, {sides[1]}. Add .gpu() or .cpu() to one of them.")
    advice = None
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        advice = CAST
    elif a.ndim is not None and b.ndim is not None and a.ndim != b.ndim:
        advice = RESHAPE
    elif a.layout and b.layout and a.layout != b.layout:
        advice = LAYOUT
    if advice:
        one, other = (
            f"{spec.dtype or 'data'} {spec.layout or ('?' if spec.ndim is None else f'{spec.ndim}-d')} {branch_of(node, side)}"
            for node, spec, side in ((first, a, "if"), (second, b, "else"))
        )
        text = merge_error(name, one, other, advice)
        where = user_origin()
        place_of = (where.file, where.line) if where else (PACKAGE, 1)
        warnings.warn_explicit(f"{text} Such a batch is an error when it runs.", DivergentBranches, *place_of)


def truth_error(frame: Any = None) -> TypeError:
    """The error for a DataNode that is used as one truth value; it names the user's line and the reason."""
    frame = frame or sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
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
    choice = session.ternary(predicate, f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}")
    scope = {"args": args, "if_function": if_function, "else_function": else_function}
    first = session.call(if_function)(*args) if choice.then(scope) else UNSET
    second = session.call(else_function)(*args) if choice.other(scope) else UNSET
    return choice.end(first, second)
