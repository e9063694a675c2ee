"""The devices; the modules for a GPU are imported when a pipeline first needs them.

The first pipeline with work for a GPU imports ``backends.gpu``, which imports CuPy. The first one that decodes on a GPU
imports ``backends.codec``, which imports nvImageCodec.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("gpu", "codec"):
        raise AttributeError(f"pipeflow has no backend {name!r}")
    return import_module(f"{__name__}.{name}")
