"""The result of a verb: lines for a person, facts for a program, and the exit status."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

FINE, FOUND, BROKEN, INTERRUPTED = 0, 1, 2, 130
SCHEMA = 1  # the version of the output of --json; it rises when a field changes its meaning or is removed

Tone = Literal["", "head", "good", "warn", "bad", "faint"]


@dataclass(frozen=True)
class Line:
    """A line of a result, or a paragraph that is wrapped at the width of the terminal."""

    text: str
    tone: Tone = ""
    indent: int = 0
    wrap: bool = False


@dataclass
class Result:
    """The output of a verb; its first line has the result."""

    lines: Iterable[Line]  # a generator returns its lines while it works
    facts: dict[str, Any] = field(default_factory=dict)
    status: int = FINE


class Refused(Exception):
    """An error that the user can correct, in one or two sentences; no traceback is shown."""
