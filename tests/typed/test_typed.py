"""The program that type checkers read: `make lint` and `make types` check its types, here it runs."""

import runpy
from pathlib import Path


def test_the_typed_program_runs():
    """What is written in the program for the type checkers works as it stands."""
    runpy.run_path(str(Path(__file__).with_name("script.py")))
