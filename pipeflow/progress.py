"""Progress of slow work on one line of the terminal: by tqdm if it is installed, else a simple line.

It appears only on a terminal, after a moment, and never in CI. TQDM_DISABLE=1 turns it off.
"""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from pipeflow import timing
from pipeflow.errors import optional

PATIENCE = 0.5  # seconds of work before anything is shown
EVERY = 0.1  # seconds between two states of the line


def wanted() -> bool:
    """True if the line will probably be seen: error output is a terminal, and not in CI."""
    try:
        terminal = sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no error output, or it is closed
        return False
    return terminal and not os.environ.get("TQDM_DISABLE") and not os.environ.get("CI")


class Progress:
    """Shows the name of the work and its progress: ``with Progress("verify", 500) as progress: ... progress.step()``."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._on = wanted()
        self._lock = threading.Lock()
        self._begun = self._shown = timing.wall()
        self._bar: Any = None
        self._visible = False
        self._width = 0  # of the line, without tqdm

    def step(self, count: int = 1) -> None:
        """Counts more items as done; any thread may call it."""
        with self._lock:
            self.done += count
            now = timing.wall()
            if not self._on or now - self._begun < PATIENCE or now - self._shown < EVERY:
                return
            self._shown = now
            if not self._visible:
                self._bar = _bar(self.what, self.total)
            self._visible = True
            if self._bar is not None:
                self._bar.update(self.done - self._bar.n)
            else:
                of = "" if self.total is None else f"/{self.total}"
                line = f"{self.what} {self.done}{of}"
                self._width = len(line)
                print(f"\r{line}", end="", file=sys.stderr, flush=True)  # noqa: T201

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Removes the line; later steps show nothing."""
        if not self._on:
            return
        self._on = False
        if self._bar is not None:
            self._bar.close()
        elif self._visible:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)  # noqa: T201


def _bar(what: str, total: int | None) -> Any:
    """A bar of tqdm that is removed at its end; None if tqdm is not installed."""
    try:
        tqdm = optional("tqdm:tqdm", "a progress bar", "tqdm")
    except ModuleNotFoundError:
        return None
    return tqdm(total=total, desc=what, leave=False, file=sys.stderr, dynamic_ncols=True, mininterval=0)


def over(items: Iterable[Any], what: str, total: int | None = None) -> Iterator[Any]:
    """The items, in order; the line shows how many were taken."""
    with Progress(what, total) as progress:
        for item in items:
            yield item
            progress.step()
