"""The common part of the three verbs that write index files."""

import argparse
from collections.abc import Callable
from pathlib import Path

from pipeflow.commands.files import complete
from pipeflow.commands.result import Line, Refused, Result
from pipeflow.errors import count_of
from pipeflow.progress import over


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments for the data files and the index file."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="the data; with -o: one file")
    parser.add_argument("-o", "--output", metavar="INDEX", help="the index; default: the name of the file with .idx")


def run(given: argparse.Namespace, write: Callable[[str, str], int], unit: str) -> Result:
    """Writes the index of each file; a file that cannot be read to its end gets no index."""
    files = [Path(file) for file in given.files]
    if len(files) == 2 and files[1].suffix == ".idx" and not given.output:
        files, given.output = files[:1], str(files[1])  # the arguments of DALI's scripts
    if given.output and len(files) > 1:
        raise Refused(f"-o names one index and there are {len(files)} files: leave it out, and each gets NAME.idx")
    lines, facts = [], []
    for file in over(files, "index", len(files)):
        if not file.is_file():
            raise Refused(f"there is no file {file}")
        index = Path(given.output) if given.output else file.with_suffix(".idx")
        with complete(index) as part:
            count = write(str(file), str(part))
        lines.append(Line(f"{index}: {count_of(count, unit)} of {file}", "good"))
        facts.append({"file": str(file), "index": str(index), unit + "s": count})
    return Result(lines, {"indexes": facts})
