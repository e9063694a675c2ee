"""Which local variables of a function have only objects that the call itself has made.

``count = 0`` and ``count += 1`` change nothing outside of the call, whatever is added: the first sum is a new object. An
argument, an item of something, or the result of another function may be an object that others have too.
"""

import dis
import inspect
from collections.abc import Sequence
from types import CodeType
from typing import NamedTuple

# Their results are new objects, or cannot be changed.
_MAKERS = (
    *("LOAD_CONST", "LOAD_SMALL_INT", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "COMPARE_OP", "IS_OP"),
    *("CONTAINS_OP", "BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_MAP", "BUILD_STRING", "LIST_EXTEND"),
    *("SET_UPDATE", "FORMAT_VALUE", "FORMAT_SIMPLE"),
)
_LOADS = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")


class _HalfInstruction(NamedTuple):
    """An instruction; of one that does two things, one of them."""

    operation: str
    value: object
    text: str
    reached: bool  # a jump leads to it


def own_names(code: CodeType, instructions: Sequence[dis.Instruction]) -> frozenset[str]:
    """The local variables of this kind."""
    parts = [part for instruction in instructions for part in _parts_of(instruction)]
    makers: dict[str, list[_HalfInstruction | None]] = {}  # variable -> what makes its values
    for place, part in enumerate(parts):
        if part.operation.startswith(("STORE_FAST", "LOAD_FAST_AND_CLEAR")):
            makers.setdefault(str(part.value), []).append(_maker(parts, place))
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    own = makers.keys() - {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]}
    while lost := {name for name in own if not all(_is_new(maker, name, own) for maker in makers[name])}:
        own -= lost
    return frozenset(own)


def changed_name(after: dis.Instruction) -> str:
    """The local variable whose object an operation in place changes, by the instruction after it; "" for anything else."""
    (part, *_) = _parts_of(after)
    return str(part.value) if part.operation == "STORE_FAST" else ""


def is_in_place(instruction: dis.Instruction) -> bool:
    """True for the operation of ``name += x`` and the like."""
    return instruction.opname == "BINARY_OP" and "=" in instruction.argrepr


def _parts_of(instruction: dis.Instruction) -> list[_HalfInstruction]:
    reached = bool(instruction.is_jump_target)
    operation, value = instruction.opname, instruction.argval
    if isinstance(value, tuple) and operation.startswith("STORE_FAST_"):  # two variables, one after the other
        second = operation.removeprefix("STORE_FAST_")
        return [_HalfInstruction("STORE_FAST", value[0], "", reached), _HalfInstruction(second, value[1], "", False)]
    return [_HalfInstruction(operation, value, instruction.argrepr, reached)]


def _maker(parts: Sequence[_HalfInstruction], place: int) -> _HalfInstruction | None:
    """What makes the value that is stored at a place; None if that is not clear: jumps lead there with other values."""
    while not parts[place].reached:
        before = parts[place - 1]
        if before.operation == "STORE_FAST" and parts[place - 2].operation == "COPY":  # a = b = value
            place -= 1
        elif before.operation != "COPY":
            return before
        place -= 1
    return None


def _is_new(maker: _HalfInstruction | None, name: str, own: set[str]) -> bool:
    if maker is None:
        return False
    if maker.operation in _LOADS:
        return maker.value in own
    if maker.operation == "BINARY_OP":  # in place, it changes and returns the object that the name has
        return name in own if "=" in maker.text else maker.text != "[]"
    return maker.operation in _MAKERS
