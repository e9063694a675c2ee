"""Runs the benchmarks named in benchmarks/README.md, or those given as arguments, one after the other."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def named() -> list[str]:
    """The files in the README's table, in its order."""
    return re.findall(r"^\| `(\w+\.py)`", (FOLDER / "README.md").read_text(), re.MULTILINE)


def main() -> int:
    failed = []
    for name in [Path(argument).name for argument in sys.argv[1:]] or named():
        print(f"\n=== {name}", flush=True)
        if subprocess.run([sys.executable, FOLDER / name], check=False).returncode:
            failed.append(name)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall benchmarks ran and their results were right")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
