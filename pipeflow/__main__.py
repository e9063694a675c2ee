"""The command line: ``python -m pipeflow warmup``."""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence

from pipeflow.compile import warmup
from pipeflow.kernels import cpu as kernels


def warm_up() -> int:
    """Compiles the kernels of common image pipelines and keeps them, so that no process has to wait for them."""
    started = time.perf_counter()
    warmup.everyday()
    folder = kernels.jit.cache_folder()
    print(f"kernels are ready after {time.perf_counter() - started:.1f} s, in {folder or 'memory only'}")  # noqa: T201
    return 0 if folder else 1


COMMANDS: dict[str, Callable[[], int]] = {"warmup": warm_up}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipeflow", description="Tools around pipeflow's pipelines.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in COMMANDS.items():
        commands.add_parser(name, help=(function.__doc__ or "").split("\n")[0], description=function.__doc__)
    chosen = parser.parse_args(arguments).command
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return COMMANDS[chosen]()


if __name__ == "__main__":
    sys.exit(main())
