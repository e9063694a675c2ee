"""The terminal: its width, its colours where it has them, and progress on one line."""

import os
import shutil
import sys
import textwrap
from typing import Any, TextIO

from pipeflow import timing
from pipeflow.commands.result import Line

COLORS = {"head": "1", "good": "32", "warn": "33", "bad": "31", "faint": "2"}
EVERY = 0.1  # seconds between two states of a progress line
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
        """The line as it is printed: a paragraph is broken, on a terminal a long line is cut."""
        space = " " * line.indent
        if line.wrap:
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


class Progress:
    """Shows ``what 120/500`` on one line of a terminal; nothing if the output is a file."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._shown = -EVERY
        self._on = sys.stderr.isatty() and not os.environ.get("TQDM_DISABLE")

    def step(self, count: int = 1) -> None:
        """So many more are done."""
        self.done += count
        now = timing.wall()
        if self._on and now - self._shown >= EVERY:
            self._shown = now
            of = "" if self.total is None else f"/{self.total}"
            print(f"\r{self.what} {self.done}{of}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._on:
            print(f"\r{' ' * (columns() - 1)}\r", end="", file=sys.stderr, flush=True)


def bar(share: float, width: int) -> str:
    """A share of 1 as a bar."""
    return FULL * max(0, min(width, round(share * width)))


def shortened(text: str, room: int) -> str:
    """The text cut to so many letters."""
    return text if len(text) <= room else text[: max(0, room - 3)] + "..."
