"""The pipeline that a user names on the command line: one of a file, of a module, or a saved graph.

The file is loaded under its own name and not as ``__main__``: the code below ``if __name__ == "__main__":`` does not run.
"""

import argparse
import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeflow.commands.result import Refused
from pipeflow.errors import nearest
from pipeflow.pipeline import Pipeline

BATCH_SIZE = 16  # if the file sets none
SETTINGS = {
    "threads": "num_threads",
    "batch": "batch_size",
    "depth": "prefetch_queue_depth",
    "workers": "py_num_workers",
}


@dataclass
class NamedPipeline:
    """A pipeline and its name; ``make`` returns it again, at its beginning and with other settings."""

    name: str
    pipeline: Pipeline

    def make(self, **settings: Any) -> Pipeline:
        """The pipeline from its beginning."""
        return self.pipeline.again(**settings)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The target and the settings that may replace those of the file."""
    parser.add_argument("target", metavar="TARGET", help="train.py:pipe, package.module:pipe, or a saved graph (.json)")
    parser.add_argument("--batch-size", type=positive, metavar="N", help="instead of the batch size of the file")
    parser.add_argument("--threads", type=positive, metavar="N", help="instead of the number of threads of the file")
    parser.add_argument(
        "--trust", action="store_true", help="load all functions that a saved graph names; only for graphs you trust"
    )


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def target_of(given: argparse.Namespace) -> NamedPipeline:
    """The target that was named, with the settings that were given."""
    pipeline = find(given.target, given.trust)
    changes = {"batch_size": given.batch_size, "num_threads": given.threads}
    changes = {name: value for name, value in changes.items() if value is not None}
    if pipeline.batch_size is None and "batch_size" not in changes:
        changes["batch_size"] = BATCH_SIZE
    return NamedPipeline(given.target, pipeline.again(**changes))


def find(text: str, trust: bool = False) -> Pipeline:
    """The pipeline of a name."""
    place, name = split(text)
    if place.endswith(".json"):
        return saved(Path(place), trust)
    module = load_file(Path(place)) if place.endswith(".py") or "/" in place else load_module(place)
    return taken(module, name, place)


def split(text: str) -> tuple[str, str]:
    """``train.py:pipe`` as file and name; a name may have arguments in parentheses."""
    head, parenthesis, rest = text.partition("(")
    place, colon, name = head.rpartition(":")
    return (place, name + parenthesis + rest) if colon else (head, "")


def saved(path: Path, trust: bool) -> Pipeline:
    """The pipeline of a saved graph."""
    if not path.is_file():
        raise Refused(f"there is no file {path}")
    try:
        return Pipeline.deserialize(filename=str(path), allow_pickle=trust)
    except (ValueError, PermissionError) as error:
        hint = "" if trust else " (--trust lets it load all functions that it names)"
        raise Refused(f"{path} cannot be loaded: {error}{hint}") from error


def load_file(path: Path) -> ModuleType:
    """Runs a user's file as a module of its name."""
    if not path.is_file():
        near = sorted(str(other) for other in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise Refused(f"there is no file {path}{nearest(str(path), near)}")
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        raise Refused(f"{path} is not a Python file: name a .py file, or a graph saved as .json")
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module  # worker processes and saved graphs find its functions by this name
    sys.path.insert(0, str(path.parent.resolve()))
    given, sys.argv = sys.argv, [str(path)]
    try:
        found.loader.exec_module(module)
    except SystemExit as error:
        raise Refused(
            f"{path} called sys.exit() while it was loaded: put code that runs only as a program below "
            'if __name__ == "__main__":'
        ) from error
    except Exception as error:
        raise Refused(f"{path} cannot be loaded: {told(error, path)}") from error
    finally:
        sys.argv = given
    return module


def load_module(name: str) -> ModuleType:
    """Imports a module that is installed or in the current folder."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise Refused(
                f"there is no module {name!r}; a file is named with its ending, {name.replace('.', '/')}.py:NAME"
            ) from error
        raise Refused(f"module {name} cannot be loaded: {error}") from error
    except Exception as error:
        raise Refused(f"module {name} cannot be loaded: {told(error)}") from error


def told(error: BaseException, path: "Path | None" = None) -> str:
    """An error in one line, with the last line of the user's file that led to it."""
    words = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if path and Path(frame.filename).resolve() == path.resolve()]
    return f"line {lines[-1]}: {words}" if lines else words


def taken(module: ModuleType, wanted: str, place: str) -> Pipeline:
    """The pipeline of a module by its name; without one the only one there is."""
    known = {name: value for name, value in vars(module).items() if _is_pipeline(value)}
    if not wanted:
        if len(known) != 1:
            there = f"there are {', '.join(sorted(known))}" if known else "it has none; a @pipeline_def function is one"
            raise Refused(f"say which pipeline of {place} you mean, {place}:NAME; {there}")
        wanted = next(iter(known))
    name, args, kwargs = call_of(wanted)
    if not hasattr(module, name):
        raise Refused(f"{place} has no {name!r}{nearest(name, list(known) or list(vars(module)))}")
    value = getattr(module, name)
    if isinstance(value, Pipeline):
        return value
    if not callable(value):
        raise Refused(f"{name} of {place} is a {type(value).__name__}, no pipeline and no function that makes one")
    made = _called(value, args, kwargs, f"{place}:{name}")
    if not isinstance(made, Pipeline):
        raise Refused(f"{place}:{name} returned {type(made).__name__}, no pipeline; is it lacking its @pipeline_def?")
    return made


def _is_pipeline(value: Any) -> bool:
    return isinstance(value, Pipeline) or getattr(value, "_is_pipeline_def", False)


def call_of(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """``pipe(4, root="data")`` as name and arguments, which are plain values."""
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            args = [ast.literal_eval(node) for node in tree.args]
            return tree.func.id, args, {str(item.arg): ast.literal_eval(item.value) for item in tree.keywords}
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{text!r} is no name of a pipeline; arguments are plain values, pipe(root='data')") from error
    if not isinstance(tree, ast.Name):
        raise Refused(f"{text!r} is no name of a pipeline")
    return text, [], {}


def _called(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], name: str) -> Any:
    try:
        inspect.signature(function).bind_partial(*args)
        needed = [
            parameter.name
            for parameter in list(inspect.signature(function).parameters.values())[len(args) :]
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            and parameter.name not in kwargs
        ]
    except (TypeError, ValueError):
        needed = []
    if needed:
        example = ", ".join(f"{parameter}=..." for parameter in needed)
        raise Refused(f"{name} takes arguments that have no default; give them in quotes: '{name}({example})'")
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise Refused(f"{name} cannot be made: {told(error, _file_of(function))}") from error


def _file_of(function: Callable[..., Any]) -> "Path | None":
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Path(code.co_filename) if code else None
