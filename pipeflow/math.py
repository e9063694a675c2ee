"""Mathematical functions of DataNodes (and, outside a pipeline, of arrays): abs, sqrt, sin, clamp and so on."""

from typing import Any as _Any

from pipeflow.declare import registry as _registry

__all__ = [  # noqa: F822  (made when they are first read)
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp", "cos", "cosh", "exp", "fabs",
    "floor", "fpow", "log", "log10", "log2", "max", "min", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _registry[f"math.{name}"]
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
