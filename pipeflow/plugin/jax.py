"""JAX in pipelines: its arrays inside user functions (``fn.py_function``, ``fn.jax_function``)."""

import functools
import sys
import types as _python_types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pipeflow import declare
from pipeflow.operators import tensor_functions

# ----------------------------------------------------------------------------------------------------
# Arrays inside user functions


def to_tensor(array: np.ndarray) -> jax.Array:
    """The array as a JAX array. It is a copy: JAX takes its arrays for immutable and the pipeline uses memory again."""
    return jnp.array(array)


def to_array(tensor: jax.Array) -> np.ndarray:
    """The JAX array as a read-only NumPy array, on the same memory where it lies on the CPU."""
    return np.asarray(tensor)


declare.frameworks["jax"] = declare.Framework(
    "jax", to_tensor, to_array, lambda value: isinstance(value, jax.Array)
)


def jax_function(
    function: Callable[..., Any] | None = None, *, num_outputs: int = 1, output_layouts: Any = None, sharding: Any = None,
    device: str | None = None, preserve: bool = True, batch_processing: bool = True,
) -> Any:  # fmt: skip
    """Turns a function of JAX arrays into an operator: ``flipped = flip(images)`` inside a pipeline definition.

    The function gets each batch as one array whose first axis is the samples, and returns such an array, or a tuple of
    ``num_outputs``. With ``batch_processing=False`` it is called for every sample. Also a decorator.
    """
    if function is None:
        return functools.partial(
            jax_function, num_outputs=num_outputs, output_layouts=output_layouts, sharding=sharding, device=device,
            preserve=preserve, batch_processing=batch_processing,
        )  # fmt: skip
    if sharding is not None:
        raise ValueError("sharding is for several GPUs; on the CPU a batch lies on one device")
    if isinstance(function, staticmethod):
        function = function.__func__

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        return tensor_functions.jax_function(
            *inputs, function=function, num_outputs=num_outputs, output_layouts=output_layouts, device=device,
            preserve=preserve, batch_processing=batch_processing,
        )  # fmt: skip

    return call


# ``pipeflow.plugin.jax.fn.jax_function``, where DALI has it.
fn = _python_types.ModuleType(f"{__name__}.fn", "Operators that call functions of JAX arrays.")
fn.jax_function = jax_function  # type: ignore[attr-defined]
sys.modules[fn.__name__] = fn
