"""Functions of other libraries with data on the GPU."""

from collections.abc import Callable, Sequence
from typing import Any

from pipeflow.declare import Outputs, framework
from pipeflow.device.calls import array_address
from pipeflow.device.runtime import FunctionCall, wait_for_default_streams
from pipeflow.operators import tensor_functions
from pipeflow.operators.on_gpu.functions import run
from pipeflow.operators.tensor_functions import each

XLA_ALIGNMENT = 16


@tensor_functions.dl_tensor_python_function.gpu
def _(call: FunctionCall) -> None:
    args, runtime = call.args, call.runtime
    if args.synchronize_stream:
        runtime.drain(runtime.computing)  # the function may then work on any stream

    def called(*arrays: Any) -> Any:
        result = args.function(*[each(array, runtime.capsule) for array in arrays])
        wait_for_default_streams(runtime)
        return result

    called.func = args.function  # type: ignore[attr-defined]
    run(call, called, args.batch_processing, False)


def with_tensors(
    call: FunctionCall,
    name: str,
    function: Callable[..., Any],
    whole: bool,
    promised: Outputs | None = None,
    argument: str = "outputs",
) -> None:
    """Calls a function of a library's tensors on the pipeline's stream."""
    runtime, library = call.runtime, framework(name)
    if library.from_device is None or library.on_stream is None:
        raise RuntimeError(f"{name} does not support tensors on a GPU")
    from_device = library.from_device
    stacked = name == "jax" and whole

    def called(*arrays: Any) -> Any:
        if stacked:
            arrays = tuple(_stacked(call, batch, position) for position, batch in enumerate(arrays))
        if name == "jax":
            arrays = tuple(each(array, aligned_for_xla) for array in arrays)
        result = function(*[each(array, from_device) for array in arrays])
        return each(result, lambda value: library.to_device(value) if library.is_tensor(value) else value)

    called.func = function  # type: ignore[attr-defined]
    with library.on_stream(runtime.device[1], runtime.computing.ptr):
        run(call, called, whole, False, promised, argument)


def aligned_for_xla(array: Any) -> Any:
    """The array, or a copy if its address is not aligned as XLA expects. XLA does not check this on a GPU."""
    return array if not array_address(array) % XLA_ALIGNMENT else array.copy()


def _stacked(call: FunctionCall, batch: Sequence[Any], position: int) -> Any:
    shapes = sorted({tuple(sample.shape) for sample in batch})
    if len(shapes) > 1:
        raise ValueError(tensor_functions.ragged(position, shapes))
    return call.runtime.module.stack(batch)


@tensor_functions.torch_python_function.gpu
def _(call: FunctionCall) -> None:
    with_tensors(call, "torch", call.args.function, call.args.batch_processing)


@tensor_functions.jax_function.gpu
def _(call: FunctionCall) -> None:
    with_tensors(call, "jax", call.args.function, call.args.batch_processing)
