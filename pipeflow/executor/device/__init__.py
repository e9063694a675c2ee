"""Stages that run on a device: segments of operators, functions of the user, and copies to the CPU.

A whole segment is planned on the host: the shapes, arguments and random numbers of all its steps. Then one copy takes samples,
rows of descriptors, tables and arguments to the device, and one launch for each operator follows. Only two waits exist:
a staging block waits for the last copy from it, and a CPU stage after ``.cpu()`` waits for that copy.
``device/runtime.py`` says which wait protects what.

The modules are loaded by the first plan that uses a device.
"""

from importlib import import_module
from types import ModuleType

_LATE = ("arrival", "device", "functions", "segment")


def __getattr__(name: str) -> ModuleType:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
