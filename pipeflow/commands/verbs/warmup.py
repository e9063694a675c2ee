"""Compiles kernels and keeps them for every later process."""

import argparse
import os

from pipeflow import timing
from pipeflow.commands import everyday, target
from pipeflow.commands.result import FINE, FOUND, Line, Result
from pipeflow.compile.first_batches import WAITS
from pipeflow.kernels import cpu as kernels


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a pipeline whose kernels are compiled too")


def run(given: argparse.Namespace) -> Result:
    started = timing.wall()
    if given.target:
        os.environ["PIPEFLOW_START"] = WAITS  # build() compiles, and leaves nothing for the first batches
        found = target.find(given.target)
        found.again(batch_size=found.batch_size or target.BATCH_SIZE).build()
    else:
        everyday.compile_everyday()
    folder = kernels.jit.cache_folder()
    took = timing.wall() - started
    text = f"kernels are ready after {took:.1f} s, in {folder or 'memory only: no folder can be written'}"
    facts = {"seconds": took, "compiled": kernels.jit.compiled_count(), "folder": str(folder) if folder else None}
    return Result([Line(text, "good" if folder else "warn")], facts, FINE if folder else FOUND)
