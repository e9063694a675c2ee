"""The class API, ``ops.Flip(vertical=1)(images)``: objects take arguments; calls take data and per-sample arguments."""

import sys
from collections.abc import Callable as _Callable
from collections.abc import Iterable as _Iterable
from collections.abc import Sequence as _Sequence
from functools import cache as _cache
from typing import Any

import pipeflow.operators  # noqa: F401  (tells the registry where the operators are)
from pipeflow.declare import OpDef
from pipeflow.declare import check_names as _check_names
from pipeflow.declare import class_name as _class_name
from pipeflow.declare import open_namespaces as _open_namespaces
from pipeflow.declare import registry as _registry
from pipeflow.operators import former_names
from pipeflow.record.recorder import DataNode as _DataNode  # noqa: F401  (programs for DALI import it from here)


class Operator:
    """An operator with some of its arguments already given."""

    op: OpDef

    def __init__(self, *positional: Any, **arguments: Any) -> None:
        if len(positional) > len(self.op.arguments):
            raise TypeError(f"ops.{type(self).__name__} has {len(self.op.arguments)} arguments, got {len(positional)}")
        self._arguments = {**dict(zip(self.op.arguments, positional)), **arguments}
        _check_names(self.op, self._arguments)

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        own = self._arguments
        later = {name: value for name, value in arguments.items() if value is not None or name not in own}
        return self.op.apply(inputs, {**own, **later})

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"ops.{type(self).__qualname__}({given})"

    def __getattr__(self, name: str) -> Any:
        """Its arguments: given ones and defaults."""
        if name != "_arguments" and name in self.op.arguments:
            return self._arguments.get(name, self.op.defaults.get(name))
        raise AttributeError(f"'ops.{type(self).__name__}' object has no attribute {name!r}")

    @property
    def device(self) -> str:
        """The device that was given; "cpu" by default."""
        return self._arguments.get("device") or "cpu"

    @property
    def preserve(self) -> bool:
        """True if the operator runs even if nothing reads its result."""
        return bool(self._arguments.get("preserve"))

    @property
    def schema(self) -> OpDef:
        """The declaration of the operator."""
        return self.op

    @property
    def schema_name(self) -> str:
        """The name that DALI's registry has for the operator: ``readers__File``."""
        return self.op.schema_name

    @property
    def spec(self) -> dict[str, Any]:
        """The arguments given at construction."""
        return dict(self._arguments)


class Compose:
    """Operators in a chain: each one is called with the result of the one before."""

    def __init__(self, op_list: _Sequence[_Callable[..., Any]]) -> None:
        self._operators = list(op_list)

    def __call__(self, *inputs: Any) -> Any:
        first, *others = self._operators or [lambda *given: given[0] if len(given) == 1 else given]
        result = first(*inputs)
        for operator in others:
            result = operator(*result) if isinstance(result, (tuple, list)) else operator(result)
        return result


def _names(device: str) -> set[str]:
    return {op.schema_name for op in _registry.values() if not op.hidden and device in op.devices}


def cpu_ops() -> set[str]:
    """The operators that run on the CPU, by the names of DALI's registry: ``readers__File``."""
    return _names("cpu")


def gpu_ops() -> set[str]:
    """The operators that run on the GPU."""
    return _names("gpu")


def mixed_ops() -> set[str]:
    """The operators that take data on the CPU and return it on the GPU."""
    return _names("mixed")


def _former(name: str, op: OpDef) -> type:
    """The class under a former name."""

    def __init__(self: Any, *positional: Any, **arguments: Any) -> None:
        *folders, leaf = name.split(".")
        former = ".".join(["ops", *folders, _class_name(leaf)])
        former_names.warn(former, ".".join(["ops", *op.name.split(".")[:-1], op.ops_name]))
        Operator.__init__(self, *positional, **arguments)

    attributes = {"op": op, "__doc__": f"The former name of {op.title}.", "__module__": __name__, "__init__": __init__}
    return type(_class_name(name), (Operator,), attributes)


def _classes(names: _Iterable[str]) -> dict[str, str]:
    """Operators by the names of their classes: ``readers.file`` by ``readers.File``. Hidden operators have none."""
    split = [(name, name.rpartition(".")[2]) for name in names]
    return {f"{name[: -len(leaf)]}{_class_name(leaf)}": name for name, leaf in split if not leaf.startswith("_")}


@_cache
def _known(complete: bool) -> dict[str, str]:
    """The operators of the index by their classes, or all of the registry."""
    return _classes(_registry if complete else _registry.known())


def _make(dotted: str) -> type | None:
    """The class of an operator, or that of a former name."""
    if dotted in _FORMER:
        return _former(_FORMER[dotted], _registry[former_names.FORMER_NAMES[_FORMER[dotted]]])
    name = _known(complete=False).get(dotted) or _known(complete=True).get(dotted)
    op = _registry[name] if name else None
    if op is None or op.hidden or op.nodes_only:
        return None
    module = ".".join([__name__, *dotted.split(".")[:-1]])
    return type(op.ops_name, (Operator,), {"op": op, "__doc__": op.__doc__, "__module__": module})


def _every() -> list[str]:
    return [*_FORMER, *_classes(name for name, op in _registry.items() if not op.hidden and not op.nodes_only)]


_FORMER = _classes(former_names.FORMER_NAMES)
_open_namespaces(sys.modules[__name__], [*_FORMER, *_registry.known()], _every, _make)
