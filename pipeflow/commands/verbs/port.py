"""Lists the names of DALI in a program, and how pipeflow differs."""

import argparse
import contextlib
import io
from pathlib import Path

from pipeflow.commands import porting
from pipeflow.commands.result import Line, Refused, Result


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a script (.py) or a notebook (.ipynb)")
    parser.add_argument("--write", action="store_true", help="change the imports in the files")


def run(given: argparse.Namespace) -> Result:
    lines, facts, status = [], [], 0
    for file in given.files:
        if not Path(file).is_file():
            raise Refused(f"there is no file {file}")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            found = porting.port(file, given.write)
        status = max(status, found)
        lines += [Line(line) for line in said.getvalue().splitlines()]
        facts.append({"file": file, "status": found, "report": said.getvalue()})
    return Result(lines, {"files": facts}, status)
