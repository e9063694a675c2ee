"""Functions that are written as text for one use: repeated calls on arrays run no loops over their inputs and arguments."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from types import CodeType
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare.specs import Spec
from pipeflow.kernels import cpu as kernels

NO_KEY = object()
ALL_BITS = (1 << 64) - 1


@lru_cache(maxsize=1024)
def _code(text: str) -> CodeType:
    return compile(text, "<written by pipeflow>", "exec")  # 100 us; most texts are written often, with other names


def function(text: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `run` that a text defines; `names` are its globals."""
    exec(_code(text), names)
    run: Callable[..., Any] = names.pop("run")  # a function among its own globals would wait for the garbage collector
    return run


def _inputs(count: int) -> list[str]:
    return [f"inputs[{place}]" for place in range(count)]


def call_of_body(
    body: Callable[..., Any],
    inputs: int,
    given: Mapping[str, Any],
    make: Callable[[], Any] | None,
    convert: Callable[[Any], Any],
    owned: Callable[..., Any] | None,
) -> Callable[..., Any]:
    """``(inputs, key) -> result`` of a body with these arguments, and with memory that ``make`` makes, if any. ``convert``
    makes the result of what the body returns; ``owned`` makes a copy of a result that is a view.
    """
    names: dict[str, Any] = {"body": body, "make": make, "convert": convert, "owned": owned}
    names |= {f"_{name}": value for name, value in given.items()}
    parts = [*_inputs(inputs), *(f"{name}=_{name}" for name in given), *(["out=make()"] if make is not None else [])]
    result = f"convert(body({', '.join(parts)}))"
    return function(f"def run(inputs, key): return {f'owned({result}, inputs[0])' if owned else result}", names)


def call_of_short_form(
    short: Callable[..., Any], inputs: int, memory: Sequence[Spec] | None, draws: bool, listed: bool
) -> Callable[..., Any]:
    """``(inputs, key) -> result`` of a short form of a body, which gets memory for outputs with these Specs, if there are any.
    ``listed``: the result is a list of its outputs.
    """
    names: dict[str, Any] = {"short": short, "empty": np.empty, "ALL_BITS": ALL_BITS}
    given = _inputs(inputs)
    if memory is not None:
        outputs = []
        for place, spec in enumerate(memory):
            names[f"shape{place}"], names[f"dtype{place}"] = spec.shape, spec.dtype
            outputs.append(f"empty(shape{place}, dtype{place})")
        given.append(outputs[0] if not listed else f"({''.join(f'{output}, ' for output in outputs)})")
    if draws:
        # `seeds.first_key`, in machine code if the compiler is loaded
        names["first_key"] = kernels.keys.first_key() if "numba" in sys.modules else seeds.first_key
        given.append("first_key(key & ALL_BITS)")
    result = f"short({', '.join(given)})"
    return function(f"def run(inputs, key): return {f'[*{result}]' if listed else result}", names)


INTEGERS = {int}
FEW = 8  # the most items of a list that are compared by lines of their own


def same_call(
    inputs: Sequence[np.ndarray],
    keywords: Mapping[str, Any],
    random: bool,
    run: Callable[..., Any],
    with_new_key: Callable[..., Any],
) -> Callable[..., Any]:
    """``(inputs, keywords) -> result`` of ``run`` for arrays of these shapes and types and the very objects of these arguments,
    such as constants in a loop. It returns None for another call, and after an error, which the complete call reports.

    The items of a list are compared: the same list may have others in a later call, and a new one the same. Whole numbers, and
    tuples of them, are often computed for a call, such as the extents of a window, so others of the same values are the same.
    """
    names: dict[str, Any] = {"ndarray": np.ndarray, "NO_KEY": NO_KEY, "is_": is_, "with_new_key": with_new_key}
    names["INTEGERS"] = INTEGERS
    names["work"] = run
    needs = [f"len(inputs) == {len(inputs)}"]
    needs.append(f"len(keywords) == {len(keywords)}" + (" + (key is not NO_KEY)" if random else ""))
    for place, data in enumerate(inputs):
        names[f"shape{place}"], names[f"dtype{place}"] = data.shape, data.dtype
        needs += [f"type(x{place} := inputs[{place}]) is ndarray", f"x{place}.dtype is dtype{place}"]
        needs.append(f"x{place}.shape == shape{place}")
    for place, (name, value) in enumerate(keywords.items()):
        names[f"value{place}"] = value[:] if type(value) is list else value
        if type(value) is list:
            needs += [f"type(y{place} := keywords.get({name!r})) is list", f"len(y{place}) == {len(value)}"]
            if len(value) > FEW:
                needs.append(f"all(map(is_, y{place}, value{place}))")
                continue
            for number, item in enumerate(value):  # in a call of `map`, few items took three times as long
                names[f"value{place}_{number}"] = item
                needs.append(f"y{place}[{number}] is value{place}_{number}")
        else:
            same = f"(y{place} := keywords.get({name!r}, NO_KEY)) is value{place}"
            if type(value) is int:
                same += f" or (type(y{place}) is int and y{place} == value{place})"
            elif type(value) is tuple and set(map(type, value)) == INTEGERS:
                same += f" or (type(y{place}) is tuple and {{*map(type, y{place})}} == INTEGERS and y{place} == value{place})"
            needs.append(f"({same})")
    lines = ["def run(inputs, keywords):"]
    if random:
        lines.append('    key = keywords.get("key", NO_KEY)')
    lines += ["    try:", f"        if {' and '.join(needs)}:"]
    if random:
        lines.append("            if type(key) is int: return work(inputs, key)")
        if inputs:
            lines.append("            if key is NO_KEY: return with_new_key(work, inputs)")
    else:
        lines.append("            return work(inputs, None)")
    return function("\n".join([*lines, "    except Exception: pass"]), names)
