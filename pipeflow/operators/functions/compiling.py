"""The argument ``jit`` of fn.python_function: False, True, "auto" or "auto:1e-6"."""

import weakref
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

from pipeflow.kernels import cpu as kernels
from pipeflow.operators.functions.state import FunctionState, state_of

AUTO = "auto"


def is_auto(jit: Any) -> bool:
    """True if compiled code is tried, and used only if it gives the same results."""
    return isinstance(jit, str)


def tolerance_of(jit: "bool | str") -> float | None:
    """The accepted difference of ``jit="auto:1e-6"``; None if every bit must be the same."""
    _, _, number = jit.partition(":") if isinstance(jit, str) else ("", "", "")
    return float(number) if number else None


def check_jit(jit: Any) -> None:
    """Raises an error unless the value is one that ``jit`` can have."""
    if isinstance(jit, bool) or jit in (0, 1):
        return
    if isinstance(jit, str):
        word, colon, number = jit.partition(":")
        try:
            if word == AUTO and (not colon or 0 < float(number) < float("inf")):
                return
        except ValueError:
            pass
        raise ValueError(f"jit must be True, False, 'auto', or 'auto:1e-6' with a positive tolerance, got {jit!r}")
    raise TypeError(f"jit must be a bool or 'auto', got {type(jit).__name__} {jit!r}")


_functions_read = 0  # it grows with each new function


def _state(function: Callable[..., Any]) -> FunctionState:
    """The state of a function; of other objects, which may not be hashable, the reason why it is not known."""
    if not isinstance(function, FunctionType):
        return state_of(function)
    found = _known_state(function, 0)
    # A function that is made later may change an object that this one uses.
    return _known_state(function, _functions_read) if found.shared and not found.reason else found


@lru_cache(maxsize=256)
def _known_state(function: FunctionType, functions_read: int) -> FunctionState:
    """The state as it was when so many functions had been read."""
    if not functions_read:
        _note_new_function()
    return state_of(function)


def _note_new_function() -> None:
    global _functions_read
    _functions_read += 1


def _tried(function: Callable[..., Any], tolerance: float | None) -> Any:
    """The function with its trials; None if it is not tried because it may keep state, or is no plain function."""
    return (
        None if _state(function).reason or not isinstance(function, FunctionType) else _known_tried(function, tolerance)
    )


@lru_cache(maxsize=256)
def _known_tried(function: Callable[..., Any], tolerance: float | None) -> Any:
    """The function with its trials, the same for every pipeline."""
    return kernels.tried_functions.Tried(function, tolerance, _state(function).uses)


def version_of(function: Callable[..., Any], jit: "bool | str") -> Callable[..., Any]:
    """The function that is called in place of the user's."""
    if is_auto(jit):
        return _tried(function, tolerance_of(jit)) or function
    return kernels.user_functions.jitted(function) if jit else function


def joins(function: Callable[..., Any], jit: "bool | str") -> bool:
    """True if the calls may run on all threads: for compiled code, and with "auto" for functions without state."""
    return _state(function).any_order if is_auto(jit) else bool(jit)


def where_calls_run(function: Callable[..., Any], parallel: str) -> str:
    """The value of ``parallel``; "auto" is "threads" for a function without state, else "serial"."""
    if parallel != AUTO:
        return parallel
    return "threads" if _state(function).any_order else "serial"


# The references are weak, so that no function is kept alive.
_changes_nothing: "weakref.WeakKeyDictionary[FunctionType, bool]" = weakref.WeakKeyDictionary()


def changes_nothing(function: Callable[..., Any]) -> bool:
    """True if the code of a function shows that it changes no object, not even its arguments."""
    if not isinstance(function, FunctionType):
        return False
    known = _changes_nothing.get(function)
    if known is None:
        _note_new_function()
        known = _changes_nothing[function] = state_of(function).changes_nothing
    return known


def why_not_on_threads(function: Callable[..., Any]) -> str:
    """The reason why ``parallel="auto"`` calls a function for one sample after another; "" if it uses threads."""
    state = _state(function)
    if state.any_order:
        return ""
    return state.reason or f"it may change {state.shared}, which is outside of it"


def trials_of(function: Callable[..., Any], jit: "bool | str") -> list[tuple[str, str]]:
    """For ``jit="auto"``: the state of each trial, and the reason if the function runs as plain Python."""
    found = _tried(function, tolerance_of(jit))
    if found is None:
        reason = _state(function).reason
        return [("plain", f"it may keep state: {reason}" if reason else "it is not a plain function")]
    return [
        (report.state, f"{report.reason}; {report.sample}" if report.sample else report.reason)
        for report in found.reports()
    ]
