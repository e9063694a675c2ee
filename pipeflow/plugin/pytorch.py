"""torch in pipelines: its tensors inside user functions (``fn.py_function``, ``fn.torch_python_function``)."""

import sys
import types as _python_types
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pipeflow import declare
from pipeflow.operators import tensor_functions

# ----------------------------------------------------------------------------------------------------
# Tensors inside user functions


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor on the same memory where it may be written, else a copy: torch knows no read-only memory."""
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as an array on the same memory."""
    if tensor.device.type != "cpu":
        raise TypeError(f"the tensor lies on {tensor.device}; a CPU operator must return CPU tensors: use .cpu()")
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.requires_grad_(True)


def _gradients(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor]:
    attached = [(y, weight) for y, weight in zip(outputs, weights, strict=True) if y.requires_grad]
    if not attached:
        return [torch.zeros_like(x) for x in inputs]
    found = torch.autograd.grad(
        [y for y, _ in attached], list(inputs), [weight for _, weight in attached], allow_unused=True
    )
    return [torch.zeros_like(x) if gradient is None else gradient for x, gradient in zip(inputs, found, strict=True)]


def _stream(device: Any) -> Any:
    return torch.cuda.current_stream(device).cuda_stream


declare.frameworks["torch"] = declare.Framework(
    "torch", to_tensor, to_array, lambda value: isinstance(value, torch.Tensor), _leaf, _gradients, _stream
)

# ``pipeflow.plugin.pytorch.fn.torch_python_function``, where DALI has it.
fn = _python_types.ModuleType(f"{__name__}.fn", "Operators that call functions of torch tensors.")
fn.torch_python_function = tensor_functions.torch_python_function  # type: ignore[attr-defined]
sys.modules[fn.__name__] = fn
