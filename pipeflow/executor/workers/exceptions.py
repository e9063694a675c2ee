"""Sends exceptions from worker processes to this one.

An exception is packed into plain data in the worker and rebuilt here: the same class, arguments, attributes, notes,
cause and context, and a traceback that shows the user's files and lines. Objects that cannot be sent are replaced by their text
and listed in a note. Rebuilding avoids calling the class if it can, because an exception whose `__init__` has other parameters
pickles but does not load.
"""

import builtins
import os
import pickle
import traceback
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeflow.saving.functions import dumps_value

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


@dataclass
class PackedException:
    """One exception as plain data; `whole`, `cls`, `args` and `attributes` are pickles that were loaded once as a test."""

    module: str
    name: str
    text: str
    builtin_base: str
    escapes: bool
    whole: bytes | None = None
    cls: bytes | None = None
    args: list[tuple[bytes | None, str]] = field(default_factory=list)
    attributes: dict[str, bytes] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    cause: "PackedException | None" = None
    context: "PackedException | None" = None
    suppress_context: bool = False
    members: "tuple[str, list[PackedException]] | None" = None


def pack_exception(error: BaseException, _seen: tuple[int, ...] = ()) -> PackedException:
    """Turns an exception, with all that it refers to, into plain data."""
    kind = type(error)
    seen = (*_seen, id(error))
    packed = PackedException(
        module=kind.__module__,
        name=kind.__qualname__,
        text=_text_of(error),
        builtin_base=next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"),
        escapes=not isinstance(error, Exception | BaseExceptionGroup),
        notes=[str(note) for note in getattr(error, "__notes__", ())],
        frames=_user_frames(error.__traceback__),
        suppress_context=error.__suppress_context__,
        cause=_pack_linked(error.__cause__, seen),
        context=_pack_linked(error.__context__, seen),
    )
    if isinstance(error, BaseExceptionGroup):
        packed.members = error.message, [pack_exception(member, seen) for member in error.exceptions]
    else:
        packed.whole = _travels(error, like=error)
    if packed.whole is None:
        packed.cls = _travels(kind)
        packed.args = [(_travels(value), _repr_of(value)) for value in error.args]
        for name, value in vars(error).items():
            if name != "__notes__":
                pickled = _travels(value)
                if pickled is None:
                    packed.lost.append(name)
                else:
                    packed.attributes[name] = pickled
    return packed


def unpack_exception(packed: PackedException) -> BaseException:
    """Builds the exception again; one that would end this process silently becomes a RuntimeError."""
    error = _build(packed)
    for note in packed.notes:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    if packed.lost:
        error.add_note("attributes that could not leave the worker process: " + ", ".join(packed.lost))
    error.__cause__ = unpack_exception(packed.cause) if packed.cause else None
    error.__context__ = unpack_exception(packed.context) if packed.context else None
    error.__suppress_context__ = packed.suppress_context
    return error.with_traceback(_rebuild_traceback(packed.frames))


def _pack_linked(error: BaseException | None, seen: tuple[int, ...]) -> PackedException | None:
    return None if error is None or id(error) in seen else pack_exception(error, seen)


def _travels(value: Any, like: BaseException | None = None) -> bytes | None:
    """The pickle of a value, if it can be loaded; for an exception, if it has the same type and arguments then."""
    try:
        data = dumps_value(value)
        back = pickle.loads(data)
        if like is not None and (type(back) is not type(like) or _repr_of(back.args) != _repr_of(like.args)):
            return None
    except BaseException:
        return None
    return data


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as failure:
        return f"<its text cannot be made: {type(failure).__name__}>"


def _repr_of(value: Any) -> str:
    try:
        return repr(value)
    except BaseException as failure:
        return f"<{type(value).__name__} whose repr fails with {type(failure).__name__}>"


def _user_frames(trace: types.TracebackType | None) -> list[tuple[str, int, str]]:
    """The lines of a traceback from the first one outside this package on."""
    frames = [(frame.f_code.co_filename, line or 1, frame.f_code.co_name) for frame, line in traceback.walk_tb(trace)]
    outside = [i for i, (file, _, _) in enumerate(frames) if not file.startswith(_PACKAGE)]
    return frames[outside[0] :] if outside else frames


def _build(packed: PackedException) -> BaseException:
    if packed.escapes:
        arguments = ", ".join(text for _, text in packed.args) if packed.args else packed.text
        return RuntimeError(f"the function raised {packed.name}({arguments})")
    try:
        if packed.whole is not None:
            return pickle.loads(packed.whole)
        if packed.cls is not None:
            return _build_in_parts(pickle.loads(packed.cls), packed)
    except Exception as failure:
        stand_in = _stand_in(packed)
        stand_in.add_note(f"its class could not be rebuilt in this process: {failure!r}")
        return stand_in
    return _stand_in(packed)


def _build_in_parts(cls: type[BaseException], packed: PackedException) -> BaseException:
    if packed.members is not None:
        message, members = packed.members
        error: BaseException = cls.__new__(cls, message, [unpack_exception(x) for x in members])
    else:
        args = tuple(text if data is None else pickle.loads(data) for data, text in packed.args)
        error = cls.__new__(cls, *args)
        error.args = args
        if cls.__init__ in (getattr(builtins, packed.builtin_base).__init__, Exception.__init__):
            cls.__init__(error, *args)  # fills the fields that OSError, KeyError and similar classes keep in C
    for name, data in packed.attributes.items():
        try:
            setattr(error, name, pickle.loads(data))
        except AttributeError:
            packed.lost.append(name)
    return error


def _stand_in(packed: PackedException) -> BaseException:
    """An exception that replaces one whose class exists only in the worker."""
    text = packed.text
    name = packed.name.rpartition(".")[2]
    base = getattr(builtins, packed.builtin_base)
    if packed.members is not None:
        base = Exception
    cls: type[BaseException] = type(name, (base,), {"__module__": packed.module, "__str__": lambda _: text})
    return cls(text)


def _rebuild_traceback(frames: Iterable[tuple[str, int, str]]) -> types.TracebackType | None:
    """A traceback whose entries name the given files, lines and functions."""
    trace: types.TracebackType | None = None
    for file, line, name in reversed(list(frames)):
        code = compile("\n" * (line - 1) + "raise error", file, "exec").replace(co_name=name, co_qualname=name)
        try:
            exec(code, {"error": Exception()})
        except Exception as raised:
            here = raised.__traceback__ and raised.__traceback__.tb_next
            if here is not None:
                trace = types.TracebackType(trace, here.tb_frame, here.tb_lasti, line)
    return trace
