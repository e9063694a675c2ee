"""Reports of a run, as one page for a browser or as one picture. The other modules are loaded with the first report."""

import os
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeflow.reporting import advice as advice


def write(pipe: Any, path: "str | os.PathLike[str]", **how: Any) -> Path:
    """Measures a copy of a pipeline and writes a report; ``Pipeline.report`` has the arguments."""
    written: Path = resolve_name(f"{__name__}.writing:write")(pipe, path, **how)
    return written


def __getattr__(name: str) -> ModuleType:
    if name != "advice":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.advice")
