"""The command line: ``python -m pipeflow warmup`` and ``python -m pipeflow port SCRIPT.py``."""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence

from pipeflow import porting
from pipeflow.compile import warmup
from pipeflow.kernels import cpu as kernels


def warm_up() -> int:
    """Compiles the kernels of common image pipelines and keeps them, so that no process has to wait for them."""
    started = time.perf_counter()
    warmup.everyday()
    folder = kernels.jit.cache_folder()
    print(f"kernels are ready after {time.perf_counter() - started:.1f} s, in {folder or 'memory only'}")  # noqa: T201
    return 0 if folder else 1


def port(files: Sequence[str], write: bool) -> int:
    """Says of every name of DALI in scripts and notebooks whether it is here, here with a difference, or absent."""
    return max(porting.port(file, write) for file in files)


COMMANDS: dict[str, Callable[..., int]] = {"warmup": warm_up, "port": port}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipeflow", description="Tools around pipeflow's pipelines.")
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {
        name: commands.add_parser(name, help=(function.__doc__ or "").split("\n")[0], description=function.__doc__)
        for name, function in COMMANDS.items()
    }
    parsers["port"].add_argument("files", nargs="+", metavar="FILE", help="a script (.py) or a notebook (.ipynb)")
    parsers["port"].add_argument("--write", action="store_true", help="change the imports in the files")
    given = vars(parser.parse_args(arguments))
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return COMMANDS[given.pop("command")](**given)


if __name__ == "__main__":
    sys.exit(main())
