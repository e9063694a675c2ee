"""The compiler: makes a Plan (``pipeflow/plan.py``) from a Graph. ``compiler.py`` calls the passes.

Its files are loaded by the first pipeline that is built: they are a quarter of the time of ``import pipeflow``.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeflow.compile import compiler as compiler
    from pipeflow.compile import first_batches as first_batches
    from pipeflow.compile import on_cpu as on_cpu
    from pipeflow.compile import read_back as read_back
    from pipeflow.compile import warmup as warmup

_LATE = ("compiler", "first_batches", "on_cpu", "read_back", "warmup")


def __getattr__(name: str) -> ModuleType:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
