"""Checks a call against its declaration, and reports all bad arguments at once."""

import operator as _operator
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare.opdef import OpDef, universal
from pipeflow.declare.parameters import NO_EFFECT, UNIVERSAL, Node, Role
from pipeflow.declare.specs import UNKNOWN, UnknownValue
from pipeflow.declare.values import constant_of, convert, describe_kind, refused
from pipeflow.errors import (
    BadArgument,
    Origin,
    UnknownArgument,
    UnsupportedType,
    add_notes,
    count_of,
    nearest,
    user_origin,
    widened,
)
from pipeflow.tensors import TensorCPU, TensorListCPU

LARGEST_HINT = 1 << 40  # bytes of one sample


@dataclass
class Call:
    """A checked call of an operator: its inputs, its constants, its per-sample arguments and the universal ones."""

    op: OpDef
    inputs: tuple[Any, ...]
    constants: dict[str, Any]
    arguments: dict[str, Any]  # the arguments that vary from sample to sample
    name: str | None = None
    device: str | None = None
    seed: int | None = None
    preserve: bool = False
    hint: tuple[int, ...] = ()
    key: int | None = None
    origin: Origin | None = None
    on_error: Any = None
    members: dict[str, list[Any]] = field(default_factory=dict)  # constants that differ between members of an input set


def input_set_size(inputs: Sequence[Any]) -> int:
    """The number of members of the input sets (lists of nodes) among the inputs; 0 if there are none."""
    sets = [x for x in inputs if isinstance(x, (list, tuple)) and x and all(isinstance(item, Node) for item in x)]
    return len(sets[0]) if sets else 0


def spread(op: OpDef, positional: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The data and the keywords of a call that is written in the operator's own ``order``."""
    if len(positional) > len(op.order):
        raise TypeError(f"{op.title}: takes {count_of(len(op.order), 'positional argument')}, got {len(positional)}")
    given = dict(zip(op.order, positional))
    twice = [name for name in given if name in keywords]
    if twice:
        raise TypeError(f"{op.title}: got several values for the argument {twice[0]!r}")
    given.update(keywords)
    lists = []
    for data in op.order:
        if data in op.arguments or data in UNIVERSAL:
            continue
        if given.get(data) is None:
            given.pop(data, None)
            bind(
                op, (), {"sizes": (1, 1), **given} if "sizes" in op.arguments else given
            )  # other errors are reported first
            raise TypeError(f"{op.title}: argument {data!r} is required (a list of inputs)")
        inputs = given.pop(data)
        if isinstance(inputs, Mapping):
            raise TypeError(
                f"{op.title}: {data} must be a list of inputs, got a {type(inputs).__name__}: give its values"
            )
        entries = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if op.entry_hook is not None:
            try:
                entries = [op.entry_hook(entry) for entry in entries]
            except (TypeError, ValueError) as error:
                raise widened(type(error)(f"{op.title}: {data}: {error}")) from None
        lists.append(entries)
    if "sizes" in op.arguments:
        given["sizes"] = [len(inputs) for inputs in lists]
    return [value for inputs in lists for value in inputs], given


def bind(op: OpDef, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Call:
    """Checks a call against the declaration; all bad arguments are reported at once."""
    call = Call(op, (), {}, {}, origin=user_origin())
    problems: list[Exception] = []
    given = list(inputs)
    keywords = _by_present_names(op, keywords, problems)
    if op.positional and not op.inputs:
        named = dict(zip(op.positional, given))
        problems += [ValueError(f"got several values for the argument {name!r}") for name in named if name in keywords]
        keywords = {**named, **keywords}
        if len(given) > len(op.positional):
            most = count_of(len(op.positional), "positional argument")
            problems.append(ValueError(f"takes at most {most}, got {len(given)}: give the others by name"))
        given = []
    while given and given[-1] is None and len(given) > op.min_inputs:
        given.pop()
    if not op.min_inputs <= len(given) <= op.max_inputs:
        expected = str(op.min_inputs) if op.min_inputs == op.max_inputs else f"from {op.min_inputs} to {op.max_inputs}"
        by_name = "" if op.max_inputs else ": give its arguments by name"
        problems.append(ValueError(f"expects {expected} inputs, but received {len(given)}{by_name}"))
    call.inputs = tuple(given)
    allowed = universal(op)
    members = input_set_size(given)
    for name, param in op.arguments.items():
        value = keywords.get(name)
        if value is None:  # the argument is not given
            if param.required:
                meaning = f": {param.meaning}" if param.meaning else ""
                problems.append(BadArgument(f"argument {name!r} is required ({describe_kind(param)}){meaning}"))
            continue
        value = value.array if isinstance(value, TensorCPU) else value
        per_sample = isinstance(value, (Node, TensorListCPU))
        if per_sample and param.role is not Role.ARG:
            problems.append(BadArgument(f"argument {name!r} must be a constant: it cannot vary from sample to sample"))
        elif per_sample:
            call.arguments[name] = value
        else:
            one_each = members and isinstance(value, (list, tuple)) and param.type not in ("ints", "floats", Any)
            try:
                if one_each and len(value) == members:
                    call.members[name] = [constant_of(param, item) for item in value]
                else:
                    call.constants[name] = _made(op, constant_of(param, value))
            except (TypeError, ValueError) as error:
                problems.append(refused(BadArgument, param, error))
    for name, value in keywords.items():
        if name in op.arguments:
            continue
        if name in allowed:
            try:
                _bind_universal(call, name, value)
            except (TypeError, ValueError) as error:
                problems.append(refused(BadArgument, allowed[name], error))
        elif name in ("key", "rng") and op.random:
            call.key = value.value if isinstance(value, seeds.Key) else _key_from(value)
        elif name == "seed":
            if value is not None:
                text = (
                    f'{op.title}: The argument "seed" should not be used with operators that don\'t use random numbers.'
                )
                warnings.warn(text, DeprecationWarning, stacklevel=outside_package())
        elif name not in op.no_effect and name not in NO_EFFECT:
            problems.append(_unknown(op, name))
    if not problems and op.check_hook is not None:
        values = {**call.constants, **dict.fromkeys(call.arguments, UNKNOWN)}
        try:
            op.check_hook(op.known(values))
        except UnknownValue:
            pass
        except (TypeError, ValueError) as error:
            problems.append(widened(error))
    if problems:
        raise _all_problems(call, problems)
    return call


def check_names(op: OpDef, names: Iterable[str]) -> None:
    """Refuses arguments that an operator does not have, with any value."""
    random = ("key", "rng") if op.random else ()
    known = {*op.arguments, *universal(op), *op.no_effect, *NO_EFFECT, *random, *op.former, "seed"}
    for name in names:
        if name not in known:
            raise _unknown(op, name)


def _unknown(op: OpDef, name: str) -> UnknownArgument:
    near = nearest(name, [*op.arguments, *universal(op)])
    return UnknownArgument(f'Argument "{name}" is not defined for operator "{op.ops_name}"{near}')


def _by_present_names(op: OpDef, keywords: Mapping[str, Any], problems: list[Exception]) -> Mapping[str, Any]:
    """The keywords with present names in place of former ones, with a warning for each."""
    for former, present in op.former.items():
        if former in keywords:
            if present in keywords:
                problems.append(TypeError(f"argument {former!r} is the former name of {present!r}: give one of them"))
            text = f"{op.title}: the argument {former!r} is called {present!r} now"
            warnings.warn(text, DeprecationWarning, stacklevel=outside_package())
            keywords = {present: keywords[former], **{name: x for name, x in keywords.items() if name != former}}
    return keywords


def outside_package() -> int:
    """The ``stacklevel`` with which a warning by the caller of this function names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pipeflow"):
        frame, level = frame.f_back, level + 1
    return level


def _key_from(value: Any) -> int:
    if isinstance(value, np.random.Generator):
        return int(value.integers(0, 1 << 64, dtype=np.uint64))
    return _operator.index(value) & ((1 << 64) - 1)


def _bind_universal(call: Call, name: str, value: Any) -> None:
    if value is None:
        return
    if name == "name":
        call.name = convert(str, value)
    elif name == "device":
        if value not in ("cpu", "gpu", "mixed"):
            raise ValueError(f"must be 'cpu', 'gpu' or 'mixed', got {value!r}")
        call.device = value
    elif name == "preserve":
        call.preserve = convert(bool, value)
    elif name == "seed":
        seed = convert(int, value)
        call.seed = None if seed < 0 else seed
    elif name == "on_error":
        call.on_error = check_rule(value)
    else:
        hint = convert("ints", value)
        if any(size < 0 for size in hint):
            raise ValueError(f"must not be negative, got {value!r}")
        if any(size > LARGEST_HINT for size in hint):
            raise ValueError(f"{value!r} bytes for one sample are more than any machine has: at most 2**40")
        call.hint = hint


def check_rule(value: Any) -> Any:
    """The value of ``on_error``, after a check that it is a rule."""
    if isinstance(value, str) and value not in ("raise", "skip", "replace"):
        raise ValueError(f"must be 'raise', 'skip', 'replace', a value or a function, got {value!r}")
    return value


def _all_problems(call: Call, problems: Sequence[Exception]) -> Exception:
    first, others = problems[0], problems[1:]
    error = type(first)(f"{call.op.title}: {first}")
    notes = [*getattr(first, "__notes__", ())]
    for problem in others:
        notes += [f"also: {problem}", *getattr(problem, "__notes__", ())]
    notes.append(f"signature: {call.op.title}{call.op.__signature__}")
    if call.origin is not None:
        notes.append(call.origin.describe())
    add_notes(error, notes)
    return error


def _made(op: OpDef, value: Any) -> Any:
    """The value of an argument, refused if it is a complex type and the operator has no complex results."""
    if isinstance(value, np.dtype) and value.kind == "c" and op.factory is None and value not in op.dtypes:
        raise UnsupportedType(f"{op.title} makes no {value}")
    return value
