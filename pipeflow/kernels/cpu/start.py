"""The start of a process: the usual image kernels have a form in NumPy, which is used until the compiled form is ready.

The rule: a pipeline begins with the NumPy forms if its kernels are not in memory. To load them takes a third of a second, to
compile them several seconds. After the second batch a thread loads the compiled kernels; if no process of this user has compiled
them before, another process compiles them first. Then both forms of each kernel run on noise in this process. If both results
are equal, bit by bit, the kernel is used from then on, also in the middle of a batch. If not, the NumPy form stays in use. So
the change has no effect on any result.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from pipeflow.kernels import cpu as kernels

log = logging.getLogger("pipeflow.kernels")

Key = tuple[Any, ...]


class Readiness:
    """The kernels of this process that may be used."""

    def __init__(self) -> None:
        self.starting = False  # NumPy works until the kernels are loaded
        self.choosing = False  # True if a call must check which form it uses
        self.ready: set[Key] = set()
        self.refused: set[Key] = set()
        self._trial = threading.local()

    def begin(self) -> None:
        """From now on the NumPy forms are used, except for the kernels that are ready."""
        self.starting = self.choosing = True

    def end(self) -> None:
        """From now on the compiled kernels are used, except for those that were refused."""
        self.starting, self.choosing = False, bool(self.refused)

    @contextmanager
    def trials(self) -> Iterator[None]:
        """A context in which the calls of this thread run both forms and compare them."""
        self._trial.on = self.choosing = True
        try:
            yield
        finally:
            self._trial.on = False
            self.choosing = self.starting or bool(self.refused)

    @property
    def in_trial(self) -> bool:
        """True for calls of this thread inside `trials`."""
        return getattr(self._trial, "on", False)


state = Readiness()


def _forget() -> None:
    """A forked child has no thread that loads kernels: it loads each kernel with its first call."""
    state.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def switched(module: str, out: int | None = None) -> Callable[[Callable], Callable]:
    """Decorates the NumPy form of a function: the result calls the function with this name in a module of kernels, if it is
    ready.

    The NumPy form returns None for arguments that it does not support. `out` is the place of the argument with the memory
    of the result; without it, the results are returned arrays.
    """

    def declare(stock: Callable[..., Any]) -> Callable[..., Any]:
        name = stock.__name__

        @wraps(stock)
        def choose(*arguments: Any) -> Any:
            compiled = getattr(getattr(kernels, module), name) if not state.starting or state.in_trial else None
            if compiled is not None and not state.choosing:
                return compiled(*arguments)
            key = (module, name, *map(_kind, arguments))
            if state.in_trial:
                return _compare(key, compiled or stock, stock, out, arguments)
            if key not in state.ready and (state.starting or key in state.refused):
                result = stock(*arguments)
                if result is not None:
                    return result
            return getattr(getattr(kernels, module), name)(*arguments)

        return choose

    return declare


def _kind(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return argument.dtype.str, argument.ndim
    return argument if isinstance(argument, bool) else type(argument).__name__


def _compare(key: Key, compiled: Callable, stock: Callable, out: int | None, arguments: tuple[Any, ...]) -> Any:
    """Runs both forms. Equal results make the kernel ready; the others are refused."""
    if out is None:
        result, expected = compiled(*arguments), stock(*arguments)
    else:
        memory = np.zeros_like(arguments[out])
        expected = stock(*arguments[:out], memory, *arguments[out + 1 :])
        result = compiled(*arguments)
    if expected is not None and not _equal(result, expected):
        log.warning("%s.%s stays with NumPy: the compiled kernel gives other values on this machine", *key[:2])
        state.refused.add(key)
    elif key not in state.refused:
        state.ready.add(key)
    return result


def _equal(result: Any, expected: Any) -> bool:
    if isinstance(result, tuple):
        return all(map(_equal, result, expected))
    return result.dtype == expected.dtype and result.shape == expected.shape and result.tobytes() == expected.tobytes()
