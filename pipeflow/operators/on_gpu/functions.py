"""fn.python_function and its family on the GPU: the same calls and checks, with arrays on the device.

The function runs while CuPy works on the pipeline's compute stream, so what it queues comes after its inputs and before
whatever reads its results; nobody waits. Results are copied once, on that stream, into memory of the batch: it makes
contiguous what is not, and a function may use its own buffers again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import seeds, types
from pipeflow.declare import Outputs, framework
from pipeflow.device.runtime import FunctionCall
from pipeflow.errors import WrongResult, WrongShape, count_of, function_name
from pipeflow.kernels import gpu as kernels
from pipeflow.operators import numba_function as numba
from pipeflow.operators import python_function as python
from pipeflow.operators import tensor_functions
from pipeflow.operators.functions.calls import thread_generator, wants_rng
from pipeflow.operators.functions.results import Results, check_like_first
from pipeflow.operators.tensor_functions import each


class DeviceResults(Results):
    """What a function may return: arrays that lie on the GPU."""

    def __init__(
        self, function: Callable[..., Any], num_outputs: int, promised: Outputs | None, call: FunctionCall
    ) -> None:
        super().__init__(function, num_outputs, promised)
        self.call = call

    def array(self, value: Any, output: int) -> Any:
        """One output as an array on the GPU that is as promised."""
        where = f"output {output} of {function_name(self.function)}"
        if value is None:
            raise WrongResult(f"{where} returned None instead of an array")
        array = self.call.runtime.as_array(value)
        if array is None:
            what = (
                f"a NumPy array of {value.dtype} {value.shape}"
                if isinstance(value, np.ndarray)
                else type(value).__name__
            )
            raise WrongResult(
                f"{where} returned {what} in a GPU operator, which returns arrays of CuPy: cupy.asarray(x) copies one there"
            )
        dtype = np.dtype(array.dtype)
        try:
            types.as_dtype(dtype)
        except TypeError as error:
            raise WrongResult(f"{where} returned an array of {dtype}: {error}") from None
        if self.specs:
            self.check(tuple(array.shape), dtype, output)
        return array


def run(
    call: FunctionCall, function: Callable[..., Any], whole: bool, rng: bool, promised: Outputs | None = None
) -> None:
    """Calls a function for each sample, or once for the batch, and keeps what it returns."""
    results = DeviceResults(function, getattr(call.args, "num_outputs", 1), promised, call)
    (by_batch if whole else by_sample)(call, function, results, rng)


def by_sample(call: FunctionCall, function: Callable[..., Any], results: DeviceResults, rng: bool) -> None:
    """One call a sample, in order."""
    firsts: list[Any] = []
    for index in range(call.size):
        call.current = index
        named = {"rng": thread_generator(seeds.Key(int(call.keys[index])))} if rng else {}
        inputs = [call.array(position, index) for position in range(call.num_inputs)]
        values = results.split(function(*inputs, **named))
        for output, value in enumerate(values):
            array = results.array(value, output)
            if not index:
                firsts.append(array)
            check_like_first(array, firsts[output], function, output, index)
            call.keep(output, array)
    call.current = -1


def by_batch(call: FunctionCall, function: Callable[..., Any], results: DeviceResults, rng: bool) -> None:
    """One call with lists of arrays; for each output a list, or one array whose first axis is the samples."""
    named = {"rng": [seeds.Key(key) for key in call.keys.tolist()]} if rng else {}
    columns = [[call.array(position, index) for index in range(call.size)] for position in range(call.num_inputs)]
    result = function(*columns, **named)
    outputs: Sequence[Any]
    if results.names or results.count != 1:
        outputs = results.split(result)
    else:
        lone = isinstance(result, (tuple, list)) and len(result) == 1 and call.size != 1
        outputs = result if lone and _is_batch(call, result[0]) else (result,)
    for output, value in enumerate(outputs):
        where = f"output {output} of {function_name(function)}"
        if not isinstance(value, (list, tuple)):
            whole = results.call.runtime.as_array(value)
            if whole is not None and not whole.ndim:
                raise WrongResult(f"{where} returned a single number instead of a list or array of {call.size} samples")
            value = value if whole is None else whole
        if isinstance(value, (list, tuple)) or hasattr(value, "ndim"):
            if len(value) != call.size:
                raise WrongShape(f"{where} has {count_of(len(value), 'sample')} in a batch of {call.size}")
        else:
            results.array(value, output)  # says what is wrong with it
        first = None
        for index in range(call.size):
            array = results.array(value[index], output)
            first = array if first is None else first
            check_like_first(array, first, function, output, index)
            call.keep(output, array)


def _is_batch(call: FunctionCall, value: Any) -> bool:
    return (isinstance(value, (list, tuple)) or bool(getattr(value, "ndim", 0))) and len(value) == call.size


@python.python_function.gpu
def _(call: FunctionCall) -> None:
    args = call.args
    run(call, args.function, args.batch_processing, wants_rng(args.function), args.outputs)


# Functions of other libraries.


@tensor_functions.dl_tensor_python_function.gpu
def _(call: FunctionCall) -> None:
    args, runtime = call.args, call.runtime
    if args.synchronize_stream:
        runtime.drain(runtime.computing)  # the function may then work on any stream

    def called(*arrays: Any) -> Any:
        return args.function(*[each(array, runtime.capsule) for array in arrays])

    called.func = args.function  # type: ignore[attr-defined]
    run(call, called, args.batch_processing, False)


def _with_tensors(call: FunctionCall, name: str) -> None:
    args, runtime, library = call.args, call.runtime, framework(name)
    if library.from_device is None or library.on_stream is None:
        raise RuntimeError(f"{name} does not say how its tensors lie on a GPU")
    from_device = library.from_device
    stacked = name == "jax" and args.batch_processing

    def called(*arrays: Any) -> Any:
        if stacked:
            arrays = tuple(_stacked(call, batch, position) for position, batch in enumerate(arrays))
        result = args.function(*[each(array, from_device) for array in arrays])
        return each(result, lambda value: library.to_device(value) if library.is_tensor(value) else value)

    called.func = args.function  # type: ignore[attr-defined]
    with library.on_stream(runtime.device[1], runtime.computing.ptr):
        run(call, called, args.batch_processing, False)


def _stacked(call: FunctionCall, batch: Sequence[Any], position: int) -> Any:
    shapes = sorted({tuple(sample.shape) for sample in batch})
    if len(shapes) > 1:
        raise ValueError(tensor_functions.ragged(position, shapes))
    return call.runtime.module.stack(batch)


@tensor_functions.torch_python_function.gpu
def _(call: FunctionCall) -> None:
    _with_tensors(call, "torch")


@tensor_functions.jax_function.gpu
def _(call: FunctionCall) -> None:
    _with_tensors(call, "jax")


# Functions compiled by numba-cuda.


def _numba(call: FunctionCall) -> None:
    args, module = call.args, call.runtime.module
    kinds = numba.kinds_of(args.in_types, args.ins_ndim)
    shapes = [[tuple(call.array(p, index).shape) for index in range(call.size)] for p in range(call.num_inputs)]
    extents = numba.shapes_of(args.setup_fn, shapes, args.outs_ndim, call.size)
    launch = kernels.numba_cuda.launcher(
        args.run_fn, numba.kinds_of(args.out_types, args.outs_ndim), kinds, args.blocks, args.threads_per_block
    )
    for index in range(call.size):
        call.current = index
        inputs = [call.array(position, index) for position in range(call.num_inputs)]
        numba.check_inputs(args.run_fn, kinds, [(np.dtype(x.dtype), x.ndim) for x in inputs])
        outputs = [module.empty(tuple(e[index].tolist()), dtype) for e, dtype in zip(extents, args.out_types)]
        launch(call.runtime.computing.ptr, [*outputs, *inputs])
        for output, array in enumerate(outputs):
            call.keep(output, array)
    call.current = -1


def _check_numba(args: Any) -> None:
    if args.batch_processing:
        raise ValueError(
            'batch_processing=True is for the CPU: with device="gpu" the kernel is launched for every sample'
        )
    if args.blocks is None or args.threads_per_block is None:
        raise ValueError('device="gpu" needs blocks and threads_per_block, the grid that run_fn is launched with')
    kernels.numba_cuda.require()


for _op in (numba.numba_function, numba.experimental_numba_function):
    _op.gpu(_numba)
    _op.gpu_check(_check_numba)
