"""Compiled functions of the user as steps of chains (declare/kernel_calls.py), which run without the interpreter."""

from typing import Any

from pipeflow.declare import Args, KernelCalls, OfThread, require
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.functions.calls import wants_rng
from pipeflow.operators.functions.compiling import is_auto, version_of


def joins_chains(args: Args) -> bool:
    """True if compiled code may call the function; with "auto" only after the comparisons."""
    return bool(args.jit)


def call_in_chain(calls: KernelCalls) -> None:
    """The call of a function with ``jit``, with results that are arrays or numbers."""
    args = calls.args
    kinds = tuple([(memory.dtype, len(memory.extents)) for memory in calls.inputs])
    function: Any = version_of(args.function, args.jit)
    permit, draws = None, wants_rng(args.function)
    if is_auto(args.jit):
        require(isinstance(function, kernels.tried_functions.Tried))
        trial = function.native(kinds)
        calls.wait_for(trial is not None)
        made, permit = trial
    else:
        require(isinstance(function, kernels.user_functions.Jitted))
        version = function.versions.find(kinds, calls.writable, draws)
        calls.wait_for(version.ready)
        made = version.function
    require(made is not None)
    specs = () if args.outputs is None else args.outputs.specs
    require(len(made.outputs) == (len(specs) if specs else args.num_outputs))
    if draws:
        tools = kernels.function_numbers
        calls.need(tools.wanted())
        calls.call(tools.set_state, calls.key, OfThread(tools.of_thread))
    calls.function(made, permit)
    for output, spec in enumerate(specs):  # the body reports a result that was declared in another way
        memory = calls.outputs[output]
        require(spec.dtype in (None, memory.dtype))
        require(not spec.layout or len(spec.layout) == len(memory.extents))
        require(spec.shape is None or len(spec.shape) == len(memory.extents))
        for extent, known in zip(memory.extents, spec.shape or ()):
            calls.require(known is None or extent == known)
