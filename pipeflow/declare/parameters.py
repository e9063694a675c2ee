"""The parameters of a declaration: their roles, defaults and meanings, and how they are read from a signature.

A parameter is declared once, with its type, its default and one phrase for the user:

- in the signature of a body, ``angle: Arg[float] = required("degrees, counter-clockwise")`` or
  ``keep_size: bool = default(False, "keep the extents of the input")``;
- once for several operators, ``WINDOW = parameters(crop=(Arg[Floats], None, "extents of the window"), ...)``, which the
  declaration names: ``@operator("crop", takes=WINDOW | DTYPE)``.
"""

import enum
import inspect
import types as _python_types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np

T = TypeVar("T")


class Role(enum.Enum):
    """The role of a parameter of a declaration."""

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
HIDDEN = frozenset({"args", "out", "layouts", "key", "source"})
REQUIRED = inspect.Parameter.empty


class Args(_python_types.SimpleNamespace):
    """All arguments of a call by name, as bodies, ``infer``, ``draw``, ``check`` and the GPU forms read them."""


# Numbers that become elements, or limits that may be infinite. All others are places, sizes or amounts: for these,
# infinity and NaN are mistakes in every operator.
ANY_NUMBER = frozenset(
    (
        "default_value",
        "fill_value",
        "fill_values",
        "max_duration",
        "min_duration",
        "off_value",
        "on_value",
        "timeout",
        "values",
    )
)


# Constants that count in single precision, as in DALI: their product with an extent decides about the first pixel of a window.
SINGLE = frozenset(("crop_pos_x", "crop_pos_y", "crop_pos_z"))


@dataclass(frozen=True)
class Param:
    """One parameter of a declaration."""

    name: str
    role: Role
    type: Any
    default: Any = REQUIRED
    variadic: bool = False
    positional: bool = False  # an argument, not data, that may also be given by position
    meaning: str = ""  # what it means to the user, in a phrase

    @property
    def finite(self) -> bool:
        """True if infinity and NaN have no meaning for it."""
        return self.type in (float, "floats") and self.name not in ANY_NUMBER

    @property
    def required(self) -> bool:
        """True if the caller must give it."""
        return self.default is REQUIRED and not self.variadic


class Node:
    """Base of the values that represent a batch in a graph; the recorder's DataNode is the only subclass.

    While no pipeline is being defined, calls of sources and of nodes go to ``outside``, which record/outside.py sets.
    """

    __slots__ = ()

    outside: ClassVar[Callable[[Any], Any]]


@dataclass(frozen=True)
class _Declared:
    """The marker in a signature in place of a default: the default (or REQUIRED) and the meaning."""

    value: Any
    meaning: str


def default(value: Any, meaning: str) -> Any:
    """A default in the signature of a body, with what the argument means to the user."""
    return _Declared(value, meaning)


def required(meaning: str) -> Any:
    """Marks an argument in the signature of a body, in place of a default: the caller must give it."""
    return _Declared(REQUIRED, meaning)


def parameters(**declared: tuple[Any, Any, str]) -> dict[str, Param]:
    """Arguments that several operators share. Each name has its annotation, its default (or REQUIRED) and its meaning.

    ``|`` joins two sets.
    """
    return {
        name: Param(name, *_read_annotation(annotation), value, meaning=meaning)
        for name, (annotation, value, meaning) in declared.items()
    }


NO_EFFECT = {
    "cuda_stream": "the CPU has no CUDA streams, and a pipeline on a GPU makes its own",
    "use_copy_kernel": "the copy to the GPU always goes through one pinned staging block",
}


def read_signature(body: Callable[..., Any], method: bool = False) -> tuple[tuple[Param, ...], int]:
    """The parameters and the number of outputs of a body (or of a constructor). Its defaults become plain values."""
    hints = typing.get_type_hints(body, include_extras=True)
    declared = take_declared(body)
    params = []
    for position, item in enumerate(inspect.signature(body).parameters.values()):
        if method and position == 0:
            continue
        role, kind = _read_annotation(hints.get(item.name, Any))
        if kind is Args or (item.name in HIDDEN and item.kind is item.KEYWORD_ONLY and kind is Any):
            role = Role.HIDDEN  # the name is not enough: get_property has an argument `key: str`
        if (item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL)) != (role is Role.INPUT):
            raise TypeError(f"{body.__qualname__}: data (Sample) is positional-only, nothing else is: {item}")
        variadic, positional = item.kind is item.VAR_POSITIONAL, item.kind is item.POSITIONAL_OR_KEYWORD
        given = declared.get(item.name) or _Declared(item.default, "")
        params.append(Param(item.name, role, kind, given.value, variadic, positional, given.meaning))
    returned = hints.get("return", np.ndarray)
    if returned is type(None):
        return tuple(params), 0
    return tuple(params), len(typing.get_args(returned)) if typing.get_origin(returned) is tuple else 1


def with_shared(own: Sequence[Param], shared: Mapping[str, Param]) -> tuple[Param, ...]:
    """The parameters of a declaration: the body's data and required ones, then the shared ones, then the body's others.

    A parameter of the body replaces a shared parameter of the same name.
    """
    names = {param.name for param in own}
    first = [
        p for p in own if p.role is Role.INPUT or p.positional or (p.role in (Role.ARG, Role.STATIC) and p.required)
    ]
    rest = [param for param in own if param not in first]
    return (*first, *(param for param in shared.values() if param.name not in names), *rest)


def take_declared(body: Any) -> dict[str, _Declared]:
    """The parameters that a body declares by ``default(...)`` and ``required(...)``. In the body itself plain defaults
    replace them, so that it can be called. It keeps the declared ones, for a second operator with the same body."""
    known = vars(body).get("declared_parameters")
    if known is None:
        values = body.__defaults__ or ()
        names = body.__code__.co_varnames[: body.__code__.co_argcount]
        by_position = dict(zip(names[len(names) - len(values) :], values))
        by_name = body.__kwdefaults__ or {}
        known = {name: x for name, x in {**by_position, **by_name}.items() if isinstance(x, _Declared)}
        body.declared_parameters = known
        body.__defaults__ = tuple(_plain(by_position).values()) or None
        body.__kwdefaults__ = _plain(by_name) or None
    return known


def _plain(defaults: Mapping[Any, Any]) -> dict[Any, Any]:
    plain = {name: x.value if isinstance(x, _Declared) else x for name, x in defaults.items()}
    return {name: value for name, value in plain.items() if value is not REQUIRED}


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


# Every operator has these; those that are not in NO_EFFECT have a test of their effect.
UNIVERSAL = parameters(
    name=(str, None, "name of the node: in messages, in the key of its random numbers, and as a named input"),
    device=(
        Literal["cpu", "gpu", "mixed"],
        None,
        "where the operator runs; `mixed` takes data from the CPU to the GPU",
    ),
    preserve=(bool, False, "run the operator even if nothing uses its output"),
    bytes_per_sample_hint=(
        Ints,
        None,
        "expected size of an output sample in bytes, one number or one for each output; if it is large enough, no memory "
        "is allocated after the first batches",
    ),
    on_error=(
        Any,
        None,
        'what to do if the operator fails for a sample: `"raise"`, `"skip"`, `"replace"`, or a value (or a function that '
        "returns one) in place of its outputs; default: the `on_error` of the pipeline",
    ),
)
# Random operators have this one too.
SEED = parameters(seed=(int, None, "seed of this node's random numbers; default: computed from the pipeline's seed"))
DTYPE = parameters(dtype=(DType, None, "type of the result; default: that of the input"))
# For `former=` of operators whose `dtype` had this name.
FORMER_DTYPE = {"output_dtype": "dtype"}
