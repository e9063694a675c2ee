"""One interface for every kind of source of fn.external_source: a callable, an iterable, a generator function."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from pipeflow import types
from pipeflow.declare import Request
from pipeflow.errors import InvalidState, function_name
from pipeflow.operators.functions.compiling import changes_nothing
from pipeflow.operators.functions.state import keeps_data


class Callback:
    """One interface for every kind of source: callables of 0 or 1 argument, iterables, generator functions."""

    def __init__(self, source: Any, per_sample: bool, batch_info: bool, cycle: Any) -> None:
        self.source = source
        self.per_sample = per_sample
        self.batch_info = batch_info
        self.cycle = {None: "no", False: "no", True: "quiet"}.get(cycle, cycle)
        self.rewinds = cycle is None
        self.takes_info = False
        self._iterator: Iterator[Any] | None = None
        self._exhausted = False
        self._taken = 0
        self._pulling = False  # True if an item has been requested and not been counted
        self._restartable: Callable[[], Iterator[Any]] | None = None
        iterable = hasattr(source, "__iter__") or hasattr(source, "__getitem__")
        if inspect.isgeneratorfunction(source) and not _parameters(source):
            self._restartable = source
        elif callable(source) and (not iterable or isinstance(source, type)):
            number = len(_parameters(source))
            if number > 1:
                raise TypeError(
                    "The `source` callable must accept either 0 or 1 positional arguments to indicate whether it accepts the "
                    f"batch or sample indexing information; {function_name(source)} takes {number}"
                )
            if cycle is not None:
                raise ValueError(
                    "cycle is for iterables and generator functions; a callable decides itself when it ends"
                )
            self.takes_info = number == 1
            return
        elif iterable and not isinstance(source, (str, bytes, dict, type)):
            if inspect.isgenerator(source) and self.cycle in ("quiet", "raise"):
                raise TypeError(
                    "Cannot cycle through a generator: pass the generator function itself, or a list, as `source`"
                )
            self._restartable = functools.partial(iter, source)
        else:
            raise TypeError(
                f"The `source` must be callable, iterable or a parameterless generator function, got {source!r}"
            )

    @property
    def iterates(self) -> bool:
        """True if items come one after another, from an iterator."""
        return self._restartable is not None

    @property
    def repeats(self) -> bool:
        """True if any thread may call the source, and once more for the same batch, and nothing notices it."""
        return keeps_data(self.source) if self.iterates else changes_nothing(self.source)

    @property
    def starts_over(self) -> bool:
        """True if ``rewind`` goes back to the first item."""
        return self.rewinds and not self._once

    def batch(self, request: Request) -> Any:
        """A whole batch."""
        if self._restartable is not None:
            return self._advance()
        if not self.takes_info:
            return self._call()
        info = types.BatchInfo(request.iteration, request.epoch) if self.batch_info else request.iteration
        return self._call(info)

    def samples(self, request: Request) -> tuple[list[Any], dict[int, Exception]]:
        """The samples of a batch, and the errors of samples for which a callable failed. The last batch of an epoch may be
        shorter.
        """
        rows: list[Any] = []
        failures: dict[int, Exception] = {}
        if self._exhausted:
            raise StopIteration
        for index in range(request.batch_size):
            try:
                if self._restartable is not None:
                    rows.append(self._advance())
                elif self.takes_info:
                    rows.append(
                        self._call(types.SampleInfo(request.position + index, index, request.iteration, request.epoch))
                    )
                else:
                    rows.append(self._call())
            except StopIteration:
                if not rows:
                    raise
                self._exhausted = not getattr(self.source, "batches_vary", False)
                break
            except Exception as error:
                if self._restartable is not None:
                    raise  # a generator that has raised an error gives no more items
                failures[index] = error
                rows.append(None)
        return rows, failures

    def _call(self, *info: Any) -> Any:
        return self.source(*info)

    def _advance(self) -> Any:
        assert self._restartable is not None
        if self._iterator is None:
            self._iterator, self._taken = self._restartable(), 0
        self._pulling = True
        try:
            value = next(self._iterator)
        except Exception as error:
            if not isinstance(error, StopIteration) or self.cycle != "quiet" or not self._taken:
                self._pulling = False
                raise
            self._iterator, self._taken = self._restartable(), 0
            value = next(self._iterator)
        self._taken += 1
        self._pulling = False
        return value

    def reset(self) -> None:
        """Starts a new epoch."""
        self._exhausted = False
        if self.cycle == "raise":
            self._iterator, self._taken = None, 0

    @property
    def _once(self) -> bool:
        """True if the data can be read only once: an iterator, not an object that makes one."""
        return self._restartable is not None and not callable(self.source) and iter(self.source) is self.source

    def rewind(self) -> None:
        """Restarts data without a ``cycle``."""
        if self.starts_over:
            self._iterator, self._taken = None, 0

    def unsaveable(self) -> str:
        """The reason why a checkpoint cannot have the position of this source; "" if it can."""
        if self._restartable is not None or self.takes_info or hasattr(self.source, "get_state"):
            return ""
        return (
            f"{function_name(self.source)} takes no argument and has no get_state(): let it take the iteration number "
            "(or SampleInfo), or give it get_state() and set_state(state)"
        )

    def unseekable(self) -> str:
        """The reason why it cannot go to a batch; "" if it can."""
        if self.takes_info and not hasattr(self.source, "get_state"):
            return ""
        return (
            f"{function_name(self.source)} gives its batches one after another; let it be a callable that takes the "
            "iteration number (or SampleInfo) and keeps no state"
        )

    def left(self, state: Any) -> float | None:
        """The number of items left after a state; None if it is not known."""
        if self.cycle == "quiet":
            return math.inf
        if self._restartable is None or not hasattr(self.source, "__len__") or not state:
            return None
        rest = len(self.source) - state["taken"]
        again = self.rewinds or self.cycle == "raise"
        return rest if rest > 0 or not again else len(self.source)

    def state(self) -> Any:
        """The position of an iterator; a callable that receives its index has no state."""
        if self._restartable is None and not self._exhausted:
            return None
        return {"taken": self._taken, "exhausted": self._exhausted}

    def restore(self, state: Any) -> None:
        """Restores a saved state."""
        self._exhausted = bool(state and state.get("exhausted"))
        if self._restartable is None:
            return
        taken = state.get("taken", 0) if state and "source" not in state else 0
        pulling, self._pulling = self._pulling, False
        if self._once and pulling:
            raise InvalidState(
                f"{function_name(self.source)} is an iterator that was interrupted while it gave an item, and cannot go back: "
                "give external_source the function or list that it comes from"
            )
        if self._once and taken >= self._taken:
            taken -= self._taken
        elif self._once:
            raise InvalidState(
                f"{function_name(self.source)} is an iterator that has already gone on and cannot go back: give external_source "
                "the function or list that it comes from"
            )
        else:
            self._iterator, self._taken = None, 0
            if taken and type(self.source) is list:  # a list can continue at any index
                self._iterator, self._taken = iter(self.source), taken
                self._iterator.__setstate__(taken)  # type: ignore[attr-defined]  # iterators of lists go to an index by it
                return
        for _ in range(taken):
            self._advance()


def _parameters(source: Any) -> list[str]:
    """The positional parameters that a call passes: those without a default, or the only one.

    As in DALI, `def batch(index=0)` gets the index. If the default is data, as in `lambda array=array: [array]`, it is kept.
    """
    if type(source) is FunctionType and not (source.__defaults__ or source.__kwdefaults__ or source.__dict__):
        return list(source.__code__.co_varnames[: source.__code__.co_argcount])  # a tenth of the time
    try:
        signature = inspect.signature(source)
    except (TypeError, ValueError):
        return []
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in positional if p.default is p.empty]
    if len(parameters) == 1 and not isinstance(source, functools.partial):
        return required or [p.name for p in positional if isinstance(p.default, (int, float, type(None)))]
    return required
