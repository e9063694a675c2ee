"""All operator declarations, one file for each subject. A file is imported when one of its operators is first used.

`index.py` has the file of each operator. It is generated; a file that it lacks is found too, when a name is missing.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pipeflow.declare import OpFunction, makes_chains, registry
from pipeflow.operators.index import LINES


def _files(folder: Path, package: str) -> Iterator[str]:
    for found in iter_modules([str(folder)]):
        if found.name != "on_gpu":  # imported by the first step that runs on a device
            yield f"{package}.{found.name}"
            if found.ispkg:
                yield from _files(folder / found.name, f"{package}.{found.name}")


@cache
def import_all() -> None:
    """Imports every file of operators, so that the registry is complete."""
    for name in _files(Path(__file__).parent, __name__):
        import_module(name)


def _chain(operators: tuple[str, ...]) -> OpFunction:
    made: OpFunction = import_module(f"{__name__}.chains").chain(operators)
    return made


_MODULES = {name: module for module, *names in map(str.split, LINES.strip().splitlines()) for name in names}
registry.imports(__name__, _MODULES, import_all)
makes_chains(_chain)
