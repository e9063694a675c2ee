"""The runners of stages: a class and a file for each kind, listed in ``table.py``. All derive from ``StageRunner``.

Chains and steps that keep samples are loaded by the first plan that has one.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeflow.executor.runners import chain as chain
    from pipeflow.executor.runners import kept as kept

_LATE = ("chain", "kept")


def __getattr__(name: str) -> ModuleType:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
