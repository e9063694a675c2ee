"""Keeps what programs show under the real DALI in `recorded/`: `python record.py [PROGRAM...]`, in DALI's environment."""

import importlib
import sys
import tempfile
from pathlib import Path

from recording import FOLDER, PROGRAMS, write
from runner import REAL, run_apart


def main():
    names = sys.argv[1:] or [path.stem for path in PROGRAMS]
    importlib.import_module(REAL)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            shown = run_apart(REAL, FOLDER / "programs" / f"{name}.py", Path(folder) / "answer")
            if any(isinstance(item["value"], dict) and "stopped" in item["value"] for item in shown):
                sys.exit(f"{name} fails under DALI:\n{shown[-1]['value']['traceback']}")
            write(name, shown)


if __name__ == "__main__":
    main()
