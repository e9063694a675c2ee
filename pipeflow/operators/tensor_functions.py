"""Functions of other array libraries as operators: DLPack capsules, torch tensors and JAX arrays.

They call functions, check results and report errors like ``fn.python_function``. On the CPU a tensor shares memory with
the pipeline if nothing else reads the input, and is a copy otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.declare import Args, BatchCall, OpDef, Sample, WorkerCall, framework, operator, parameters, required
from pipeflow.errors import WrongResult, WrongShape, count_of, function_name
from pipeflow.operators.functions.calls import (
    BATCH_PROCESSING,
    PARALLEL,
    SampleCalls,
    call_batch,
    call_sample,
    call_traits,
    iterate,
)
from pipeflow.operators.functions.outputs import OUTPUTS, declare_outputs
from pipeflow.operators.functions.results import Results, check_like_first
from pipeflow.operators.functions.workers import call_in_worker
from pipeflow.tensors import Collector, traced

PAGE = """Functions that work on tensors of another library. On the CPU a tensor shares memory with the pipeline where
nothing else reads it, and is a copy otherwise. [The family](../function_family.md) compares them with
`fn.python_function`.
"""


class WithTensors:
    """Calls a function with a framework's tensors instead of arrays, and converts its results to arrays."""

    def __init__(self, function: Callable[..., Any], framework_name: str) -> None:
        self.func = function
        self.framework_name = framework_name

    def __call__(self, *arrays: Any) -> Any:
        tensors = framework(self.framework_name)
        to_array, is_tensor = tensors.to_array, tensors.is_tensor
        result = self.func(*[each(array, tensors.to_tensor) for array in arrays])
        return each(result, lambda value: to_array(value) if is_tensor(value) else value)


class WithHistory(WithTensors):
    """Like WithTensors, but the arrays keep the tensors with their history of gradients."""

    def __call__(self, *arrays: Any) -> Any:
        tensors = framework(self.framework_name)
        trace, is_tensor = tensors.trace, tensors.is_tensor
        assert trace is not None
        result = self.func(*[each(array, tensors.to_tensor) for array in arrays])
        return each(result, lambda value: trace(value) if is_tensor(value) else value)


def call_with_history(
    function: Callable[..., Any], results: Results, inputs: Sequence[Any], batch: BatchCall, whole: bool = False
) -> list[list[np.ndarray]]:
    """Calls a differentiable function for every sample, or once for the batch; its results are not copied."""
    called = WithHistory(function, "torch")
    if whole:
        columns = _whole_with_history(called, results, inputs, batch)
    else:
        columns = [[] for _ in range(results.count)]
        for index, row in batch.each(zip(*map(iterate, inputs)) if inputs else ((),) * batch.size):
            for output, value in enumerate(results.split(called(*row))):
                columns[output].append(results.array(value, output))
                check_like_first(columns[output][-1], columns[output][0], function, output, index)
    _check_history(function, columns)
    return columns


def _whole_with_history(
    called: WithHistory, results: Results, inputs: Sequence[Any], batch: BatchCall
) -> list[list[np.ndarray]]:
    result = called(*[list(iterate(values)) for values in inputs])
    columns = []
    for output, value in enumerate((result,) if results.count == 1 else results.split(result)):
        if traced(value) and value.ndim:
            samples = value.rows()
        elif isinstance(value, (list, tuple)):
            samples = value
        else:
            raise WrongResult(
                f"output {output} of {function_name(called.func)} is neither a list of {count_of(batch.size, 'tensor')} nor one "
                "tensor whose first axis is the samples"
            )
        if len(samples) != batch.size:
            text = f"output {output} of {function_name(called.func)} has {count_of(len(samples), 'sample')}"
            raise WrongShape(f"{text} in a batch of {batch.size}")
        arrays = [results.array(sample, output) for sample in samples]
        for index, array in enumerate(arrays):
            check_like_first(array, arrays[0], called.func, output, index)
        columns.append(arrays)
    return columns


def _check_history(function: Callable[..., Any], columns: Sequence[Sequence[np.ndarray]]) -> None:
    recording = framework("torch").recording
    if recording is None or not recording() or not any(columns):
        return
    if not any(traced(array) and array.tensor.requires_grad for column in columns for array in column):  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{function_name(function)} is differentiable=True and none of its results has gradients: they are detached "
            "(detach(), .item(), no_grad or NumPy inside), or none of its parameters requires_grad. To run it without "
            "gradients, run the pipeline under torch.no_grad()"
        )


def check_differentiable(args: Args, framework_name: str = "torch") -> None:
    """Raises an error if the framework cannot keep a history of gradients."""
    if not args.differentiable:
        return
    if framework_name != "torch":
        raise ValueError(
            f"differentiable=True needs torch, whose tensors keep their history; those of {framework_name} do not. "
            "fn.gradients gives derivatives of functions of JAX"
        )
    if args.parallel != "serial" or args.timeout is not None:
        given = f"parallel={args.parallel!r}" if args.parallel != "serial" else f"timeout={args.timeout}"
        raise ValueError(
            f"differentiable=True runs in the thread of the training loop; it cannot be combined with {given}"
        )


class WithStacks(WithTensors):
    """Like WithTensors, for functions that get a whole batch as one tensor whose first axis is the samples."""

    def stacked(self, samples: Any, position: int, batch: BatchCall) -> np.ndarray:
        """An input as one array, copied if it is a list."""
        if isinstance(samples, np.ndarray):
            return samples
        shapes = sorted({sample.shape for sample in samples})
        if len(shapes) > 1:
            raise ValueError(ragged(position, shapes))
        return np.asarray(Collector(batch.size, batch.take).gather(samples))


def ragged(position: int, shapes: Sequence[tuple[int, ...]]) -> str:
    """The message for a batch that cannot be one array."""
    shown = ", ".join(map(str, shapes[:3])) + (", ..." if len(shapes) > 3 else "")
    return (
        f"input {position} has samples of different shapes ({shown}) and cannot be one array; pad or crop them to "
        "a common shape, or call the function for every sample with batch_processing=False"
    )


class WithCapsules:
    """Calls a function with DLPack capsules instead of arrays. It may return capsules or objects with DLPack."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.func = function

    def __call__(self, *arrays: Any) -> Any:
        return self.func(*[each(array, capsule_of) for array in arrays])


def capsule_of(array: np.ndarray) -> Any:
    """A DLPack capsule of the array if it is writable, else of a copy, because a capsule is always writable."""
    return (array if array.flags.writeable else array.copy()).__dlpack__()


def each(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Converts a value, or the values in a list, tuple or dict."""
    if type(value) in (list, tuple):
        return type(value)(each(item, convert) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[each(item, convert) for item in value])
    if type(value) is dict:
        return {key: each(item, convert) for key, item in value.items()}
    return convert(value)


def _declare(op: OpDef, adapted: Callable[[Callable[..., Any], bool], Callable[..., Any]]) -> None:
    """Declares an operator of this file; ``adapted(function, whole)`` returns a function that takes arrays."""

    def batch_body(*inputs: Any, args: Args, batch: BatchCall) -> list[Any]:
        results = Results(args.function, args.num_outputs)
        if getattr(args, "differentiable", False):
            return call_with_history(args.function, results, inputs, batch, args.batch_processing)
        called = adapted(args.function, args.batch_processing)
        if args.batch_processing:
            return call_batch(called, results, inputs, batch, rng=False)
        return SampleCalls(called, results, rng=False)(inputs, batch)

    def in_worker(args: Args) -> WorkerCall:
        called = adapted(args.function, args.batch_processing)
        return call_in_worker(called, Results(args.function, args.num_outputs), args.batch_processing)

    op.batch(batch_body)
    op.traits(lambda args: replace(call_traits(args.parallel, args.batch_processing), converts=True))
    op.worker(in_worker)
    declare_outputs(op)
    check = op.check_hook
    assert check is not None

    def check_all(args: Args) -> None:
        check(args)
        if "differentiable" in op.arguments:
            check_differentiable(args)

    op.check(check_all)


SYNCHRONIZE = parameters(synchronize_stream=(bool, True, "let the work on a GPU finish before the call"))
LISTS = parameters(
    batch_processing=(bool, True, "call the function once for the batch, with a list of capsules for each input")
)
STACKED = parameters(
    batch_processing=(bool, True, "call the function once for the batch, with an array whose first axis is the samples")
)
DIFFERENTIABLE = parameters(
    differentiable=(
        bool,
        False,
        "keep the history of gradients, so that loss.backward() reaches the function's parameters",
    )
)


@operator(
    "dl_tensor_python_function",
    role="function",
    dtypes="any",
    takes=OUTPUTS | LISTS | SYNCHRONIZE | PARALLEL,
    examples=["fn.dl_tensor_python_function(image, function=lambda capsules: capsules)"],
    pure=False,
    gpu=True,
)
def dl_tensor_python_function(
    *inputs: Sample,
    args: Args,
    function: Callable[..., Any] = required("function to call with a list of DLPack capsules for each input"),
) -> Sample:
    """Calls a function with lists of DLPack capsules, one for each sample; with ``batch_processing=False``, once for each sample.

    The function returns capsules or objects with DLPack. ``synchronize_stream`` lets the work on a GPU finish before
    the call; on the CPU there is nothing to wait for. ``parallel`` and ``timeout`` are those of ``fn.python_function``.
    """
    return call_sample(WithCapsules(function), Results(function, args.num_outputs), inputs, {})


@operator(
    "torch_python_function",
    role="function",
    dtypes="any",
    takes=OUTPUTS | BATCH_PROCESSING | PARALLEL | DIFFERENTIABLE,
    hidden=True,
    pure=False,
    gpu=True,
)
def torch_python_function(
    *inputs: Sample,
    args: Args,
    function: Callable[..., Any] = required("function to call with a tensor for each input"),
) -> Sample:
    """Calls a function with torch tensors, for each sample or (``batch_processing``) with lists of them for the batch.

    The function returns tensors (a tuple of ``num_outputs`` of them); for a batch a list of tensors, or one tensor whose first
    axis is the samples. ``parallel`` and ``timeout`` are those of ``fn.python_function``. With ``differentiable=True`` the
    results keep their history of gradients up to the training loop, as in ``fn.py_function``.
    """
    return call_sample(WithTensors(function, "torch"), Results(function, args.num_outputs), inputs, {})


@operator(
    "jax_function", role="function", dtypes="any", takes=OUTPUTS | STACKED | PARALLEL, hidden=True, pure=False, gpu=True
)
def jax_function(
    *inputs: Sample,
    args: Args,
    function: Callable[..., Any] = required("function to call with a JAX array for each input"),
) -> Sample:
    """Calls a function with JAX arrays: once for the batch, whose samples are the first axis, or for each sample.

    The function returns JAX arrays (a tuple of ``num_outputs`` of them). ``parallel`` and ``timeout`` are those of
    ``fn.python_function``.
    """
    return call_sample(WithTensors(function, "jax"), Results(function, args.num_outputs), inputs, {})


_declare(dl_tensor_python_function, lambda function, _whole: WithCapsules(function))
_declare(torch_python_function, lambda function, _whole: WithTensors(function, "torch"))
_declare(jax_function, lambda function, whole: (WithStacks if whole else WithTensors)(function, "jax"))
