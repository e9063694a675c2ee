"""Measures how much a faster pipeline could speed up a script.

The script runs without changes. After some batches the pipeline returns the same batches again, without delay: the loop
is then as fast as with a pipeline that takes no time. After that the script is ended.
"""

import argparse
import contextlib
import runpy
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeflow import timing
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.commands.target import positive, told
from pipeflow.executor import Executor
from pipeflow.executor.figures import NOT_THE_BOTTLENECK
from pipeflow.progress import Progress
from pipeflow.reporting.units import seconds

WARM = 3  # batches that are not counted, in each half
KEPT = 4  # batches that are repeated
WORTH = 1.05


class Enough(BaseException):
    """Ends the script after the measurement."""


class Watched:
    """The batches of one pipeline: the first half as they are made, the others at once."""

    def __init__(self, count: int, progress: Progress) -> None:
        self.count, self.progress = count, progress
        self.made: list[tuple[float, float]] = []  # (from batch to batch, of that waiting)
        self.ready: list[float] = []
        self.last = 0.0
        self.kept: deque[Any] = deque(maxlen=KEPT)

    def take(self, take: Callable[[], Any]) -> Any:
        """One batch."""
        asked = timing.wall()
        if len(self.made) < self.count + WARM:
            delivered = take()
            now = timing.wall()
            self.made.append((now - self.last, now - asked))
            if delivered.error is None:
                self.kept.append(delivered)
        else:
            if len(self.ready) >= self.count + WARM:
                raise Enough
            self.kept.rotate(-1)
            delivered = replace(self.kept[0], ends=frozenset())
            now = timing.wall()
            self.ready.append(now - self.last)
        self.last = now
        self.progress.step()
        return delivered


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", type=positive, default=50, metavar="BATCHES", help="number of batches that are measured in each half"
    )
    parser.add_argument("script", metavar="SCRIPT", help="a training script (.py)")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="the arguments of the script")


def run(given: argparse.Namespace) -> Result:
    if not Path(given.script).is_file():
        raise Refused(f"there is no file {given.script}")
    with Progress("batch", 2 * (given.n + WARM)) as progress, watching(given.n, progress) as watched:
        _run_script(given.script, given.args)
    whole = [watch for watch in watched.values() if len(watch.ready) > WARM]
    if not whole:
        most = max((len(watch.made) for watch in watched.values()), default=0)
        raise Refused(
            f"{given.script} took {most} batches, too few: let it take at least {given.n + 2 * WARM + 1}, or choose a smaller -n"
        )
    best = max(whole, key=lambda watch: len(watch.ready))
    made = float(np.mean([lap for lap, _ in best.made[WARM:]]))
    waited = float(np.mean([wait for _, wait in best.made[WARM:]]))
    ready = float(np.mean(best.ready[WARM:]))
    return _result(given.script, made, waited, ready, len(best.ready) - WARM)


def _result(script: str, made: float, waited: float, ready: float, count: int) -> Result:
    gain = made / max(ready, 1e-9)
    facts = {
        "script": script,
        "headspace": gain,
        "batch_seconds": made,
        "exposed_wait_seconds": waited,
        "batch_seconds_with_ready_batches": ready,
        "batches": count,
    }
    if gain >= WORTH:
        first = Line(
            f"headspace {gain:.2f}: a pipeline that takes no time would make this loop {gain:.2f} times as fast", "warn"
        )
        then = f"Next: pipeflow advice {script}:PIPE says what would make the pipeline faster"
    else:
        first = Line(f"no headspace: {NOT_THE_BOTTLENECK}; this loop would not be faster with any pipeline", "good")
        then = "Next: make the step of the model faster; the pipeline keeps up with it"
    return Result(
        [
            first,
            Line(
                f"a batch every {seconds(made)}, of that {seconds(waited)} waiting for it (exposed wait {waited / made:.0%})"
            ),
            Line(f"a batch every {seconds(ready)} where batches are ready at once"),
            Line(then, "faint"),
        ],
        facts,
    )


@contextlib.contextmanager
def watching(count: int, progress: Progress) -> Iterator[dict[int, Watched]]:
    """Watches every pipeline that runs meanwhile."""
    watched: dict[int, Watched] = {}
    take = Executor.take

    def watch(executor: Any, handing: Any, ahead: int = 0, first: int = 0) -> Any:
        watch = watched.setdefault(id(executor), Watched(count, progress))
        return watch.take(partial(take, executor, handing, ahead, first))

    Executor.take = watch  # type: ignore[method-assign,assignment]
    try:
        yield watched
    finally:
        Executor.take = take  # type: ignore[method-assign]


def _run_script(script: str, args: list[str]) -> None:
    given, path = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [script, *[arg for arg in args if arg != "--"]], [str(Path(script).parent.resolve())]
    try:
        runpy.run_path(script, run_name="__main__")
    except Enough:
        pass
    except SystemExit as error:
        if error.code not in (None, 0):
            raise Refused(f"{script} ended itself with status {error.code}") from error
    except Exception as error:
        raise Refused(f"{script} failed: {told(error, Path(script))}") from error
    finally:
        sys.argv, sys.path[:] = given, path
