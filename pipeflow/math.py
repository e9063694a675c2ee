"""Mathematical functions of DataNodes (and, outside a pipeline, of arrays): abs, sqrt, sin, clamp and so on."""

from pipeflow.declare import registry as _registry
from pipeflow.operators import math as _declarations  # noqa: F401  (declares them)

_NAMES = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp", "cos", "cosh", "exp", "fabs",
    "floor", "fpow", "log", "log10", "log2", "max", "min", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
globals().update({name: _registry[f"math.{name}"] for name in _NAMES})
__all__ = list(_NAMES)
