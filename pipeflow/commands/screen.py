"""The terminal: its width, and its colours if it has any."""

import os
import shutil
import textwrap
from typing import TextIO

from pipeflow.commands.result import Line

COLORS = {"head": "1", "good": "32", "warn": "33", "bad": "31", "faint": "2"}
FULL, EMPTY = "#", "."


def columns() -> int:
    """The width of the terminal; 80 without a terminal."""
    return shutil.get_terminal_size((80, 24)).columns


class Screen:
    """Prints lines: with colours on a terminal, unless NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        self.terminal = stream.isatty()
        self.colors = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = columns()

    def rendered(self, line: Line) -> str:
        """The line as it is printed: results and remarks are broken, and on a terminal a long line of a table is cut."""
        space = " " * line.indent
        if line.wrap or line.tone in ("good", "warn", "faint"):
            text = textwrap.fill(
                line.text, self.width, initial_indent=space, subsequent_indent=" " * max(line.indent, 2),
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
        else:
            text = space + line.text
            if self.terminal and len(text) > self.width:
                text = text[: self.width - 3] + "..."
        if self.colors and line.tone:
            return f"\x1b[{COLORS[line.tone]}m{text}\x1b[0m"
        return text


def bar(share: float, width: int) -> str:
    """A fraction of 1 as a bar."""
    return FULL * max(0, min(width, round(share * width)))


def shortened(text: str, room: int) -> str:
    """The text cut to a number of letters."""
    return text if len(text) <= room else text[: max(0, room - 3)] + "..."
