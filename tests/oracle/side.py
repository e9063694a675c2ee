"""Runs programs under one library and writes what they showed: `python side.py LIBRARY QUESTIONS ANSWERS`.

With a fourth word, `apart`, each program has a process of its own; one that ends by a signal has shown the number of the signal.
"""

import importlib
import linecache
import os
import pickle
import sys
import warnings

import numpy as np


def plain(value):
    """Arrays, lists and numbers in place of a library's own objects."""
    if hasattr(value, "is_dense_tensor"):
        samples = [np.array(value.at(i)) for i in range(len(value))]
        return {"layout": value.layout(), "samples": samples}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic, int, float, str, bool, type(None))):
        return value
    return type(value).__name__


def run(library, text):
    shown = []

    def attempt(function):
        try:
            shown.append(plain(function()))
        except Exception as error:
            names = [cls.__name__ for cls in type(error).__mro__]
            shown.append({"raised": names, "message": str(error)})

    names = {"np": np, "attempt": attempt, "show": lambda value: shown.append(plain(value))}
    module = importlib.import_module(library)
    for name in ("fn", "ops", "types", "math"):
        names[name] = importlib.import_module(f"{library}.{name}")
    names.update(pipeline_def=module.pipeline_def, Pipeline=module.Pipeline, newaxis=module.newaxis)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Conditions are converted from the source, which `inspect` looks up by the name of the file.
            linecache.cache["<program>"] = len(text), None, text.splitlines(keepends=True), "<program>"
            exec(compile(text, "<program>", "exec"), names)
        except Exception as error:
            shown.append({"raised": [cls.__name__ for cls in type(error).__mro__], "message": str(error)})
    return shown


def run_apart(library, text):
    """`run` in a process of its own."""
    importlib.import_module(library)  # once for all of them
    ends = os.pipe()
    child = os.fork()
    if not child:
        os.close(ends[0])
        with os.fdopen(ends[1], "wb") as file:
            pickle.dump(run(library, text), file)
        os._exit(0)
    os.close(ends[1])
    with os.fdopen(ends[0], "rb") as file:
        shown = file.read()
    _, status = os.waitpid(child, 0)
    return [{"signal": os.WTERMSIG(status)}] if os.WIFSIGNALED(status) else pickle.loads(shown)


def main():
    library, questions, answers, *apart = sys.argv[1:]
    how = run_apart if apart else run
    with open(questions, "rb") as file:
        programs = pickle.load(file)
    with open(answers, "wb") as file:
        pickle.dump({name: how(library, text) for name, text in programs.items()}, file)


if __name__ == "__main__":
    main()
