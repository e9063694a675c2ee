"""The functional API: ``fn.flip(images)``, ``fn.random.uniform()``; every operator of the registry by its name."""

import sys
import types as _python_types

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow.dali_names import speaking as _speaking
from pipeflow.declare import registry as _registry
from pipeflow.declare.former_names import FORMER_NAMES as _FORMER_NAMES
from pipeflow.declare.former_names import function as _function
from pipeflow.record.choices import maybe, one_of  # noqa: F401


def _fill() -> None:
    """Puts each operator into the namespace its dotted name says; namespaces are modules, so they can be imported."""
    former = [(name, _function(name, _registry[present])) for name, present in _FORMER_NAMES.items()]
    for name, op in [*former, *_registry.items()]:
        *folders, leaf = name.split(".")
        place = sys.modules[__name__]
        for folder in folders:
            if not hasattr(place, folder):
                module = _python_types.ModuleType(f"{place.__name__}.{folder}", f"Operators fn.{folder}.*")
                module.__getattr__ = _speaking(module.__name__.removeprefix("pipeflow."), vars(module).keys)  # type: ignore[method-assign]
                sys.modules[module.__name__] = module
                setattr(place, folder, module)
            place = getattr(place, folder)
        if not getattr(op, "hidden", False):
            setattr(place, leaf, op)


_fill()
__getattr__ = _speaking("fn", globals().keys)
