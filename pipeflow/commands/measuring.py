"""The common parts of verbs that measure a pipeline: their arguments, and progress on the terminal."""

import argparse
from typing import Any

from pipeflow.commands.target import positive
from pipeflow.progress import Progress
from pipeflow.reporting import run


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments for the length of a measurement."""
    parser.add_argument("-n", type=positive, default=100, metavar="BATCHES", help="number of batches that are measured")
    parser.add_argument("--seconds", type=float, default=20.0, help="the longest time of one run")


def measured(pipe: Any, batches: int, seconds: float, what: str = "batch") -> run.Run:
    """Runs this number of batches, or as many as fit into the seconds."""
    with Progress(what, batches) as progress:
        return run.measured(pipe, batches, seconds, progress.step)
