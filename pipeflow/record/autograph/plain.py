"""The hooks that converted code calls while nothing is recorded: they behave like plain Python.

record/conditional has the hooks for conditions on DataNodes.
"""

from contextvars import ContextVar
from typing import Any

UNSET: Any = type("Unset", (), {"__repr__": lambda _: "<no value>"})()


class PlainBranch:
    """A condition on a plain Python value: one of the two sides runs and nothing is merged."""

    node = False

    def __init__(self, value: Any, kind: str) -> None:
        self.value, self.kind, self.truth = value, kind, bool(value)

    def then(self, _: Any) -> bool:
        """True if the first side has to run; for ``and`` and ``or``, if the right operand has to be evaluated."""
        return self.truth != (self.kind == "or")

    def other(self, _: Any) -> bool:
        """True if the second side has to run."""
        return not self.truth

    def end(self, first: Any, second: Any = UNSET) -> Any:
        """The value of an expression; for a statement False, because there is nothing to reload."""
        if self.kind == "if":
            return False
        if self.kind == "ternary":
            return first if self.truth else second
        return self.value if first is UNSET else first


class Flow:
    """The returns, jumps and exception handlers of plain Python: Python itself does the work."""

    alive = True
    value: Any = None

    def ret(self, value: Any) -> None:
        """Stores the returned value; from here on nothing in the function is alive."""
        self.value, self.alive = value, False

    def finish(self) -> Any:
        """The returned value."""
        return self.value

    def jump(self, _: str, __: Any) -> bool:
        """True: Python itself jumps."""
        return True

    def next(self, _: Any) -> bool:
        """Ends an iteration. False: no variable has to be reloaded."""
        return False

    begin = reset = final = end = next


class Hooks:
    """The hooks with the behaviour of plain Python. Only record/conditional uses ``where`` (the user's file and line), ``names``
    (the variables that a part changes) and ``frame`` (what the hook ``frame`` returned for the function).
    """

    U = UNSET

    def choice(self, condition: Any, where: str = "", names: tuple[str, ...] = (), frame: Any = None) -> Any:
        """The condition of an ``if`` statement."""
        return PlainBranch(condition, "if")

    def ternary(self, condition: Any, where: str = "") -> Any:
        """The condition of ``x if condition else y``."""
        return PlainBranch(condition, "ternary")

    def logical(self, left: Any, operator: str, where: str = "") -> Any:
        """The left operand of ``and`` or ``or``."""
        return PlainBranch(left, operator)

    def negation(self, value: Any, where: str = "") -> Any:
        """``not value``."""
        return not value

    def frame(self, variables: Any = (), cells: Any = ()) -> Any:
        """Called at the start of a converted function, with its local variables and those of outer functions."""
        return Flow()

    def loop(self, frame: Any, names: tuple[str, ...]) -> Any:
        """Called at the start of a loop."""
        return Flow()

    def mark(self, frame: Any) -> Any:
        """Called at the start of a statement that handles exceptions, such as ``try``."""
        return Flow()

    def subject(self, value: Any, where: str = "") -> Any:
        """The value that ``match`` compares."""
        return value

    def call(self, function: Any) -> Any:
        """The function that converted code calls in place of ``function``."""
        return function

    def own(self, variables: Any) -> Any:
        """What ``locals()``, ``vars()`` or ``dir()`` gave, without the variables that the conversion added."""
        if isinstance(variables, dict):
            return {name: value for name, value in variables.items() if not _added(name)}
        return [name for name in variables if not _added(name)]


def _added(name: str) -> bool:
    return name.startswith("__pf") or name == "__fr__"


hooks: ContextVar[Hooks] = ContextVar("pipeflow_hooks", default=Hooks())  # noqa: B039 (it has no state)


class Door:
    """The object that converted code calls. It finds the current hooks, so code that runs after a recording is plain again."""

    def __getattr__(self, name: str) -> Any:
        return getattr(hooks.get(), name)
