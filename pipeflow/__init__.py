"""pipeflow: data-loading pipelines for machine learning, with the user's own Python at full speed.

``pipeline_def`` turns a function over operators of ``fn`` into a Pipeline; ``fn.python_function`` puts Python functions in it.
"""

from pipeflow import backend, data_node, distributed, fn, math, ops, plugin, tensors, types
from pipeflow.dali_names import install as _install
from pipeflow.declare import OutputSpec as Spec
from pipeflow.loading.mixtures import mix
from pipeflow.loading.packing import pack
from pipeflow.loading.transformed import loader
from pipeflow.pictures import show
from pipeflow.pipeline import Pipeline, do_not_convert, pipeline_def
from pipeflow.plugin.datasets import from_torch_dataset
from pipeflow.record.conditional.session import cond
from pipeflow.record.recorder import DataNode, newaxis
from pipeflow.types import OperatorConcurrency, StreamPolicy
from pipeflow.version import VERSION as __version__

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
