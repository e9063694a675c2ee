"""JAX: an iterator that returns its arrays, and its arrays in user functions (``fn.py_function``, ``jax_function``)."""

import contextlib
import functools
import inspect
import sys
import types as _python_types
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from pipeflow import declare, types
from pipeflow.device.tensors import TensorGPU, TensorListGPU
from pipeflow.epochs import BaseIterator, LastBatchPolicy, dense_array, dense_tensor
from pipeflow.operators import tensor_functions
from pipeflow.pipeline import Pipeline, pipeline_def

# ----------------------------------------------------------------------------------------------------
# Iterators


@jax.jit
def _copy(array: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A copy, and one of its numbers. The number is ready when the copy is, and no user can donate it to JAX."""
    return jnp.copy(array), array.reshape(-1)[0]


def _finish(copying: "deque[tuple[jax.Array, TensorGPU]]") -> None:
    """Waits for the copies that are being made."""
    for mark, _ in copying:
        mark.block_until_ready()


class GenericIterator(BaseIterator[dict[str, jax.Array]]):
    """Returns a dictionary of JAX arrays for every batch.

    With ``sharding`` the arrays are global: every process contributes the batches of its pipelines, in the order of its
    devices along the first axis. Several pipelines without a sharding are stacked along a new first axis.
    """

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str],
        *args: Any,
        sharding: Any = None,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        **options: Any,
    ) -> None:
        if sharding is not None and not isinstance(sharding, jax.sharding.Sharding):
            raise TypeError(f"sharding must be a jax.sharding.Sharding, got {type(sharding).__name__}")
        several = isinstance(pipelines, (list, tuple)) and len(pipelines) > 1
        if last_batch_policy is LastBatchPolicy.PARTIAL and (several or sharding is not None):
            raise ValueError(
                "LastBatchPolicy.PARTIAL gives shards of different sizes, which cannot be one array: use FILL with mask=, or DROP"
            )
        self._sharding = sharding
        self._copying: deque[tuple[jax.Array, TensorGPU]] = deque()  # batches on the GPU that JAX has not copied yet
        weakref.finalize(self, _finish, self._copying).atexit = False
        options["last_batch_policy"] = last_batch_policy
        super().__init__(pipelines, output_map, *args, **options)

    def convert(self, batch: Any, name: str) -> Any:
        """The batch as one array; a batch on the CPU becomes a JAX array in ``combine``."""
        if isinstance(batch, TensorListGPU):
            return self._copied(dense_tensor(batch, name))
        if batch.dtype is types.STRING:
            raise TypeError(
                f"output {name!r} is text or other objects, of which JAX has no arrays: leave it out of the pipeline's "
                "outputs, or return numbers for it"
            )
        return dense_array(batch, name)

    def _copied(self, tensor: TensorGPU) -> jax.Array:
        """JAX's own copy on the same device; the batch is kept until the copy is made, and the host does not wait.

        XLA reads memory of other libraries on streams that are not public, so no event shows when it has finished. But XLA knows
        when one of its own arrays is complete.
        """
        while self._copying and self._copying[0][0].is_ready():
            self._copying.popleft()
        source = jax.dlpack.from_dlpack(tensor)
        if not source.size:
            return source
        made, mark = _copy(source)
        self._copying.append((mark, tensor))
        return made

    def convert_mask(self, valid: np.ndarray) -> np.ndarray:
        """The mask without conversion."""
        return valid

    def combine(self, batches: list[Any]) -> Any:
        """Joins the batches of all pipelines to one batch of JAX arrays."""
        first = batches[0]
        names = list(first) if isinstance(first, dict) else range(len(first))
        values = [self._combined([batch[name] for batch in batches], name) for name in names]
        return self._make(values)

    def _combined(self, arrays: list[np.ndarray], name: Any) -> jax.Array:
        shapes = {array.shape for array in arrays}
        if len(shapes) != 1:
            raise ValueError(
                f"the batches of output {name!r} have different shapes {sorted(shapes)} and cannot be one array"
            )
        if isinstance(arrays[0], jax.Array):
            return self._on_devices(arrays)
        if self._sharding is not None:
            whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            return jax.make_array_from_process_local_data(self._sharding, whole)
        return jnp.asarray(arrays[0]) if len(arrays) == 1 else jnp.asarray(np.stack(arrays))

    def _on_devices(self, arrays: list[jax.Array]) -> jax.Array:
        """The same for arrays that are on devices, one of each pipeline."""
        if self._sharding is None:
            return arrays[0] if len(arrays) == 1 else _stacked(arrays)
        if len(arrays) == 1 and len(self._sharding.addressable_devices) > 1:
            return jax.make_array_from_process_local_data(self._sharding, arrays[0])
        shape = (arrays[0].shape[0] * len(self._sharding.device_set), *arrays[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self._sharding, arrays)


def _stacked(arrays: list[jax.Array]) -> jax.Array:
    """Arrays along a new first axis. If each is on a device of its own, it stays there."""
    devices = [device for array in arrays for device in array.devices()]
    if len(set(devices)) < len(arrays):
        return jnp.stack([jax.device_put(array, devices[0]) for array in arrays])
    mesh = jax.sharding.Mesh(np.array(devices), ("pipelines",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("pipelines"))
    shape = (len(arrays), *arrays[0].shape)
    return jax.make_array_from_single_device_arrays(shape, sharding, [array[None] for array in arrays])


def data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    *,
    output_map: Sequence[str],
    sharding: Any = None,
    devices: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """Turns a pipeline definition into a function that returns an iterator: ``@data_iterator(output_map=["x", "y"])``.

    With ``sharding`` or ``devices`` there is one pipeline for each device of this process, and the definition gets
    ``shard_id`` and ``num_shards`` if it has parameters with these names. The function takes the arguments of the
    definition and of the pipeline, and ``checkpoints``, one for each pipeline.
    """
    return iterator_maker(GenericIterator, pipeline_fn, output_map, sharding, devices, options)


def iterator_maker(
    iterator: type["GenericIterator"],
    pipeline_fn: Callable[..., Any] | None,
    output_map: Sequence[str],
    sharding: Any,
    devices: Sequence[Any] | None,
    options: dict[str, Any],
) -> Any:
    """A function that returns an iterator of this class over the pipelines of a definition, or a decorator."""
    if sharding is not None and devices is not None:
        raise ValueError("give either sharding or devices")
    if pipeline_fn is None:
        return lambda function: iterator_maker(iterator, function, output_map, sharding, devices, options)
    definition = pipeline_fn if hasattr(pipeline_fn, "_is_pipeline_def") else pipeline_def(pipeline_fn)
    takes = inspect.signature(pipeline_fn).parameters

    @functools.wraps(pipeline_fn)
    def create(*args: Any, checkpoints: Sequence[str] | None = None, **kwargs: Any) -> GenericIterator:
        everywhere, here = _devices(sharding, devices)
        if checkpoints is not None and len(checkpoints) != len(here):
            raise ValueError(f"{len(checkpoints)} checkpoints for {len(here)} pipelines")
        pipelines: list[Pipeline] = []
        for number, device in enumerate(here):
            given = dict(kwargs)
            if device is not None:
                place = {"shard_id": everywhere.index(device), "num_shards": len(everywhere)}
                given |= {name: value for name, value in place.items() if name in takes}
            if checkpoints is not None:
                given |= {"checkpoint": checkpoints[number], "enable_checkpointing": True}
            pipelines.append(definition(*args, **given))
        return iterator(pipelines, output_map, sharding=sharding, **options)

    return create


def _devices(sharding: Any, devices: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
    """All devices in the order of their shards, and those of this process."""
    if devices is not None:
        return list(devices), [device for device in devices if device.process_index == jax.process_index()]
    if sharding is None:
        return [None], [None]
    if isinstance(sharding, jax.sharding.NamedSharding):
        everywhere = list(sharding.mesh.devices.flat)
    else:
        everywhere = sorted(sharding.device_set, key=lambda device: device.id)
    return everywhere, [device for device in everywhere if device.process_index == jax.process_index()]


DALIGenericIterator = GenericIterator

# ----------------------------------------------------------------------------------------------------
# Arrays inside user functions


def to_tensor(array: np.ndarray) -> jax.Array:
    """The array as a JAX array: on the same memory if no other code reads or writes it, else a copy.

    JAX assumes that its arrays do not change, so memory that other code may write is copied. JAX also copies memory
    that does not begin at a multiple of 64 bytes, and types that it converts.
    """
    mine = array.flags.writeable and array.flags.c_contiguous
    if not mine or jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return jnp.array(array)
    return jnp.from_dlpack(array)


def to_array(tensor: jax.Array) -> np.ndarray:
    """The JAX array as a read-only NumPy array, on the same memory if it is on the CPU."""
    return np.asarray(tensor)


def _differentiate(
    function: Callable[..., Any], tensors: Sequence[Any], wanted: Sequence[int]
) -> tuple[Any, Callable[[Sequence[Any]], list[np.ndarray]]]:
    def of_wanted(*values: Any) -> Any:
        arguments = list(tensors)
        for position, value in zip(wanted, values):
            arguments[position] = value
        return function(*arguments)

    result, pull = jax.vjp(of_wanted, *[tensors[position] for position in wanted])

    def back(weights: Sequence[Any]) -> list[np.ndarray]:
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        given = [jnp.zeros_like(y) if w is None else jnp.asarray(w) for y, w in zip(outputs, weights)]
        packed = type(result)(given) if isinstance(result, (tuple, list)) else given[0]
        return [np.asarray(found) for found in pull(packed)]

    return result, back


declare.frameworks["jax"] = declare.Framework(
    "jax",
    to_tensor,
    to_array,
    lambda value: isinstance(value, jax.Array),
    _differentiate,
    jax.dlpack.from_dlpack,
    on_stream=lambda _device, _handle: contextlib.nullcontext(),  # JAX orders streams by DLPack
)


def jax_function(
    function: Callable[..., Any] | None = None,
    *,
    num_outputs: int = 1,
    output_layouts: Any = None,
    sharding: Any = None,
    device: str | None = None,
    preserve: bool = True,
    batch_processing: bool = True,
    parallel: Literal["serial", "threads", "processes"] = "serial",
    timeout: float | None = None,
) -> Any:
    """Turns a function of JAX arrays into an operator: ``flipped = flip(images)`` inside a pipeline definition.

    The function gets each batch as one array whose first axis is the samples, and returns such an array, or a tuple of
    ``num_outputs``. With ``batch_processing=False`` it is called for every sample. ``parallel`` and ``timeout`` are those of
    ``fn.python_function``. Also a decorator.
    """
    if function is None:
        return functools.partial(
            jax_function,
            num_outputs=num_outputs,
            output_layouts=output_layouts,
            sharding=sharding,
            device=device,
            preserve=preserve,
            batch_processing=batch_processing,
            parallel=parallel,
            timeout=timeout,
        )
    if sharding is not None:
        raise ValueError("sharding is for several GPUs; on the CPU a batch is on one device")
    if isinstance(function, staticmethod):
        function = function.__func__

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        return tensor_functions.jax_function(
            *inputs,
            function=function,
            num_outputs=num_outputs,
            output_layouts=output_layouts,
            device=device,
            preserve=preserve,
            batch_processing=batch_processing,
            parallel=parallel,
            timeout=timeout,
        )

    return call


# ``pipeflow.plugin.jax.fn.jax_function`` is the name that DALI has for it.
fn = _python_types.ModuleType(f"{__name__}.fn", "Operators that call functions of JAX arrays.")
fn.jax_function = jax_function  # type: ignore[attr-defined]
sys.modules[fn.__name__] = fn
