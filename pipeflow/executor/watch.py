"""Time limits for functions in threads of this process: the calls that are overdue, and their lines.

A thread cannot be ended from outside: an injected exception waits for the C code to return, and may then be raised
anywhere. So the consumer gets the error, with the line at which the thread hangs, and another thread replaces it.
"""

import gc
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

from pipeflow import timing
from pipeflow.errors import FunctionTimeout, function_name
from pipeflow.plan import External, Plan


class Limited:
    """A function whose calls are watched. Its attributes are those of the function."""

    def __init__(self, function: Callable[..., Any], seconds: float, watch: "Watch") -> None:
        self.func = self.__wrapped__ = function
        self.seconds = seconds
        self._calls = watch.calls
        self._numbers = watch.numbers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        thread = threading.get_ident()
        number = self._numbers.get(thread, -1) + 1
        self._numbers[thread] = number
        self._calls[thread] = RunningCall(thread, self, number, timing.wall())
        try:
            return self.func(*args, **kwargs)
        finally:
            self._calls.pop(thread, None)


def frame_of(thread: int) -> FrameType | None:
    """The frame in which a thread is now.

    Python 3.11 takes a lock for this, and stops for ever if it collects garbage at the same moment and an object that is
    specific to a thread is among it (python/cpython#106883). So it does not collect here.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)
    finally:
        if collecting:
            gc.enable()


class RunningCall(NamedTuple):
    """A call that has not returned."""

    thread: int
    function: Limited
    number: int  # among the calls of its task
    began: float

    def left(self) -> float:
        """Seconds until it is overdue."""
        return self.function.seconds - (timing.wall() - self.began)

    def error(self) -> FunctionTimeout:
        """The error for the consumer: the function, its line, and the stack of the thread from the function on."""
        lines: list[traceback.FrameSummary] = []
        frame = frame_of(self.thread)
        if frame is not None:
            stack = traceback.extract_stack(frame)
            inside = [i for i, entry in enumerate(stack) if entry.filename == __file__]
            lines = stack[inside[-1] + 1 :] if inside else []
        own = [entry for entry in lines if entry.filename == lines[0].filename]  # not inside a library it calls
        where = f" and is at {own[-1].filename}:{own[-1].lineno}" if own else ""
        error = FunctionTimeout(
            f"{function_name(self.function)} did not return within {self.function.seconds:g} s{where}; "
            "a thread cannot be ended, so it keeps running"
        )
        if lines:
            error.add_note("it was here:\n" + "".join(traceback.format_list(lines)).rstrip())
        return error


class Watch:
    """The limits of a plan's functions and the calls that run under them."""

    def __init__(self) -> None:
        self.calls: dict[int, RunningCall] = {}
        self.numbers: dict[int, int] = {}  # thread -> the number of the last call in its task
        self._shortest: float | None = None

    def begin(self, thread: int) -> None:
        """Called when a thread begins a task: its calls are counted from zero."""
        self.numbers.pop(thread, None)

    def over(self, plan: Plan) -> Plan:
        """The same plan with every function that has a ``timeout`` watched; worker processes watch themselves."""
        limited: dict[str, Any] = {}
        for stage in plan.stages:
            for step in stage.steps:
                constants = dict(step.constants)
                function, seconds = constants.get("function", constants.get("func")), constants.get("timeout")
                if stage.kind != "processes" and seconds is not None and isinstance(function, External):
                    limited[function.name] = Limited(plan.externals[function.name], seconds, self)
                    self._shortest = seconds if self._shortest is None else min(self._shortest, seconds)
        return replace(plan, externals={**plan.externals, **limited}) if limited else plan

    def patience(self) -> float | None:
        """Seconds until a call may be overdue, including one that begins now; None without limits."""
        if self._shortest is None:
            return None
        return max(0.001, min([self._shortest, *(call.left() for call in list(self.calls.values()))]))

    def overdue(self) -> list[RunningCall]:
        """The calls that have exceeded their limit and were not given up."""
        return [call for call in list(self.calls.values()) if call.left() <= 0]

    def forget(self, call: RunningCall) -> None:
        """Notes that a call has been given up."""
        if self.calls.get(call.thread) is call:
            self.calls.pop(call.thread, None)
