"""All operator declarations, one file for each subject. To import the package imports every file and fills the registry."""

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    if _found.name != "on_gpu":  # imported by the first step that runs on a device
        import_module(f"{__name__}.{_found.name}")
