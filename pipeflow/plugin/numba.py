"""``pipeflow.plugin.numba.fn.numba_function``: the name that DALI has for ``fn.numba_function``."""

import sys
import types as _python_types

from pipeflow.operators.numba_function import numba_function

fn = _python_types.ModuleType(f"{__name__}.fn", "Functions compiled by Numba as operators.")
fn.experimental = _python_types.ModuleType(f"{__name__}.fn.experimental", fn.__doc__)  # type: ignore[attr-defined]
fn.numba_function = fn.experimental.numba_function = numba_function  # type: ignore[attr-defined]
sys.modules[fn.__name__] = fn
sys.modules[fn.experimental.__name__] = fn.experimental
