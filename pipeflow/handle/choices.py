"""The report of ``pipe.settings()``: every setting that changes the speed, who chose it, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeflow.errors import function_name
from pipeflow.executor import Settings
from pipeflow.operators.functions.compiling import is_auto, trials_of, where_calls_run, why_not_on_threads
from pipeflow.plan import Plan

if TYPE_CHECKING:
    from pipeflow.executor.tuning import Tuner

By = Literal["given", "default", "auto"]


@dataclass(frozen=True)
class Choice:
    """One setting: its value, who chose it, and why."""

    name: str
    value: Any
    by: By
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.value!r} ({self.by}{f': {self.reason}' if self.reason else ''})"


@dataclass(frozen=True)
class SettingsReport:
    """The settings of a pipeline; ``report["num_threads"]`` is one of them."""

    choices: tuple[Choice, ...]
    settled: bool  # False while automatic settings are still measured

    def __getitem__(self, name: str) -> Choice:
        for choice in self.choices:
            if choice.name == name:
                return choice
        raise KeyError(f"there is no setting {name!r}; there are {[choice.name for choice in self.choices]}")

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __str__(self) -> str:
        return "\n".join(map(str, self.choices))


def report_settings(settings: Settings, tuner: "Tuner | None", plan: Plan) -> SettingsReport:
    """The report of a pipeline that is built."""
    values = {
        name: getattr(settings, name) for name in ("num_threads", "prefetch_queue_depth", "py_num_workers", "memory")
    }
    defaults = Settings(batch_size=settings.batch_size)
    choices = []
    for name, value in values.items():
        automatic = name in settings.automatic
        chosen = (
            {"num_threads": tuner.kept.threads, "prefetch_queue_depth": tuner.kept.depth} if tuner is not None else {}
        )
        reason = _reason(tuner) if tuner is not None and automatic else ""
        if automatic and name == "py_num_workers":
            reason = "one for each processor"
        by: By = "auto" if automatic else "default" if value == getattr(defaults, name) else "given"
        choices.append(Choice(name, chosen.get(name, value), by, reason))
    for step in plan.steps():
        choices += _of_function({name: plan.constant(value) for name, value in step.constants}, tuner)
    return SettingsReport(tuple(choices), tuner is None or tuner.settled)


def _reason(tuner: "Tuner") -> str:
    """The reason of the settings that are kept so far."""
    tried = tuner.changes and not tuner.settled
    return "the best that were measured so far; others are still tried" if tried else tuner.reason


def _of_function(constants: dict[str, Any], tuner: "Tuner | None") -> Iterator[Choice]:
    """The automatic settings of a function."""
    function = constants.get("function")
    if not callable(function):
        return
    named = function_name(function)
    if constants.get("parallel") == "auto":
        chosen = where_calls_run(function, "auto")
        reason = why_not_on_threads(function) or "its code shows no state"
        if chosen == "threads" and tuner is not None and tuner.kept.alone:
            chosen = "serial"
            reason += "; calls at the same time " + ("would not help" if tuner.settled else "are not tried yet")
        yield Choice(f"parallel of {named}", chosen, "auto", reason)
    if is_auto(constants.get("jit")):
        for state, reason in trials_of(function, constants["jit"]) or [("not called yet", "")]:
            yield Choice(f"jit of {named}", state, "auto", reason)
