"""The namespaces of operators, such as ``fn.readers``: modules whose names are made when they are first read."""

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from pipeflow.dali_names import speaking

Names = Callable[[], Iterable[str]]


def open_namespaces(root: ModuleType, known: Iterable[str], every: Names, make: Callable[[str], Any]) -> None:
    """Lets ``root`` and a module for each folder in it make their names: ``make("readers.file")`` returns the value or None.

    ``known`` are dotted names, and the modules of their folders exist at once, so that they can be imported. ``every()``
    returns all names. It is called for lists of names and for errors, and may be slow.
    """
    _open(root, "", every, make)
    for folder in dict.fromkeys(name.rpartition(".")[0] for name in known):
        _folder(root, folder, every, make)


def _folder(root: ModuleType, dotted: str, every: Names, make: Callable[[str], Any]) -> ModuleType:
    """The module of a folder, and those of the folders around it."""
    if not dotted:
        return root
    around, _, leaf = dotted.rpartition(".")
    place = _folder(root, around, every, make)
    if leaf not in vars(place):
        shown = f"{root.__name__.removeprefix('pipeflow.')}.{dotted}"
        module = ModuleType(f"{root.__name__}.{dotted}", f"Operators {shown}.*")
        _open(module, f"{dotted}.", every, make, root)
        sys.modules[module.__name__] = module
        setattr(place, leaf, module)
    found: ModuleType = vars(place)[leaf]
    return found


def _open(
    place: ModuleType, prefix: str, every: Names, make: Callable[[str], Any], root: ModuleType | None = None
) -> None:
    """Gives a module its ``__getattr__`` and ``__dir__``."""

    def listed() -> list[str]:
        inside = {name[len(prefix) :].partition(".")[0] for name in every() if name.startswith(prefix)}
        return sorted({*vars(place), *inside})

    def public() -> list[str]:
        return [name for name in listed() if not name.startswith("_")]

    unknown = speaking(place.__name__.removeprefix("pipeflow."), public, depth=2)

    def __getattr__(name: str) -> Any:
        if name == "__all__":  # `from pipeflow.fn import *` takes all operators
            return public()
        if name.startswith("_"):
            return unknown(name)
        found = make(prefix + name)
        if found is None and any(other.startswith(f"{prefix}{name}.") for other in every()):
            return _folder(root or place, prefix + name, every, make)
        if found is None:
            return unknown(name)
        setattr(place, name, found)
        return found

    vars(place).update(__getattr__=__getattr__, __dir__=listed)
