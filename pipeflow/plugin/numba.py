"""The names that DALI has for ``fn.numba_function`` and ``ops.NumbaFunction``."""

import sys
import types as _python_types

from pipeflow import fn as _operators
from pipeflow import ops

NumbaFunction = ops.NumbaFunction
numba_function = _operators.numba_function

fn = _python_types.ModuleType(f"{__name__}.fn", "Functions compiled by Numba as operators.")
fn.experimental = _python_types.ModuleType(f"{__name__}.fn.experimental", fn.__doc__)  # type: ignore[attr-defined]
fn.numba_function = fn.experimental.numba_function = numba_function  # type: ignore[attr-defined]
sys.modules[fn.__name__] = fn
sys.modules[fn.experimental.__name__] = fn.experimental

experimental = _python_types.ModuleType(f"{__name__}.experimental", fn.__doc__)
experimental.NumbaFunction = NumbaFunction  # type: ignore[attr-defined]
sys.modules[experimental.__name__] = experimental
