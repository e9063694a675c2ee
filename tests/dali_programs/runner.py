"""Runs programs under one library and writes what they show: `python runner.py LIBRARY ANSWERS PROGRAM...`.

A program is an ordinary script that imports `nvidia.dali`. Under pipeflow it is the same file: `alias` lets that import find
pipeflow, as `import pipeflow as nvidia.dali` would if Python had it. LIBRARY is `nvidia.dali` or `pipeflow`.
"""

import contextvars
import importlib
import importlib.abc
import importlib.machinery
import os
import pickle
import runpy
import sys
import tempfile
import traceback
import types
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path

FOLDER = Path(__file__).parent
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))

from shown import collecting  # noqa: E402

REAL, OURS = "nvidia.dali", "pipeflow"


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `nvidia.dali.x` as `pipeflow.x`: the same module object under a second name."""

    def find_spec(self, name, path=None, target=None):
        del path, target
        if name == "nvidia" or name == REAL or name.startswith(REAL + "."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        if spec.name == "nvidia":
            return types.ModuleType("nvidia")
        ours = OURS + spec.name[len(REAL) :]
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name != ours:
                raise
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name) from None
        self.own = module.__spec__, getattr(module, "__loader__", None)
        return module

    def exec_module(self, module):
        if module.__name__ != "nvidia":
            module.__spec__, module.__loader__ = self.own


@contextmanager
def alias():
    """Lets `import nvidia.dali` give pipeflow inside the block."""

    def named():
        return [name for name in sys.modules if name == "nvidia" or name == REAL or name.startswith(REAL + ".")]

    before = {name: sys.modules.pop(name) for name in named()}
    finder = _Alias()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in named():
            del sys.modules[name]
        sys.modules.update(before)


def run(library, program):
    """What one program shows; an exception that leaves it is the last thing shown."""
    here, program = os.getcwd(), Path(program).resolve()
    with collecting() as shown, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            with alias() if library == OURS else nullcontext():
                # A context of its own: a program that fails inside `with pipe:` leaves no pipeline behind.
                contextvars.copy_context().run(runpy.run_path, str(program), run_name="__main__")
        except Exception as error:
            names = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
            text = "".join(traceback.format_exception(error))
            shown.append({"value": {"raised": names, "stopped": str(error), "traceback": text}, "within": 0.0})
        finally:
            os.chdir(here)
        return list(shown)


def run_apart(library, program, answer):
    """Runs one program in a process of its own: DALI keeps files that it has read by their names."""
    child = os.fork()
    if not child:
        code = 1
        try:
            answer.write_bytes(pickle.dumps(run(library, program)))
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"{program} ended its process")
    return pickle.loads(answer.read_bytes())


def main():
    library, answers, *programs = sys.argv[1:]
    answers = Path(answers).resolve()
    importlib.import_module(library)
    part = answers.with_suffix(".part")
    shown = {Path(program).stem: run_apart(library, Path(program).resolve(), part) for program in programs}
    answers.write_bytes(pickle.dumps(shown))


if __name__ == "__main__":
    main()
