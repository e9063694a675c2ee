"""The parts of a Pipeline: its definition, its plan and executor, its runs, its states and its reports.

``debug`` is loaded by the first debug run.
"""

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name != "debug":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.debug")
