"""pipeflow: data-loading pipelines for machine learning, with the user's own Python at full speed.

``pipeline_def`` turns a function over operators of ``fn`` into a Pipeline; ``fn.python_function`` puts Python functions in it.
"""

from pkgutil import resolve_name as _resolve_name
from typing import TYPE_CHECKING
from typing import Any as _Any

from pipeflow import backend, data_node, distributed, fn, math, ops, plugin, tensors, types
from pipeflow.dali_names import install as _install
from pipeflow.dali_names import speaking as _speaking
from pipeflow.declare import OutputSpec as Spec
from pipeflow.pictures import show
from pipeflow.pipeline import Pipeline, do_not_convert, pipeline_def
from pipeflow.record.conditional.session import cond
from pipeflow.record.recorder import DataNode, newaxis
from pipeflow.types import OperatorConcurrency, StreamPolicy
from pipeflow.version import VERSION as __version__

if TYPE_CHECKING:
    from pipeflow.loading.mixtures import mix as mix
    from pipeflow.loading.packing import pack as pack
    from pipeflow.loading.transformed import loader as loader
    from pipeflow.plugin.datasets import from_torch_dataset as from_torch_dataset

# These are loaded when they are first used: most programs use none of them.
_LATE = {
    "backend_impl": "backend_impl",
    "from_torch_dataset": "plugin.datasets:from_torch_dataset",
    "loading": "loading",
    "loader": "loading.transformed:loader",
    "mix": "loading.mixtures:mix",
    "pack": "loading.packing:pack",
}

__all__ = [
    "DataNode",
    "OperatorConcurrency",
    "Pipeline",
    "Spec",
    "StreamPolicy",
    "__version__",
    "backend",
    "cond",
    "data_node",
    "distributed",
    "do_not_convert",
    "fn",
    "from_torch_dataset",
    "loader",
    "math",
    "mix",
    "newaxis",
    "ops",
    "pack",
    "pipeline_def",
    "show",
    "tensors",
    "types",
]

_install(__name__, backend, plugin, types)
_unknown = _speaking("", lambda: __all__, depth=2)


def __getattr__(name: str) -> _Any:
    if name not in _LATE:
        return _unknown(name)
    found = globals()[name] = _resolve_name(f"{__name__}.{_LATE[name]}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
