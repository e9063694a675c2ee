"""Readers: each a class with `__len__` and `fetch(i)`; `reader.py` declares them, `order.py` gives their order.

Importing this package imports every file of it, as with the operators.
"""

from importlib import import_module
from pkgutil import iter_modules

PAGE = """Readers return the samples of a data set in order or shuffled, all of them or in shards.
[Readers](../readers.md) explains the arguments that they share.
"""

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
