"""The variables of a frame and the mutable containers they refer to: captures, compares and restores them."""

import functools
import types as python_types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeflow import autograph_guard as guard
from pipeflow import declare
from pipeflow.record import autograph
from pipeflow.record.conditional.scopes import Unusable

UNSET = autograph.UNSET
SEARCH_LIMIT = (
    10_000  # the most objects that are visited for a condition: to visit a whole data set would take too long
)


SIMPLE = (
    int, float, complex, str, bytes, type(None), np.ndarray, np.generic, np.dtype, type, python_types.ModuleType, declare.Node,
)  # fmt: skip
SEQUENCES = (list, deque)
CELL_VALUE = "value"


class ModuleVariables:
    """The variables of a module that a function of its file declares ``global``, as a container."""

    def __init__(self, module: dict[str, Any], names: set[str]) -> None:
        self.module, self.names = module, names


_HEAP_TYPE = 1 << 9  # the flag of classes that are made by a class statement, Py_TPFLAGS_HEAPTYPE


class State(NamedTuple):
    """Values of variables, and for each container (by id) its name, the object and its contents."""

    names: dict[str, Any]
    boxes: dict[int, tuple[str, Any, Any]]


def _is_plain(value: Any) -> bool:
    """True for an instance of a class of the user, whose attributes a branch may change."""
    kind = type(value)
    return (
        bool(kind.__flags__ & _HEAP_TYPE)
        and not isinstance(value, BaseException)
        and not guard.never_converted(kind.__module__)
    )


def _slots(value: Any) -> Iterator[str]:
    for kind in type(value).__mro__:
        names = kind.__dict__.get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def content(box: Any) -> Any:
    """A copy of the contents of a container: a list for sequences, a set for sets, else a dict."""
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
    """Replaces the contents of a container."""
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
    """True if two contents consist of the same objects."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(value is second[key] for key, value in first.items())
    if isinstance(first, set):
        return first == second
    return len(first) == len(second) and all(map(lambda a, b: a is b, first, second))


def reachable(variables: Mapping[str, Any]) -> dict[int, tuple[str, Any]]:
    """The mutable containers that variables refer to, directly or through others; the nearest first."""
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


def capture(names: Iterable[str], local: Any, boxes: Mapping[int, tuple[str, Any]]) -> State:
    """The current values of variables and contents of containers."""
    values = {name: local.get(name, UNSET) for name in names}
    return State(values, {key: (label, box, content(box)) for key, (label, box) in boxes.items()})
