"""The door to the devices.

``backends.gpu``, and with it CuPy, is imported by the first pipeline that has work for it; ``backends.codec``, and with it
nvImageCodec, by the first that decodes there.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("gpu", "codec"):
        raise AttributeError(f"pipeflow has no backend {name!r}")
    return import_module(f"{__name__}.{name}")
