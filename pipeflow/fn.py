"""The functional API: ``fn.flip(images)``, ``fn.random.uniform()``; each operator of the registry has its name here."""

import sys

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow.dali_names import namespace as _namespace
from pipeflow.declare import registry as _registry
from pipeflow.operators.former_names import FORMER_NAMES as _FORMER_NAMES
from pipeflow.operators.former_names import function as _function
from pipeflow.record.choices import maybe, one_of  # noqa: F401


def _fill() -> None:
    """Puts each operator into the namespace of its dotted name."""
    former = [(name, _function(name, _registry[present])) for name, present in _FORMER_NAMES.items()]
    for name, op in [*former, *_registry.items()]:
        place = _namespace(sys.modules[__name__], name)
        if not getattr(op, "hidden", False):
            setattr(place, name.rpartition(".")[2], op)


_fill()
