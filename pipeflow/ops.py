"""The class API: ``ops.Flip(horizontal=1)(images)``; arguments at construction, data and per-sample arguments at the call."""

import sys
import types as _python_types
from typing import Any

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow.declare import OpDef, former_names
from pipeflow.declare import registry as _registry


class Operator:
    """An operator with some of its arguments already given."""

    op: OpDef

    def __init__(self, *positional: Any, **arguments: Any) -> None:
        if len(positional) > len(self.op.arguments):
            raise TypeError(f"ops.{type(self).__name__} has {len(self.op.arguments)} arguments, got {len(positional)}")
        self._arguments = {**dict(zip(self.op.arguments, positional)), **arguments}

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        return self.op.apply(inputs, {**self._arguments, **arguments})

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"ops.{type(self).__qualname__}({given})"


def _former(name: str, op: OpDef) -> type:
    """The class under a former name."""

    def __init__(self: Any, *positional: Any, **arguments: Any) -> None:
        present = ".".join(["ops", *op.name.split(".")[:-1], op.ops_name])
        former_names.warn(f"ops.{former_names.class_name(name)}", present)
        Operator.__init__(self, *positional, **arguments)

    attributes = {"op": op, "__doc__": f"The former name of {op.title}.", "__module__": __name__, "__init__": __init__}
    return type(former_names.class_name(name), (Operator,), attributes)


def _fill() -> None:
    for name, present in former_names.FORMER_NAMES.items():
        if "." not in name:
            setattr(sys.modules[__name__], former_names.class_name(name), _former(name, _registry[present]))
    for name, op in _registry.items():
        place = sys.modules[__name__]
        for folder in name.split(".")[:-1]:
            if not hasattr(place, folder):
                module = _python_types.ModuleType(f"{place.__name__}.{folder}", f"Operators ops.{folder}.*")
                sys.modules[module.__name__] = module
                setattr(place, folder, module)
            place = getattr(place, folder)
        if not op.hidden and not op.nodes_only:
            attributes = {"op": op, "__doc__": op.__doc__, "__module__": place.__name__}
            setattr(place, op.ops_name, type(op.ops_name, (Operator,), attributes))


_fill()
