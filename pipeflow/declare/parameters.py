"""The parameters of a declaration: annotations that give a role, and what is read from a signature."""

import enum
import inspect
import types as _python_types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np

T = TypeVar("T")


class Role(enum.Enum):
    """What a parameter of a declaration is for."""

    INPUT = "input"
    ARG = "arg"
    STATIC = "static"
    DRAWN = "drawn"
    HIDDEN = "hidden"


Sample = Annotated[np.ndarray, Role.INPUT]
Arg = Annotated[T, Role.ARG]
Drawn = Annotated[T, Role.DRAWN]
Out = Annotated[Any, Role.HIDDEN]
Ints = Annotated[tuple[int, ...], "ints"]
Floats = Annotated[tuple[float, ...], "floats"]
DType = Annotated[np.dtype, "dtype"]
Layout = Annotated[str, "layout"]
HIDDEN = frozenset({"out", "layouts", "key", "source"})
REQUIRED = inspect.Parameter.empty


class Args(_python_types.SimpleNamespace):
    """Argument values by name, as ``infer``, ``draw`` and ``check`` see them."""


@dataclass(frozen=True)
class Param:
    """One parameter of a declaration."""

    name: str
    role: Role
    kind: Any
    default: Any = REQUIRED
    variadic: bool = False
    positional: bool = False  # an argument, not data, that may also be given by position

    @property
    def required(self) -> bool:
        """Whether the caller must give it."""
        return self.default is REQUIRED and not self.variadic


class Node:
    """Marks values that stand for a batch in a graph; the recorder's DataNode is the only subclass."""

    __slots__ = ()


# Accepted everywhere; what is not in NO_EFFECT has a test of its effect.
UNIVERSAL = ("name", "device", "preserve", "bytes_per_sample_hint", "on_error")
NO_EFFECT = {
    "cuda_stream": "there is no CUDA stream on the CPU; the GPU backend makes its own",
    "use_copy_kernel": "the copy to the GPU always goes through one pinned staging block",
}


def read_signature(body: Callable[..., Any], method: bool = False) -> tuple[tuple[Param, ...], int]:
    hints = typing.get_type_hints(body, include_extras=True)
    params = []
    for position, item in enumerate(inspect.signature(body).parameters.values()):
        if method and position == 0:
            continue
        role, kind = _read_annotation(hints.get(item.name, Any))
        if item.name in HIDDEN and item.kind is item.KEYWORD_ONLY and kind is Any:  # get_property has a `key: str`
            role = Role.HIDDEN
        if (item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL)) != (role is Role.INPUT):
            raise TypeError(f"{body.__qualname__}: data (Sample) is positional-only, nothing else is: {item}")
        variadic, positional = item.kind is item.VAR_POSITIONAL, item.kind is item.POSITIONAL_OR_KEYWORD
        params.append(Param(item.name, role, kind, item.default, variadic, positional))
    returned = hints.get("return", np.ndarray)
    if returned is type(None):
        return tuple(params), 0
    return tuple(params), len(typing.get_args(returned)) if typing.get_origin(returned) is tuple else 1


def _read_annotation(hint: Any) -> tuple[Role, Any]:
    """The role and the kind of an annotation; ``X | None`` means X."""
    if typing.get_origin(hint) in (typing.Union, _python_types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        if len(members) != 1:
            return Role.STATIC, Any
        return _read_annotation(members[0])
    if typing.get_origin(hint) is Annotated:
        base, *marks = typing.get_args(hint)
        role = next((mark for mark in marks if isinstance(mark, Role)), Role.STATIC)
        kind = next((mark for mark in marks if isinstance(mark, str)), None)
        return role, kind if kind is not None else _read_annotation(base)[1]
    return Role.STATIC, hint
