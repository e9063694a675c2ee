"""The arguments about the outputs of a function: their number, layouts and declarations."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pipeflow import types
from pipeflow.declare import OpDef, Outputs, Spec, parameters
from pipeflow.errors import count_of, function_name
from pipeflow.operators.functions.compiling import check_jit, is_auto

OUTPUTS = parameters(
    num_outputs=(int, 1, "number of arrays that the function returns; 0: none"),
    output_layouts=(Any, None, "layout of every output, or a list of layouts"),
)


def declare_outputs(op: OpDef) -> None:
    """Adds ``num_outputs``, ``output_layouts`` and, if the operator has it, ``outputs`` to an operator."""
    op.outputs(count_outputs)
    op.returns_names(lambda args: promised(args).names if promised(args) else ())  # type: ignore[union-attr]
    op.infer(infer_outputs)
    op.check(check_outputs)


def promised(args: Any) -> Outputs | None:
    """The declaration in ``outputs``, if any."""
    return getattr(args, "outputs", None)


def count_outputs(args: Any) -> int:
    """The number of outputs."""
    outputs = promised(args)
    return args.num_outputs if outputs is None else len(outputs.specs)


def check_outputs(args: Any) -> None:
    """Checks the arguments about outputs against each other."""
    if args.num_outputs < 0 or args.num_outputs > 256:
        raise ValueError(f"num_outputs must be between 0 and 256, got {args.num_outputs}")
    jit = getattr(args, "jit", False)
    check_jit(jit)
    if jit and (args.batch_processing or args.parallel == "processes" or args.timeout is not None):
        raise ValueError(
            f"jit={jit!r} compiles a function of single samples that runs on the pipeline's threads: "
            'it cannot be combined with batch_processing, parallel="processes" or timeout'
        )
    if jit and not is_auto(jit):
        check_compilable(args.function)
    check_timeout(getattr(args, "timeout", None))
    outputs = promised(args)
    if outputs is not None:
        outputs.check_count(args.num_outputs)
    infer_outputs((), args)


def check_timeout(timeout: float | None) -> None:
    """Raises for a limit that is not positive."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")


def check_compilable(function: Callable[..., Any]) -> None:
    """Raises an error unless the value is a plain function: Numba cannot compile objects."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isfunction(inner) and not hasattr(inner, "py_func"):
        raise TypeError(
            f"jit=True compiles functions written with def or lambda, and {function_name(function)} is a "
            f"{type(inner).__name__}: write a function that calls it, and pass the data that it needs as inputs"
        )


def layouts(args: Any) -> list[str]:
    """The layouts of all outputs: one string is for every output, a list may be shorter than ``num_outputs``."""
    given, count = args.output_layouts, count_outputs(args)
    if given is None:
        return [""] * count
    if isinstance(given, str):
        return [given] * count
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"output_layouts must be a string or a list of strings, got {type(given).__name__} {given!r}")
    if len(given) > count:
        raise ValueError(f"output_layouts has {len(given)} entries for {count_of(count, 'output')}")
    checked = [types.check_layout(layout, "an entry of output_layouts") for layout in given]
    return checked + [""] * (count - len(given))


def infer_outputs(_specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
    """The Specs of the outputs."""
    outputs, named = promised(args), layouts(args)
    if outputs is None:
        return tuple(Spec(None, None, layout) for layout in named)
    specs = []
    for spec, layout in zip(outputs.specs, named):
        if layout and spec.layout and layout != spec.layout:
            raise ValueError(f"outputs says layout {spec.layout!r} and output_layouts {layout!r}")
        layout = layout or spec.layout or ""
        shape = (None,) * len(layout) if spec.shape is None and layout else spec.shape
        specs.append(Spec(shape, spec.dtype, layout))
    return tuple(specs)
