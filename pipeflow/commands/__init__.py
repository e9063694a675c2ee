"""The command line: ``pipeflow VERB`` and ``python -m pipeflow VERB``.

Each verb is a file of ``verbs/``; no list names them. Its first line is its help, ``arguments(parser)`` declares what
it takes, and ``run(given)`` returns a ``Result``: lines for a person, facts for a program, and the exit status.
"""

import argparse
import contextlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pipeflow.commands.result import BROKEN, INTERRUPTED, SCHEMA, Line, Refused, Result
from pipeflow.commands.screen import Screen
from pipeflow.errors import nearest
from pipeflow.version import VERSION

FOLDER = Path(__file__).parent / "verbs"
DEBUG_VARIABLE = "PIPEFLOW_DEBUG"  # any value: errors come with their traceback


def every_verb() -> list[str]:
    """The names of all verbs, from their files."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def load(verb: str) -> ModuleType:
    """The module of a verb."""
    return import_module(f"{__name__}.verbs.{verb}")


def help_of(verb: str) -> str:
    """The first line of a verb's file."""
    first = (FOLDER / f"{verb}.py").read_text(encoding="utf-8").split("\n", 1)[0]
    return first.strip('"').rstrip(".")


def overview() -> str:
    """The text that is printed without a verb."""
    width = max(map(len, every_verb()))
    lines = [f"  {verb:<{width}}  {help_of(verb)}" for verb in every_verb()]
    return "\n".join(
        [
            "usage: pipeflow VERB ...        (the same as: python -m pipeflow VERB ...)",
            "",
            *lines,
            "",
            "TARGET is a pipeline: train.py:pipe, 'train.py:pipe(root=\"data\")', package.module:pipe, or a saved graph (.json).",
            "pipeflow VERB --help lists the options of a verb. Exit status: 0 all is well, 1 something was "
            "found, 2 failed.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0 if words else BROKEN
    if words[0] == "--version":
        print(f"pipeflow {VERSION}")
        return 0
    verb = words[0]
    if verb not in every_verb():
        _complain(f"pipeflow has no verb {verb!r}{nearest(verb, every_verb())}. There are: {', '.join(every_verb())}")
        return BROKEN
    module = load(verb)
    parser = argparse.ArgumentParser(prog=f"pipeflow {verb}", description=module.__doc__, formatter_class=_Help)
    module.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one object of JSON instead of lines")
    try:
        given = parser.parse_args(words[1:])
    except SystemExit as ended:
        return int(ended.code or 0)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # the result comes first
    return _run(verb, module, given)


def words_of(error: BaseException) -> str:
    """The text of an error; for errors of Python also the type."""
    plain = type(error).__module__.startswith("pipeflow.") or isinstance(error, OSError)
    return str(error) if plain and str(error) else "".join(traceback.format_exception_only(error)).strip()


def _complain(text: str) -> None:
    """Prints an error; on a terminal a long line is broken between words."""
    screen = Screen(sys.stderr)
    for line in text.splitlines():
        print(screen.rendered(Line(line, wrap=True)) if screen.terminal else line, file=sys.stderr)


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """The text of the file without changes, and the default of every option."""


def _run(verb: str, module: ModuleType, given: argparse.Namespace) -> int:
    screen = Screen(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # text that the user's file prints is not part of the result
            result: Result = module.run(given)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Refused as error:
        result = Result([], {"error": str(error)}, BROKEN)
        if not given.json:
            _complain(f"pipeflow {verb}: {error}")
            return BROKEN
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        text = words_of(error)
        result = Result([], {"error": text}, BROKEN)
        if not given.json:
            _complain(f"pipeflow {verb}: {text}")
            notes = getattr(error, "__notes__", ())
            print(*notes, f"({DEBUG_VARIABLE}=1 prints the traceback)", sep="\n", file=sys.stderr)
            return BROKEN
    try:
        if given.json:
            print(json.dumps({"schema": SCHEMA, "verb": verb, "status": result.status, **result.facts}, indent=1))
        else:
            for line in result.lines:
                print(screen.rendered(line), flush=True)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return result.status
