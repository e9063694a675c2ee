"""The functional API: ``fn.flip(images)``, ``fn.random.uniform()``; each operator of the registry has its name here.

A name is made when it is first read: the file of its operator is imported then.
"""

import sys
from collections.abc import Callable as _Callable
from typing import Any as _Any

import pipeflow.operators  # noqa: F401  (tells the registry where the operators are)
from pipeflow.declare import open_namespaces as _open_namespaces
from pipeflow.declare import registry as _registry
from pipeflow.operators.former_names import FORMER_NAMES as _FORMER_NAMES
from pipeflow.operators.former_names import function as _function
from pipeflow.record.choices import maybe, one_of  # noqa: F401


def _make(name: str) -> _Callable[..., _Any] | None:
    """The operator of a name, or the function of a former name."""
    if name in _FORMER_NAMES:
        return _function(name, _registry[_FORMER_NAMES[name]])
    op = _registry.get(name)
    return None if op is None or op.hidden else op.function


def _every() -> list[str]:
    return [*_FORMER_NAMES, *(name for name, op in _registry.items() if not op.hidden)]


_open_namespaces(sys.modules[__name__], [*_FORMER_NAMES, *_registry.known()], _every, _make)
