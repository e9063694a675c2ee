"""Exception types, notes, and the user's file and line.

An exception from user code keeps its object and type, and gets notes (PEP 678). Checks of this package raise the built-in type
that DALI raises, or a subclass of it, so that programs for DALI still catch it.
"""

import difflib
import linecache
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pkgutil import resolve_name
from types import FrameType
from typing import Any

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class _PlainKeyError(KeyError):
    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class UnknownArgument(_PlainKeyError, TypeError, ValueError):
    """An operator was given an argument it does not have."""


class UnknownInput(_PlainKeyError, RuntimeError):
    """A pipeline was given data for an input that it does not have."""


class WrongIterator(ValueError, AssertionError):
    """An iterator was given arguments that do not go together."""


class NothingFed(IndexError, RuntimeError):
    """A batch needs data that was not fed."""


class UnsupportedType(TypeError, ValueError, RuntimeError):
    """Data of a type that no data has, or that the operator is not declared for."""


class OutOfRange(IndexError, RuntimeError):
    """An index is outside its axis or batch."""


class BadArgument(TypeError, ValueError, RuntimeError):
    """An argument is missing, of a wrong kind or out of its range; DALI raises one of these base classes."""


class BadValue(ValueError, RuntimeError):
    """An operator cannot work with this data and these arguments."""


class BadType(TypeError, RuntimeError):
    """An operator cannot work with data of this type."""


class DoesNotFit(OverflowError, ValueError, RuntimeError):
    """A number is too large for the type that it should have."""


class MissingFile(FileNotFoundError, RuntimeError):
    """A file that is to be read does not exist."""


class NoAxis(IndexError, ValueError, RuntimeError):
    """The data has no such axis."""


class RaggedBatch(ValueError, RuntimeError):
    """A batch with samples of different shapes cannot be one array."""


class WrongResult(TypeError, RuntimeError):
    """User code returned a value that is not an array, or the arrays of a batch have different types."""


class WrongShape(ValueError, RuntimeError):
    """There is a wrong number of values, outputs, samples or axes."""


class DivergentBranches(UserWarning, RuntimeError):
    """Warns that a batch with samples of both branches of a condition will fail; as an error it fails earlier."""


class InvalidState(RuntimeError):
    """An object was used when it cannot be: a call in the wrong order, a closed or running pipeline, after fork."""


class CheckpointingOff(InvalidState, ValueError):
    """The pipeline was made without checkpoints."""


class NoGpu(RuntimeError):
    """A pipeline has work for a GPU, but no GPU can be used; the message says why and what to do."""


class BadData(ValueError, RuntimeError):
    """A file is damaged, of an unknown format, or larger than allowed."""


@dataclass(frozen=True)
class Failed:
    """Takes the place of a sample whose call raised an exception, while the other samples continue."""

    error: BaseException


class WorkerDied(RuntimeError):
    """A worker process ended in the middle of its work; the message says how, and a new one has taken its place."""


class FunctionTimeout(TimeoutError):
    """A user function did not return within its ``timeout``."""


class TooManyFailures(RuntimeError):
    """More samples failed than ``max_failures`` allows; without it, too many in a row with no good one between them."""


class NestedStructure(TypeError, ValueError):
    """A list or tuple is used in place of a batch."""


@dataclass(frozen=True)
class Origin:
    """The place in the user's code where an operator was called."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def describe(self) -> str:
        """``called at train.py:42:  images = fn.crop(...)``"""
        text = linecache.getline(self.file, self.line).strip()
        return f"called at {self.file}:{self.line}:  {text}" if text else f"called at {self.file}:{self.line}"


def user_origin() -> Origin | None:
    """The innermost caller that is not part of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    if frame is None:
        return None
    return Origin(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def add_notes(error: BaseException, notes: Iterable[str]) -> None:
    """Attaches each note once, so that an exception object that is raised twice does not get it twice."""
    present = set(getattr(error, "__notes__", ()))
    for note in notes:
        if note not in present:
            error.add_note(note)


_WIDER: dict[type, type] = {
    ValueError: BadValue, TypeError: BadType, IndexError: OutOfRange, FileNotFoundError: MissingFile,
}  # fmt: skip


def widened(error: Exception) -> Exception:
    """An operator's error as a class that is also a subclass of the type that DALI raises; other errors unchanged.

    Operators raise Python's plain classes, which say what is wrong. DALI raises RuntimeError in most of these cases.
    """
    kind = _WIDER.get(type(error))
    if kind is None:
        return error
    names = [error.filename] if isinstance(error, OSError) and error.filename is not None else []
    wide = kind(*error.args, *names).with_traceback(error.__traceback__)
    wide.__cause__, wide.__suppress_context__ = error.__cause__, True
    add_notes(wide, getattr(error, "__notes__", ()))
    return wide


def nearest(name: str, candidates: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` or nothing."""
    match = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f" (did you mean {match[0]!r}?)" if match else ""


def function_name(function: object) -> str:
    """A readable name of any callable, with the place where it is defined."""
    inner = function
    while hasattr(inner, "func") and not hasattr(inner, "__code__"):
        inner = inner.func  # functools.partial
    inner = getattr(inner, "__func__", inner)
    name = getattr(inner, "__qualname__", None) or type(function).__qualname__
    code = getattr(inner, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def optional(path: str, purpose: str, install: str) -> Any:
    """A module or ``module:name`` of an optional library; an error says what needs it and how to install it."""
    try:
        return resolve_name(path)
    except ModuleNotFoundError as error:
        library = path.partition(":")[0].partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is installed, but a module that it needs is missing
        raise ModuleNotFoundError(f"{purpose} needs {library}: pip install {install}", name=library) from error


def count_of(number: int, noun: str, plural: str = "") -> str:
    """``1 sample``, ``2 samples``; ``1 entry``, ``2 entries``."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


# Messages about conditions and merges, while recording and while running.
CAST = "Add fn.cast(..., dtype=...)."
RESHAPE = "Give both the same number of dimensions, e.g. with fn.reshape."
LAYOUT = "Give both the same layout, e.g. with fn.transpose or fn.reshape(..., layout=...)."


def merge_error(name: str, first: str, second: str, advice: str) -> str:
    """The message for two sides that cannot be one batch; a merge also uses it if it fails while it runs."""
    found = "Divergent data found in different branches of conditional operation"
    return f"{found}: {name!r}: {first}, {second}. {advice}"


def scalar_error(what: str, got: str) -> str:
    """The message for a condition that is not one number."""
    return f"{what} must be one number per sample (0-d), got {got}. Reduce it first, e.g. fn.reductions.max(x) != 0."


def logical_error(operator: str, side: str, where: str, got: str) -> str:
    """The message for an operand of ``and`` or ``or`` that is not a scalar bool."""
    return (
        f"`{operator}` at {where} needs a scalar bool on its {side} side, got {got}; compare it (x != 0) or use & / |."
    )
