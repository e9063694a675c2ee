"""Functions of the user on the GPU: the same calls and checks as on the CPU, with arrays on the device.

The function runs while CuPy works on the pipeline's compute stream, so its work runs after its inputs are ready and
before a step reads its results; the CPU does not wait. Results are copied once, on that stream, into memory of the
batch: a result may be non-contiguous, and a function may use its own buffers again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import seeds, types
from pipeflow.declare import Outputs
from pipeflow.device.runtime import FunctionCall, Runtime, wait_for
from pipeflow.errors import WrongResult, WrongShape, count_of, function_name
from pipeflow.operators.functions.calls import thread_generator
from pipeflow.operators.functions.results import Results, check_like_first


class DeviceResults(Results):
    """The declaration of results that are arrays on the GPU."""

    def __init__(
        self,
        function: Callable[..., Any],
        num_outputs: int,
        promised: Outputs | None,
        call: FunctionCall,
        argument: str,
    ) -> None:
        super().__init__(function, num_outputs, promised, argument)
        self.call = call

    def array(self, value: Any, output: int) -> Any:
        """One output as an array on the GPU, checked against its declaration."""
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
        if dtype.kind == "c":
            raise WrongResult(f"{where} returned an array of {dtype}: complex numbers are on the CPU only")
        if self.specs:
            self.check(tuple(array.shape), dtype, output)
        return array


def wait_for_current(runtime: Runtime) -> None:
    """If a function has changed CuPy's current stream, the pipeline waits for the work on that stream."""
    current = runtime.current()
    if current != runtime.computing.ptr:
        wait_for(runtime, [current])


def run(
    call: FunctionCall,
    function: Callable[..., Any],
    whole: bool,
    rng: bool,
    promised: Outputs | None = None,
    argument: str = "outputs",
) -> None:
    """Calls a function for each sample, or once for the batch, and keeps its results.

    ``argument`` is the name of the argument that declares the results; it is used in messages.
    """
    results = DeviceResults(function, getattr(call.args, "num_outputs", 1), promised, call, argument)
    (by_batch if whole else by_sample)(call, function, results, rng)


def by_sample(call: FunctionCall, function: Callable[..., Any], results: DeviceResults, rng: bool) -> None:
    """Calls the function for each sample, in order."""
    firsts: list[Any] = []
    for index in range(call.size):
        call.current = index
        named = {"rng": thread_generator(seeds.Key(int(call.keys[index])))} if rng else {}
        inputs = [call.array(position, index) for position in range(call.num_inputs)]
        values = results.split(function(*inputs, **named))
        wait_for_current(call.runtime)
        for output, value in enumerate(values):
            array = results.array(value, output)
            if not index:
                firsts.append(array)
            check_like_first(array, firsts[output], function, output, index)
            call.keep(output, array)
    call.current = -1


def by_batch(call: FunctionCall, function: Callable[..., Any], results: DeviceResults, rng: bool) -> None:
    """Calls the function once with lists of arrays. It returns a list for each output, or an array whose first axis is the
    samples.
    """
    named = {"rng": [seeds.Key(key) for key in call.keys.tolist()]} if rng else {}
    columns = [[call.array(position, index) for index in range(call.size)] for position in range(call.num_inputs)]
    result = function(*columns, **named)
    wait_for_current(call.runtime)
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
            results.array(value, output)  # raises the error that says what is wrong
        first = None
        for index in range(call.size):
            array = results.array(value[index], output)
            first = array if first is None else first
            check_like_first(array, first, function, output, index)
            call.keep(output, array)


def _is_batch(call: FunctionCall, value: Any) -> bool:
    return (isinstance(value, (list, tuple)) or bool(getattr(value, "ndim", 0))) and len(value) == call.size
