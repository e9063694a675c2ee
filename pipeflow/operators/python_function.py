"""fn.python_function: the user's own code as an operator.

The function gets NumPy arrays, one sample at a time or the whole batch. Its result is checked, and copied into the batch
immediately after the call, so a function may use its own buffers again.

The operators of this kind, and the files that they share:

    python_function.py        python_function: NumPy arrays; with device="gpu" arrays of CuPy
    tensor_functions.py       dl_tensor_python_function, torch_python_function, jax_function: tensors of other libraries
    tensorflow_functions.py   numpy_function, py_func, py_function: TensorFlow's signatures
    numba_function.py         numba_function: compiled for declared types, fills its outputs
    gradients.py              gradients: derivatives through chains of py_function
    on_gpu/                   their GPU forms, in files of the same names

    functions/outputs.py the arguments about outputs: their number, layouts and declarations
    functions/results.py the results: split into outputs and checked, with the errors
    functions/calls.py the calls: sample by sample or for the batch, random numbers, threads
    functions/in_chains.py compiled functions that run without the interpreter, with other compiled steps
    functions/workers.py the same calls in worker processes (executor/workers/ runs these)

A call has four parts: ``traits`` decides where it runs; ``SampleCalls`` or ``call_batch`` call the function; ``Results`` splits
and checks the results; a ``Collector`` copies them into the batch.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipeflow.declare import Args, BatchCall, Outputs, Sample, Traits, WorkerCall, default, operator, required
from pipeflow.operators.functions.calls import (
    BATCH_PROCESSING,
    PARALLEL_OR_AUTO,
    SampleCalls,
    call_batch,
    call_sample,
    call_traits,
    sample_caller,
    thread_generator,
    wants_rng,
)
from pipeflow.operators.functions.compiling import AUTO, changes_nothing, joins, version_of, where_calls_run
from pipeflow.operators.functions.in_chains import call_in_chain, joins_chains
from pipeflow.operators.functions.outputs import OUTPUTS, declare_outputs
from pipeflow.operators.functions.results import Results
from pipeflow.operators.functions.workers import call_in_worker

PAGE = """Your own Python code as an operator. The function gets NumPy arrays, one sample at a time or the whole batch.
The results are checked and copied immediately after the call, so the function may use its own buffers again. [Python
functions](../python_function.md) explains it with examples; [the family](../function_family.md) compares it
with its relatives.
"""


@operator(
    "python_function",
    role="function",
    dtypes="any",
    takes=OUTPUTS | BATCH_PROCESSING | PARALLEL_OR_AUTO,
    examples=["fn.python_function(image, function=lambda x: x[::-1])"],
    takes_seed=True,
    pure=False,
    gpu=True,
)
def python_function(
    *inputs: Sample,
    args: Args,
    function: Callable[..., Any] = required("function to call with an array for each input"),
    outputs: Outputs | None = default(
        None, "declaration of the results: a Spec(dtype, shape, layout), or a list or dict of them"
    ),
    jit: bool | str = default(
        False,
        "True: Numba compiles the function for the types of the first sample; `auto`: only if the results stay the same",
    ),
    key: Any,
) -> Sample:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    The function returns an array, or a tuple of ``num_outputs`` arrays; with ``num_outputs=0`` nothing. A parameter named
    ``rng`` receives a NumPy generator that depends on the key of the sample. Calls are made one after another in the order of
    the samples; ``parallel="threads"`` is for functions that may run for several samples at the same time, ``"processes"`` runs
    them in worker processes, and ``"auto"`` chooses threads if the code of the function shows that it keeps no state. A call
    that takes longer than ``timeout`` seconds is an error that names the function and its line. ``outputs`` declares the
    results, as ``pipeflow.Spec(dtype, shape, layout)`` or a list or dict of them. Results are checked at every call, later
    operators know their types and shapes when the pipeline is built, and the names of a dict become names of the outputs. With
    ``jit=True`` Numba compiles the function for the types of the first sample; it then runs on all threads. ``jit="auto"`` tries
    this in the background: the plain function runs until the compiled one has returned the same bits, which may later differ
    in the sign of a NaN; ``jit="auto:1e-6"`` accepts results that differ by at most this number.

    With ``device="gpu"`` the function gets and returns arrays of CuPy, which work on the pipeline's stream.
    """
    named = {"rng": thread_generator(key)} if wants_rng(function) else {}
    return call_sample(version_of(function, jit), Results(function, args.num_outputs, outputs), inputs, named)


@python_function.caller
def _(args: Args) -> Callable[..., Any]:
    results = Results(args.function, args.num_outputs, args.outputs)
    return sample_caller(version_of(args.function, args.jit), results, wants_rng(args.function))


@python_function.batch
def _(*inputs: Any, args: Args, batch: BatchCall) -> list[Any]:
    rng = wants_rng(args.function)
    results = Results(args.function, args.num_outputs, args.outputs)
    if args.batch_processing:
        return call_batch(args.function, results, inputs, batch, rng)
    return SampleCalls(version_of(args.function, args.jit), results, rng)(inputs, batch)


@python_function.traits
def _(args: Args) -> Traits:
    keyless = not wants_rng(args.function)
    if joins(args.function, args.jit):  # neither compiled code nor code without state waits
        return replace(call_traits("threads", args.batch_processing), meets=False, keyless=keyless)
    traits = replace(call_traits(where_calls_run(args.function, args.parallel), args.batch_processing), keyless=keyless)
    if args.parallel in ("serial", AUTO):  # the user has not chosen the threads
        traits = replace(traits, repeats=changes_nothing(args.function))
    return replace(traits, meets=False, apart=True) if args.parallel == AUTO else traits


@python_function.worker
def _(args: Args) -> WorkerCall:
    results = Results(args.function, args.num_outputs, args.outputs)
    return call_in_worker(args.function, results, args.batch_processing)


declare_outputs(python_function)
python_function.calls(call_in_chain, only=joins_chains)
python_function.varying("key")
