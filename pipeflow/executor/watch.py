"""Time limits for functions on this process's own threads: which call is overdue, and at which line it is.

A thread cannot be ended from outside: an exception injected into it waits for the C code it is in, and may then strike
anywhere. So the error goes to the consumer, with the line the thread hangs at, and another thread takes the place.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from pipeflow import timing
from pipeflow.compile.plan import External, Plan
from pipeflow.errors import FunctionTimeout, function_name


class Limited:
    """A function whose calls are watched; it looks like the function to whoever asks."""

    def __init__(self, function: Callable[..., Any], seconds: float, watch: "Watch") -> None:
        self.func = self.__wrapped__ = function
        self.seconds = seconds
        self._calls = watch.calls
        self._numbers = watch.numbers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        thread = threading.get_ident()
        number = self._numbers.get(thread, -1) + 1
        self._numbers[thread] = number
        self._calls[thread] = Running(thread, self, number, timing.wall())
        try:
            return self.func(*args, **kwargs)
        finally:
            self._calls.pop(thread, None)


class Running(NamedTuple):
    """A call that has not returned."""

    thread: int
    function: Limited
    number: int  # among the calls of its task
    began: float

    def left(self) -> float:
        """Seconds until it is overdue."""
        return self.function.seconds - (timing.wall() - self.began)

    def error(self) -> FunctionTimeout:
        """What the consumer is told: the function, its line, and the thread's stack from the function's frame on."""
        lines: list[traceback.FrameSummary] = []
        frame = sys._current_frames().get(self.thread)
        if frame is not None:
            stack = traceback.extract_stack(frame)
            inside = [i for i, entry in enumerate(stack) if entry.filename == __file__]
            lines = stack[inside[-1] + 1 :] if inside else []
        own = [entry for entry in lines if entry.filename == lines[0].filename]  # not inside a library it calls
        where = f" and is at {own[-1].filename}:{own[-1].lineno}" if own else ""
        error = FunctionTimeout(
            f"{function_name(self.function)} did not return within {self.function.seconds:g} s{where}; "
            "a thread cannot be ended, so it goes on beside the pipeline"
        )
        if lines:
            error.add_note("it was here:\n" + "".join(traceback.format_list(lines)).rstrip())
        return error


class Watch:
    """The limits of a plan's functions and the calls that run under them."""

    def __init__(self) -> None:
        self.calls: dict[int, Running] = {}
        self.numbers: dict[int, int] = {}  # by thread: the number of the last call of its task
        self._shortest: float | None = None

    def begin(self, thread: int) -> None:
        """A thread takes up a task: its calls are counted from zero."""
        self.numbers.pop(thread, None)

    def over(self, plan: Plan) -> Plan:
        """The same plan with every function that has a ``timeout`` watched; worker processes watch themselves."""
        externals = dict(plan.externals)
        for stage in plan.stages:
            for step in stage.steps:
                constants = dict(step.constants)
                function, seconds = constants.get("function", constants.get("func")), constants.get("timeout")
                if stage.kind != "processes" and seconds is not None and isinstance(function, External):
                    externals[function.name] = Limited(plan.externals[function.name], seconds, self)
                    self._shortest = seconds if self._shortest is None else min(self._shortest, seconds)
        return replace(plan, externals=externals)

    def patience(self) -> float | None:
        """Seconds until a call may be overdue, one that begins now included; None when nothing is limited."""
        if self._shortest is None:
            return None
        return max(0.001, min([self._shortest, *(call.left() for call in list(self.calls.values()))]))

    def overdue(self) -> list[Running]:
        """The calls whose time is over and which are not forgotten."""
        return [call for call in list(self.calls.values()) if call.left() <= 0]

    def forget(self, call: Running) -> None:
        """The call has been given up."""
        if self.calls.get(call.thread) is call:
            self.calls.pop(call.thread, None)
